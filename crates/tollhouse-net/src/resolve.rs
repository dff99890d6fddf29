//! DNS resolution: each name in use has one shared cell, which a background task keeps up to date.
//!
//! Readers load the cell without a lock and never wait for DNS. A result that cannot be renewed
//! stays in use. A cell lives as long as it is referenced. The results come from a [`Source`]: the
//! system's resolver in [`system`], or a script in tests. `tollhouse-upstream` turns records into
//! nodes.

pub mod system;

use std::collections::HashMap;
use std::future::Future;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use arc_swap::ArcSwap;
use tokio::runtime::Handle;
use tokio::sync::{Notify, watch};

/// Records kept per name; more than a sensible name has, few enough to scan.
pub const RECORDS_PER_NAME_MAX: usize = 256;

/// Shortest time until a renewal, so that a time to live of 0 does not cause a busy loop.
pub const REFRESH_MIN: Duration = Duration::from_secs(1);

/// Maximum time until a renewal, so that a reduced time to live takes effect within an hour.
pub const REFRESH_MAX: Duration = Duration::from_secs(3600);

/// Maximum pause between attempts after failures. The first pause is [`REFRESH_MIN`]; each further
/// one doubles.
pub const RETRY_MAX: Duration = Duration::from_secs(30);

/// Consecutive denials of a name after which its last result is dropped. A single denial is not
/// trusted, because a restarting name server may deny all names for a moment.
pub const DENIALS_MAX: u32 = 3;

/// DNS query for the addresses of a host or for SRV records.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Question {
    /// Addresses of a host: A records, or AAAA if no A record exists.
    Host(String),
    /// Members of a service: SRV records, or the addresses of the name if none exist.
    Service(String),
}

/// Address in a DNS answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Record {
    pub address: IpAddr,
    /// Port; only SRV records contain one.
    pub port: Option<u16>,
    /// Priority as in SRV: lower is preferred; 0 for plain addresses.
    pub priority: u16,
    /// Weight as in SRV; 1 for plain addresses.
    pub weight: u16,
}

impl Record {
    /// Returns a plain address without a port.
    pub fn plain(address: IpAddr) -> Self {
        Self { address, port: None, priority: 0, weight: 1 }
    }
}

/// Records of a DNS answer, with their common time to live.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    pub records: Vec<Record>,
    /// Duration for which the records may be used.
    pub time_to_live: Duration,
}

/// Why a look-up failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ResolveError {
    /// The servers say that the name, or a record of the kind, does not exist.
    #[error("the name has no address")]
    Denied,
    /// No usable reply arrived.
    #[error("the name servers did not answer: {0}")]
    Unreachable(String),
    /// No reply arrived before the timeout.
    #[error("the name servers did not answer in time")]
    TimedOut,
    /// The system's resolver configuration cannot be read.
    #[error("the resolver cannot be set up: {0}")]
    Setup(String),
}

pub type Lookup<'a> = Pin<Box<dyn Future<Output = Result<Answer, ResolveError>> + Send + 'a>>;

/// Source of DNS answers: the network, or a test.
pub trait Source: Send + Sync + 'static {
    /// Asks once; the caller applies the timeout and repeats.
    fn lookup<'a>(&'a self, question: &'a Question) -> Lookup<'a>;
}

#[derive(Debug, Clone)]
pub struct ResolverSettings {
    /// Name servers to ask; if empty, those of the system.
    pub servers: Vec<SocketAddr>,
    /// Maximum duration of one look-up; 5 s by default.
    pub timeout: Duration,
    /// Replaces every time to live, if set (`dns_resolver_valid`).
    pub valid: Option<Duration>,
}

impl Default for ResolverSettings {
    fn default() -> Self {
        Self { servers: Vec::new(), timeout: Duration::from_secs(5), valid: None }
    }
}

/// Creates and shares [`ResolvedName`]s; one per process.
pub struct Resolver {
    source: Arc<dyn Source>,
    settings: ResolverSettings,
    runtime: Handle,
    names: Arc<Names>,
}

/// All names that are currently referenced.
#[derive(Default)]
struct Names(Mutex<HashMap<Question, Weak<ResolvedName>>>);

impl Names {
    fn lock(&self) -> MutexGuard<'_, HashMap<Question, Weak<ResolvedName>>> {
        // A panic elsewhere cannot leave the map inconsistent, so a poisoned lock is usable.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Resolver {
    /// Creates a resolver with the system's configuration and hosts file, or with the given
    /// servers. Look-ups run on `runtime`, the control side's.
    ///
    /// # Errors
    /// If the system's configuration cannot be read.
    pub fn open(settings: ResolverSettings, runtime: Handle) -> Result<Arc<Self>, ResolveError> {
        let source = Arc::new(system::SystemSource::open(&settings)?);
        Ok(Self::with_source(source, settings, runtime))
    }

    /// Creates a resolver with any source.
    pub fn with_source(
        source: Arc<dyn Source>,
        settings: ResolverSettings,
        runtime: Handle,
    ) -> Arc<Self> {
        Arc::new(Self { source, settings, runtime, names: Arc::default() })
    }

