//! Connection of an attempt: a pooled one, a stream of a shared one, or a new one.

use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use tollhouse_model::upstream::ProxyHeader;
use tollhouse_net::proxy_protocol;
use tollhouse_telemetry::ErrorCode;

use super::Attempt;
use super::error::{AttemptError, Blame};
use crate::exchange::Exchange;
use crate::exchange::state::RequestState;
use crate::http2::nodes::{self, Claim, Dial};
use crate::worker::pools::{ComesFor, PoolKey, UpstreamConnection};

impl Attempt<'_> {
    pub(super) fn pool_key(&self, cx: &Exchange<'_>) -> PoolKey {
        let upstream = self.way.upstream;
        let server_name = upstream.terms.connector.as_ref().map(|_| server_name(cx.state).into());
        let mut comes_for = upstream.terms.proxy_protocol.map(|_| Box::new(comes_for(cx)));
        if upstream.terms.speaks_http2 && cx.client.link.stream.is_kept_apart() {
            comes_for =
                comes_for.or_else(|| Some(Box::new(ComesFor::address(cx.client.peer.address))));
        }
        PoolKey {
            address: self.picked.address(),
            pool: upstream.terms.pool,
            server_name,
            comes_for,
        }
    }

    /// Returns a pooled connection, or a stream of an open HTTP/2 connection.
    #[inline]
    pub(super) fn kept(&self, cx: &Exchange<'_>, key: &PoolKey) -> Option<Box<UpstreamConnection>> {
        let worker = cx.worker;
        if self.way.upstream.terms.speaks_http2 {
            return worker.node_connections.stream(key, worker.clock.now_ms());
        }
        worker.pools.take(key)
    }

    /// Opens a connection, or takes a stream of a shared one; several requests may wait for one
    /// opening.
    pub(super) async fn connect(
        &self,
        cx: &Exchange<'_>,
        key: &PoolKey,
    ) -> Result<Box<UpstreamConnection>, AttemptError> {
        let terms = &self.way.upstream.terms;
        loop {
            let place = match nodes::claim(cx.worker, terms, key) {
                Claim::Stream(stream) => return Ok(stream),
                Claim::Wait(place) => place,
                Claim::Open => {
                    self.check_may_open(cx)?;
                    if terms.proxy_protocol.is_some() {
                        cx.client.peer.note_announced(cx.worker, key);
                    }
                    let dial = Dial { terms: Arc::clone(terms), time: self.way.timeouts().connect };
                    nodes::begin(cx.worker, key, dial)
                }
            };
            let ended = self.within_connect_time(cx, place.ended()).await;
            let late = || {
                let error = self.late(cx, ErrorCode::UpstreamConnectTimeout, true);
                place.blame_once(error)
            };
            if let Some(connection) = ended.ok_or_else(late)?? {
                return Ok(connection);
            }
        }
    }

    /// Returns the output of `connecting`; `None` after the connect timeout.
    async fn within_connect_time<T>(
        &self,
        cx: &Exchange<'_>,
        connecting: impl Future<Output = T>,
    ) -> Option<T> {
        cx.arm(self.way.timeouts().connect);
        let mut connecting = pin!(connecting);
        let connected = poll_fn(|context| match connecting.as_mut().poll(context) {
            Poll::Ready(connected) => Poll::Ready(Some(connected)),
            Poll::Pending if cx.is_late() => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        })
        .await;
        // The clock is refreshed, because following deadlines are relative to it.
        cx.worker.clock.refresh();
        connected
    }

    /// Checks the gateway's own limits for a new connection. A refusal does not count against the
    /// node's health, and is not retried, because a retry would fail too.
    fn check_may_open(&self, cx: &Exchange<'_>) -> Result<(), AttemptError> {
        let worker = cx.worker;
        let code = if !self.way.upstream.conf.scheme.carries_http() {
            let cause = "the upstream's scheme is for stream routes and cannot carry HTTP requests";
            worker.failures.note(self.picked.address(), &cause);
            ErrorCode::UpstreamConnectFailed
        } else if !worker.may_connect() {
            ErrorCode::ConnectionLimit
        } else {
            return Ok(());
        };
        Err(AttemptError { blame: Blame::Nobody, ..AttemptError::last(code) })
    }

    /// Returns the error of a deadline that has passed. The client's own deadline is blamed on no
    /// node and not retried; any other is blamed on the node.
    pub(super) fn late(&self, cx: &Exchange<'_>, code: ErrorCode, may_retry: bool) -> AttemptError {
        if cx.is_past_call_deadline() {
            let exceeded = AttemptError::last(ErrorCode::DeadlineExceeded);
            return AttemptError { blame: Blame::Nobody, ..exceeded };
        }
        AttemptError::by_node(code, may_retry)
    }
}

/// Returns the addresses for the PROXY protocol header: the client's after real-ip processing, with
/// port 0 if a proxy reported it without a port.
fn comes_for(cx: &Exchange<'_>) -> ComesFor {
    let peer = &cx.client.peer;
    let reported = cx.state.reported_address.as_ref();
    let client = reported.map_or(peer.address, |(address, _)| SocketAddr::new(*address, 0));
    ComesFor { client, local: peer.local }
}

/// Returns the PROXY protocol version for a connection.
pub(crate) fn header_version(version: ProxyHeader) -> proxy_protocol::Version {
    match version {
        ProxyHeader::V1 => proxy_protocol::Version::V1,
        ProxyHeader::V2 => proxy_protocol::Version::V2,
    }
}

/// Returns the server name (SNI) for a node: the requested host without its port.
fn server_name(state: &RequestState) -> String {
    let host = state.host_up.as_slice();
    let split = tollhouse_http::authority::split(host);
    let name = split.map_or(host, |(name, _)| name.bytes_in(host));
    let name = String::from_utf8_lossy(name);
    // `Host` writes an IPv6 address in brackets, the server name without.
    name.trim_start_matches('[').trim_end_matches(']').to_owned()
}
