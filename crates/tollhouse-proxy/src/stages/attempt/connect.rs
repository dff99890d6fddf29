//! The connection that an attempt goes over: one that is kept, a stream of one that is shared, or a new
//! one, opened in time.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

use tollhouse_net::{Stream, connect};
use tollhouse_telemetry::ErrorCode;

use super::{Attempt, AttemptError, Blame};
use crate::connection::link::Link;
use crate::exchange::Exchange;
use crate::exchange::state::RequestState;
use crate::http2::nodes::Claim;
use crate::worker::pools::{PoolKey, UpstreamConnection};

impl Attempt<'_> {
    pub(super) fn pool_key(&self, state: &RequestState) -> PoolKey {
        let upstream = self.way.upstream;
        let server_name = upstream.connector.as_ref().map(|_| server_name(state).into());
        PoolKey { address: self.picked.address(), pool: upstream.pool, server_name }
    }

    /// A connection that is there already.
    #[inline]
    pub(super) fn kept(&self, cx: &Exchange<'_>, key: &PoolKey) -> Option<Box<UpstreamConnection>> {
        let worker = cx.worker;
        if self.way.upstream.speaks_http2 {
            return worker.node_connections.stream(key, worker.clock.now_ms());
        }
        worker.pools.take(key)
    }

    pub(super) async fn connect(
        &self,
        cx: &Exchange<'_>,
        key: &PoolKey,
    ) -> Result<Box<UpstreamConnection>, AttemptError> {
        if self.way.upstream.speaks_http2 {
            return self.connect_shared(cx, key).await;
        }
        let stream = self.open_socket(cx).await?;
        Ok(UpstreamConnection::kept_under(key.clone(), Link::new(stream), &cx.worker.metrics))
    }

    /// A stream of a connection that others share; one of them opens it, and the others wait.
    async fn connect_shared(
        &self,
        cx: &Exchange<'_>,
        key: &PoolKey,
    ) -> Result<Box<UpstreamConnection>, AttemptError> {
        loop {
            match cx.worker.node_connections.claim(cx.worker, key) {
                Claim::Stream(stream) => return Ok(stream),
                Claim::Wait(opening) => {
                    let ended = self.within_connect_time(cx, opening.ended()).await;
                    let late = || self.late(cx, ErrorCode::UpstreamConnectTimeout, true);
                    ended.ok_or_else(late)??;
                }
                Claim::Open(opening) => match self.open_socket(cx).await {
                    Ok(stream) => return Ok(opening.succeed(stream, self.way.upstream.keepalive)),
                    Err(error) => {
                        opening.fail(error);
                        return Err(error);
                    }
                },
            }
        }
    }

    /// What comes of `connecting`, if that is in time.
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
        // Time has passed that nobody has counted; what follows arms deadlines of its own.
        cx.worker.clock.refresh();
        connected
    }

    async fn open_socket(&self, cx: &Exchange<'_>) -> Result<Stream, AttemptError> {
        let worker = cx.worker;
        if !self.way.upstream.conf.scheme.carries_http() {
            let cause = "the upstream's scheme is for stream routes, and its nodes get no requests";
            worker.failures.note(self.picked.address(), &cause);
            let refused = AttemptError::last(ErrorCode::UpstreamConnectFailed);
            return Err(AttemptError { blame: Blame::Nobody, ..refused });
        }
        // Both refusals are this gateway's: blaming the node would take it out of service, and
        // another try would meet the same.
        if !worker.may_connect() {
            let limit = AttemptError::last(ErrorCode::ConnectionLimit);
            return Err(AttemptError { blame: Blame::Nobody, ..limit });
        }
        let opened = self.within_connect_time(cx, self.open(cx.state)).await;
        let failed = |code, blame| {
            worker.metrics.upstream_connections_failed.increment();
            Err(AttemptError { blame, ..AttemptError::by_node(code, true) })
        };
        match opened {
            Some(Ok(stream)) => Ok(stream),
            Some(Err(error)) => {
                worker.failures.note(self.picked.address(), &error);
                let is_nobodys = connect::is_no_failure_of_node(&error);
                let blame = if is_nobodys { Blame::Nobody } else { Blame::Node };
                failed(ErrorCode::UpstreamConnectFailed, blame)
            }
            None => {
                worker.metrics.upstream_connections_failed.increment();
                Err(self.late(cx, ErrorCode::UpstreamConnectTimeout, true))
            }
        }
    }

    /// A deadline has passed: the client's own, which nobody can mend, or one of the node's.
    pub(super) fn late(&self, cx: &Exchange<'_>, code: ErrorCode, may_retry: bool) -> AttemptError {
        if cx.is_past_call_deadline() {
            let exceeded = AttemptError::last(ErrorCode::DeadlineExceeded);
            return AttemptError { blame: Blame::Nobody, ..exceeded };
        }
        AttemptError::by_node(code, may_retry)
    }

    async fn open(&self, state: &RequestState) -> std::io::Result<Stream> {
        match &self.way.upstream.connector {
            None => connect::connect(self.picked.address()).await,
            Some(connector) => {
                let name = server_name(state);
                connect::connect_tls(self.picked.address(), connector, &name).await
            }
        }
    }
}

/// The name for SNI: the host that the node is asked for.
fn server_name(state: &RequestState) -> String {
    let host = state.host_up.as_slice();
    let split = tollhouse_http::authority::split(host);
    let name = split.map_or(host, |(name, _)| name.of_buffer(host));
    let name = String::from_utf8_lossy(name);
    // An address stands in brackets in `Host`, and without in a name.
    name.trim_start_matches('[').trim_end_matches(']').to_owned()
}
