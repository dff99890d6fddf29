//! Driver of one connection to a node: moves its bytes and applies its timeouts.

use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll};

use tollhouse_h2::ErrorCode as Http2Code;
use tollhouse_stdx::wheel::Timer;

use super::shared::NodeConnection;
use crate::http2::connection::{self, Progress};
use crate::http2::liveness::{Liveness, Look};
use crate::settings::LINGER_TIME;
use crate::worker::Worker;
use crate::worker::pools::{PoolKey, UpstreamConnection};

/// Interval in milliseconds between checks of the protocol's deadlines.
const TICK_MS: u64 = 1000;

/// Serves a connection until it ends.
pub(super) async fn run(
    worker: Rc<Worker>,
    key: PoolKey,
    node: Rc<NodeConnection>,
    mut socket: Box<UpstreamConnection>,
) {
    let timer = worker.wheel.timer();
    let started_ms = worker.clock.now_ms();
    let mut driving = Driving {
        worker: &worker,
        node: &node,
        timer,
        liveness: Liveness::default(),
        started_ms,
        failed_since_ms: None,
        holds_memory: true,
    };
    poll_fn(|context| driving.poll(context, &mut socket)).await;
    // Streams that still wait for a response fail now.
    node.session.lose();
    worker.node_connections.remove(&key, &node);
    socket.link.stream.try_say_end();
    socket.link.release_buffer(&worker.buffers);
    if let Some(failure) = node.session.with_codec(|codec| codec.failure())
        && failure.code != Http2Code::NO_ERROR
    {
        tracing::debug!(node = %key.address, error = %failure, "an HTTP/2 connection to a node was closed");
    }
}

struct Driving<'a> {
    worker: &'a Worker,
    node: &'a NodeConnection,
    timer: Timer,
    liveness: Liveness,
    started_ms: u64,
    /// Time since which the connection has failed and only pending output is written.
    failed_since_ms: Option<u64>,
    /// Whether a stream was open since memory was last released.
    holds_memory: bool,
}

impl Driving<'_> {
    /// Drives the connection; ready when it has ended.
    fn poll(&mut self, context: &mut Context<'_>, socket: &mut UpstreamConnection) -> Poll<()> {
        let (worker, session) = (self.worker, &*self.node.session);
        session.attach(context.waker());
        self.timer.set_waker(context.waker());
        let mut opened = Vec::new();
        let read = connection::read(context, worker, session, &mut socket.link, &mut opened);
        if read == Progress::Lost {
            return Poll::Ready(());
        }
        session.wake_ready();
        let now_ms = worker.clock.now_ms();
        let is_alive = self.look_at_deadlines(now_ms);
        match connection::write(context, session, &mut socket.link) {
            Progress::Waiting if is_alive => {}
            _ => return Poll::Ready(()),
        }
        self.timer.arm(self.next_look_ms(now_ms));
        Poll::Pending
    }

    /// Starts whatever is due, such as an idle close or a PING; returns `false` if the node is
    /// gone.
    fn look_at_deadlines(&mut self, now_ms: u64) -> bool {
        let (node, session) = (self.node, &*self.node.session);
        let failed = session.tick(now_ms).is_err();
        session.look_at_abandoned();
        match (session.is_idle(), node.idle_since_ms.get()) {
            (true, None) => node.idle_since_ms.set(Some(now_ms)),
            (true, Some(since_ms)) if now_ms >= since_ms.saturating_add(self.idle_ms()) => {
                session.with_codec(|codec| codec.close(Http2Code::NO_ERROR, "idle"));
            }
            // Released after a second of idleness, because the next request would have to allocate
            // it again.
            (true, Some(since_ms)) if self.holds_memory && now_ms >= since_ms + TICK_MS => {
                session.release_memory();
                self.holds_memory = false;
            }
            (true, Some(_)) => {}
            (false, _) => {
                node.idle_since_ms.set(None);
                self.holds_memory = true;
            }
        }
        if self.liveness.look(session, now_ms) == Look::Dead {
            return false;
        }
        if failed || session.with_codec(|codec| codec.failure().is_some()) {
            self.failed_since_ms.get_or_insert(now_ms);
        }
        // A node that does not read the final frames is not waited for.
        let linger_ms = LINGER_TIME.as_millis() as u64;
        self.failed_since_ms.is_none_or(|since_ms| now_ms - since_ms < linger_ms)
    }

    /// Idle timeout in milliseconds; a setting of 0 disables it, as in nginx.
    fn idle_ms(&self) -> u64 {
        if self.worker.is_draining() {
            return 0;
        }
        match u64::try_from(self.node.bounds.idle_timeout.as_millis()) {
            Ok(0) | Err(_) => u64::MAX,
            Ok(idle_ms) => idle_ms,
        }
    }

    /// Time of the next deadline check in milliseconds; rare while the connection is idle.
    fn next_look_ms(&self, now_ms: u64) -> u64 {
        let settings_ms = self.node.session.with_codec(|codec| codec.limits().settings_ack_ms);
        let is_settled = now_ms.saturating_sub(self.started_ms) > settings_ms + TICK_MS;
        let is_asked = self.node.session.signs().is_suspect;
        match self.node.idle_since_ms.get() {
            Some(since_ms)
                if is_settled
                    && !is_asked
                    && !self.holds_memory
                    && self.failed_since_ms.is_none() =>
            {
                since_ms.saturating_add(self.idle_ms())
            }
            _ => now_ms + TICK_MS,
        }
    }
}
