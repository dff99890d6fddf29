//! A client's connection of HTTP/2: one task that moves its bytes, and one for each request.

use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll};

use tollhouse_h2::ErrorCode as Http2Code;
use tollhouse_telemetry::ErrorCode;

use super::cancellations::{Conduct, Share};
use super::connection::{self, Moved};
use super::head::Kind;
use super::limits;
use super::liveness::{Liveness, Look};
use super::session::{Opened, Session};
use super::stream::Http2Stream;
use crate::answer::error;
use crate::connection::after::After;
use crate::connection::client::{Arrival, Client};
use crate::exchange::Exchange;
use crate::exchange::state::RequestState;
use crate::pipeline;
use crate::settings::{DRAIN_IDLE_TIME, LINGER_TIME};
use crate::stages::account;
use crate::transfer::pump::RequestPump;
use crate::worker::Worker;

/// How often the protocol's own deadlines are looked at, in milliseconds.
const TICK_MS: u64 = 1000;

/// Requests more than were answered that a connection may take back while its address has none left.
const CANCELLED_ALLOWED_IN_A_FLOOD: u64 = 10;

/// What a client of HTTP/2 begins with, as far as the parser of HTTP/1.1 has read when it gives up
/// (RFC 9113 §3.4).
pub(crate) const PREFACE_LINE: &[u8] = b"PRI * HTTP/2.0\r\n";

/// Serves a connection to its end, the first bytes of which are in the client's buffer.
pub(crate) async fn connection(worker: &Rc<Worker>, client: &mut Client) -> After {
    let limits = limits::for_clients(&worker.settings.limits);
    let budget = &worker.settings.limits.memory;
    let now_ms = worker.clock.refresh();
    let session = Rc::new(Session::server(limits, budget, now_ms, client.is_encrypted()));
    worker.metrics.downstream_http2_connections.increment();
    client.requests = 0;
    let mut serving = Serving {
        worker,
        session: &session,
        opened: Vec::new(),
        started_ms: now_ms,
        idle_since_ms: Some(now_ms),
        failed_since_ms: None,
        liveness: Liveness::default(),
        holds_memory: true,
        reported: Report::default(),
    };
    let moved = poll_fn(|context| serving.poll(context, client)).await;
    // Requests that are under way are taken back with the connection.
    serving.report_cancellations(worker.clock.now_ms(), client, session.open_streams());
    // Whoever still serves a stream of it stops; only then is the connection over.
    session.lose();
    poll_fn(|context| {
        session.attach(context.waker());
        if session.is_idle() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    count(worker, &session);
    if moved == Moved::Finished { After::Linger } else { After::Close }
}

/// A connection that is served.
struct Serving<'a> {
    worker: &'a Rc<Worker>,
    session: &'a Rc<Session>,
    /// Room for streams that one read has opened.
    opened: Vec<Opened>,
    started_ms: u64,
    /// Since when no request is under way.
    idle_since_ms: Option<u64>,
    /// Since when it is over but for what is still to be written.
    failed_since_ms: Option<u64>,
    /// Calls of gRPC may be silent for as long as they like: whether their client is still there, is
    /// asked.
    liveness: Liveness,
    /// Whether it has had a request since it last gave back what it need not hold without one.
    holds_memory: bool,
    /// Counts of its last report to the core's table of addresses.
    reported: Report,
}

/// Requests that were taken back and that were answered, since the connection began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Report {
    cancelled: u64,
    answered: u64,
}

