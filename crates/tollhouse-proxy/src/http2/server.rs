//! A client's HTTP/2 connection: one task moves its bytes, and one task serves each request.

use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll};

use tollhouse_h2::ErrorCode as Http2Code;
use tollhouse_h2::driver::End;
use tollhouse_stdx::duration::to_ms;
use tollhouse_telemetry::ErrorCode;

use super::cancellations::{Conduct, Share};
use super::connection::{self, Driver, STREAMS_PER_TURN};
use super::head::Kind;
use super::session::{OpenedStream, Session};
use super::stream::Http2Stream;
use crate::answer::error;
use crate::connection::after::After;
use crate::connection::client::{Arrival, Client};
use crate::exchange::Exchange;
use crate::exchange::state::RequestState;
use crate::pipeline;
use crate::settings::DRAIN_IDLE_TIME;
use crate::stages::account;
use crate::transfer::pump::RequestPump;
use crate::turn;
use crate::worker::Worker;

/// Cancelled minus answered requests that a connection may have while its address is flooding.
const CANCELLED_ALLOWED_IN_A_FLOOD: u64 = 10;

/// First bytes of an HTTP/2 client, as far as the HTTP/1.1 parser reads them before it fails (RFC
/// 9113 §3.4).
pub(crate) const PREFACE_LINE: &[u8] = b"PRI * HTTP/2.0\r\n";

/// Serves a connection until it ends; its first bytes are in the client's buffer.
pub(crate) async fn connection(worker: &Rc<Worker>, client: &mut Client) -> After {
    worker.clock.refresh();
    let session = connection::server(worker, client.is_encrypted());
    worker.metrics.downstream_http2_connections.increment();
    client.requests = 0;
    let mut serving = Serving {
        worker,
        session: &session,
        driver: Driver::new(worker, &session),
        reported: Report::default(),
    };
    let end = poll_fn(|context| session.turn(context, |cx| serving.poll(cx, client))).await;
    // Requests still open are cancelled with the connection.
    let open_streams = session.with(|codec, _| codec.open_streams());
    serving.report_cancellations(worker.clock.now_ms(), client, open_streams);
    // The tasks of open streams stop; the connection ends after the last of them.
    session.with(|_, streams| streams.lose());
    poll_fn(|context| session.turn(context, |cx| serving.poll_last_streams(cx, client))).await;
    count(worker, &session);
    if matches!(end, End::Finished) { After::Linger } else { After::Close }
}

/// Connection of a client that is being served.
struct Serving<'a> {
    worker: &'a Rc<Worker>,
    session: &'a Rc<Session>,
    driver: Driver<'a>,
    /// Counts of the last report to the core's table of addresses.
    reported: Report,
}

/// Opened streams that wait for a later turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Waiting {
    None,
    Some,
}

/// Requests cancelled and answered since the connection began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Report {
    cancelled: u64,
    answered: u64,
}

impl Serving<'_> {
    /// Drives the connection; ready when it has ended.
    fn poll(&mut self, context: &mut Context<'_>, client: &mut Client) -> Poll<End> {
        let (worker, session) = (self.worker, self.session);
        let read = self.driver.read(context, &mut client.link);
        let read = match self.start_some(client) {
            Waiting::Some if read.is_pending() => turn::give_way(context),
            _ => read,
        };
        self.report_cancellations(worker.clock.now_ms(), client, 0);
        if read.is_ready() {
            return read;
        }
        let is_spent = client.requests >= worker.settings.limits.requests_per_connection;
        let is_draining = worker.is_draining();
        if is_draining || is_spent {
            // The codec drains once; open streams are still served (RFC 9113 §6.8).
            session.with(|codec, _| codec.drain());
        }
        let idle_time =
            if is_draining { DRAIN_IDLE_TIME } else { worker.settings.limits.idle_time };
        let timer = &client.timer;
        self.driver.write(context, &mut client.link, to_ms(idle_time), |at_ms| timer.arm(at_ms))
    }

    /// Starts the streams that have waited longest, at most `STREAMS_PER_TURN`.
    fn start_some(&self, client: &mut Client) -> Waiting {
        let oldest = || self.session.with(|_, streams| streams.opened.pop_front());
        for opened in std::iter::from_fn(oldest).take(STREAMS_PER_TURN) {
            client.requests += 1;
            start(self.worker, self.session, client, opened);
        }
        match self.session.with(|_, streams| streams.opened.is_empty()) {
            true => Waiting::None,
            false => Waiting::Some,
        }
    }

    /// Ready when the last stream of an ended connection has been served. Streams that no task
    /// serves yet are started too, because their requests appear in the log.
    fn poll_last_streams(&self, context: &mut Context<'_>, client: &mut Client) -> Poll<()> {
        if self.start_some(client) == Waiting::Some {
            return turn::give_way(context);
        }
        match self.session.with(|_, streams| streams.serves_any()) {
            true => Poll::Pending,
            false => Poll::Ready(()),
        }
    }

    /// Reports the requests that the client cancelled since the last report, and applies the
    /// resulting conduct. `lost` requests are cancelled by the end of the connection.
    fn report_cancellations(&mut self, now_ms: u64, client: &Client, lost: u32) {
        let (worker, session) = (self.worker, self.session);
        let (received, caused, refused, answered) = session.with(|codec, _| {
            let seen = codec.counters();
            (seen.resets_received, seen.resets_caused, seen.refused_streams, seen.completed_streams)
        });
        // Refused streams cost nothing: clients open many before they know the limit.
        let cancelled = received + caused.saturating_sub(refused) + u64::from(lost);
        let report = Report { cancelled, answered };
        let before = std::mem::replace(&mut self.reported, report);
        if before.cancelled == cancelled && worker.cancellations.is_empty() {
            return session.with(|_, streams| streams.conduct = Conduct::Usual);
        }
        let share = Share {
            cancelled: cancelled - before.cancelled,
            answered: report.answered - before.answered,
        };
        let conduct = worker.cancellations.report(client.peer.address.ip(), share, now_ms);
        // Other connections from that address continue if they cancel few requests.
        let own = cancelled.saturating_sub(report.answered);
        session.with(|codec, streams| {
            streams.conduct = conduct;
            if conduct == Conduct::Flooding && own > CANCELLED_ALLOWED_IN_A_FLOOD {
                let reason = "too many cancelled requests from this address";
                codec.close(Http2Code::ENHANCE_YOUR_CALM, reason);
            }
        });
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
        session.with(|_, streams| streams.attach(opened.stream, context.waker()));
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
    let seen = session.with(|codec, _| *codec.counters());
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
    if let Some(failure) = session.with(|codec, _| codec.failure())
        && failure.code != Http2Code::NO_ERROR
    {
        metrics.downstream_http2_connections_failed.increment();
        tracing::debug!(error = %failure, "an HTTP/2 connection of a client was closed");
    }
}

#[cfg(test)]
mod tests;
