//! Check of the `Host` header, before any other processing.

use hyper::header::HOST;
use hyper::{Request, StatusCode, Version};

use crate::reply::Reply;

/// Refuses a request with a missing or repeated `Host` header, as HTTP/1.1 requires (RFC 9112
/// §3.2).
pub(crate) fn check<B>(request: &Request<B>) -> Result<(), Reply> {
    let count = request.headers().get_all(HOST).iter().count();
    let is_optional = request.version() == Version::HTTP_10;
    if count == 1 || (count == 0 && is_optional) {
        return Ok(());
    }
    Err(Reply::page(StatusCode::BAD_REQUEST))
}