impl Serving<'_> {
    /// Ready at the connection's end; never with [`Moved::Waiting`].
    fn poll(&mut self, context: &mut Context<'_>, client: &mut Client) -> Poll<Moved> {
        let (worker, session) = (self.worker, self.session);
        session.attach(context.waker());
        let read = connection::read(context, worker, session, &mut client.link, &mut self.opened);
        for opened in self.opened.drain(..) {
            client.requests += 1;
            start(worker, session, client, opened);
        }
        let now_ms = worker.clock.now_ms();
        self.report_cancellations(now_ms, client, 0);
        if read == Moved::Lost {
            return Poll::Ready(Moved::Lost);
        }
        // Streams run between reading and writing, so that what they answer at once leaves in the
        // write below, all of it in one.
        session.wake_ready();
        self.look_at_deadlines(now_ms, client);
        if self.liveness.look(session, now_ms) == Look::Dead {
            return Poll::Ready(Moved::Lost);
        }
        // Deadlines have been looked at before: what they make this side say (PING, GOAWAY) leaves
        // too.
        match connection::write(context, session, &mut client.link) {
            Moved::Waiting => {}
            ended => return Poll::Ready(ended),
        }
        if self.is_over(now_ms) {
            return Poll::Ready(Moved::Lost);
        }
        client.timer.arm(self.next_look_ms(now_ms));
        Poll::Pending
    }

    /// Reports what its client has taken back since the last report, and acts on the answer; `lost` requests are
    /// taken back with the connection.
    fn report_cancellations(&mut self, now_ms: u64, client: &Client, lost: u32) {
        let (worker, session) = (self.worker, self.session);
        let (received, caused, refused, answered) = session.with_codec(|codec| {
            let seen = codec.counters();
            (seen.resets_received, seen.resets_caused, seen.refused_streams, seen.completed_streams)
        });
        // Refused streams have cost nothing: clients open many before they know how many they may.
        let cancelled = received + caused.saturating_sub(refused) + u64::from(lost);
        let report = Report { cancelled, answered };
        let before = std::mem::replace(&mut self.reported, report);
        if before.cancelled == cancelled && worker.cancellations.is_empty() {
            session.set_conduct(Conduct::Usual);
            return;
        }
        let share = Share {
            cancelled: cancelled - before.cancelled,
            answered: report.answered - before.answered,
        };
        let conduct = worker.cancellations.report(client.peer.address.ip(), share, now_ms);
        session.set_conduct(conduct);
        // Of the others from there, those that take back little go on.
        let own = cancelled.saturating_sub(report.answered);
        if conduct == Conduct::Flooding && own > CANCELLED_ALLOWED_IN_A_FLOOD {
            let reason = "too many requests from this address were taken back";
            session.with_codec(|codec| codec.close(Http2Code::ENHANCE_YOUR_CALM, reason));
        }
    }

    /// Begins to drain, or closes, where it is time.
    fn look_at_deadlines(&mut self, now_ms: u64, client: &Client) {
        let (worker, session) = (self.worker, self.session);
        let is_spent = client.requests >= worker.settings.limits.requests_per_connection;
        if worker.is_draining() || is_spent {
            // Once: what is in flight is still served (RFC 9113 §6.8).
            session.with_codec(|codec| codec.drain());
        }
        // A deadline that has passed is told with what is written next.
        let failed = session.tick(now_ms).is_err();
        match (session.is_idle(), self.idle_since_ms) {
            (true, None) => self.idle_since_ms = Some(now_ms),
            (true, Some(since_ms)) if now_ms >= since_ms.saturating_add(self.idle_ms()) => {
                session.with_codec(|codec| codec.close(Http2Code::NO_ERROR, "idle"));
            }
            // Not at once: the next request of a busy client would have to take it all again.
            (true, Some(since_ms)) if self.holds_memory && now_ms >= since_ms + TICK_MS => {
                session.release_memory();
                self.holds_memory = false;
            }
            (true, Some(_)) => {}
            (false, _) => {
                self.idle_since_ms = None;
                self.holds_memory = true;
            }
        }
        if failed || session.with_codec(|codec| codec.failure().is_some()) {
            self.failed_since_ms.get_or_insert(now_ms);
        }
    }

    /// How long it may be without a request, in milliseconds.
    fn idle_ms(&self) -> u64 {
        let idle_time = self.worker.settings.limits.idle_time;
        let time = if self.worker.is_draining() { DRAIN_IDLE_TIME } else { idle_time };
        u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
    }

    /// Whether the peer takes not even what is said at the end.
    fn is_over(&self, now_ms: u64) -> bool {
        let linger_ms = LINGER_TIME.as_millis() as u64;
        self.failed_since_ms.is_some_and(|since_ms| now_ms - since_ms >= linger_ms)
    }

    /// When to look at deadlines next: seldom while there is nothing but waiting for a request.
    fn next_look_ms(&self, now_ms: u64) -> u64 {
        // By then settings are acknowledged.
        let settled_ms = self.session.with_codec(|codec| codec.limits().settings_ack_ms) + TICK_MS;
        let is_settled = now_ms.saturating_sub(self.started_ms) > settled_ms;
        match self.idle_since_ms.filter(|_| self.failed_since_ms.is_none()) {
            Some(since_ms) => {
                let idle_end_ms = since_ms.saturating_add(self.idle_ms());
                let is_at_rest = is_settled && !self.holds_memory;
                if is_at_rest { idle_end_ms } else { idle_end_ms.min(now_ms + TICK_MS) }
            }
            None => now_ms + TICK_MS,
        }
    }
}

