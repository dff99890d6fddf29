//! The one place that turns an error into an answer: status, body, headers (apisix.md §3.6).

use tollhouse_http::Version;
use tollhouse_telemetry::ErrorCode;

use crate::client::Client;
use crate::error::GatewayError;
use crate::exchange::RequestPump;
use crate::head::reason;
use crate::head::response::{ConnectionNote, LocalResponse, ServerFacts};
use crate::request::Work;
use crate::serve::After;
use crate::worker::Worker;

/// What a request gets that no route takes; with its line end, as APISIX sends it.
const ROUTE_NOT_FOUND: &[u8] = b"{\"error_msg\":\"404 Route Not Found\"}\n";

const TEXT: &str = "text/plain; charset=utf-8";
const HTML: &str = "text/html; charset=utf-8";

/// Answers a request that failed before anything was sent to the client.
pub(crate) async fn answer(
    worker: &Worker,
    client: &mut Client,
    work: &mut Work,
    body: &mut RequestPump,
    error: GatewayError,
) -> After {
    work.record.code = Some(error.code);
    work.record.status = error.code.status();
    if error.code == ErrorCode::DownstreamGone {
        return After::Close;
    }
    let received = body.admit(client.link.buffer.filled()).is_ok() && body.is_received();
    let keep = received
        && work.head.keep_alive
        && !worker.is_draining()
        && keeps_connection(error.code)
        && client.requests < worker.settings.limits.requests_per_connection;
    let sends_body = work.head.method.of_buffer(client.link.buffer.filled()) != b"HEAD";
    let (content_type, page) = page(error.code);
    let note = match (keep, work.head.version) {
        (true, Version::Http11) => ConnectionNote::None,
        (true, Version::Http10) => ConnectionNote::KeepAlive,
        (false, _) => ConnectionNote::Close,
    };
    let statuses = work.record.upstream_statuses();
    let date = worker.clock.http_date();
    let header = [("X-APISIX-Upstream-Status", statuses.as_slice())];
    let response = LocalResponse {
        status: error.code.status(),
        content_type,
        headers: if statuses.is_empty() { &[] } else { &header },
        body_bytes: page.len(),
        facts: facts(worker, note, &date),
    };
    send(worker, client, work, &response, if sends_body { &page } else { &[] }).await;
    if keep { After::KeepAlive } else { After::Linger }
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
    let (content_type, page) = page(error.code);
    let date = worker.clock.http_date();
    let response = LocalResponse {
        status: error.code.status(),
        content_type,
        headers: &[],
        body_bytes: page.len(),
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
    ServerFacts { server: worker.settings.server.as_bytes(), date, connection }
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
fn page(code: ErrorCode) -> (&'static str, Vec<u8>) {
    if code == ErrorCode::RouteNotFound {
        return (TEXT, ROUTE_NOT_FOUND.to_vec());
    }
    let title = format!("{} {}", code.status(), reason(code.status()));
    let page = format!(
        "<html>\r\n<head><title>{title}</title></head>\r\n<body>\r\n<center><h1>{title}</h1></center>\r\n\
         <hr><center>openresty</center>\r\n<p><em>Powered by \
         <a href=\"https://apisix.apache.org/\">APISIX</a>.</em></p></body>\r\n</html>\r\n"
    );
    (HTML, page.into_bytes())
}
