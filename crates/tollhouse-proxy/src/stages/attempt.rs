//! An attempt: connects to the picked node, sends the request and reads the response head.
//!
//! No part of a final response has been sent to the client when an attempt fails, so every failure
//! may be retried elsewhere.

mod connect;
pub(crate) mod error;

use std::future::poll_fn;
use std::task::{Context, Poll};
use std::time::Duration;

use tollhouse_http::element::Status;
use tollhouse_http::{HeadError, Known, Version};
use tollhouse_telemetry::ErrorCode;
use tollhouse_upstream::Picked;

pub(crate) use self::connect::header_version;

use self::error::{AttemptError, Blame};
use super::route::Way;
use super::upstream_head;
use crate::connection::buffer::BUFFER_BYTES;
use crate::connection::link::Link;
use crate::exchange::Exchange;
use crate::exchange::state::{RequestState, upstream_method};
use crate::head::response::write_interim;
use crate::settings::{INTERIM_RESPONSES_MAX, RESPONSE_HEAD};
use crate::transfer::pump::{PumpError, RequestPump};
use crate::transfer::{Sides, Waiting};
use crate::worker::pools::UpstreamConnection;

/// Largest number of times that an attempt repeats a request whose connection was closed. More
/// connections to one node rarely close within one turn of the event loop.
const REPEATS_MAX: u32 = 8;

/// A request's attempt at a node.
#[derive(Debug)]
pub(crate) struct Attempt<'a> {
    /// Route and upstream of the request.
    pub way: Way<'a>,
    pub picked: &'a Picked<'a>,
}

/// Response of a node. Its head is parsed into the exchange's state; its body follows.
#[derive(Debug)]
pub(crate) struct Answer {
    /// Connection that carries the body; the head is at the front of its buffer.
    pub connection: Box<UpstreamConnection>,
    /// Status set by plugins, if changed.
    pub status: Option<Status>,
    /// Whether plugins have seen the head.
    pub is_seen_by_plugins: bool,
}

impl Attempt<'_> {
    /// Runs the attempt until the node's response head is parsed.
    ///
    /// # Errors
    /// [`AttemptError`]; no part of a final response has been sent to the client.
    pub(crate) async fn run(&self, cx: &mut Exchange<'_>) -> Result<Answer, AttemptError> {
        upstream_head::write(cx, self.way, self.picked).map_err(AttemptError::last)?;
        let key = self.pool_key(cx);
        let kept = self.kept(cx, &key);
        let is_pooled = kept.is_some();
        let mut connection = match kept {
            Some(connection) => connection,
            None => Box::pin(self.connect(cx, &key)).await?,
        };
        let mut answered = self.await_head(cx, &mut connection).await;
        let mut repeats = 0;
        // A node may close a connection that has served requests at any time, even while another
        // request is on its way. That is not the node's failure: if the request may be repeated, it
        // is sent again to the same node. Over HTTP/2 the next connection may be closing too.
        while let Err(error) = &mut answered
            && error.stale
            && (connection.requests > 0 || (repeats == 0 && (is_pooled || error.is_refused())))
        {
            error.blame = Blame::Nobody;
            if !error.may_retry || !cx.body.is_replayable() || repeats == REPEATS_MAX {
                break;
            }
            repeats += 1;
            cx.body.replay();
            connection = Box::pin(self.connect(cx, &key)).await?;
            answered = self.await_head(cx, &mut connection).await;
        }
        if let Err(error) = answered {
            // The node may fail as a whole: its idle connections show again that it answers.
            cx.worker.pools.doubt(&key);
            return Err(error);
        }
        connection.requests += 1;
        if connection.is_proven {
            cx.worker.metrics.upstream_connections_reused.increment();
        } else {
            self.note_proof(cx, &mut connection);
        }
        Ok(Answer { connection, status: None, is_seen_by_plugins: false })
    }

    /// Records the first answer over a connection that is new, or idle since the node failed; of a
    /// shared connection every answer, because its streams fail one by one.
    #[cold]
    fn note_proof(&self, cx: &Exchange<'_>, connection: &mut UpstreamConnection) {
        connection.is_proven = true;
        self.picked.note_answer();
        if connection.requests > 1 {
            cx.worker.metrics.upstream_connections_reused.increment();
        }
    }

    /// Sends the request and reads until the head of the final response is parsed. If the client
    /// cancels the request meanwhile, the node's connection is reset.
    async fn await_head(
        &self,
        cx: &mut Exchange<'_>,
        connection: &mut UpstreamConnection,
    ) -> Result<(), AttemptError> {
        let mut awaited = Awaited { connection, is_over: false };
        cx.state.response.reset();
        let mut interim = 0;
        let mut reader =
            HeadReader { attempt: self, moved: u64::MAX, send_failed: false, parsed_bytes: 0 };
        // One future and not two, because its state is moved with every request.
        let answered = loop {
            let parsed = poll_fn(|context| reader.poll(context, cx, awaited.connection)).await;
            if parsed.is_err() {
                break parsed;
            }
            if !cx.state.response.is_interim() {
                break self.check_switch(cx, awaited.connection.link.buffer.filled());
            }
            interim += 1;
            if interim > INTERIM_RESPONSES_MAX {
                break Err(AttemptError::last(ErrorCode::UpstreamBadResponse));
            }
            let passed = pass_interim(cx, awaited.connection).await;
            if passed.is_err() {
                break passed;
            }
            cx.state.response.reset();
            reader.parsed_bytes = 0;
            // The deadline was changed for the client, so the node's deadline is set again.
            reader.moved = u64::MAX;
        };
        // A reset tells the node that its response is no longer wanted.
        let is_withdrawn = answered.is_err() && cx.client.link.stream.withdrawn().is_some();
        awaited.is_over = !is_withdrawn;
        answered
    }

    /// Checks a switch of protocols (101), which the gateway must have asked for, and only to
    /// WebSocket.
    fn check_switch(&self, cx: &Exchange<'_>, node: &[u8]) -> Result<(), AttemptError> {
        let state = &*cx.state;
        let to = state.response.fields.first(Known::Upgrade).unwrap_or_default();
        let is_meant =
            self.way.asks_upgrade(state) && to.bytes_in(node).eq_ignore_ascii_case(b"websocket");
        let is_taken = !state.head.upgrade || self.is_taken(cx, node);
        if (state.response.status == 101 && !is_meant) || !is_taken {
            return Err(AttemptError::last(ErrorCode::UpstreamBadResponse));
        }
        Ok(())
    }

    /// Whether a client that opens a WebSocket over HTTP/2 can receive the response.
    #[cold]
    fn is_taken(&self, cx: &Exchange<'_>, node: &[u8]) -> bool {
        let response = &cx.state.response;
        let accept = response.fields.find(b"sec-websocket-accept", node).unwrap_or_default();
        let websocket = cx.client.link.stream.websocket();
        websocket.is_none_or(|websocket| websocket.takes(response.status, accept))
    }
}

