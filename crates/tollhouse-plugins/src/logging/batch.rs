//! Delivery of entries in batches: by size, by age, or after a pause. Failed batches are retried
//! and finally dropped. Requests never wait for a delivery.
//!
//! Each conf has one task on the background runtime. It starts with the first entry and ends, after
//! a last delivery, when the conf is dropped.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout_at};

use tollhouse_plugin::queues::QueueOrigin;
use tollhouse_plugin::{QueueGauge, Queues, Services};
use tollhouse_stdx::LogLimit;

use super::BatchFields;
use super::pending::{EntryKind, Pending};
use crate::http_client::{ClientError, TargetError};
use crate::kafka::KafkaError;

/// Shortest time between two log messages about failures, because a server that is down fails every
/// batch.
const FAILURES_SAID_EVERY: Duration = Duration::from_secs(10);

/// Why a batch was not delivered.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DeliveryError {
    #[error(transparent)]
    Address(#[from] TargetError),
    #[error(transparent)]
    Unanswered(#[from] ClientError),
    /// The server answered the batch with this status.
    #[error("server returned status code[{0}]")]
    Status(u16),
    /// The server answered the batch with this status and text.
    #[error("server returned status code[{status}]: {reason:?}")]
    Refused { status: u16, reason: String },
    /// The server accepted the request and refused some of its entries.
    #[error("the server refused {entries} entries: {reason:?}")]
    PartlyRefused { entries: usize, reason: String },
    #[error("no server is configured")]
    NoServer,
    /// The server that issues access tokens did not issue one.
    #[error("failed to get an access token: {0}")]
    Token(String),
    /// The peer of a socket did not take the batch.
    #[error("failed to send to {peer}: {error}")]
    Socket { peer: String, error: std::io::Error },
    /// The brokers refused the batch.
    #[error(transparent)]
    Kafka(#[from] KafkaError),
    /// The server does not take the batch now.
    #[error("{reason}; next try in {} ms", wait.as_millis())]
    Later { reason: String, wait: Duration },
    /// The server will never take the batch.
    #[error("{0}")]
    Rejected(String),
}

impl DeliveryError {
    /// Wait before a retry, if the failure says one.
    fn wait(&self) -> Option<Duration> {
        match self {
            Self::Later { wait, .. } => Some(*wait),
            _ => None,
        }
    }
}

/// Failed delivery of a batch, of which a part may have been delivered.
#[derive(Debug)]
pub(crate) struct Failure {
    /// Number of entries at the front that need no retry.
    pub taken: usize,
    /// Number of these that are lost, because no server accepts them.
    pub lost: usize,
    pub error: DeliveryError,
}

impl From<DeliveryError> for Failure {
    fn from(error: DeliveryError) -> Self {
        Self { taken: 0, lost: 0, error }
    }
}

/// Runtime of deliveries, and registry of queues for metrics.
#[derive(Debug, Clone, Default)]
pub(crate) struct Outlet {
    /// Background runtime; without one, nothing is delivered.
    pub background: Option<Handle>,
    pub queues: Arc<Queues>,
}

impl Outlet {
    pub(crate) fn from_services(services: &Services) -> Self {
        let queues = Arc::clone(&services.queues);
        Self { background: services.background.clone(), queues }
    }
}

/// Name and bound of a queue.
#[derive(Debug, Clone, Copy)]
pub(crate) struct QueueOptions<'q> {
    /// Object under which metrics show the queue's length.
    pub(crate) owner: &'q str,
    /// Largest number of pending entries.
    pub(crate) pending_max: usize,
}

pub(crate) trait Delivery: Send + Sync + 'static {
    /// Type of the entries in a batch.
    type Entry: Send + Sync + 'static;

    /// Kind of the entries, under which losses are counted.
    const KIND: EntryKind = EntryKind::Log;

    /// Number of log entries or spans that an entry holds.
    fn count(_entry: &Self::Entry) -> usize {
        1
    }

    /// Delivers a batch. The error tells how many entries were delivered.
    fn deliver(&self, batch: &[Self::Entry]) -> impl Future<Output = Result<(), Failure>> + Send;
}

