//! One attempt: a connection to the picked node, the request up, the answer's head down, the rest.
//!
//! Until the first byte of the answer is on its way to the client, every failure is returned and
//! may be tried elsewhere; afterwards a failure can only end the client's connection.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::{Context, Poll};

use tollhouse_http::{HeadError, Known, Version};
use tollhouse_net::{Stream, connect};
use tollhouse_telemetry::ErrorCode;
use tollhouse_upstream::Picked;

use crate::buffer::BUFFER_BYTES;
use crate::client::Client;
use crate::exchange::{Link, PumpError, RequestPump, Waiting};
use crate::forward::Forward;
use crate::head::response::write_interim;
use crate::pool::{PoolKey, UpstreamConnection};
use crate::request::{Work, upstream_method};
use crate::respond::Respond;
use crate::serve::After;
use crate::settings::{INTERIM_RESPONSES_MAX, RESPONSE_HEAD};
use crate::upstream_head;

/// One try of one node.
#[derive(Debug)]
pub(crate) struct Attempt<'a> {
    /// The request it belongs to.
    pub forward: &'a Forward<'a>,
    /// The node.
    pub picked: &'a Picked<'a>,
}

/// Why an attempt brought no answer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AttemptError {
    /// What is reported when no other attempt follows.
    pub code: ErrorCode,
    /// Whether another node may be tried: never once a non-idempotent request is on its way.
    pub may_retry: bool,
    /// Whether a pooled connection failed before it showed a sign of life.
    stale: bool,
    /// Whose failure it is.
    pub blame: Blame,
}

/// Whose failure an attempt is: health counts what is the node's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Blame {
    /// The node's.
    Node,
    /// Nobody's that health could count: the gateway lacks what a connection takes, the client's
    /// host is no name that the node serves over TLS, or a kept connection was closed by the node,
    /// which is its right, just as the request was sent.
    Nobody,
}

impl AttemptError {
    /// A failure that no other node would mend.
    fn last(code: ErrorCode) -> Self {
        Self { code, may_retry: false, stale: false, blame: Blame::Node }
    }

    /// The node's failure, which another node may mend.
    fn of_node(code: ErrorCode, may_retry: bool) -> Self {
        Self { code, may_retry, stale: false, blame: Blame::Node }
    }
}

