//! Bodies of error responses: APISIX's words, because scripts and dashboards compare them.

use tollhouse_telemetry::ErrorCode;

use crate::head::reason;
use crate::worker::Worker;

/// Body of the 404 response for a request that no route matches, with the line end that APISIX
/// sends.
const ROUTE_NOT_FOUND: &[u8] = b"{\"error_msg\":\"404 Route Not Found\"}\n";

const TEXT: &str = "text/plain; charset=utf-8";
/// Content type of the gateway's error pages.
pub(crate) const HTML: &str = "text/html; charset=utf-8";

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

/// Returns the HTML error page for a status.
pub(crate) fn html(worker: &Worker, status: u16) -> Vec<u8> {
    let title = format!("{status} {}", reason(status));
    worker.settings.brand.error_page(&title).into_bytes()
}