/// Upper bound of all times, in seconds: one year, which every clock can add.
const LONGEST_S: u64 = 365 * 24 * 60 * 60;

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count.min(LONGEST_S))
}

/// Timing and size of batches, from the conf.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub name: String,
    pub tries_max: u64,
    /// Wait before a retry, unless the failure says another one.
    pub retry_delay: Duration,
    pub age_max: Duration,
    pub pause_max: Duration,
    pub entries_max: usize,
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

/// Queue of entries for one conf's destination.
pub(crate) struct Batches<D: Delivery> {
    settings: Settings,
    delivery: Arc<D>,
    background: Option<Handle>,
    pending: Arc<Pending>,
    queue: OnceLock<mpsc::UnboundedSender<Message<D::Entry>>>,
}

enum Message<E> {
    Entry(Weighed<E>),
    /// Deliver what is collected now, then answer.
    Flush(oneshot::Sender<()>),
}

/// Entry with its size in bytes.
struct Weighed<E> {
    entry: E,
    bytes: usize,
    count: usize,
}

impl<D: Delivery> Batches<D> {
    pub(crate) fn new(
        fields: &BatchFields,
        delivery: D,
        outlet: Outlet,
        options: QueueOptions<'_>,
    ) -> Self {
        Self::with_settings(Settings::from_fields(fields), delivery, outlet, options)
    }

    /// Returns a queue whose timing no conf has.
    pub(crate) fn with_settings(
        settings: Settings,
        delivery: D,
        outlet: Outlet,
        QueueOptions { owner, pending_max }: QueueOptions<'_>,
    ) -> Self {
        let pending = Pending::new(pending_max, Arc::clone(&outlet.queues)).with_kind(D::KIND);
        let pending = Arc::new(pending);
        let gauge: Arc<dyn QueueGauge> = Arc::<Pending>::clone(&pending);
        outlet.queues.show(&settings.name, owner, &gauge);
        Self {
            settings,
            delivery: Arc::new(delivery),
            background: outlet.background,
            pending,
            queue: OnceLock::new(),
        }
    }

    /// Records the request of the first entry, as the origin of the queue.
    pub(crate) fn note_origin(&self, origin: impl FnOnce() -> QueueOrigin) {
        self.pending.note_origin(origin);
    }

    /// Adds an entry of `bytes` bytes to the next batch; drops it if the queue is full.
    pub(crate) fn push(&self, entry: D::Entry, bytes: usize) {
        let Some(background) = &self.background else { return };
        let count = D::count(&entry);
        if let Err(full) = self.pending.admit_many(count, bytes) {
            if full.is_worth_a_line() {
                let (name, dropped) = (&self.settings.name, full.dropped);
                tracing::warn!(name, dropped, "too many log entries wait; entries are dropped");
            }
            return;
        }
        // `pending` bounds the queue.
        let queue = self.queue.get_or_init(|| {
            let (sender, receiver) = mpsc::unbounded_channel();
            let (settings, pending) = (self.settings.clone(), Arc::clone(&self.pending));
            background.spawn(run(receiver, settings, Arc::clone(&self.delivery), pending));
            sender
        });
        if queue.send(Message::Entry(Weighed { entry, bytes, count })).is_err() {
            self.pending.release(count, bytes);
        }
    }
}

impl<D: Delivery> Batches<D> {
    /// Delivers what is waiting without collecting more, and waits for the end of that delivery.
    pub(crate) async fn flush(&self) {
        let (done, is_done) = oneshot::channel();
        if let Some(queue) = self.queue.get()
            && queue.send(Message::Flush(done)).is_ok()
        {
            // The task ends without an answer if the runtime does.
            let _ = is_done.await;
        }
    }
}

/// Batch to which entries are still added.
struct Batch<E> {
    entries: Vec<E>,
    bytes: usize,
    /// Number of log entries or spans that the entries hold.
    count: usize,
    /// Arrival of the first and the last entry.
    span: Option<(Instant, Instant)>,
}

impl<E> Batch<E> {
    fn new() -> Self {
        Self { entries: Vec::new(), bytes: 0, count: 0, span: None }
    }

