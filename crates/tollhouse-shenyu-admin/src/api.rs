//! REST interface of ShenYu's admin: checks the token, then passes the call to its handler.

mod configs;
mod discovery;
pub(crate) mod documents;
mod intake;
mod objects;
mod operations;
mod rights;
mod special;
mod users;
mod websites;

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use axum::extract::Request;
use axum::http::{HeaderMap, Method};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use tollhouse_web::Peer;

use crate::admin::{Caller, Session, ShenyuAdmin};
use crate::answer::{Outcome, Refusal, success};
use crate::call::{Call, is_search, no_such_path};
use crate::clock;
use crate::draft::Draft;
use crate::limits::{BODY_BYTES_MAX, OPEN_BODY_BYTES_MAX};
use crate::query::Arguments;
use crate::records::{Author, Interface};
use crate::resource::Resource;
use crate::rights::CallParts;
use crate::row;
use crate::{covered, records, register, sync};

pub(crate) async fn answer(admin: ShenyuAdmin, request: Request) -> Response {
    let path = request.uri().path().to_owned();
    let decoded = percent_encoding::percent_decode_str(&path).decode_utf8_lossy().into_owned();
    let segments: Vec<&str> = decoded.split('/').filter(|segment| !segment.is_empty()).collect();
    let shows_token = caller(&admin, request.headers(), &Arguments::default()).is_ok()
        || sync::websocket::shows_token(&admin, request.headers());
    if !shows_token && let Some(refusal) = websites::refuse(&admin, &request) {
        return refusal;
    }
    if segments == ["websocket"] {
        return sync::websocket::accept(&admin, request);
    }
    let arguments = Arguments::parse(request.uri().query().unwrap_or_default());
    if !is_open(&segments) {
        let caller = caller(&admin, request.headers(), &arguments);
        let checked = caller.and_then(|caller| {
            // Rights are checked first, so that the body of a forbidden call is never read.
            if !is_own_password(&caller, &segments) {
                caller.rights.check_path(&segments)?;
            }
            Ok(caller)
        });
        return match checked {
            Ok(caller) => answer_caller(&admin, caller, &segments, arguments, request).await,
            Err(refusal) => refusal.into_response(),
        };
    }
    if request.method() == Method::GET && segments.starts_with(&["actuator", "health"]) {
        // Health probes read `status` at the top level, so this answer has no wrapper.
        return axum::Json(json!({"status": "UP"})).into_response();
    }
    let peer = request.extensions().get::<Peer>().map(|peer| peer.address.ip());
    let peer = peer.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
    let call = intake::read(&admin.memory, OPEN_BODY_BYTES_MAX, arguments, request).await;
    let call = match call {
        Ok(call) => call,
        Err(refusal) => return refusal.into_response(),
    };
    respond(answer_anybody(&admin, &segments, &call, peer).await)
}

/// Whether a path needs no token. The list is ShenYu's and includes paths that are not served here.
fn is_open(segments: &[&str]) -> bool {
    match segments {
        [] | ["platform", "login" | "secretInfo"] | ["error" | "csrf"] => true,
        ["actuator", "health", ..] | ["actuator", "prometheus"] => true,
        ["static" | "webjars" | "swagger-resources", ..] | ["v2" | "v3", "api-docs", ..] => true,
        [page] => is_page(page),
        _ => false,
    }
}

/// Whether a path of one segment is a page of ShenYu's console, or its icon.
fn is_page(segment: &str) -> bool {
    segment.starts_with("index") || segment.starts_with("favicon.") || segment == "swagger-ui.html"
}

fn caller(
    admin: &ShenyuAdmin,
    headers: &HeaderMap,
    arguments: &Arguments,
) -> Result<Caller, Refusal> {
    const TOKEN: &str = "X-Access-Token";
    let header = headers.get(TOKEN).and_then(|value| value.to_str().ok());
    let cookies = headers.get("cookie").and_then(|value| value.to_str().ok()).unwrap_or_default();
    let mut cookies = cookies.split(';').filter_map(|cookie| cookie.trim().split_once('='));
    let cookie = cookies.find_map(|(name, value)| (name == TOKEN).then_some(value));
    admin.identify(header.or_else(|| arguments.get(TOKEN)).or(cookie))
}

fn respond(outcome: Outcome) -> Response {
    match outcome {
        Ok(success) => success.into_response(),
        Err(refusal) => refusal.into_response(),
    }
}

/// Answer for browsers that look for ShenYu's console.
const ABOUT: &str = "this is the REST interface of ShenYu's admin";

async fn answer_anybody(
    admin: &ShenyuAdmin,
    segments: &[&str],
    call: &Call,
    peer: IpAddr,
) -> Outcome {
    match (&call.method, segments) {
        (&Method::GET | &Method::POST, ["platform", "login"]) => {
            let (name, password) = (call.argument("userName"), call.argument("password"));
            let missing = |field: &str| Refusal::invalid(field, "must not be null");
            let name = name.ok_or_else(|| missing("userName"))?;
            let password = password.ok_or_else(|| missing("password"))?;
            admin.log_in(name, password, call.argument("clientId"), peer).await
        }
        (&Method::GET, ["platform", "secretInfo"]) => {
            success("query success", admin.aes.as_ref().map(|aes| aes.info()))
        }
        (&Method::GET, ["actuator", "prometheus"]) => {
            Err(Refusal::not_found("metrics are served at the address of `listen.metrics`"))
        }
        (&Method::GET, []) => success("query success", ABOUT),
        (&Method::GET, [page]) if page.starts_with("index") => success("query success", ABOUT),
        _ => Err(no_such_path()),
    }
}

