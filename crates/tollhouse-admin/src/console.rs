//! `/console/v1`: data for the console that no other API provides; also usable with `curl`.
//!
//! Data about the process comes from [`ConsoleSource`](source::ConsoleSource); data in the store is
//! read here.

use hyper::header::{CACHE_CONTROL, HeaderValue};
use hyper::{Method, StatusCode};
use serde_json::{Value, json};

use crate::auth;
use crate::body::{self, RequestBody};
use crate::call::Call;
use crate::context::Admin;
use crate::limits::BODY_BYTES_MAX;
use crate::registry;
use crate::reply::Reply;
use crate::resource;
use crate::sign_in;

mod certificates;
mod changes;
mod differences;
mod export;
mod import;
mod objects;
pub(crate) mod openapi;
mod plugins;
mod process;
mod registry_events;
mod search;
mod shenyu;
mod shenyu_changes;
pub(crate) mod source;
pub(crate) mod validation;

use self::source::{
    ConsoleSource, LiveQuery, Question, RateContents, RateOrder, RatedKind, RequestFilter,
};

/// Maximum size in bytes of the body of an `explain` call, which contains the head of a request,
/// and the body if routes examine it.
const QUESTION_BYTES_MAX: usize = 256 * 1024;

/// Collections whose objects the overview counts.
const COUNTED: [&str; 12] = [
    "routes",
    "services",
    "upstreams",
    "consumers",
    "consumer_groups",
    "plugin_configs",
    "global_rules",
    "plugin_metadata",
    "ssls",
    "stream_routes",
    "protos",
    "secrets",
];

/// Answers a call of the console below [`prefix::CONSOLE`](crate::prefix::CONSOLE).
pub(crate) async fn answer<B>(admin: &Admin, call: &Call, body: B) -> Result<Reply, Reply>
where
    B: RequestBody,
{
    let segments: Vec<&str> = call.whole_segments.iter().skip(2).map(String::as_str).collect();
    let reply = if let ["login", rest @ ..] = segments.as_slice() {
        let body = body::read(body, sign_in::BODY_BYTES_MAX).await?;
        sign_in::answer(admin, call, rest, &body).await
    } else {
        known_caller(admin, call, &segments, body).await
    };
    let private = |reply: Reply| reply.with(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    reply.map(private).map_err(private)
}

async fn known_caller<B>(
    admin: &Admin,
    call: &Call,
    segments: &[&str],
    body: B,
) -> Result<Reply, Reply>
where
    B: RequestBody,
{
    auth::check_reader(&admin.parts.options, call)?;
    let source = || admin.console();
    // These calls read their own bodies, each with its own limit.
    if let ["log" | "doctor" | "reload" | "bench", ..] = segments {
        return process::answer(admin, call, segments, body).await;
    }
    match (segments, &call.method) {
        (["export"], &Method::GET) => return export::answer(admin, call).await,
        (["import"], &Method::POST) => {
            let body = body::read(body, import::BYTES_MAX).await?;
            return import::answer(admin, call, &body).await;
        }
        _ => {}
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
        (["live", kind @ ..], &Method::GET) if is_live(kind) => live(source()?, call, kind.first()),
        (["requests"], &Method::GET) => source()?.requests(&filter_of(call)),
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
            admin.parts.options.mode.check_writable()?;
            return changes::undo(admin, call, change).await;
        }
        (["certificates", id, "check"], &Method::POST) => {
            let body = body::read(body, BODY_BYTES_MAX).await?;
            certificates::check(admin, call, id, &body).await?
        }
        (["validate", kind, id @ ..], &Method::POST) if id.len() < 2 => {
            let body = body::read(body, BODY_BYTES_MAX).await?;
            // Requires permission to write, because the answer reveals whether credentials are in
            // use.
            auth::check_key(&admin.parts.options, call)?;
            let id = id.first().copied().unwrap_or_default();
            validation::answer(admin, call, &format!("{kind}/{id}"), &body).await?
        }
        (known, _) if is_known(known) => {
            body::discard(body).await;
            let text = "use another method; see /apisix/admin/openapi.json";
            return Err(Reply::refusal(StatusCode::METHOD_NOT_ALLOWED, text));
        }
        _ => return Err(Reply::refusal(StatusCode::NOT_FOUND, "not found")),
    };
    Ok(Reply::json(StatusCode::OK, &value))
}

/// Returns whether rates exist: those of all traffic, or of a kind of objects.
fn is_live(kind: &[&str]) -> bool {
    match kind {
        [] => true,
        [kind] => RatedKind::find(kind).is_some(),
        _ => false,
    }
}

/// Returns the rates of all traffic, or of the objects of a kind.
fn live(source: &dyn ConsoleSource, call: &Call, kind: Option<&&str>) -> Value {
    let argument = |name: &str| call.arguments.get(name).filter(|value| !value.is_empty());
    let Some(kind) = kind.and_then(|kind| RatedKind::find(kind)) else {
        let since = argument("since").and_then(|since| since.parse().ok()).unwrap_or(0);
        return source.live(since);
    };
    source.live_objects(&LiveQuery {
        kind,
        order: RateOrder::parse(argument("sort")),
        ids: argument("ids"),
        contents: RateContents::parse(argument("history")),
    })
}

/// Builds the filter of recent requests from the query arguments.
fn filter_of(call: &Call) -> RequestFilter {
    let own = |name: &str| {
        let value = call.arguments.get(name).filter(|value| !value.is_empty());
        value.map(str::to_owned)
    };
    RequestFilter {
        id: own("id"),
        code: own("code"),
        status: own("status"),
        route: own("route"),
        slower_ms: own("slower_ms").and_then(|text| text.parse().ok()),
        search: own("q"),
    }
}

/// Whether the path exists, but with another method.
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
            | "changes"
            | "export"
            | "import"]
            | ["objects", ..]
            | ["plugins" | "changes", _]
            | ["changes", _, "undo"]
            | ["certificates", _, "check"]
            | ["registry", "events"]
            | ["schema", "rules", _]
            | ["live", "routes" | "upstreams" | "consumers" | "nodes"]
            | ["validate", _]
            | ["validate", _, _]
    )
}

/// Handles calls about the store and the registry; `None` for other paths.
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
        ["schema", "rules", kind] => registry::rule_schema(admin, kind)?,
        ["changes"] => changes::list(admin, call).await?,
        ["changes", change] => changes::one(admin, call, change).await?,
        _ => return Ok(None),
    }))
}

/// Adds the numbers of objects and of registry entries to the overview of the process.
async fn overview(admin: &Admin, mut value: Value) -> Result<Value, Reply> {
    admin.index.catch_up().await?;
    let contents = admin.index.contents();
    let counts = COUNTED.iter().filter(|name| resource::find(name).is_some());
    value["objects"] =
        counts.map(|name| ((*name).to_owned(), Value::from(contents.count(name)))).collect();
    drop(contents);
    value["shenyu"] = admin.parts.shenyu.is_some().into();
    value["registry"] = admin.parts.registry.as_ref().map_or(Value::Null, |part| {
        let totals = part.registry.state_full().totals();
        json!({
            "services": totals.services,
            "mass_expiries": totals.mass_expiries,
            "instances": totals.instances.total,
            "healthy": totals.instances.healthy,
            "unchecked": totals.instances.unchecked,
            "unhealthy": totals.instances.unhealthy(),
            "isolated": totals.instances.isolated,
        })
    });
    Ok(value)
}
