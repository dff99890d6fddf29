//! Spans of writes. Reads are not recorded: consoles and controllers poll.

use hyper::Method;
use tollhouse_trace::{CallSpan, Key, SpanStatus};

use crate::call::Call;
use crate::context::Admin;
use crate::prefix;
use crate::reply::Reply;

/// Begins the span of a write, if it is recorded.
pub(crate) fn begin(admin: &Admin, call: &Call) -> Option<CallSpan> {
    let tracer = admin.parts.tracer.as_ref()?;
    if matches!(call.method, Method::GET | Method::HEAD | Method::OPTIONS) {
        return None;
    }
    let header = |name: &str| {
        let mut values = call.headers.get_all(name).iter();
        let first = values.next()?;
        values.next().is_none().then_some(first.as_bytes())
    };
    CallSpan::begin(tracer, || name(call), &header)
}

/// Name of few values: method and kind of objects, without ids.
fn name(call: &Call) -> String {
    let kind = call.segments_after(&prefix::APISIX).and_then(|segments| segments.first());
    match kind {
        Some(kind) => format!("{} /apisix/admin/{kind}", call.method),
        None => call.method.to_string(),
    }
}

/// Records the outcome (semantic conventions for HTTP servers).
pub(crate) fn end(span: CallSpan, call: &Call, reply: &Reply) {
    let status = reply.status().as_u16();
    let outcome = if status >= 500 { SpanStatus::Error("") } else { SpanStatus::Unset };
    let object = call.segments_after(&prefix::APISIX).map(|segments| segments.join("/"));
    let path = format!("/{}", call.segments.join("/"));
    span.end(outcome, |span| {
        span.text(Key::HttpRequestMethod, call.method.as_str().as_bytes())
            .text(Key::UrlPath, path.as_bytes())
            .text(Key::ClientAddress, call.peer.ip().to_canonical().to_string().as_bytes())
            .number(Key::HttpResponseStatusCode, status.into())
            .text_if_any(Key::TollhouseObject, object.unwrap_or_default().as_bytes());
        if status >= 500 {
            span.text(Key::ErrorType, status.to_string().as_bytes());
        }
    });
}
