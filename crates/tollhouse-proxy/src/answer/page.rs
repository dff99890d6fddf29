//! What stands in the bodies of error answers: APISIX's words, so that pages and scripts which look for them go on.

use tollhouse_telemetry::ErrorCode;

use crate::head::reason;
use crate::worker::Worker;

/// What a request gets that no route takes; with its line end, as APISIX sends it.
const ROUTE_NOT_FOUND: &[u8] = b"{\"error_msg\":\"404 Route Not Found\"}\n";

const TEXT: &str = "text/plain; charset=utf-8";
/// What the gateway's pages are.
pub(crate) const HTML: &str = "text/html; charset=utf-8";

/// Content type and body for `code`.
pub(crate) fn for_code(worker: &Worker, code: ErrorCode) -> (&'static str, Vec<u8>) {
    if code == ErrorCode::RouteNotFound {
        return (TEXT, ROUTE_NOT_FOUND.to_vec());
    }
    if code == ErrorCode::PlainHttpOnTls {
        let title = "400 The plain HTTP request was sent to HTTPS port";
        return (HTML, worker.settings.brand.error_page(title).into_bytes());
    }
    (HTML, html(worker, code.status()))
}

/// The page of an error status.
pub(crate) fn html(worker: &Worker, status: u16) -> Vec<u8> {
    let title = format!("{status} {}", reason(status));
    worker.settings.brand.error_page(&title).into_bytes()
}
