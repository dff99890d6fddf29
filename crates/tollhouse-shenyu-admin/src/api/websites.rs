//! Calls that a browser makes for a website. They are refused before any token is checked, because
//! the first user has a well-known password until it is changed, and because gateways may follow
//! without a token where none is configured.

use axum::extract::Request;
use axum::http::header::{HOST, ORIGIN};
use axum::http::{HeaderName, StatusCode};
use axum::response::{IntoResponse, Response};

use crate::admin::ShenyuAdmin;

/// Marks requests that arrived at a loopback address, where clients run on this machine.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ToThisMachine;

/// Returns the refusal of a call made for a website. A website can resolve its host name to
/// loopback and call as if this were its server (DNS rebinding), and a browser lets it open
/// WebSockets to any address.
pub(super) fn refuse(admin: &ShenyuAdmin, request: &Request) -> Option<Response> {
    // A header that is not text becomes `..`, which is never a name of this machine.
    let text =
        |name: HeaderName| request.headers().get(name).map(|value| value.to_str().unwrap_or(".."));
    let (host, origin) = (text(HOST).unwrap_or_default(), text(ORIGIN));
    let is_local = request.extensions().get::<ToThisMachine>().is_some();
    let is_websites = if request.uri().path() == "/websocket" {
        // ShenYu's gateways send an origin that they choose themselves.
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
