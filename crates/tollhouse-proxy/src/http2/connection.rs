//! Task of a connection, to a client or to a node: moves its bytes, and ends it when it is idle, its
//! peer is gone, or a deadline of the protocol has passed.

use std::io::{self, IoSlice};
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use tollhouse_h2::driver::{End, Transport};
use tollhouse_h2::{Connection, ErrorCode as Http2Code};
use tollhouse_stdx::Random;

use super::limits;
use super::liveness::{Liveness, Look};
use super::session::{Session, Streams};
use crate::connection::buffer::{BUFFER_BYTES, BufferPool};
use crate::connection::link::Link;
use crate::settings::LINGER_TIME;
use crate::turn;
use crate::worker::Worker;

/// Bytes read in one turn: those of four reads. Fewer than another task may move, because the tasks
/// of all streams take turns for what is read here. Frames have at least nine bytes, so that this
/// bounds their number too.
const READ_BYTES_PER_TURN: usize = 4 * BUFFER_BYTES;

/// Number of a client's streams that begin in one turn. A beginning may open a connection to a node,
/// which costs a tenth of a millisecond. A client that opens all its streams at once begins them in
/// several turns, between which other connections are served.
pub(super) const STREAMS_PER_TURN: usize = 8;

/// Interval in milliseconds between checks of the protocol's deadlines.
const TICK_MS: u64 = 1000;

/// Creates the server side of a connection; its first bytes have not been processed yet.
pub(super) fn server(worker: &Worker, is_encrypted: bool) -> Rc<Session> {
    let (limits, now_ms) = (&worker.settings.limits, worker.clock.now_ms());
    let codec = Connection::server(limits::for_clients(limits), &limits.memory, now_ms);
    session(worker, codec, is_encrypted)
}

/// Creates the client side of a new connection.
pub(super) fn client(worker: &Worker, is_encrypted: bool) -> Rc<Session> {
    let (budget, now_ms) = (&worker.settings.limits.memory, worker.clock.now_ms());
    let codec = Connection::client(limits::for_nodes(), budget, now_ms);
    session(worker, codec, is_encrypted)
}

fn session(worker: &Worker, codec: Connection, is_encrypted: bool) -> Rc<Session> {
    let random = Random::seeded(worker.random_u64());
    let streams = Streams::new(worker.clock.now_ms(), random, is_encrypted);
    Rc::new(Session::new(codec, streams))
}

/// State of the task of one connection.
pub(super) struct Driver<'a> {
    worker: &'a Worker,
    session: &'a Session,
    started_ms: u64,
    /// Keeps track of PINGs, because gRPC calls may be silent for any time and their peer may be
    /// gone.
    liveness: Liveness,
    /// Time since which the connection has failed and only pending output is written.
    failed_since_ms: Option<u64>,
    /// Whether a stream was open since memory was last released.
    holds_memory: bool,
}

impl<'a> Driver<'a> {
    pub(super) fn new(worker: &'a Worker, session: &'a Session) -> Self {
        Self {
            worker,
            session,
            started_ms: worker.clock.now_ms(),
            liveness: Liveness::default(),
            failed_since_ms: None,
            holds_memory: true,
        }
    }

    /// Reads available bytes into the session; ready if the connection has ended with it. Yields
    /// after `READ_BYTES_PER_TURN`, and while opened streams wait for their turn.
    pub(super) fn read(&mut self, context: &mut Context<'_>, link: &mut Link) -> Poll<End> {
        let now_ms = self.worker.clock.refresh();
        self.session.with(|_, streams| streams.now_ms = now_ms);
        let mut socket = LinkSocket { link, buffers: &self.worker.buffers };
        let mut moved = 0;
        while moved < READ_BYTES_PER_TURN && !self.has_streams_for_a_turn() {
            match ready!(self.session.poll_read(context, &mut socket)) {
                Ok(bytes) => moved += bytes,
                // Pending output of the codec, such as GOAWAY, is still written.
                Err(End::Fault(_)) => return Poll::Pending,
                Err(end) => return Poll::Ready(end),
            }
        }
        // Without a bound, a fast peer would occupy the core.
        turn::give_way(context)
    }

    fn has_streams_for_a_turn(&self) -> bool {
        self.session.with(|_, streams| streams.opened.len() >= STREAMS_PER_TURN)
    }

