//! Moves the bytes of one connection to a node, and ends it in time.

use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll};

use tollhouse_h2::ErrorCode as Http2Code;
use tollhouse_stdx::wheel::Timer;

use super::shared::NodeConnection;
use crate::http2::connection::{self, Moved};
use crate::http2::liveness::{Liveness, Look};
use crate::settings::LINGER_TIME;
use crate::worker::Worker;
use crate::worker::pools::{PoolKey, UpstreamConnection};

/// How often the protocol's own deadlines are looked at, in milliseconds.
const TICK_MS: u64 = 1000;

/// Serves it to its end.
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
    // Whoever still waits for an answer is not kept waiting.
    node.session.lose();
    worker.node_connections.remove(&key, &node);
    socket.link.stream.try_say_end();
    socket.link.release_buffer(&worker.buffers);
    if let Some(failure) = node.session.with_codec(|codec| codec.failure())
        && failure.code != Http2Code::NO_ERROR
    {
        tracing::debug!(node = %key.address, error = %failure, "a connection of http/2 to a node was ended");
    }
}

struct Driving<'a> {
    worker: &'a Worker,
    node: &'a NodeConnection,
    timer: Timer,
    liveness: Liveness,
    started_ms: u64,
    /// Since when it is over but for what is still to be written.
    failed_since_ms: Option<u64>,
    /// Whether it has had a stream since it last gave back what it need not hold without one.
    holds_memory: bool,
}

impl Driving<'_> {
    /// Ready at the connection's end.
    fn poll(&mut self, context: &mut Context<'_>, socket: &mut UpstreamConnection) -> Poll<()> {
        let (worker, session) = (self.worker, &*self.node.session);
        session.attach(context.waker());
        self.timer.set_waker(context.waker());
        let mut opened = Vec::new();
        let read = connection::read(context, worker, session, &mut socket.link, &mut opened);
        if read == Moved::Lost {
            return Poll::Ready(());
        }
        session.wake_ready();
        let now_ms = worker.clock.now_ms();
        let is_alive = self.look_at_deadlines(now_ms);
        match connection::write(context, session, &mut socket.link) {
            Moved::Waiting if is_alive => {}
            _ => return Poll::Ready(()),
        }
        self.timer.arm(self.next_look_ms(now_ms));
        Poll::Pending
    }

    /// Begins what it is time for; `false` where the node is gone.
    fn look_at_deadlines(&mut self, now_ms: u64) -> bool {
        let (node, session) = (self.node, &*self.node.session);
        let failed = session.tick(now_ms).is_err();
        session.look_at_abandoned();
        match (session.is_idle(), node.idle_since_ms.get()) {
            (true, None) => node.idle_since_ms.set(Some(now_ms)),
            (true, Some(since_ms)) if now_ms >= since_ms.saturating_add(self.idle_ms()) => {
                session.with_codec(|codec| codec.close(Http2Code::NO_ERROR, "idle"));
            }
            // Not at once: the next request would have to take it all again.
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
        // A node that takes not even what is said at the end is not waited for.
        let linger_ms = LINGER_TIME.as_millis() as u64;
        self.failed_since_ms.is_none_or(|since_ms| now_ms - since_ms < linger_ms)
    }

    /// How long it may be without a stream, in milliseconds; 0 is without limit, as in nginx.
    fn idle_ms(&self) -> u64 {
        if self.worker.is_draining() {
            return 0;
        }
        match u64::try_from(self.node.bounds.idle_timeout.as_millis()) {
            Ok(0) | Err(_) => u64::MAX,
            Ok(idle_ms) => idle_ms,
        }
    }

    /// When to look at deadlines next: seldom while nothing is under way.
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
