//! HTML error pages for unknown paths and refused peers.

use hyper::StatusCode;
use tollhouse_plugin::Brand;

/// Returns the error page for a status, with its reason phrase as the title.
pub(crate) fn html(status: StatusCode, brand: Brand) -> String {
    let reason = status.canonical_reason().unwrap_or("Error");
    brand.error_page(&format!("{} {reason}", status.as_u16()))
}
