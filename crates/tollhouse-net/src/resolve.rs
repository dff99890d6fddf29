//! Names to addresses: every name in use has one shared cell that a background task keeps fresh.
//!
//! Readers (the data side) load the cell without a lock and never wait for DNS; an answer that
//! cannot be renewed stays in use. A cell lives as long as somebody holds it. Where answers come
//! from is a [`Source`]: the system's resolver in [`system`], a script in tests. Which nodes an
//! upstream makes of the records is decided in `tollhouse-upstream`.

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

/// Records kept of one answer: more than any sane name has, few enough to scan.
pub const RECORDS_PER_NAME_MAX: usize = 256;

/// The soonest an answer is renewed: a time to live of 0 must not become a busy loop.
pub const REFRESH_MIN: Duration = Duration::from_secs(1);

/// The latest an answer is renewed: an operator who lowered a long time to live sees it within
/// this.
pub const REFRESH_MAX: Duration = Duration::from_secs(3600);

/// The longest pause between attempts after failures; the first pause is [`REFRESH_MIN`] and
/// each further one twice as long.
pub const RETRY_MAX: Duration = Duration::from_secs(30);

/// How many times in a row the servers must deny a name before its last answer is given up: a
/// name server that restarts is known to deny everything for a moment.
pub const DENIALS_MAX: u32 = 3;

/// What is asked.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Question {
    /// The addresses of a host: A, and AAAA where there is no A.
    Host(String),
    /// The members of a service: SRV, and where there is none the addresses of the name.
    Service(String),
}

/// One address in an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Record {
    /// Where.
    pub address: IpAddr,
    /// Port; only SRV records have one.
    pub port: Option<u16>,
    /// Lower is preferred, as in SRV; 0 for plain addresses.
    pub priority: u16,
    /// Share; 1 for plain addresses.
    pub weight: u16,
}

impl Record {
    /// A plain address, without a port.
    pub fn plain(address: IpAddr) -> Self {
        Self { address, port: None, priority: 0, weight: 1 }
    }
}

/// What a [`Source`] found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The records, in any order.
    pub records: Vec<Record>,
    /// How long they may be used.
    pub time_to_live: Duration,
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ResolveError {
    /// The servers say that the name, or a record of the kind, does not exist.
    #[error("the name has no address")]
    Denied,
    /// No usable reply.
    #[error("the name servers did not answer: {0}")]
    Unreachable(String),
    /// No reply in time.
    #[error("the name servers did not answer in time")]
    TimedOut,
    /// The system's resolver configuration cannot be read.
    #[error("the resolver cannot be set up: {0}")]
    Setup(String),
}

/// A look-up under way.
pub type Lookup<'a> = Pin<Box<dyn Future<Output = Result<Answer, ResolveError>> + Send + 'a>>;

/// Where answers come from.
pub trait Source: Send + Sync + 'static {
    /// Asks once; the caller bounds the time and repeats.
    fn lookup<'a>(&'a self, question: &'a Question) -> Lookup<'a>;
}

/// How names are looked up.
#[derive(Debug, Clone)]
pub struct ResolverSettings {
    /// Name servers to ask; none means those of the system.
    pub servers: Vec<SocketAddr>,
    /// How long one look-up may take.
    pub timeout: Duration,
    /// Replaces every time to live (`dns_resolver_valid`).
    pub valid: Option<Duration>,
}

impl Default for ResolverSettings {
    fn default() -> Self {
        Self { servers: Vec::new(), timeout: Duration::from_secs(5), valid: None }
    }
}

/// Hands out [`ResolvedName`]s; one for the process.
pub struct Resolver {
    source: Arc<dyn Source>,
    settings: ResolverSettings,
    runtime: Handle,
    names: Arc<Names>,
}

/// All names somebody holds.
#[derive(Default)]
struct Names(Mutex<HashMap<Question, Weak<ResolvedName>>>);

