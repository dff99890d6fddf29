//! Sends a node's response to the client, and decides whether both connections are kept.

use std::future::poll_fn;
use std::task::{Context, Poll};
use std::time::Duration;

use tollhouse_http::BodyLength;
use tollhouse_plugin::Effect;
use tollhouse_telemetry::ErrorCode;

use super::attempt::Answer;
use super::route::Way;
use super::tunnel::Switched;
use crate::answer::delivery::{Outgoing, final_status};
use crate::answer::head::{self, RelayedHead};
use crate::answer::{call, keep_alive};
use crate::connection::after::After;
use crate::error::GatewayError;
use crate::exchange::Exchange;
use crate::head::response::Trailers;
use crate::transfer::coding::Coding;
use crate::transfer::filtered::{Discard, FilteredRelay};
use crate::transfer::pump::PumpError;
use crate::transfer::relay::{BodyRelay, ResponseRelay};
use crate::transfer::trailers::TrailerLines;
use crate::transfer::{Sides, Waiting};
use crate::worker::pools::UpstreamConnection;

/// State of the client's connection after the response, or after a switch of protocols.
pub(crate) enum Delivered {
    Answered(After),
    /// The node has agreed to switch protocols; the client has not been told yet.
    Switched(Switched),
}

/// Sends head and body.
///
/// # Errors
/// If the body is broken before its first byte; nothing has been sent to the client then.
pub(crate) async fn run(
    cx: &mut Exchange<'_>,
    way: Way<'_>,
    mut answer: Answer,
) -> Result<Delivered, GatewayError> {
    // The response has begun, so a client that waits for 100 Continue gets none.
    cx.body.withhold_continue();
    let head = decide(cx, &answer);
    head::write_relayed(cx, answer.connection.link.buffer.filled(), &head);
    answer.connection.link.buffer.consume(cx.state.response.head_bytes);
    if cx.state.response.status == 101 {
        let idle_time = way.timeouts().read;
        return Ok(Delivered::Switched(Switched { connection: answer.connection, idle_time }));
    }
    // A cache takes in a body that its client does not need.
    let is_drained = !head.delivery.has_body && filters_read_all(cx);
    let has_body = head.delivery.has_body || is_drained;
    let sent = if has_body { cx.state.response.body } else { BodyLength::None };
    let coding = head.delivery.coding();
    let trailers = (head.trailers == Trailers::Passed)
        .then(|| TrailerLines::new(&cx.state.plugins.response_edits));
    let relayed = if has_body && !cx.state.plugins.filters.is_empty() {
        let mut filters = std::mem::take(&mut cx.state.plugins.filters);
        if is_drained {
            filters.push((Effect::Rewrites, Box::new(Discard)));
        }
        let mut relay = Box::new(FilteredRelay::new(sent, coding, trailers, filters));
        relay.meter = cx.message_meter();
        Box::pin(relay_body(cx, way, &mut answer.connection, &mut *relay)).await
    } else {
        let mut relay = ResponseRelay::new(sent, coding, trailers);
        relay.meter = cx.message_meter();
        relay_body(cx, way, &mut answer.connection, &mut relay).await
    };
    match relayed {
        Ok(()) => {}
        // The head was held back as well, so an error response can still be sent.
        Err(Broken { code, has_begun: false, .. }) => {
            cx.state.plugins.forget_answer();
            return Err(code.into());
        }
        Err(Broken { code, has_begun: true, is_between_pieces }) => {
            cx.state.record.code = Some(code);
            // A gRPC client that receives messages without a status could not tell how the call
            // ended.
            if is_between_pieces && coding == Coding::Chunked && cx.is_grpc() {
                // Errors are ignored, because the connection closes anyway.
                let _ = cx.client.write_all(cx.worker, &call::last_chunk(code)).await;
            }
            return Ok(Delivered::Answered(After::Close));
        }
    }
    if sent == cx.state.response.body {
        release(cx, way, answer);
    } else {
        // The connection closes with the node's body unread, so that no other request receives it.
        answer.connection.link.release_buffer(&cx.worker.buffers);
    }
    Ok(Delivered::Answered(head.after))
}

/// Whether a filter needs the body, though the client gets none.
fn filters_read_all(cx: &Exchange<'_>) -> bool {
    cx.state.plugins.filters.iter().any(|(_, filter)| filter.reads_unsent_body())
}

/// Lets go of a node's answer in the place of which the client gets another.
pub(crate) fn drop_answer(cx: &mut Exchange<'_>, way: Way<'_>, mut answer: Answer) {
    cx.body.withhold_continue();
    answer.connection.link.buffer.consume(cx.state.response.head_bytes);
    match cx.state.response.body {
        BodyLength::None => release(cx, way, answer),
        _ => answer.connection.link.release_buffer(&cx.worker.buffers),
    }
}

/// Decides the head sent to the client, after plugins have run.
#[inline]
fn decide(cx: &mut Exchange<'_>, answer: &Answer) -> RelayedHead {
    let status = answer.status.unwrap_or_else(|| final_status(cx.state.response.status));
    if let Some(changed) = answer.status {
        cx.state.record.status = changed.number();
    }
    let filters = &cx.state.plugins.filters;
    let is_rewritten = filters.iter().any(|(effect, _)| *effect == Effect::Rewrites);
    let delivery = Outgoing { is_rewritten, ..Outgoing::from_node(cx, status) }.delivery();
    RelayedHead {
        delivery,
        after: keep_alive::after(cx, delivery.ends_by_close),
        trailers: head::trailers(cx, delivery),
        status: answer.status,
    }
}

