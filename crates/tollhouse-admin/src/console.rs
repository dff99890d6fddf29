//! `/console/v1`: what the console shows and no other API of the gateway says, useful to `curl` as well.
//!
//! What the process knows comes through [`ConsoleSource`]; what lies in the store is read here.

use hyper::body::Body;
use hyper::header::{CACHE_CONTROL, HeaderValue};
use hyper::{Method, StatusCode};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::auth;
use crate::body;
use crate::call::Call;
use crate::context::Admin;
use crate::dispatch;
use crate::limits::BODY_BYTES_MAX;
use crate::reply::Reply;
use crate::resource;
use crate::sign_in;

mod certificates;
mod changes;
mod differences;
mod objects;
pub(crate) mod openapi;
mod plugins;
mod process;
mod registry_events;
mod search;
mod shenyu;
mod shenyu_changes;
mod validation;

/// Where it begins.
pub(crate) const PREFIX: [&str; 2] = ["console", "v1"];

/// Largest question of an explanation, in bytes: a head of the greatest size and a body that routes look into.
const QUESTION_BYTES_MAX: usize = 256 * 1024;

/// Collections whose numbers an overview has.
const COUNTED: [&str; 8] = [
    "routes",
    "services",
    "upstreams",
    "consumers",
    "global_rules",
    "plugin_configs",
    "ssls",
    "stream_routes",
];

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
    fn find(collection: &str) -> Option<Self> {
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

    /// Reads the resources again and reopens the log of requests, as SIGHUP does.
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

/// Answers a call below [`PREFIX`].
pub(crate) async fn answer<B>(admin: &Admin, call: &Call, body: B) -> Result<Reply, Reply>
where
    B: Body,
    B::Error: std::error::Error + Send + Sync + 'static,
{
    let segments: Vec<&str> = call.whole_segments.iter().skip(2).map(String::as_str).collect();
    let reply = if segments == ["login"] {
        let body = body::read(body, sign_in::BODY_BYTES_MAX).await?;
        sign_in::answer(admin, call, &body)
    } else {
        known_caller(admin, call, &segments, body).await
    };
    let private = |reply: Reply| reply.with(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    reply.map(private).map_err(private)
}

/// Who knows how the process is doing.
fn source(admin: &Admin) -> Result<&dyn ConsoleSource, Reply> {
    let source = admin.parts.console.as_deref();
    source.ok_or_else(|| Reply::unavailable("nothing is in service yet"))
}

async fn known_caller<B>(
    admin: &Admin,
    call: &Call,
    segments: &[&str],
    body: B,
) -> Result<Reply, Reply>
where
    B: Body,
    B::Error: std::error::Error + Send + Sync + 'static,
{
    auth::check_reader(&admin.parts.options, call)?;
    let source = || source(admin);
    // These read their bodies themselves, each within a bound of its own.
    if let ["log" | "doctor" | "reload" | "bench", ..] = segments {
        return process::answer(admin, call, segments, body).await;
    }
    if let ["shenyu", rest @ ..] = segments {
        return shenyu::answer(admin, call, rest, body).await;
    }
    if let Some(value) = stored(admin, call, segments).await? {
        return Ok(Reply::json(StatusCode::OK, &value));
    }
    let argument = |name: &str| call.arguments.get(name).filter(|value| !value.is_empty());
    let value = match (segments, &call.method) {
        (["overview"], &Method::GET) => overview(admin, source()?.overview()).await?,
        (["live"], &Method::GET) => {
            let since = argument("since").and_then(|since| since.parse().ok()).unwrap_or(0);
            source()?.live(since)
        }
        (["live", kind], &Method::GET) if RatedKind::find(kind).is_some() => {
            let kind = RatedKind::find(kind).unwrap_or(RatedKind::Routes);
            source()?.live_objects(kind, argument("sort") == Some("failures"), argument("ids"))
        }
        (["requests"], &Method::GET) => {
            let own = |name| argument(name).map(str::to_owned);
            source()?.requests(&RequestFilter {
                code: own("code"),
                status: own("status"),
                route: own("route"),
                search: own("q"),
            })
        }
        (["nodes"], &Method::GET) => source()?.nodes(argument("q").unwrap_or_default()),
        (["explain"], &Method::POST) => {
            let body = body::read(body, QUESTION_BYTES_MAX).await?;
            let question: Question = serde_json::from_slice(&body)
                .map_err(|error| Reply::bad(format!("invalid request body: {error}")))?;
            source()?.explain(&question).map_err(Reply::bad)?
        }
        (["settings"], &Method::GET) => source()?.settings(),
        (["changes", change, "undo"], &Method::POST) => {
            body::discard(body).await;
            auth::check_key(&admin.parts.options, call)?;
            dispatch::check_writable(&admin.parts.options.mode)?;
            return changes::undo(admin, call, change).await;
        }
        (["validate", kind, id @ ..], &Method::POST) if id.len() < 2 => {
            let body = body::read(body, BODY_BYTES_MAX).await?;
            let id = id.first().copied().unwrap_or_default();
            validation::answer(admin, kind, id, &body).await?
        }
        (known, _) if is_known(known) => {
            body::discard(body).await;
            let text = "this is asked with another method; see /apisix/admin/openapi.json";
            return Err(Reply::refusal(StatusCode::METHOD_NOT_ALLOWED, text));
        }
        _ => return Err(Reply::refusal(StatusCode::NOT_FOUND, "not found")),
    };
    Ok(Reply::json(StatusCode::OK, &value))
}

/// Whether something is answered at a path, by some method.
fn is_known(segments: &[&str]) -> bool {
    matches!(
        segments,
        ["overview"
            | "live"
            | "requests"
            | "nodes"
            | "explain"
            | "plugins"
            | "certificates"
            | "settings"
            | "changes",]
            | ["objects", ..]
            | ["plugins" | "changes", _]
            | ["changes", _, "undo"]
            | ["registry", "events"]
            | ["live", "routes" | "upstreams" | "consumers"]
            | ["validate", _]
            | ["validate", _, _]
    )
}

/// What lies in the store and in the registry, if that is what is asked for.
async fn stored(admin: &Admin, call: &Call, segments: &[&str]) -> Result<Option<Value>, Reply> {
    if call.method != Method::GET {
        return Ok(None);
    }
    Ok(Some(match segments {
        ["objects", kind] => objects::list(admin, call, kind).await?,
        ["objects", above, id, kind] if objects::is_child(kind, above) => {
            objects::children(admin, call, &format!("{above}/{id}"), kind).await?
        }
        ["objects", kind, id @ ..] => objects::one(admin, kind, id).await?,
        ["plugins"] => plugins::list(admin),
        ["plugins", name] => plugins::one(admin, name)?,
        ["certificates"] => certificates::list(admin, call).await?,
        ["registry", "events"] => registry_events::list(admin, call)?,
        ["changes"] => changes::list(admin, call).await?,
        ["changes", change] => changes::one(admin, change).await?,
        _ => return Ok(None),
    }))
}

/// What the process says, with what lies in the store and in the registry.
async fn overview(admin: &Admin, mut value: Value) -> Result<Value, Reply> {
    admin.index.catch_up().await?;
    let known = admin.index.known();
    let counts = COUNTED.iter().filter(|name| resource::find(name).is_some());
    value["objects"] =
        counts.map(|name| ((*name).to_owned(), Value::from(known.count(name)))).collect();
    drop(known);
    value["shenyu"] = admin.parts.shenyu.is_some().into();
    value["registry"] = admin.parts.registry.as_ref().map_or(Value::Null, |part| {
        let totals = part.registry.state_full().totals();
        json!({
            "services": totals.services,
            "mass_expiries": totals.mass_expiries,
            "instances": totals.instances.total,
            "healthy": totals.instances.healthy,
        })
    });
    Ok(value)
}
