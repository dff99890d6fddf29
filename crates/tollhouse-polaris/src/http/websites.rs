//! Protection against calls that a browser makes for a website. Such calls are refused where only
//! the loopback address keeps outsiders away. Tokens are checked by each call, not here.

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::{HOST, ORIGIN};
use axum::http::{HeaderName, Response, StatusCode};
use axum::middleware::Next;

use super::HttpApi;
use super::intake::token;
use super::reply::plain;

/// Marks requests to a loopback address, whose clients run on this machine.
#[derive(Debug, Clone, Copy)]
pub(super) struct ToThisMachine;

/// Refuses requests that a website may have caused.
pub(super) async fn refuse(
    State(api): State<HttpApi>,
    request: Request,
    next: Next,
) -> Response<Body> {
    if is_websites(&api, &request) {
        let text = "403: without a token only calls to an address, a local name or one of listen.hosts, and from \
                    no other website, are answered here";
        return plain(StatusCode::FORBIDDEN, text);
    }
    next.run(request).await
}

/// Whether a website may have caused the request. A website can resolve its host name to a loopback
/// address, and then call this server with any header and body (DNS rebinding), but it knows no
/// token.
fn is_websites(api: &HttpApi, request: &Request) -> bool {
    let headers = request.headers();
    // A value that is not text cannot name this machine.
    let text = |name: HeaderName| headers.get(name).map(|value| value.to_str().unwrap_or(".."));
    let is_local = request.extensions().get::<ToThisMachine>().is_some();
    let is_known = token(headers).is_some_and(|token| api.access.has(token));
    let (host, origin) = (text(HOST).unwrap_or_default(), text(ORIGIN));
    is_local && !is_known && api.hosts.may_be_a_websites(host, origin)
}