/// Reason why a response is incomplete.
struct Broken {
    code: ErrorCode,
    /// Whether a part of the response has been sent to the client.
    has_begun: bool,
    /// Whether everything received from the node has been sent.
    is_between_pieces: bool,
}

/// Sends the written head and the body after it.
#[inline]
async fn relay_body<R: BodyRelay>(
    cx: &mut Exchange<'_>,
    way: Way<'_>,
    connection: &mut UpstreamConnection,
    relay: &mut R,
) -> Result<(), Broken> {
    let head_bytes = cx.state.out_down.len() as u64;
    // gRPC calls may be silent for any time: the client's deadline limits them, and the HTTP/2
    // connection detects a dead node.
    let read_time = if cx.is_grpc() { Duration::MAX } else { way.timeouts().read };
    let mut relaying = Relaying { relay, moved: 0, send_failed: false, read_time };
    let ended = poll_fn(|context| {
        let polled = relaying.poll(context, cx, connection);
        // Updated at every poll, because a client that leaves ends the exchange between two polls.
        let written = relaying.relay.progress().written;
        let record = &mut cx.state.record;
        record.bytes_sent = written;
        record.body_bytes_sent = written.saturating_sub(head_bytes);
        polled
    })
    .await;
    let progress = relaying.relay.progress();
    // After the client has left, no error response is sent.
    ended.map_err(|code| Broken {
        code,
        has_begun: progress.written > 0 || code == ErrorCode::DownstreamGone,
        is_between_pieces: progress.waiting == Waiting::UpstreamRead,
    })
}

/// Returns the node's connection to the pool, if it can be reused.
#[inline(always)]
fn release(cx: &Exchange<'_>, way: Way<'_>, answer: Answer) {
    let mut connection = answer.connection;
    let (worker, bounds) = (cx.worker, &way.upstream.terms.keepalive);
    // Unsent bytes of the request would precede the next request, and extra bytes of the node would
    // be taken for the next response.
    let clean = cx.body.is_done() && connection.link.buffer.is_empty();
    let keeps = cx.state.response.keep_alive
        && connection.requests < bounds.requests
        && !connection.link.stream.is_shared();
    if clean && keeps && !worker.is_draining() {
        connection.link.release_if_empty(&worker.buffers);
        if let Some(key) = connection.key() {
            cx.client.peer.note_announced(worker, key);
        }
        worker.pools.give(connection, bounds, worker.clock.now_ms());
    } else {
        connection.link.release_buffer(&worker.buffers);
    }
}

/// Relays the response while the request may still be in progress.
struct Relaying<'a, R> {
    relay: &'a mut R,
    /// Progress of both directions when the deadline was last set.
    moved: u64,
    /// Whether one side of the request's path is closed.
    send_failed: bool,
    /// Maximum time between two reads from the node.
    read_time: Duration,
}

impl<R: BodyRelay> Relaying<'_, R> {
    #[inline]
    fn poll(
        &mut self,
        context: &mut Context<'_>,
        cx: &mut Exchange<'_>,
        connection: &mut UpstreamConnection,
    ) -> Poll<Result<(), ErrorCode>> {
        let mut sides = Sides::new(&cx.worker.buffers, &mut cx.client.link, &mut connection.link);
        if !cx.body.is_done() && !self.send_failed {
            let sent = cx.body.poll_send(context, cx.state.lead(), &mut sides);
            // A client that stops sending may still want the response, and a node that stops
            // reading may still send it.
            self.send_failed = match sent {
                // An oversized message ends the call, because its peer would otherwise wait
                // forever.
                Poll::Ready(Err(error @ PumpError::MessageTooLarge)) => {
                    return Poll::Ready(Err(error.code()));
                }
                Poll::Ready(Err(_)) => true,
                Poll::Ready(Ok(())) | Poll::Pending => false,
            };
        }
        match self.relay.poll_send(context, &mut cx.state.out_down, &mut sides) {
            Poll::Ready(ended) => {
                return Poll::Ready(ended.map_err(|error| match error.code() {
                    ErrorCode::DownstreamGone => ErrorCode::DownstreamGone,
                    _ if cx.is_past_call_deadline_by_now() => ErrorCode::DeadlineExceeded,
                    code => code,
                }));
            }
            Poll::Pending => {}
        }
        if let Some(code) = cx.client.link.stream.withdrawn() {
            return Poll::Ready(Err(code));
        }
        // As in an attempt, one deadline that is set only after progress. The added one makes the
        // first poll set it.
        let moved = self.relay.progress().moved + cx.body.moved + 1;
        let waits_for_client = self.relay.progress().waiting == Waiting::DownstreamWrite;
        if self.moved != moved {
            self.moved = moved;
            let send_time = cx.worker.settings.limits.send_time;
            cx.arm(if waits_for_client { send_time } else { self.read_time });
            return Poll::Pending;
        }
        if !cx.is_late() {
            return Poll::Pending;
        }
        if cx.is_past_call_deadline() {
            return Poll::Ready(Err(ErrorCode::DeadlineExceeded));
        }
        if self.relay.progress().is_at_work {
            cx.arm(self.read_time);
            return Poll::Pending;
        }
        if waits_for_client {
            return Poll::Ready(Err(ErrorCode::DownstreamGone));
        }
        connection.link.stream.note_silence();
        Poll::Ready(Err(ErrorCode::UpstreamReadTimeout))
    }
}
