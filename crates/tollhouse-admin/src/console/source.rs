//! Interface through which the console reads data about the process. This is a trait, because the
//! crate does not depend on the data plane.

use serde::Deserialize;
use serde_json::Value;
use tollhouse_config::Document;

/// Filter of recent requests; all criteria must match.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RequestFilter {
    /// Id of one request.
    pub id: Option<String>,
    /// Error code of the requests.
    pub code: Option<String>,
    /// Status, such as `502`, or class, such as `5xx`.
    pub status: Option<String>,
    pub route: Option<String>,
    /// Shortest duration of the requests, in milliseconds.
    pub slower_ms: Option<u64>,
    /// Text contained in the method, host, path, client, consumer, plugin or nodes.
    pub search: Option<String>,
}

/// Kinds of objects whose requests are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RatedKind {
    Routes,
    /// Upstream objects; those inside routes count as their routes.
    Upstreams,
    Consumers,
    /// Nodes by their addresses.
    Nodes,
}

impl RatedKind {
    /// Returns the kind with this collection name.
    pub(super) fn find(collection: &str) -> Option<Self> {
        Some(match collection {
            "routes" => Self::Routes,
            "upstreams" => Self::Upstreams,
            "consumers" => Self::Consumers,
            "nodes" => Self::Nodes,
            _ => return None,
        })
    }
}

/// Order of the objects in [`ConsoleSource::live_objects`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RateOrder {
    /// The highest request rate first.
    Requests,
    /// The highest failure rate first.
    Failures,
}

impl RateOrder {
    /// Parses the argument `sort`; by requests if it is absent or unknown.
    pub(super) fn parse(text: Option<&str>) -> Self {
        if text == Some("failures") { Self::Failures } else { Self::Requests }
    }
}

/// Figures of each object in an answer of [`ConsoleSource::live_objects`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RateContents {
    /// The figures of the last seconds.
    Latest,
    /// The figures of the last seconds and those of the last 15 minutes.
    History,
}

impl RateContents {
    /// Parses the argument `history`.
    pub(super) fn parse(text: Option<&str>) -> Self {
        if text == Some("true") { Self::History } else { Self::Latest }
    }
}

/// Selection of objects and figures for [`ConsoleSource::live_objects`].
#[derive(Debug, Clone, Copy)]
pub struct LiveQuery<'a> {
    pub kind: RatedKind,
    pub order: RateOrder,
    /// Only objects with these ids, separated by commas; `None` for all.
    pub ids: Option<&'a str>,
    pub contents: RateContents,
}

/// File of a finished load test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BenchFile {
    /// The result as JSON.
    Result,
    /// The HTML page.
    Page,
}

/// A request to explain.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Question {
    /// URL, such as `http://api.example.com/v1/users?id=7`.
    pub url: String,
    /// Method; GET by default, or POST if there is a body.
    #[serde(default)]
    pub method: Option<String>,
    /// Header lines, each `Name: value`.
    #[serde(default)]
    pub headers: Vec<String>,
    /// Client address; 127.0.0.1 by default.
    #[serde(default)]
    pub remote_addr: Option<String>,
    /// Request body, for routes that examine it.
    #[serde(default)]
    pub body: Option<String>,
    /// Whether the answer is the text that `tollhouse explain` prints; then connections of TCP, TLS
    /// and UDP can be asked about too.
    #[serde(default)]
    pub as_text: bool,
}

/// Access to the data plane and the process, for the console.
pub trait ConsoleSource: Send + Sync {
    /// Returns the overview: version, configuration in service, parts that are down, and
    /// certificates that expire soon.
    fn overview(&self) -> Value;

    /// Returns all problems of the configuration in service, each with its `path`, such as
    /// `routes/1.uri`, and `reason`.
    fn problems(&self) -> Value;

    /// Returns the problems whose path starts with `beginning`.
    fn problems_at(&self, beginning: &str) -> Vec<Value>;

    /// Returns the problems that the data plane would report if the document were its
    /// configuration. Blocks the thread while the document is compiled.
    fn foresee(&self, document: &Document) -> Vec<Value>;

    /// Returns the traffic of each second after `since`, in Unix time.
    fn live(&self, since: u64) -> Value;

    /// Returns the request rates of objects of a kind.
    fn live_objects(&self, query: &LiveQuery<'_>) -> Value;

    /// Returns recent requests, newest first.
    fn requests(&self, filter: &RequestFilter) -> Value;

    /// Returns the nodes of upstreams whose name, host or state contains `search`.
    fn nodes(&self, search: &str) -> Value;

    /// Explains which route a request would take.
    ///
    /// # Errors
    /// If the question is invalid.
    fn explain(&self, question: &Question) -> Result<Value, String>;

    /// Returns all settings with their values; secrets are masked.
    fn settings(&self) -> Value;

    /// Returns the log lines of the process from number `from` on.
    fn log_lines(&self, from: u64) -> Value;

    /// Returns the level of the process's log, and for a temporary level the time of its end.
    fn log_level(&self) -> Value;

    /// Sets the log level for `seconds` seconds.
    ///
    /// # Errors
    /// If the level is invalid.
    fn set_log_level(&self, level: &str, seconds: u64) -> Result<(), String>;

    /// Returns findings about the process for operators, with remedies.
    fn findings(&self) -> Value;

    /// Reloads the configuration and reopens the access log, as SIGHUP does.
    ///
    /// # Errors
    /// If the operating system does not deliver the signal.
    fn reload(&self) -> Result<(), String>;

    /// Returns the running load test, and the stored results.
    fn benches(&self) -> Value;

    /// Starts a load test.
    ///
    /// # Errors
    /// If load tests are off, or the request is invalid.
    fn start_bench(&self, question: &Value) -> Result<Value, String>;

    /// Returns the load test with this id.
    fn bench(&self, id: &str) -> Option<Value>;

    /// Returns the contents of a file of a load test.
    fn bench_file(&self, id: &str, file: BenchFile) -> Option<Vec<u8>>;

    /// Stops the running load test, or deletes a finished one. Returns whether it existed.
    fn end_bench(&self, id: &str) -> bool;

    /// Compares two load tests.
    ///
    /// # Errors
    /// If a load test does not exist.
    fn compare_benches(&self, before: &str, after: &str) -> Result<Value, String>;

    /// Returns the manual page of a plugin, in Markdown.
    fn manual(&self, plugin: &str) -> Option<String>;
}