impl Names {
    fn lock(&self) -> MutexGuard<'_, HashMap<Question, Weak<ResolvedName>>> {
        // The map is whole between any two statements, so a panic elsewhere cannot have torn it.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Resolver {
    /// A resolver over the system's configuration and hosts file, or over the given servers.
    /// Look-ups run on `runtime`, which is the control side's.
    ///
    /// # Errors
    /// When the system's configuration cannot be read.
    pub fn open(settings: ResolverSettings, runtime: Handle) -> Result<Arc<Self>, ResolveError> {
        let source = Arc::new(system::SystemSource::open(&settings)?);
        Ok(Self::with_source(source, settings, runtime))
    }

    /// A resolver over any source.
    pub fn with_source(
        source: Arc<dyn Source>,
        settings: ResolverSettings,
        runtime: Handle,
    ) -> Arc<Self> {
        Arc::new(Self { source, settings, runtime, names: Arc::default() })
    }

    /// The cell of a question, shared with everybody who asks the same; the first one starts the
    /// look-up. Needs no runtime around the caller.
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

    /// The runtime that look-ups run on.
    pub fn runtime(&self) -> &Handle {
        &self.runtime
    }

    /// How many names are in use.
    pub fn names_in_use(&self) -> usize {
        self.names.lock().len()
    }
}

impl std::fmt::Debug for Resolver {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Resolver").field("settings", &self.settings).finish_non_exhaustive()
    }
}

/// What is known of a name.
#[derive(Debug, PartialEq, Eq)]
pub enum Resolution {
    /// The first look-up has not ended.
    Pending,
    /// Its records, sorted, without repetitions, never empty.
    Known(Box<[Record]>),
    /// No address; look-ups go on.
    Failed,
}

/// A name and its present records; kept fresh while anybody holds it.
pub struct ResolvedName {
    question: Question,
    resolution: ArcSwap<Resolution>,
    /// Counts changes of `resolution`.
    changes: watch::Sender<u64>,
    /// Ends the background task at once when nobody holds the name any more.
    dropped: Arc<Notify>,
    names: Arc<Names>,
}

impl ResolvedName {
    /// What was asked.
    pub fn question(&self) -> &Question {
        &self.question
    }

    /// What is known now. No lock, no allocation; hold it briefly.
    #[inline]
    pub fn resolution(&self) -> arc_swap::Guard<Arc<Resolution>> {
        self.resolution.load()
    }

    /// Signals every change of the resolution.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Waits until the first look-up has ended, well or badly.
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
        // Somebody may have asked again meanwhile: then the entry is another, living cell.
        if names.get(&self.question).is_some_and(|name| name.strong_count() == 0) {
            names.remove(&self.question);
        }
    }
}

/// What the background task of one name works with.
struct Refresh {
    source: Arc<dyn Source>,
    settings: ResolverSettings,
    question: Question,
    dropped: Arc<Notify>,
    name: Weak<ResolvedName>,
}

/// Failures since the last answer.
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
        // Held for no longer than it is written: whoever drops the name ends this task.
        let Some(name) = refresh.name.upgrade() else { return };
        let pause = match result {
            Ok(answer) if !answer.records.is_empty() => {
                failures = Failures::default();
                apply_answer(&name, answer, refresh.settings.valid)
            }
            // An answer without addresses denies the name.
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

/// Publishes an answer; the pause until it must be renewed.
fn apply_answer(name: &ResolvedName, answer: Answer, valid: Option<Duration>) -> Duration {
    let mut records = answer.records;
    // Servers rotate their answers; sorted, an equal answer is seen to be equal.
    records.sort_unstable();
    records.dedup();
    records.truncate(RECORDS_PER_NAME_MAX);
    name.publish(Resolution::Known(records.into()));
    valid.unwrap_or(answer.time_to_live).clamp(REFRESH_MIN, REFRESH_MAX)
}

/// Keeps the last answer, unless the name was denied for good; the pause until the next attempt.
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