impl Attempt<'_> {
    /// Runs the attempt to the end of the exchange.
    ///
    /// # Errors
    /// [`AttemptError`] while nothing has been sent to the client.
    pub(crate) async fn run(
        &self,
        client: &mut Client,
        work: &mut Work,
        body: &mut RequestPump,
    ) -> Result<After, AttemptError> {
        upstream_head::write(self, client, work).map_err(AttemptError::last)?;
        let key = self.pool_key(work);
        let pooled = self.forward.worker.pools.take(&key);
        let reused = pooled.is_some();
        let mut connection = match pooled {
            Some(connection) => connection,
            None => Box::pin(self.connect(client, work)).await?,
        };
        let mut answered = self.await_head(client, &mut connection, work, body).await;
        if let Err(error) = &mut answered
            && reused
            && error.stale
        {
            error.blame = Blame::Nobody;
            if error.may_retry && body.is_replayable() {
                body.replay();
                connection = Box::pin(self.connect(client, work)).await?;
                answered = self.await_head(client, &mut connection, work, body).await;
            }
        }
        answered?;
        connection.requests += 1;
        if connection.requests > 1 {
            self.forward.worker.metrics.upstream_connections_reused.increment();
        }
        Ok(Respond { attempt: self, key }.run(client, connection, work, body).await)
    }

    fn pool_key(&self, work: &Work) -> PoolKey {
        let upstream = self.forward.upstream;
        let server_name = upstream.connector.as_ref().map(|_| self.server_name(work).into());
        PoolKey { address: self.picked.address(), pool: upstream.pool, server_name }
    }

    /// The name for SNI: the host that the node is asked for.
    fn server_name(&self, work: &Work) -> String {
        let host = work.host_up.as_slice();
        let split = tollhouse_http::authority::split(host);
        let name = split.map_or(host, |(name, _)| name.of_buffer(host));
        let name = String::from_utf8_lossy(name);
        name.trim_start_matches('[').trim_end_matches(']').to_owned()
    }

    async fn connect(
        &self,
        client: &Client,
        work: &Work,
    ) -> Result<UpstreamConnection, AttemptError> {
        let worker = self.forward.worker;
        if !worker.may_connect() {
            let limit = AttemptError::last(ErrorCode::ConnectionLimit);
            return Err(AttemptError { blame: Blame::Nobody, ..limit });
        }
        client.arm(worker, self.timeouts().connect);
        let opened = {
            let mut opening = pin!(self.open(work));
            poll_fn(|context| match opening.as_mut().poll(context) {
                Poll::Ready(opened) => Poll::Ready(Some(opened)),
                Poll::Pending if client.is_late(worker) => Poll::Ready(None),
                Poll::Pending => Poll::Pending,
            })
            .await
        };
        worker.clock.refresh();
        let failed = |code, blame| {
            worker.metrics.upstream_connections_failed.increment();
            Err(AttemptError { blame, ..AttemptError::of_node(code, true) })
        };
        match opened {
            Some(Ok(stream)) => Ok(UpstreamConnection::new(Link::new(stream), &worker.metrics)),
            Some(Err(error)) => {
                worker.failures.note(self.picked.address(), &error);
                let is_nobodys = connect::is_no_failure_of_node(&error);
                let blame = if is_nobodys { Blame::Nobody } else { Blame::Node };
                failed(ErrorCode::UpstreamConnectFailed, blame)
            }
            None => failed(ErrorCode::UpstreamConnectTimeout, Blame::Node),
        }
    }

    async fn open(&self, work: &Work) -> std::io::Result<Stream> {
        match &self.forward.upstream.connector {
            None => connect::connect(self.picked.address()).await,
            Some(connector) => {
                let name = self.server_name(work);
                connect::connect_tls(self.picked.address(), connector, &name).await
            }
        }
    }

    /// Time-outs of this request: the route's, else the upstream's.
    pub(crate) fn timeouts(&self) -> tollhouse_model::Timeouts {
        self.forward.route.route.timeout.unwrap_or(self.forward.upstream.timeouts)
    }

    /// Sends the request and reads until the head of the final answer is parsed.
    async fn await_head(
        &self,
        client: &mut Client,
        connection: &mut UpstreamConnection,
        work: &mut Work,
        body: &mut RequestPump,
    ) -> Result<(), AttemptError> {
        work.response.reset();
        let mut interim = 0;
        let mut reader =
            HeadReader { attempt: self, moved: u64::MAX, send_failed: false, parsed_bytes: 0 };
        loop {
            poll_fn(|context| reader.poll(context, client, connection, work, body)).await?;
            if !work.response.is_interim() {
                return self.check_switch(connection.link.buffer.filled(), work);
            }
            interim += 1;
            if interim > INTERIM_RESPONSES_MAX {
                return Err(AttemptError::last(ErrorCode::UpstreamBadResponse));
            }
            self.pass_interim(client, connection, work).await?;
            work.response.reset();
            reader.parsed_bytes = 0;
            // The client's deadline was set meanwhile; the node's begins anew.
            reader.moved = u64::MAX;
        }
    }

    /// A node switches protocols only when it was asked to, and to nothing else.
    fn check_switch(&self, node: &[u8], work: &Work) -> Result<(), AttemptError> {
        let to = work.response.fields.first(Known::Upgrade).unwrap_or_default();
        let is_meant = self.forward.asks_upgrade(work)
            && to.of_buffer(node).eq_ignore_ascii_case(b"websocket");
        if work.response.status == 101 && !is_meant {
            return Err(AttemptError::last(ErrorCode::UpstreamBadResponse));
        }
        Ok(())
    }

    /// Passes an interim answer on; 100 stops here, since the gateway has sent its own.
    async fn pass_interim(
        &self,
        client: &mut Client,
        connection: &mut UpstreamConnection,
        work: &mut Work,
    ) -> Result<(), AttemptError> {
        let buffer = &mut connection.link.buffer;
        if work.response.status != 100 && work.head.version == Version::Http11 {
            work.out_down.clear();
            write_interim(&mut work.out_down, &work.response, buffer.filled());
            client
                .write_all(self.forward.worker, &work.out_down)
                .await
                .map_err(|_| AttemptError::last(ErrorCode::DownstreamGone))?;
            work.out_down.clear();
        }
        buffer.consume(work.response.head_bytes);
        Ok(())
    }
}

/// Sends the request while it reads the answer's head.
struct HeadReader<'a> {
    attempt: &'a Attempt<'a>,
    /// Progress of the request when the deadline was last set.
    moved: u64,
    /// Whether the node takes no more bytes; it may have answered before it closed.
    send_failed: bool,
    /// Bytes of the buffer that the parser has seen.
    parsed_bytes: usize,
}

