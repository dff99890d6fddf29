//! Bodies of error responses: APISIX's words, because scripts and dashboards compare them.

use tollhouse_telemetry::ErrorCode;

use super::trace_line;
use crate::exchange::Exchange;
use crate::head::reason;

/// Body of the 404 response for a request that no route matches, with the line end that APISIX
/// sends.
const ROUTE_NOT_FOUND: &[u8] = b"{\"error_msg\":\"404 Route Not Found\"}\n";

const TEXT: &str = "text/plain; charset=utf-8";
/// Content type of the gateway's error pages.
pub(crate) const HTML: &str = "text/html; charset=utf-8";

pub(crate) fn for_code(cx: &Exchange<'_>, code: ErrorCode) -> (&'static str, Vec<u8>) {
    if code == ErrorCode::RouteNotFound {
        return (TEXT, ROUTE_NOT_FOUND.to_vec());
    }
    if code == ErrorCode::PlainHttpOnTls {
        let title = "400 The plain HTTP request was sent to HTTPS port";
        return (HTML, cx.worker.settings.brand.error_page(title).into_bytes());
    }
    (HTML, html(cx, code.status()))
}

/// Returns the HTML error page for a status, with the id of the request's trace if it has one.
pub(crate) fn html(cx: &Exchange<'_>, status: u16) -> Vec<u8> {
    let brand = cx.worker.settings.brand;
    let title = format!("{status} {}", reason(status));
    let page = match std::str::from_utf8(trace_line::visible_id(cx)) {
        Ok(trace_id) if !trace_id.is_empty() => brand.traced_error_page(&title, trace_id),
        _ => brand.error_page(&title),
    };
    page.into_bytes()
}
