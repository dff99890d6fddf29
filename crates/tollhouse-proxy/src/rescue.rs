//! The one place that turns an error into an answer: status, body, headers (apisix.md §3.6).

use tollhouse_http::Framing;
use tollhouse_http::element::FieldValue;
use tollhouse_plugin::HeaderEdits;
use tollhouse_telemetry::ErrorCode;

use crate::client::Client;
use crate::delivery::final_status;
use crate::error::GatewayError;
use crate::exchange::RequestPump;
use crate::head::reason;
use crate::head::response::{ConnectionNote, LocalResponse, ServerFacts};
use crate::local::{self, Local};
use crate::plugins::Chains;
use crate::request::Work;
use crate::serve::After;
use crate::worker::Worker;

/// What a request gets that no route takes; with its line end, as APISIX sends it.
const ROUTE_NOT_FOUND: &[u8] = b"{\"error_msg\":\"404 Route Not Found\"}\n";

const TEXT: &str = "text/plain; charset=utf-8";
/// What the gateway's pages are.
pub(crate) const HTML: &str = "text/html; charset=utf-8";

/// Answers a request that failed before anything was sent to the client.
pub(crate) async fn answer(
    worker: &Worker,
    client: &mut Client,
    work: &mut Work,
    body: &mut RequestPump,
    error: GatewayError,
) -> After {
    answer_with(worker, client, work, body, error, None).await
}

/// The same where plugins see the answer.
pub(crate) async fn answer_with(
    worker: &Worker,
    client: &mut Client,
    work: &mut Work,
    body: &mut RequestPump,
    error: GatewayError,
    chains: Option<&Chains<'_>>,
) -> After {
    work.record.code = Some(error.code);
    work.record.status = error.code.status();
    if error.code == ErrorCode::DownstreamGone {
        return After::Close;
    }
    let (content_type, page) = page(worker, error.code);
    let statuses = work.record.upstream_statuses();
    let mut headers = HeaderEdits::default();
    if !statuses.is_empty() {
        headers.add("X-APISIX-Upstream-Status", &statuses);
    }
    let answer = Local {
        status: error.code.status(),
        content_type,
        headers: &headers,
        body: &page,
        declared_bytes: Some(page.len() as u64),
        may_keep: keeps_connection(error.code),
    };
    local::send(worker, client, work, body, chains, answer).await
}

/// Refuses bytes that are no request: nothing in the head can be relied on.
pub(crate) async fn refuse(
    worker: &Worker,
    client: &mut Client,
    work: &mut Work,
    error: GatewayError,
) {
    work.record.code = Some(error.code);
    work.record.status = error.code.status();
    let (content_type, page) = page(worker, error.code);
    let date = worker.clock.http_date();
    let response = LocalResponse {
        status: final_status(error.code.status()),
        content_type: FieldValue::parse(content_type.as_bytes()).unwrap_or_default(),
        headers: &[],
        framing: Framing::Length(page.len() as u64),
        facts: facts(worker, ConnectionNote::Close, &date),
    };
    send(worker, client, work, &response, &page).await;
}

/// Sends a response of the gateway's own.
pub(crate) async fn send(
    worker: &Worker,
    client: &mut Client,
    work: &mut Work,
    response: &LocalResponse<'_>,
    body: &[u8],
) {
    let mut out = std::mem::take(&mut work.out_down);
    out.clear();
    response.write(&mut out);
    out.extend_from_slice(body);
    work.record.body_bytes_sent = body.len() as u64;
    work.record.bytes_sent = out.len() as u64;
    if client.write_all(worker, &out).await.is_err() {
        work.record.code = Some(ErrorCode::DownstreamGone);
    }
    work.out_down = out;
}

/// What every response of this gateway carries.
pub(crate) fn facts<'a>(
    worker: &'a Worker,
    connection: ConnectionNote,
    date: &'a [u8],
) -> ServerFacts<'a> {
    let value = |bytes| FieldValue::parse(bytes).unwrap_or_default();
    ServerFacts { server: value(worker.settings.server.as_bytes()), date: value(date), connection }
}

/// Errors about the request's own bytes leave the connection in doubt.
fn keeps_connection(code: ErrorCode) -> bool {
    !matches!(
        code,
        ErrorCode::BadFraming
            | ErrorCode::BodyTooLarge
            | ErrorCode::BodyReadTimeout
            | ErrorCode::InternalPanic
            | ErrorCode::Draining
    )
}

/// Content type and body for `code`.
fn page(worker: &Worker, code: ErrorCode) -> (&'static str, Vec<u8>) {
    if code == ErrorCode::RouteNotFound {
        return (TEXT, ROUTE_NOT_FOUND.to_vec());
    }
    (HTML, html_page(worker, code.status()))
}

/// The page of an error status (apisix.md §3.6).
pub(crate) fn html_page(worker: &Worker, status: u16) -> Vec<u8> {
    let title = format!("{status} {}", reason(status));
    worker.settings.brand.error_page(&title).into_bytes()
}
