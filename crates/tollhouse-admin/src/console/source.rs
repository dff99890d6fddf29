//! What the console asks of the process, through a trait, since this crate knows neither data plane nor process.

use serde::Deserialize;
use serde_json::Value;
use tollhouse_config::Document;

/// What is asked of recent requests.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RequestFilter {
    /// Only those of this error code.
    pub code: Option<String>,
    /// Only those of this status, such as `502`, or class, such as `5xx`.
    pub status: Option<String>,
    /// Only those of this route.
    pub route: Option<String>,
    /// Only those whose method, host, path, client or nodes contain this text.
    pub search: Option<String>,
}

/// Objects whose requests are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RatedKind {
    /// Routes.
    Routes,
    /// Upstream objects.
    Upstreams,
    /// Consumers.
    Consumers,
}

impl RatedKind {
    /// The one of this collection.
    pub(super) fn find(collection: &str) -> Option<Self> {
        Some(match collection {
            "routes" => Self::Routes,
            "upstreams" => Self::Upstreams,
            "consumers" => Self::Consumers,
            _ => return None,
        })
    }
}

/// A request that is to be explained.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Question {
    /// Its address, such as `http://api.example.com/v1/users?id=7`.
    pub url: String,
    /// Its method; GET, or POST where there is a body.
    #[serde(default)]
    pub method: Option<String>,
    /// Its header lines, each `Name: value`.
    #[serde(default)]
    pub headers: Vec<String>,
    /// The client's address.
    #[serde(default)]
    pub remote_addr: Option<String>,
    /// Its body.
    #[serde(default)]
    pub body: Option<String>,
}

/// Who knows how the process is doing.
pub trait ConsoleSource: Send + Sync {
    /// The process as a whole: version, configuration in service, what is down, what ends soon.
    fn overview(&self) -> Value;

    /// All problems of the configuration in service: each with its `path`, such as `routes/1.uri`, and its `reason`.
    fn problems(&self) -> Value;

    /// Those of them whose path begins so.
    fn problems_at(&self, beginning: &str) -> Vec<Value>;

    /// Those that a document would have, were it the configuration. Blocks for as long as it takes to compile.
    fn foresee(&self, document: &Document) -> Vec<Value>;

    /// Traffic second by second, after the second `since` in Unix time.
    fn live(&self, since: u64) -> Value;

    /// How many requests objects take, the busiest first or those that fail most; or those of these ids.
    fn live_objects(&self, kind: RatedKind, by_failures: bool, ids: Option<&str>) -> Value;

    /// Recent requests, the newest first.
    fn requests(&self, filter: &RequestFilter) -> Value;

    /// Nodes of upstreams whose name, host or state contains the text.
    fn nodes(&self, search: &str) -> Value;

    /// Which route a request would take, and why.
    ///
    /// # Errors
    /// The question cannot be understood.
    fn explain(&self, question: &Question) -> Result<Value, String>;

    /// What the process was told at its start: each setting with its value, secrets starred.
    fn settings(&self) -> Value;

    /// Lines that the process has logged, from this number on.
    fn log_lines(&self, from: u64) -> Value;

    /// The level of its log.
    fn log_level(&self) -> Value;

    /// Sets another level for so many seconds.
    ///
    /// # Errors
    /// It is none.
    fn set_log_level(&self, level: &str, seconds: u64) -> Result<(), String>;

    /// What somebody should look at.
    fn findings(&self) -> Value;

    /// Reads the resources again and reopens the access log, as SIGHUP does.
    ///
    /// # Errors
    /// The system refuses.
    fn reload(&self) -> Result<(), String>;

    /// Measurements: what runs, and what was found.
    fn benches(&self) -> Value;

    /// Starts one.
    ///
    /// # Errors
    /// It is not allowed, or cannot be understood.
    fn start_bench(&self, question: &Value) -> Result<Value, String>;

    /// One of them.
    fn bench(&self, id: &str) -> Option<Value>;

    /// The result of one as JSON, or its page.
    fn bench_file(&self, id: &str, is_page: bool) -> Option<Vec<u8>>;

    /// Stops the one that runs, or forgets one that is over; whether there was one.
    fn end_bench(&self, id: &str) -> bool;

    /// What became better and worse from one to another.
    ///
    /// # Errors
    /// One of them is not there.
    fn compare_benches(&self, before: &str, after: &str) -> Result<Value, String>;

    /// The manual page of a plugin, in Markdown.
    fn manual(&self, plugin: &str) -> Option<String>;
}
