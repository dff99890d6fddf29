//! Work of a core outside requests: timers, idle pools and the log buffer.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::worker::Worker;

/// Advances the timer wheel; sleeps while no deadline is near.
pub(super) async fn tick(worker: Rc<Worker>) {
    let mut sleep = pin!(sleep(Duration::ZERO));
    poll_fn::<(), _>(|context| {
        worker.wheel.set_ticker(context.waker());
        loop {
            let now_ms = worker.clock.refresh();
            worker.wheel.advance(now_ms);
            let Some(wait_ms) = worker.wheel.next_tick(now_ms) else { return Poll::Pending };
            sleep.as_mut().reset(Instant::now() + Duration::from_millis(wait_ms.max(1)));
            if sleep.as_mut().poll(context).is_pending() {
                return Poll::Pending;
            }
        }
    })
    .await;
}

/// Interval between two runs of the housekeeping.
const INTERVAL: Duration = Duration::from_secs(1);

/// Trims idle pools and counts, refreshes the snapshot and flushes the log, once a second.
pub(super) async fn look_round(worker: Rc<Worker>) {
    let mut interval = tokio::time::interval(INTERVAL);
    loop {
        interval.tick().await;
        let now_ms = worker.clock.refresh();
        worker.pools.sweep(now_ms);
        worker.cancellations.sweep(now_ms);
        worker.metrics.nodes().sweep(now_ms);
        worker.metrics.upstream_connections_dead.add(worker.pools.take_found_dead());
        worker.snapshot.refresh();
        worker.flush_log();
    }
}
