//! Protection against calls that a browser makes for a website. Such calls are refused where only
//! the loopback address keeps outsiders away. Tokens are checked by each call, not here.

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{Response, StatusCode};
use axum::middleware::Next;
use tollhouse_web::{Peer, host_and_origin};

use super::HttpApi;
use super::intake::token;
use super::login::LOG_IN;
use super::reply::plain;

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
    // At a loopback address, clients run on this machine.
    let is_local = request.extensions().get::<Peer>().is_some_and(|peer| peer.is_local);
    let is_known = token(headers).is_some_and(|token| api.dialect.knows(token));
    let (host, origin) = host_and_origin(headers);
    // Polaris' console passes on the `Origin` of its own pages with a log-in.
    let is_consoles = |origin: &&str| {
        let from = origin.split_once("://").map(|(_, from)| from);
        from.is_some_and(|from| !from.is_empty() && api.hosts.admits(from))
    };
    let origin = origin.filter(|it| request.uri().path() != LOG_IN || !is_consoles(it));
    is_local && !is_known && api.hosts.may_be_a_websites(host, origin)
}
