//! A client's HTTP/2 connection: one task moves its bytes, and one task serves each request.

use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll};

use tollhouse_h2::ErrorCode as Http2Code;
use tollhouse_stdx::duration::to_ms;
use tollhouse_telemetry::ErrorCode;

use super::cancellations::{Conduct, Share};
use super::connection::{self, Progress};
use super::head::Kind;
use super::limits;
use super::liveness::{Liveness, Look};
use super::session::{OpenedStream, Session};
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

/// Interval in milliseconds between checks of the protocol's deadlines.
const TICK_MS: u64 = 1000;

/// Cancelled minus answered requests that a connection may have while its address is flooding.
const CANCELLED_ALLOWED_IN_A_FLOOD: u64 = 10;

/// First bytes of an HTTP/2 client, as far as the HTTP/1.1 parser reads them before it fails (RFC
/// 9113 §3.4).
pub(crate) const PREFACE_LINE: &[u8] = b"PRI * HTTP/2.0\r\n";

/// Serves a connection until it ends; its first bytes are in the client's buffer.
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
    // Requests still open are cancelled with the connection.
    serving.report_cancellations(worker.clock.now_ms(), client, session.open_streams());
    // The tasks of open streams stop; the connection ends after the last of them.
    session.lose();
    poll_fn(|context| {
        session.attach(context.waker());
        if session.serves_any() { Poll::Pending } else { Poll::Ready(()) }
    })
    .await;
    count(worker, &session);
    if moved == Progress::Finished { After::Linger } else { After::Close }
}

/// Connection of a client that is being served.
struct Serving<'a> {
    worker: &'a Rc<Worker>,
    session: &'a Rc<Session>,
    /// Streams opened by one read; reused.
    opened: Vec<OpenedStream>,
    started_ms: u64,
    /// Time since which no request is open.
    idle_since_ms: Option<u64>,
    /// Time since which the connection has failed and only pending output is written.
    failed_since_ms: Option<u64>,
    /// Keeps track of PINGs, because gRPC calls may be silent for any time and their client may be
    /// gone.
    liveness: Liveness,
    /// Whether a request was open since memory was last released.
    holds_memory: bool,
    /// Counts of the last report to the core's table of addresses.
    reported: Report,
}

/// Requests cancelled and answered since the connection began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Report {
    cancelled: u64,
    answered: u64,
}

impl Serving<'_> {
    /// Drives the connection; ready when it has ended, and never with [`Progress::Waiting`].
    fn poll(&mut self, context: &mut Context<'_>, client: &mut Client) -> Poll<Progress> {
        let (worker, session) = (self.worker, self.session);
        session.attach(context.waker());
        let read = connection::read(context, worker, session, &mut client.link, &mut self.opened);
        for opened in self.opened.drain(..) {
            client.requests += 1;
            start(worker, session, client, opened);
        }
        let now_ms = worker.clock.now_ms();
        self.report_cancellations(now_ms, client, 0);
        if read == Progress::Lost {
            return Poll::Ready(Progress::Lost);
        }
        // Streams run between reading and writing, so that responses that are ready leave in a
        // single write.
        session.wake_ready();
        self.look_at_deadlines(now_ms, client);
        if self.liveness.look(session, now_ms) == Look::Dead {
            return Poll::Ready(Progress::Lost);
        }
        // Deadlines are checked before the write, so that the frames they cause (PING, GOAWAY) are
        // included.
        match connection::write(context, session, &mut client.link) {
            Progress::Waiting => {}
            ended => return Poll::Ready(ended),
        }
        if self.is_over(now_ms) {
            return Poll::Ready(Progress::Lost);
        }
        client.timer.arm(self.next_look_ms(now_ms));
        Poll::Pending
    }

    /// Reports the requests that the client cancelled since the last report, and applies the
    /// resulting conduct. `lost` requests are cancelled by the end of the connection.
    fn report_cancellations(&mut self, now_ms: u64, client: &Client, lost: u32) {
        let (worker, session) = (self.worker, self.session);
        let (received, caused, refused, answered) = session.with_codec(|codec| {
            let seen = codec.counters();
            (seen.resets_received, seen.resets_caused, seen.refused_streams, seen.completed_streams)
        });
        // Refused streams cost nothing: clients open many before they know the limit.
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
        // Other connections from that address continue if they cancel few requests.
        let own = cancelled.saturating_sub(report.answered);
        if conduct == Conduct::Flooding && own > CANCELLED_ALLOWED_IN_A_FLOOD {
            let reason = "too many cancelled requests from this address";
            session.with_codec(|codec| codec.close(Http2Code::ENHANCE_YOUR_CALM, reason));
        }
    }

    /// Starts draining or closes the connection when due.
    fn look_at_deadlines(&mut self, now_ms: u64, client: &Client) {
        let (worker, session) = (self.worker, self.session);
        let is_spent = client.requests >= worker.settings.limits.requests_per_connection;
        if worker.is_draining() || is_spent {
            // The codec drains once; open streams are still served (RFC 9113 §6.8).
            session.with_codec(|codec| codec.drain());
        }
        // An expired deadline is reported with the next write.
        let failed = session.tick(now_ms).is_err();
        match (session.is_idle(), self.idle_since_ms) {
            (true, None) => self.idle_since_ms = Some(now_ms),
            (true, Some(since_ms)) if now_ms >= since_ms.saturating_add(self.idle_ms()) => {
                session.with_codec(|codec| codec.close(Http2Code::NO_ERROR, "idle"));
            }
            // Released after a second of idleness, because the next request of a busy client would
            // have to allocate it again.
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

    fn idle_ms(&self) -> u64 {
        let idle_time = self.worker.settings.limits.idle_time;
        let time = if self.worker.is_draining() { DRAIN_IDLE_TIME } else { idle_time };
        to_ms(time)
    }

    /// Whether the peer does not even read the final frames.
    fn is_over(&self, now_ms: u64) -> bool {
        let linger_ms = LINGER_TIME.as_millis() as u64;
        self.failed_since_ms.is_some_and(|since_ms| now_ms - since_ms >= linger_ms)
    }

    /// Time of the next deadline check in milliseconds; rare while the connection is idle.
    fn next_look_ms(&self, now_ms: u64) -> u64 {
        // By this time the peer must have acknowledged the settings.
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

/// Serves a stream in a separate task.
fn start(worker: &Rc<Worker>, session: &Rc<Session>, client: &Client, opened: OpenedStream) {
    let stream = Http2Stream::new(Rc::clone(session), opened.stream);
    let client = client.for_stream(worker, stream);
    // Boxed, because the runtime copies a whole task at its start and end, and this one holds a
    // client.
    let task = Box::pin(serve(Rc::clone(worker), Rc::clone(session), client, opened));
    tokio::task::spawn_local(task);
}

async fn serve(worker: Rc<Worker>, session: Rc<Session>, mut client: Client, opened: OpenedStream) {
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

/// Serves one request. Dropping the stream afterwards resets it if its response is incomplete.
async fn exchange(worker: &Worker, client: &mut Client, state: &mut RequestState, kind: Kind) {
    let refusal = match kind {
        Kind::Exchange | Kind::WebSocket => None,
        Kind::Connect => Some(ErrorCode::MethodNotAllowed),
        Kind::UnknownProtocol => Some(ErrorCode::MethodNotImplemented),
    };
    let arrival = match refusal {
        Some(code) => {
            // Reads the bytes that the log shows of the request.
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

/// Adds the codec's counters to the metrics.
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
        tracing::debug!(error = %failure, "an HTTP/2 connection of a client was closed");
    }
}
