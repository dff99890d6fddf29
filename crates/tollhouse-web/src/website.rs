//! Headers by which a request of a website is recognised.

use hyper::header::{HOST, HeaderMap, HeaderName, ORIGIN};

/// Returns `Host`, which may be empty, and `Origin`. A value that is not text is replaced by `..`, a
/// name that no machine has, so that the request is refused.
pub fn host_and_origin(headers: &HeaderMap) -> (&str, Option<&str>) {
    let text = |name: HeaderName| headers.get(name).map(|value| value.to_str().unwrap_or(".."));
    (text(HOST).unwrap_or_default(), text(ORIGIN))
}