impl HeadReader<'_> {
    #[inline]
    fn poll(
        &mut self,
        context: &mut Context<'_>,
        client: &mut Client,
        connection: &mut UpstreamConnection,
        work: &mut Work,
        body: &mut RequestPump,
    ) -> Poll<Result<(), AttemptError>> {
        let worker = self.attempt.forward.worker;
        if !body.is_done() && !self.send_failed {
            let stream = &mut connection.link.stream;
            match body.poll_send(context, work.lead(), &mut client.link, stream, &worker.shelf) {
                Poll::Ready(Err(PumpError::Upstream)) => self.send_failed = true,
                Poll::Ready(Err(error)) => return Poll::Ready(Err(client_failure(&error))),
                Poll::Ready(Ok(())) | Poll::Pending => {}
            }
        }
        let link = &mut connection.link;
        loop {
            // Interim answers may have brought the next head along.
            if link.buffer.len() > self.parsed_bytes {
                self.parsed_bytes = link.buffer.len();
                let asked = client.link.buffer.filled();
                let method = upstream_method(&work.plugins.edits, &work.head, asked).as_bytes();
                match work.response.parse(link.buffer.filled(), &RESPONSE_HEAD, method) {
                    Ok(true) => return Poll::Ready(Ok(())),
                    Ok(false) => {}
                    Err(error) => return Poll::Ready(Err(self.bad_head(error, work))),
                }
                if link.buffer.room().is_empty() {
                    link.buffer.make_room(RESPONSE_HEAD.head_bytes + BUFFER_BYTES);
                }
            }
            match link.poll_fill(context, &worker.shelf) {
                Poll::Ready(Ok(read)) if read > 0 => {}
                Poll::Ready(_) => {
                    let silent = link.buffer.is_empty();
                    return Poll::Ready(Err(broken(silent, work, body)));
                }
                Poll::Pending => break,
            }
        }
        self.watch(client, work, body)
    }

    /// Everything is pending: sets the deadline after progress, or finds it passed.
    fn watch(
        &mut self,
        client: &Client,
        work: &Work,
        body: &RequestPump,
    ) -> Poll<Result<(), AttemptError>> {
        let worker = self.attempt.forward.worker;
        let timeouts = self.attempt.timeouts();
        let waiting = if self.send_failed { Waiting::UpstreamRead } else { body.waiting };
        if self.moved != body.moved {
            self.moved = body.moved;
            client.arm(
                worker,
                match waiting {
                    Waiting::UpstreamRead => timeouts.read,
                    Waiting::UpstreamWrite => timeouts.send,
                    Waiting::DownstreamRead => worker.settings.limits.body_read_time,
                    Waiting::DownstreamWrite => worker.settings.limits.send_time,
                },
            );
            return Poll::Pending;
        }
        if !client.is_late(worker) {
            return Poll::Pending;
        }
        let may_retry = work.is_idempotent;
        Poll::Ready(Err(match waiting {
            Waiting::UpstreamRead => {
                AttemptError::of_node(ErrorCode::UpstreamReadTimeout, may_retry)
            }
            Waiting::UpstreamWrite => {
                AttemptError::of_node(ErrorCode::UpstreamSendTimeout, may_retry)
            }
            Waiting::DownstreamRead => AttemptError::last(ErrorCode::BodyReadTimeout),
            Waiting::DownstreamWrite => AttemptError::last(ErrorCode::DownstreamGone),
        }))
    }

    #[cold]
    fn bad_head(&self, error: HeadError, work: &Work) -> AttemptError {
        self.attempt.forward.worker.failures.note(self.attempt.picked.address(), &error);
        let code = match error {
            HeadError::HeadTooLong | HeadError::TooManyHeaders | HeadError::LineTooLong => {
                ErrorCode::UpstreamResponseHeadTooLarge
            }
            _ => ErrorCode::UpstreamBadResponse,
        };
        AttemptError::of_node(code, work.is_idempotent)
    }
}

/// The node's stream ended or failed before a whole head. A request that is not idempotent goes to
/// nobody else once any of it has been sent (RFC 9110 §9.2.2).
#[cold]
fn broken(silent: bool, work: &Work, body: &RequestPump) -> AttemptError {
    let may_retry = work.is_idempotent || !body.has_sent();
    AttemptError { stale: silent, ..AttemptError::of_node(ErrorCode::UpstreamReset, may_retry) }
}

fn client_failure(error: &PumpError) -> AttemptError {
    AttemptError::last(match error {
        PumpError::BadBody => ErrorCode::BadFraming,
        PumpError::BodyTooLarge => ErrorCode::BodyTooLarge,
        PumpError::DownstreamGone | PumpError::Upstream => ErrorCode::DownstreamGone,
    })
}