    /// Checks the deadlines and writes pending output; ready if the connection has ended. Pending
    /// with the time in milliseconds at which the next deadline is checked, passed to `arm`.
    /// `idle_ms` is how long the connection may be idle.
    pub(super) fn write(
        &mut self,
        context: &mut Context<'_>,
        link: &mut Link,
        idle_ms: u64,
        arm: impl FnOnce(u64),
    ) -> Poll<End> {
        let now_ms = self.worker.clock.now_ms();
        // Deadlines are checked before the write, so that the frames they cause (PING, GOAWAY) are
        // included.
        self.look_at_deadlines(now_ms, idle_ms);
        if self.liveness.look(self.session, now_ms) == Look::Dead {
            return Poll::Ready(End::Closed);
        }
        let mut socket = LinkSocket { link, buffers: &self.worker.buffers };
        if let Poll::Ready(Err(end)) = self.session.poll_write(context, &mut socket) {
            return Poll::Ready(end);
        }
        // A peer that does not even read the final frames is not waited for.
        let linger_ms = LINGER_TIME.as_millis() as u64;
        if self.failed_since_ms.is_some_and(|since_ms| now_ms - since_ms >= linger_ms) {
            return Poll::Ready(End::Closed);
        }
        arm(self.next_look_ms(now_ms, idle_ms));
        Poll::Pending
    }

    fn look_at_deadlines(&mut self, now_ms: u64, idle_ms: u64) {
        // The end by a deadline is reported with the next write.
        let _ = self.session.tick(now_ms);
        let Self { holds_memory, failed_since_ms, .. } = self;
        self.session.with(|codec, streams| {
            streams.release_abandoned(codec);
            match (codec.open_streams(), streams.idle_since_ms) {
                (0, None) => streams.idle_since_ms = Some(now_ms),
                (0, Some(since_ms)) if now_ms >= since_ms.saturating_add(idle_ms) => {
                    codec.close(Http2Code::NO_ERROR, "idle");
                }
                // Released after a second of idleness, because the next request of a busy
                // connection would have to allocate it again.
                (0, Some(since_ms)) if *holds_memory && now_ms >= since_ms + TICK_MS => {
                    streams.release_memory(codec);
                    *holds_memory = false;
                }
                (0, Some(_)) => {}
                _ => {
                    streams.idle_since_ms = None;
                    *holds_memory = true;
                }
            }
            if codec.failure().is_some() {
                failed_since_ms.get_or_insert(now_ms);
            }
        });
    }

    /// Returns the time of the next deadline check in milliseconds; rare while the connection is
    /// idle.
    fn next_look_ms(&self, now_ms: u64, idle_ms: u64) -> u64 {
        let (settings_ms, is_suspect, idle_since_ms) = self.session.with(|codec, streams| {
            let is_suspect = streams.signs(codec).is_suspect;
            (codec.limits().settings_ack_ms, is_suspect, streams.idle_since_ms)
        });
        // By this time the peer must have acknowledged the settings.
        let is_settled = now_ms.saturating_sub(self.started_ms) > settings_ms + TICK_MS;
        let Some(since_ms) = idle_since_ms.filter(|_| self.failed_since_ms.is_none()) else {
            return now_ms + TICK_MS;
        };
        let idle_end_ms = since_ms.saturating_add(idle_ms);
        let is_at_rest = is_settled && !is_suspect && !self.holds_memory;
        if is_at_rest { idle_end_ms } else { idle_end_ms.min(now_ms + TICK_MS) }
    }
}

/// Socket of a connection with its pooled read buffer.
struct LinkSocket<'a> {
    link: &'a mut Link,
    buffers: &'a BufferPool,
}

impl Transport for LinkSocket<'_> {
    fn poll_read<T>(
        &mut self,
        context: &mut Context<'_>,
        take: impl FnOnce(&[u8]) -> T,
    ) -> Poll<io::Result<T>> {
        // The first bytes may have been read before the session existed.
        if self.link.buffer.is_empty() {
            ready!(self.link.poll_fill(context, self.buffers))?;
        }
        let bytes = self.link.buffer.filled();
        let (taken, length) = (take(bytes), bytes.len());
        self.link.buffer.consume(length);
        Poll::Ready(Ok(taken))
    }

    fn poll_write(&mut self, context: &mut Context<'_>, output: &[u8]) -> Poll<io::Result<usize>> {
        self.link.stream.poll_write(context, &[IoSlice::new(output)])
    }

    fn poll_flush(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.link.stream.poll_flush(context)
    }
}
