//! The pages that a web server shows where no JSON is due: unknown paths, refused peers.

use hyper::StatusCode;
use tollhouse_plugin::Brand;

/// The page of a status; people search it for the reason phrase.
pub(crate) fn html(status: StatusCode, brand: Brand) -> String {
    let reason = status.canonical_reason().unwrap_or("Error");
    brand.error_page(&format!("{} {reason}", status.as_u16()))
}