/// Guard that resets the connection if the response is no longer awaited.
struct Awaited<'a> {
    connection: &'a mut UpstreamConnection,
    is_over: bool,
}

impl Drop for Awaited<'_> {
    #[inline]
    fn drop(&mut self) {
        if !self.is_over {
            self.connection.link.stream.reset_when_dropped();
        }
    }
}

/// Passes an interim (1xx) response on. A 100 is dropped, because the gateway has sent one already.
async fn pass_interim(
    cx: &mut Exchange<'_>,
    connection: &mut UpstreamConnection,
) -> Result<(), AttemptError> {
    let buffer = &mut connection.link.buffer;
    let state = &mut *cx.state;
    // HTTP/1.0 has no interim responses: such a client would take one for the final response.
    if state.response.status != 100 && state.head.version == Version::Http11 {
        state.out_down.clear();
        write_interim(&mut state.out_down, &state.response, buffer.filled());
        cx.client
            .write_all(cx.worker, &state.out_down)
            .await
            .map_err(|_| AttemptError::last(ErrorCode::DownstreamGone))?;
        state.out_down.clear();
    }
    buffer.consume(state.response.head_bytes);
    Ok(())
}

/// Sends the request while reading the response head, because a node may respond before it has read
/// the whole request and then stop reading it.
struct HeadReader<'a> {
    attempt: &'a Attempt<'a>,
    /// Progress of the request when the deadline was last set.
    moved: u64,
    /// Whether the node accepts no more bytes; it may have responded before.
    send_failed: bool,
    /// Bytes of the buffer that the parser has seen.
    parsed_bytes: usize,
}

