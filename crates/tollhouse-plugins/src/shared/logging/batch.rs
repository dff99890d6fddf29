//! Delivers entries in batches: by size, by age, after a pause; tries again, and drops what cannot
//! be delivered. Requests never wait for it.
//!
//! One task per conf, on the runtime for background work, which starts with the first entry and
//! ends, after a last delivery, when the conf is gone.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};

use tollhouse_plugin::QueueGauge;
use tollhouse_plugin::queues::QueueOrigin;

use super::BatchFields;
use super::pending::Pending;
use crate::shared::http_client::{ClientError, TargetError};

/// Why a batch was not delivered.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DeliveryError {
    /// The conf names a server by no address.
    #[error(transparent)]
    Address(#[from] TargetError),
    /// The server gave no answer.
    #[error(transparent)]
    Unanswered(#[from] ClientError),
    /// It did not take the batch.
    #[error("server returned status code[{0}]")]
    Status(u16),
}

pub(crate) trait Delivery: Send + Sync + 'static {
    /// What a batch consists of.
    type Entry: Send + Sync + 'static;

    /// Delivers a batch, or says why it could not.
    fn deliver(
        &self,
        batch: &[Self::Entry],
    ) -> impl Future<Output = Result<(), DeliveryError>> + Send;
}

/// Longest time that is waited for anything, in seconds: a year. More would be beyond what a clock holds.
const LONGEST_S: u64 = 365 * 24 * 60 * 60;

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count.min(LONGEST_S))
}

/// When batches go out.
#[derive(Debug, Clone)]
struct Settings {
    name: String,
    tries_max: u64,
    retry_delay: Duration,
    age_max: Duration,
    pause_max: Duration,
    entries_max: usize,
}

impl Settings {
    fn from_fields(fields: &BatchFields) -> Self {
        let size = usize::try_from(fields.batch_max_size).unwrap_or(usize::MAX);
        Self {
            name: fields.name.clone(),
            tries_max: fields.max_retry_count.saturating_add(1),
            retry_delay: seconds(fields.retry_delay),
            age_max: seconds(fields.buffer_duration),
            pause_max: seconds(fields.inactive_timeout),
            entries_max: size,
        }
    }
}

/// Takes entries of requests, and sees to it that they are delivered.
pub(crate) struct Batches<D: Delivery> {
    settings: Settings,
    delivery: Arc<D>,
    background: Option<Handle>,
    pending: Arc<Pending>,
    queue: OnceLock<mpsc::UnboundedSender<Weighed<D::Entry>>>,
}

/// An entry and its size.
struct Weighed<E> {
    entry: E,
    bytes: usize,
}

impl<D: Delivery> Batches<D> {
    /// At most `pending_max` entries wait; nothing is delivered without a runtime.
    pub(crate) fn new(
        fields: &BatchFields,
        delivery: D,
        background: Option<Handle>,
        pending_max: usize,
    ) -> Self {
        Self {
            settings: Settings::from_fields(fields),
            delivery: Arc::new(delivery),
            background,
            pending: Arc::new(Pending::new(pending_max)),
            queue: OnceLock::new(),
        }
    }

    /// What waits, for metrics.
    pub(crate) fn gauge(&self) -> Arc<dyn QueueGauge> {
        Arc::<Pending>::clone(&self.pending)
    }

    /// Notes the request of an entry, if it is the first.
    pub(crate) fn note_origin(&self, origin: impl FnOnce() -> QueueOrigin) {
        self.pending.note_origin(origin);
    }