    /// Returns the shared result of a question; the first call for a question starts its look-up.
    /// The caller need not run in the runtime.
    pub fn watch(&self, question: Question) -> Arc<ResolvedName> {
        let mut names = self.names.lock();
        if let Some(name) = names.get(&question).and_then(Weak::upgrade) {
            return name;
        }
        let name = Arc::new(ResolvedName {
            question: question.clone(),
            resolution: ArcSwap::from_pointee(Resolution::Pending),
            changes: watch::Sender::new(0),
            dropped: Arc::new(Notify::new()),
            names: Arc::clone(&self.names),
        });
        names.insert(question.clone(), Arc::downgrade(&name));
        self.runtime.spawn(keep_fresh(Refresh {
            source: Arc::clone(&self.source),
            settings: self.settings.clone(),
            question,
            dropped: Arc::clone(&name.dropped),
            name: Arc::downgrade(&name),
        }));
        name
    }

    pub fn runtime(&self) -> &Handle {
        &self.runtime
    }

    pub fn names_in_use(&self) -> usize {
        self.names.lock().len()
    }
}

impl std::fmt::Debug for Resolver {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Resolver").field("settings", &self.settings).finish_non_exhaustive()
    }
}

/// Latest result for a name.
#[derive(Debug, PartialEq, Eq)]
pub enum Resolution {
    /// The first look-up has not ended.
    Pending,
    /// Records of the name, sorted and without duplicates; never empty.
    Known(Box<[Record]>),
    /// No address is known; look-ups continue.
    Failed,
}

/// A name and its current records, kept up to date while it is referenced.
pub struct ResolvedName {
    question: Question,
    resolution: ArcSwap<Resolution>,
    /// Number of changes of `resolution`; watchers wait for the next.
    changes: watch::Sender<u64>,
    /// Ends the background task as soon as the name is dropped.
    dropped: Arc<Notify>,
    names: Arc<Names>,
}

impl ResolvedName {
    pub fn question(&self) -> &Question {
        &self.question
    }

    /// Returns the current result. No lock and no allocation; hold the guard only briefly.
    #[inline]
    pub fn resolution(&self) -> arc_swap::Guard<Arc<Resolution>> {
        self.resolution.load()
    }

    /// Returns the receiver that is notified of every change of the result.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Waits until the first look-up has ended, with success or failure.
    pub async fn ready(&self) {
        let mut changes = self.changes();
        while matches!(**self.resolution(), Resolution::Pending) {
            if changes.changed().await.is_err() {
                return;
            }
        }
    }

    fn publish(&self, resolution: Resolution) {
        if **self.resolution.load() == resolution {
            return;
        }
        self.resolution.store(Arc::new(resolution));
        self.changes.send_modify(|count| *count = count.wrapping_add(1));
    }
}

impl std::fmt::Debug for ResolvedName {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_tuple("ResolvedName").field(&self.question).field(&**self.resolution()).finish()
    }
}

impl Drop for ResolvedName {
    fn drop(&mut self) {
        self.dropped.notify_one();
        let mut names = self.names.lock();
        // A new cell for the same question may have been created meanwhile, and must stay.
        if names.get(&self.question).is_some_and(|name| name.strong_count() == 0) {
            names.remove(&self.question);
        }
    }
}

/// State of a name's background task.
struct Refresh {
    source: Arc<dyn Source>,
    settings: ResolverSettings,
    question: Question,
    dropped: Arc<Notify>,
    name: Weak<ResolvedName>,
}

/// Failures since the last successful answer.
#[derive(Default)]
struct Failures {
    all: u32,
    denials: u32,
}

async fn keep_fresh(refresh: Refresh) {
    let mut failures = Failures::default();
    loop {
        let lookup = refresh.source.lookup(&refresh.question);
        let result = tokio::select! {
            result = tokio::time::timeout(refresh.settings.timeout, lookup) => {
                result.unwrap_or(Err(ResolveError::TimedOut))
            }
            () = refresh.dropped.notified() => return,
        };
        // Upgraded only while it is written, so that dropping the name ends this task.
        let Some(name) = refresh.name.upgrade() else { return };
        let pause = match result {
            Ok(answer) if !answer.records.is_empty() => {
                failures = Failures::default();
                apply_answer(&name, answer, refresh.settings.valid)
            }
            // An answer without addresses counts as a denial.
            Ok(_) => apply_failure(&name, &ResolveError::Denied, &mut failures),
            Err(error) => apply_failure(&name, &error, &mut failures),
        };
        drop(name);
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = refresh.dropped.notified() => return,
        }
    }
}

/// Publishes an answer; returns the pause until its renewal.
fn apply_answer(name: &ResolvedName, answer: Answer, valid: Option<Duration>) -> Duration {
    let mut records = answer.records;
    // Servers rotate their answers; sorting makes equal answers comparable.
    records.sort_unstable();
    records.dedup();
    records.truncate(RECORDS_PER_NAME_MAX);
    name.publish(Resolution::Known(records.into()));
    valid.unwrap_or(answer.time_to_live).clamp(REFRESH_MIN, REFRESH_MAX)
}

/// Keeps the last result unless the name was denied repeatedly; returns the pause until the next
/// attempt.
fn apply_failure(name: &ResolvedName, error: &ResolveError, failures: &mut Failures) -> Duration {
    failures.all = failures.all.saturating_add(1);
    failures.denials = match error {
        ResolveError::Denied => failures.denials.saturating_add(1),
        _ => 0,
    };
    let known = matches!(**name.resolution(), Resolution::Known(_));
    if !known || failures.denials >= DENIALS_MAX {
        name.publish(Resolution::Failed);
    }
    let doublings = (failures.all - 1).min(RETRY_MAX.as_secs().ilog2() + 1);
    (REFRESH_MIN * (1 << doublings)).min(RETRY_MAX)
}

#[cfg(test)]
mod tests;