impl HeadReader<'_> {
    #[inline]
    fn poll(
        &mut self,
        context: &mut Context<'_>,
        cx: &mut Exchange<'_>,
        connection: &mut UpstreamConnection,
    ) -> Poll<Result<(), AttemptError>> {
        if !cx.body.is_done() && !self.send_failed {
            let mut sides =
                Sides::new(&cx.worker.buffers, &mut cx.client.link, &mut connection.link);
            match cx.body.poll_send(context, cx.state.lead(), &mut sides) {
                Poll::Ready(Err(PumpError::Upstream)) => self.send_failed = true,
                Poll::Ready(Err(error)) => {
                    return Poll::Ready(Err(AttemptError::last(error.code())));
                }
                Poll::Ready(Ok(())) | Poll::Pending => {}
            }
        }
        let link = &mut connection.link;
        loop {
            // The buffer may already hold the next head after an interim response.
            if link.buffer.len() > self.parsed_bytes {
                self.parsed_bytes = link.buffer.len();
                let state = &mut *cx.state;
                let request = cx.client.request_bytes();
                let method = upstream_method(&state.plugins.edits, &state.head, request);
                let head = link.buffer.filled();
                match state.response.parse(head, &RESPONSE_HEAD, method.as_bytes()) {
                    Ok(true) => return Poll::Ready(Ok(())),
                    Ok(false) => {}
                    Err(error) => return Poll::Ready(Err(self.bad_head(cx, error))),
                }
                if link.buffer.room().is_empty() {
                    link.buffer.make_room(RESPONSE_HEAD.head_bytes() + BUFFER_BYTES);
                }
            }
            match link.poll_fill(context, &cx.worker.buffers) {
                Poll::Ready(Ok(read)) if read > 0 => {}
                Poll::Ready(_) => {
                    let error = broken(link, cx.state, cx.body);
                    return Poll::Ready(Err(match cx.is_past_call_deadline_by_now() {
                        true => self.attempt.late(cx, error.code, false),
                        false => error,
                    }));
                }
                Poll::Pending => break,
            }
        }
        if let Some(code) = cx.client.link.stream.withdrawn() {
            return Poll::Ready(Err(AttemptError::last(code)));
        }
        let watched = self.watch(cx);
        if watched.is_ready() {
            link.stream.note_silence();
        }
        watched
    }

    /// Sets the deadline after progress, else checks whether it has passed. Called if all futures
    /// are pending.
    ///
    /// One deadline serves all sides; the side that the exchange waits for determines its length.
    /// It is only extended if bytes have moved, so that a wake-up without progress gives a silent
    /// side no extra time.
    fn watch(&mut self, cx: &Exchange<'_>) -> Poll<Result<(), AttemptError>> {
        // A node that accepts no more of the request still has to send its response.
        let waiting = if self.send_failed { Waiting::UpstreamRead } else { cx.body.waiting };
        if self.moved != cx.body.moved {
            self.moved = cx.body.moved;
            let timeouts = self.attempt.way.timeouts();
            let limits = &cx.worker.settings.limits;
            cx.arm(match waiting {
                Waiting::UpstreamRead => timeouts.read,
                Waiting::UpstreamWrite => timeouts.send,
                // Both directions of a gRPC call may be silent for any time.
                Waiting::DownstreamRead if cx.is_grpc() => Duration::MAX,
                Waiting::DownstreamRead => limits.body_read_time,
                Waiting::DownstreamWrite => limits.send_time,
            });
            return Poll::Pending;
        }
        if !cx.is_late() {
            return Poll::Pending;
        }
        // A silent node may have processed the request, so only an idempotent request is retried
        // elsewhere.
        let may_retry = cx.state.is_idempotent;
        let late = |code, may_retry| self.attempt.late(cx, code, may_retry);
        Poll::Ready(Err(match waiting {
            Waiting::UpstreamRead => late(ErrorCode::UpstreamReadTimeout, may_retry),
            Waiting::UpstreamWrite => late(ErrorCode::UpstreamSendTimeout, may_retry),
            Waiting::DownstreamRead => late(ErrorCode::BodyReadTimeout, false),
            Waiting::DownstreamWrite => late(ErrorCode::DownstreamGone, false),
        }))
    }

    #[cold]
    fn bad_head(&self, cx: &Exchange<'_>, error: HeadError) -> AttemptError {
        cx.worker.failures.note(self.attempt.picked.address(), &error);
        let code = match error {
            HeadError::HeadTooLong | HeadError::TooManyHeaders | HeadError::LineTooLong => {
                ErrorCode::UpstreamResponseHeadTooLarge
            }
            _ => ErrorCode::UpstreamBadResponse,
        };
        AttemptError::by_node(code, cx.state.is_idempotent)
    }
}

/// Returns the error for a stream that ended or failed before a whole head. A request that is not
/// idempotent is not retried elsewhere once a part was sent (RFC 9110 §9.2.2).
#[cold]
fn broken(link: &Link, state: &RequestState, body: &RequestPump) -> AttemptError {
    if link.stream.is_refused() {
        let refused = AttemptError::by_node(ErrorCode::UpstreamReset, true);
        return AttemptError { stale: true, blame: Blame::Nobody, ..refused };
    }
    let silent = link.buffer.is_empty();
    let may_retry = state.is_idempotent || !body.has_sent();
    AttemptError { stale: silent, ..AttemptError::by_node(ErrorCode::UpstreamReset, may_retry) }
}