async fn answer_caller(
    admin: &ShenyuAdmin,
    caller: Caller,
    segments: &[&str],
    arguments: Arguments,
    request: Request,
) -> Response {
    let report = sync::polling::Report::from_request(&request);
    let call = intake::read(&admin.memory, BODY_BYTES_MAX, arguments, request).await;
    let call = match call {
        Ok(call) => call,
        Err(refusal) => return refusal.into_response(),
    };
    let parts = CallParts { method: &call.method, segments, body: &call.body };
    let may = is_own_password(&caller, segments)
        || matches!(segments, ["instance", "beat"])
        || caller.rights.check(&admin.book.read(), parts).is_ok();
    if !may {
        return Refusal::permission().into_response();
    }
    // Programs send these calls all the time. They are not an operator's changes, so no record
    // names their author.
    match segments {
        ["shenyu-client", what] => return register::answer(admin, what, &call).await,
        ["instance", "beat"] => {
            if let Some(body) = call.body.as_object() {
                admin.instances.beat(body, clock::now_ms());
            }
            return "success".into_response();
        }
        ["configs", "fetch"] => return sync::polling::fetch(admin, &call),
        ["configs", "export" | "exportByNamespace"] => return configs::export(admin, &call),
        ["configs", "listener"] => return sync::polling::listen(admin, &call, report).await,
        _ => {}
    }
    let session = Session { admin, caller: &caller };
    respond(answer_noted(session, segments, &call, Interface::Admin).await)
}

/// Answers a call of an operator and records the change. The record is part of the commit if the
/// call writes rows, and a separate commit otherwise.
pub(crate) async fn answer_noted(
    session: Session<'_>,
    segments: &[&str],
    call: &Call,
    way: Interface,
) -> Outcome {
    let Session { admin, caller } = session;
    // Before ShenYu 2.7 a secret is changed with GET, so `updateSk` counts as a change.
    let reads = call.method == Method::GET && !segments.ends_with(&["updateSk"]);
    let changes = !reads && !is_search(segments);
    let name = row::text(&caller.user, "userName").unwrap_or_default();
    let author = Arc::new(Author::new(&name, way, &call.method, segments));
    let recording = if changes { admin.by(&author) } else { admin.clone() };
    let session = Session { admin: &recording, caller };
    let mut outcome = answer_operator(session, segments, call).await;
    if let Ok(success) = &mut outcome {
        covered::hide(&caller.rights, &mut success.data);
        success.warnings.retain(|table, id| caller.rights.may_see(table, id));
    }
    if changes && outcome.is_ok() && !author.is_noted() {
        let record = admin.book.write(move |draft| {
            records::put(draft, author.record(None));
            success("", Value::Null)
        });
        if let Err(refusal) = record.await {
            let reason = refusal.message();
            tracing::warn!(reason, "a change at ShenYu's admin is not in its log of operations");
        }
    }
    outcome
}

/// Whether a call is about the caller's own password.
fn is_own_password(caller: &Caller, segments: &[&str]) -> bool {
    if segments == ["dashboardUser", "check", "password"] {
        return true;
    }
    let own = row::text(&caller.user, "id");
    matches!(segments, ["dashboardUser", "modify-password", id] if own.as_deref() == Some(id))
}

/// Answers the calls of operators and their scripts.
async fn answer_operator(session: Session<'_>, segments: &[&str], call: &Call) -> Outcome {
    let admin = session.admin;
    if let ["configs", "import"] = segments {
        return configs::import(admin, call).await;
    }
    if let Some(outcome) = users::answer(session, segments, call).await {
        return outcome;
    }
    if let Some(outcome) = rights::answer(session, segments, call).await {
        return outcome;
    }
    if let (&Method::DELETE, ["operation-record", "log", "clean", time]) = (&call.method, segments)
    {
        let time = (*time).to_owned();
        let clean = move |draft: &mut Draft<'_>| {
            success("delete success", records::drop_before(draft, &time))
        };
        return admin.book.write(clean).await;
    }
    if let Some(outcome) = documents::answer(admin, segments, call).await {
        return outcome;
    }
    if let Some(outcome) = operations::answer(admin, segments, call) {
        return outcome;
    }
    if let Some(outcome) = discovery::answer(admin, segments, call).await {
        return outcome;
    }
    if let Some(outcome) = special::answer(admin, segments, call).await {
        return outcome;
    }
    // Last, because the generic resources would also match paths that have a handler above.
    let (first, rest) = segments.split_first().ok_or_else(no_such_path)?;
    let resource = Resource::find(first).ok_or_else(no_such_path)?;
    objects::answer(session, resource, rest, call).await
}