    fn push(&mut self, weighed: Weighed<E>) {
        let now = Instant::now();
        self.span = Some((self.span.map_or(now, |(first, _)| first), now));
        self.entries.push(weighed.entry);
        self.bytes += weighed.bytes;
        self.count += weighed.count;
    }

    /// Returns the time at which the batch is sent if no further entry arrives; `None` if it is
    /// empty.
    fn deadline(&self, settings: &Settings) -> Option<Instant> {
        let (first, last) = self.span?;
        Some((first + settings.age_max).min(last + settings.pause_max))
    }
}

async fn run<D: Delivery>(
    mut receiver: mpsc::UnboundedReceiver<Message<D::Entry>>,
    settings: Settings,
    delivery: Arc<D>,
    pending: Arc<Pending>,
) {
    let mut batch = Batch::new();
    let mut voice = FailureLog::new();
    let mut is_open = true;
    let mut flushed: Option<oneshot::Sender<()>> = None;
    while is_open {
        let received = match batch.deadline(&settings) {
            None => Ok(receiver.recv().await),
            Some(deadline) => timeout_at(deadline, receiver.recv()).await,
        };
        match received {
            Ok(Some(Message::Entry(entry))) => {
                batch.push(entry);
                // In a steady flow the wait above never times out, so the age must be checked here
                // too.
                let is_due = batch.deadline(&settings).is_some_and(|due| due <= Instant::now());
                if batch.count < settings.entries_max && !is_due {
                    continue;
                }
            }
            Ok(Some(Message::Flush(done))) => flushed = Some(done),
            // The conf was dropped; the collected entries are still delivered.
            Ok(None) => is_open = false,
            Err(_) => {}
        }
        if !batch.entries.is_empty() {
            let lost = deliver(&batch.entries, &settings, &*delivery, &mut voice).await;
            pending.lose(lost);
            pending.release(batch.count, batch.bytes);
            batch = Batch::new();
        }
        if let Some(done) = flushed.take() {
            // The caller may have given up.
            let _ = done.send(());
        }
    }
}

/// Sends a batch until it succeeds or the retries are used up. They start again whenever an entry
/// is accepted. Returns the number of log entries or spans that are lost.
async fn deliver<D: Delivery>(
    entries: &[D::Entry],
    settings: &Settings,
    delivery: &D,
    voice: &mut FailureLog,
) -> usize {
    let (mut left, mut lost, mut attempt) = (entries, 0, 1);
    loop {
        let Err(failure) = delivery.deliver(left).await else { return lost };
        let error = failure.error.to_string();
        voice.failed(&settings.name, attempt, &error);
        let (taken, rest) = left.split_at_checked(failure.taken).unwrap_or((left, &[]));
        let lost_now = taken.iter().rev().take(failure.lost).map(D::count).sum();
        lost += lost_now;
        voice.lost(&settings.name, lost_now, &error);
        left = rest;
        if left.is_empty() {
            return lost;
        }
        // After a lost entry, the server is up and the obstacle is gone, so the rest is sent
        // without a wait.
        if failure.lost == 0 {
            if failure.taken > 0 {
                attempt = 1;
            }
            if attempt >= settings.tries_max {
                let rest = left.iter().map(D::count).sum();
                voice.lost(&settings.name, rest, &error);
                return lost + rest;
            }
            attempt += 1;
            tokio::time::sleep(failure.error.wait().unwrap_or(settings.retry_delay)).await;
        }
    }
}

/// Rate-limited log messages about failures.
struct FailureLog {
    failures: LogLimit,
    losses: LogLimit,
    /// Entries lost since the last message.
    unsaid: usize,
}

impl FailureLog {
    fn new() -> Self {
        let limit = || LogLimit::new(FAILURES_SAID_EVERY);
        Self { failures: limit(), losses: limit(), unsaid: 0 }
    }

    fn failed(&mut self, name: &str, attempt: u64, error: &str) {
        if let Some(unsaid) = self.failures.admit(std::time::Instant::now()) {
            tracing::warn!(
                name,
                attempt,
                error,
                unsaid,
                "a batch of log entries was not delivered"
            );
        }
    }