    /// Puts an entry of `bytes` bytes into the next batch; drops it where too many wait already.
    pub(crate) fn push(&self, entry: D::Entry, bytes: usize) {
        let Some(background) = &self.background else { return };
        if let Err(full) = self.pending.admit(bytes) {
            if full.is_worth_a_line() {
                let (name, dropped) = (&self.settings.name, full.dropped);
                tracing::warn!(name, dropped, "too many log entries wait; entries are dropped");
            }
            return;
        }
        // What the queue holds is bounded by what is admitted.
        let queue = self.queue.get_or_init(|| {
            let (sender, receiver) = mpsc::unbounded_channel();
            let (settings, pending) = (self.settings.clone(), Arc::clone(&self.pending));
            background.spawn(run(receiver, settings, Arc::clone(&self.delivery), pending));
            sender
        });
        if queue.send(Weighed { entry, bytes }).is_err() {
            self.pending.release(1, bytes);
        }
    }
}

/// A batch in the making.
struct Batch<E> {
    entries: Vec<E>,
    bytes: usize,
    /// When the first entry came, and the last.
    span: Option<(Instant, Instant)>,
}

impl<E> Batch<E> {
    fn push(&mut self, weighed: Weighed<E>) {
        let now = Instant::now();
        self.span = Some((self.span.map_or(now, |(first, _)| first), now));
        self.entries.push(weighed.entry);
        self.bytes += weighed.bytes;
    }

    /// When it goes out if nothing happens.
    fn deadline(&self, settings: &Settings) -> Option<Instant> {
        let (first, last) = self.span?;
        Some((first + settings.age_max).min(last + settings.pause_max))
    }
}

async fn run<D: Delivery>(
    mut receiver: mpsc::UnboundedReceiver<Weighed<D::Entry>>,
    settings: Settings,
    delivery: Arc<D>,
    pending: Arc<Pending>,
) {
    let mut batch = Batch { entries: Vec::new(), bytes: 0, span: None };
    let mut is_open = true;
    while is_open {
        let received = match batch.deadline(&settings) {
            None => Ok(receiver.recv().await),
            Some(deadline) => timeout_at(deadline, receiver.recv()).await,
        };
        match received {
            Ok(Some(entry)) => {
                batch.push(entry);
                // Under a steady flow the wait above never times out, so that the age is looked at
                // here too.
                let is_due = batch.deadline(&settings).is_some_and(|due| due <= Instant::now());
                if batch.entries.len() < settings.entries_max && !is_due {
                    continue;
                }
            }
            // The conf is gone; what it has gathered is still delivered.
            Ok(None) => is_open = false,
            Err(_) => {}
        }
        if !batch.entries.is_empty() {
            deliver(&batch.entries, &settings, &*delivery).await;
            pending.release(batch.entries.len(), batch.bytes);
            batch = Batch { entries: Vec::new(), bytes: 0, span: None };
        }
    }
}

