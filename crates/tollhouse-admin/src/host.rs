//! What a listener asks of a request's `Host` before anybody looks at the rest.

use hyper::header::HOST;
use hyper::{Request, StatusCode, Version};

use crate::reply::Reply;

/// Refuses what HTTP/1.1 forbids: no name, or several (RFC 9112 §3.2).
pub(crate) fn check<B>(request: &Request<B>) -> Result<(), Reply> {
    let count = request.headers().get_all(HOST).iter().count();
    let is_optional = request.version() == Version::HTTP_10;
    if count == 1 || (count == 0 && is_optional) {
        return Ok(());
    }
    Err(Reply::page(StatusCode::BAD_REQUEST))
}