    fn lost(&mut self, name: &str, entries: usize, error: &str) {
        if entries == 0 {
            return;
        }
        self.unsaid += entries;
        if self.losses.admit(std::time::Instant::now()).is_some() {
            let entries = std::mem::take(&mut self.unsaid);
            tracing::warn!(name, entries, error, "log entries are dropped");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// Delivery that records batches and fails a given number of times.
    struct Notes {
        batches: mpsc::UnboundedSender<Vec<u32>>,
        failures: Mutex<u32>,
        /// Numbers of accepted and lost entries in a failed delivery.
        progress: (usize, usize),
    }

    impl Delivery for Notes {
        type Entry = u32;

        async fn deliver(&self, batch: &[u32]) -> Result<(), Failure> {
            // The receiver is gone after the end of the test.
            let _ = self.batches.send(batch.to_vec());
            let mut failures = self.failures.lock().expect("no test panicked here");
            match *failures {
                0 => Ok(()),
                _ => {
                    *failures -= 1;
                    let (taken, lost) = self.progress;
                    Err(Failure { taken, lost, error: DeliveryError::Status(503) })
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
        let (batches, receiver, _) = advancing(fields, failures, (0, 0), pending_max);
        (batches, receiver)
    }

    fn advancing(
        fields: &BatchFields,
        failures: u32,
        progress: (usize, usize),
        pending_max: usize,
    ) -> (Batches<Notes>, mpsc::UnboundedReceiver<Vec<u32>>, Arc<Queues>) {
        let (sender, receiver) = mpsc::unbounded_channel();
        let notes = Notes { batches: sender, failures: Mutex::new(failures), progress };
        let outlet = Outlet { background: Some(Handle::current()), queues: Arc::default() };
        let queues = Arc::clone(&outlet.queues);
        let options = QueueOptions { owner: "routes/1", pending_max };
        (Batches::new(fields, notes, outlet, options), receiver, queues)
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_taken_is_not_sent_again_and_tries_begin_anew_with_it() {
        let retrying = fields(|f| (f.batch_max_size, f.max_retry_count, f.retry_delay) = (4, 1, 3));
        let (batches, mut sent, queues) = advancing(&retrying, 3, (1, 0), 10);
        let start = Instant::now();
        (1..=4).for_each(|entry| batches.push(entry, 1));
        for left in [vec![1, 2, 3, 4], vec![2, 3, 4], vec![3, 4], vec![4]] {
            assert_eq!(sent.recv().await, Some(left));
        }
        assert_eq!((start.elapsed().as_secs(), queues.lost()), (9, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn what_nobody_takes_is_lost_and_holds_up_nothing() {
        let retrying = fields(|f| (f.batch_max_size, f.max_retry_count) = (3, 0));
        let (batches, mut sent, queues) = advancing(&retrying, 2, (1, 1), 10);
        let start = Instant::now();
        (1..=3).for_each(|entry| batches.push(entry, 1));
        for left in [vec![1, 2, 3], vec![2, 3], vec![3]] {
            assert_eq!(sent.recv().await, Some(left));
        }
        tokio::task::yield_now().await;
        assert_eq!((start.elapsed().as_secs(), queues.lost()), (0, 2));
        assert_eq!(queues.lengths()[0].entries, 0);
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
        let (batches, mut sent, queues) = advancing(&retrying, 3, (0, 0), 10);
        let start = Instant::now();
        (1..=2).for_each(|entry| batches.push(entry, 1));
        for (entry, seconds) in [(1, 0), (1, 3), (2, 3), (2, 6)] {
            assert_eq!(sent.recv().await, Some(vec![entry]));
            assert_eq!(start.elapsed().as_secs(), seconds);
        }
        tokio::task::yield_now().await;
        assert_eq!(queues.lost(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn entries_over_the_bound_are_dropped() {
        let (batches, mut sent) = batches(&fields(|_| {}), 0, 2);
        (1..=3).for_each(|entry| batches.push(entry, 1));
        assert_eq!(sent.recv().await, Some(vec![1, 2]));
        // After a delivery, the queue has room again.
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