/// Tries until it works or the tries are used up.
async fn deliver<D: Delivery>(entries: &[D::Entry], settings: &Settings, delivery: &D) {
    let (name, count) = (settings.name.as_str(), entries.len());
    for attempt in 1..=settings.tries_max {
        let Err(error) = delivery.deliver(entries).await else { return };
        let error = error.to_string();
        tracing::warn!(name, attempt, error, "a batch of log entries was not delivered");
        if attempt < settings.tries_max {
            tokio::time::sleep(settings.retry_delay).await;
        }
    }
    tracing::warn!(name, entries = count, "a batch of log entries is dropped");
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// Notes batches; fails as often as told.
    struct Notes {
        batches: mpsc::UnboundedSender<Vec<u32>>,
        failures: Mutex<u32>,
    }

    impl Delivery for Notes {
        type Entry = u32;

        async fn deliver(&self, batch: &[u32]) -> Result<(), DeliveryError> {
            // Nobody listens any more when the test is over.
            let _ = self.batches.send(batch.to_vec());
            let mut failures = self.failures.lock().expect("no test panicked here");
            match *failures {
                0 => Ok(()),
                _ => {
                    *failures -= 1;
                    Err(DeliveryError::Status(503))
                }
            }
        }
    }

    fn fields(change: impl FnOnce(&mut BatchFields)) -> BatchFields {
        let mut fields: BatchFields = serde_json::from_str("{}").expect("defaults");
        change(&mut fields);
        fields
    }

    fn batches(
        fields: &BatchFields,
        failures: u32,
        pending_max: usize,
    ) -> (Batches<Notes>, mpsc::UnboundedReceiver<Vec<u32>>) {
        let (sender, receiver) = mpsc::unbounded_channel();
        let notes = Notes { batches: sender, failures: Mutex::new(failures) };
        (Batches::new(fields, notes, Some(Handle::current()), pending_max), receiver)
    }

    #[tokio::test(start_paused = true)]
    async fn a_full_batch_goes_out_at_once_the_rest_after_a_pause() {
        let (batches, mut sent) = batches(&fields(|f| f.batch_max_size = 2), 0, 10);
        let start = Instant::now();
        (1..=3).for_each(|entry| batches.push(entry, 1));
        assert_eq!(sent.recv().await, Some(vec![1, 2]));
        assert_eq!(start.elapsed(), Duration::ZERO);
        assert_eq!(sent.recv().await, Some(vec![3]));
        assert_eq!(start.elapsed().as_secs(), 5);
    }

    #[tokio::test(start_paused = true)]
    async fn no_time_that_a_conf_may_have_ends_the_delivery() {
        let endless = fields(|f| {
            (f.batch_max_size, f.max_retry_count) = (2, 1);
            (f.buffer_duration, f.inactive_timeout) = (u64::MAX, u64::MAX);
            f.retry_delay = u64::MAX;
        });
        let (batches, mut sent) = batches(&endless, 1, 10);
        for entry in 1..=4 {
            batches.push(entry, 1);
            tokio::task::yield_now().await;
        }
        assert_eq!(sent.recv().await, Some(vec![1, 2]));
        assert_eq!(sent.recv().await, Some(vec![1, 2]), "tried again after a year");
        assert_eq!(sent.recv().await, Some(vec![3, 4]));
    }

    #[tokio::test(start_paused = true)]
    async fn a_batch_goes_out_when_it_is_old_enough_however_steadily_it_grows() {
        let (batches, mut sent) = batches(&fields(|f| f.buffer_duration = 7), 0, 10);
        for entry in 0..4 {
            batches.push(entry, 1);
            tokio::time::sleep(Duration::from_secs(2)).await;
        }
        assert_eq!(sent.recv().await, Some(vec![0, 1, 2, 3]));
    }

    #[tokio::test(start_paused = true)]
    async fn a_failed_batch_is_tried_again_and_then_dropped() {
        let retrying = fields(|f| (f.batch_max_size, f.max_retry_count, f.retry_delay) = (1, 1, 3));
        let (batches, mut sent) = batches(&retrying, 3, 10);
        let start = Instant::now();
        (1..=2).for_each(|entry| batches.push(entry, 1));
        for (entry, seconds) in [(1, 0), (1, 3), (2, 3), (2, 6)] {
            assert_eq!(sent.recv().await, Some(vec![entry]));
            assert_eq!(start.elapsed().as_secs(), seconds);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn entries_over_the_bound_are_dropped() {
        let (batches, mut sent) = batches(&fields(|_| {}), 0, 2);
        (1..=3).for_each(|entry| batches.push(entry, 1));
        assert_eq!(sent.recv().await, Some(vec![1, 2]));
        // The room is free again once a batch is delivered.
        tokio::task::yield_now().await;
        batches.push(4, 1);
        assert_eq!(sent.recv().await, Some(vec![4]));
    }

    #[tokio::test(start_paused = true)]
    async fn what_waits_goes_out_when_the_conf_is_gone() {
        let (batches, mut sent) = batches(&fields(|_| {}), 0, 10);
        batches.push(1, 1);
        drop(batches);
        let start = Instant::now();
        assert_eq!(sent.recv().await, Some(vec![1]));
        assert_eq!(start.elapsed(), Duration::ZERO);
    }
}
