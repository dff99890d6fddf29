//! Calls that a browser makes for a website: refused before anybody is asked for a token, since the first user begins
//! with a password that everybody knows, and since gateways follow without any token where none is configured.

use axum::extract::Request;
use axum::http::header::{HOST, ORIGIN};
use axum::http::{HeaderName, StatusCode};
use axum::response::{IntoResponse, Response};

use crate::admin::ShenyuAdmin;

/// Put with requests that came to a loopback address, where clients are those of this machine.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ToThisMachine;

/// The refusal of such a call. A website can have its own name resolved to loopback and call here as if it were its own server (DNS rebinding),
/// and may open WebSockets to any address.
pub(super) fn refuse(admin: &ShenyuAdmin, request: &Request) -> Option<Response> {
    // What is no text is no name of this machine either.
    let text =
        |name: HeaderName| request.headers().get(name).map(|value| value.to_str().unwrap_or(".."));
    let (host, origin) = (text(HOST).unwrap_or_default(), text(ORIGIN));
    let is_local = request.extensions().get::<ToThisMachine>().is_some();
    let is_websites = if request.uri().path() == "/websocket" {
        // Gateways of ShenYu's say an origin of their own making.
        let from = origin.map(|it| it.split_once("://").map_or("..", |(_, from)| from));
        let is_own = |from: &str| from.eq_ignore_ascii_case(host) || admin.hosts.admits(from);
        !from.is_none_or(is_own) || (is_local && !admin.hosts.admits(host))
    } else {
        is_local && admin.hosts.may_be_a_websites(host, origin)
    };
    if !is_websites {
        return None;
    }
    let text = "only calls to an address, a local name or one of listen.hosts, and from no other website, are \
                answered here";
    Some((StatusCode::FORBIDDEN, text).into_response())
}