/// Serves a stream in a task of its own.
fn start(worker: &Rc<Worker>, session: &Rc<Session>, client: &Client, opened: Opened) {
    let stream = Http2Stream::new(Rc::clone(session), opened.stream);
    let client = client.for_stream(worker, stream);
    // Boxed: the runtime copies a task as a whole at its start and at its end, and this one holds a client.
    let task = Box::pin(serve(Rc::clone(worker), Rc::clone(session), client, opened));
    tokio::task::spawn_local(task);
}

async fn serve(worker: Rc<Worker>, session: Rc<Session>, mut client: Client, opened: Opened) {
    poll_fn(|context| {
        session.attach_stream(opened.stream, context.waker());
        client.timer.set_waker(context.waker());
        Poll::Ready(())
    })
    .await;
    let mut state = worker.take_state();
    let room = worker.take_room();
    let mut served = room.occupy(|| exchange(&worker, &mut client, &mut state, opened.kind));
    (&mut served).await;
    worker.give_room(served.vacate());
    worker.give_state(state);
    client.link.release_buffer(&worker.buffers);
}

/// Serves one request; afterwards the stream is let go of, which resets it if it has no whole answer.
async fn exchange(worker: &Worker, client: &mut Client, state: &mut RequestState, kind: Kind) {
    let refusal = match kind {
        Kind::Exchange | Kind::WebSocket => None,
        Kind::Connect => Some(ErrorCode::MethodNotAllowed),
        Kind::UnknownProtocol => Some(ErrorCode::MethodNotImplemented),
    };
    let arrival = match refusal {
        Some(code) => {
            // What the log shows of it.
            let _ = client.wait(worker).await;
            worker.clock.refresh();
            Err(code.into())
        }
        None => client.read_head(worker, &mut state.head).await,
    };
    state.record.started_ms = worker.clock.now_ms();
    match arrival {
        Ok(Arrival::Request) => {}
        Ok(Arrival::Gone) => return,
        Err(error) => {
            let mut body = RequestPump::none();
            let mut cx = Exchange::new(worker, client, state, &mut body);
            Box::pin(error::refuse(&mut cx, error)).await;
            return account::refused(&cx);
        }
    }
    let head = &state.head;
    let limit = worker.settings.limits.body_bytes;
    let mut body = RequestPump::new(head.head_bytes, head.body, head.expectation, limit);
    pipeline::serve(&mut Exchange::new(worker, client, state, &mut body)).await;
}

/// Adds what the codec has counted to the metrics.
fn count(worker: &Worker, session: &Session) {
    let seen = session.counters();
    let metrics = &worker.metrics;
    for (counter, count) in [
        (&metrics.downstream_http2_streams, seen.streams),
        (&metrics.downstream_http2_streams_refused, seen.refused_streams),
        (&metrics.downstream_http2_streams_stalled, seen.stalled_streams),
        (&metrics.downstream_http2_resets, seen.resets_received + seen.resets_caused),
        (&metrics.downstream_http2_malformed, seen.malformed_messages),
    ] {
        counter.add(count);
    }
    if let Some(failure) = session.with_codec(|codec| codec.failure())
        && failure.code != Http2Code::NO_ERROR
    {
        metrics.downstream_http2_connections_failed.increment();
        tracing::debug!(error = %failure, "a connection of http/2 was ended");
    }
}
