//! Calls that a browser makes for a website: refused where nothing but the address keeps strangers out. Not here:
//! tokens, which are asked for by each call.

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::{HOST, ORIGIN};
use axum::http::{HeaderName, Response, StatusCode};
use axum::middleware::Next;

use super::HttpApi;
use super::intake::token;
use super::reply::plain;

/// Put with requests that came to a loopback address, where clients are those of this machine.
#[derive(Debug, Clone, Copy)]
pub(super) struct ToThisMachine;

/// Refuses what a website may have brought, and has the rest answered.
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

/// A website can have its own name resolved to loopback and call here as if it were its own server, with any
/// header and body (DNS rebinding). It knows no token.
fn is_websites(api: &HttpApi, request: &Request) -> bool {
    let headers = request.headers();
    // What is no text is no name of this machine either.
    let text = |name: HeaderName| headers.get(name).map(|value| value.to_str().unwrap_or(".."));
    let is_local = request.extensions().get::<ToThisMachine>().is_some();
    let is_known = token(headers).is_some_and(|token| api.access.has(token));
    let (host, origin) = (text(HOST).unwrap_or_default(), text(ORIGIN));
    is_local && !is_known && api.hosts.may_be_a_websites(host, origin)
}
