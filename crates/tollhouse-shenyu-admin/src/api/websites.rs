//! Calls that a browser makes for a website. They are refused before any token is checked, because
//! the first user has a well-known password until it is changed, and because gateways may follow
//! without a token where none is configured.

use axum::extract::Request;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use tollhouse_web::{Peer, host_and_origin};

use crate::admin::ShenyuAdmin;

/// Returns the refusal of a call that a browser makes for a website; `None` for other calls. A
/// website can resolve its host name to loopback and call as if this were its server (DNS
/// rebinding), and a browser lets it open WebSockets to any address.
pub(super) fn refuse(admin: &ShenyuAdmin, request: &Request) -> Option<Response> {
    let (host, origin) = host_and_origin(request.headers());
    // At a loopback address, clients run on this machine.
    let is_local = request.extensions().get::<Peer>().is_some_and(|peer| peer.is_local);
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
