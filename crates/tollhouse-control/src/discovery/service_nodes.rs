//! Upstreams whose nodes are the registered instances of a service: which instances serve, and how
//! the upstreams are reported.
//!
//! The module `select` chooses instances, `report` describes the result, and [`ServiceSource`]
//! hides the registry. Services that no upstream refers to cost nothing here.

mod reach;
mod report;
mod select;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;
use tollhouse_model::upstream::Discovery;
use tollhouse_upstream::UpstreamState;

pub use self::reach::Reach;
pub use self::report::{SourceState, UpstreamReport};
pub use self::select::InstanceFacts;
use self::select::{Ages, Selection, SelectionResult};

/// Access to services and their instances.
pub trait ServiceSource: Send + Sync {
    /// Passes every instance of a service to `show`, unless the service still has the revision
    /// `known`.
    fn read(
        &self,
        service: &Discovery,
        known: Option<u128>,
        show: &mut dyn FnMut(&InstanceFacts<'_>),
    ) -> ServiceLookup;

    /// Returns the counter of published states; it changes when services must be read again.
    fn changes(&self) -> watch::Receiver<u64>;

    /// Returns the reason why a service cannot be read now, if it cannot.
    fn failure(&self, _: &Discovery) -> Option<SourceFailure> {
        None
    }
}

/// Failure of a source to read a service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceFailure {
    pub reason: String,
    /// Time since the first failure in a row.
    pub age: Duration,
    /// Whether instances of an earlier reading stay in use.
    pub keeps_nodes: bool,
}

/// Protection threshold of services whose unhealthy instances never serve.
pub const NEVER_PROTECTED: f64 = f64::NEG_INFINITY;

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ServiceLookup {
    /// The service was not read yet.
    Pending,
    /// The service could not be read, and was never read before.
    Failed,
    Missing,
    /// The service still has the revision that the caller knows.
    Unchanged,
    /// All instances were passed to `show`.
    Visited {
        /// Revision that changes with every change of the instances.
        revision: u128,
        /// Threshold of the fraction of healthy instances, from 0 to 1: at or below it, unhealthy
        /// instances serve too. [`NEVER_PROTECTED`] is below any.
        protect_threshold: f64,
    },
}

/// Pause after a reading, as a multiple of its duration. A storm of changes thus costs at most half
/// a core.
const REST_FACTOR: u32 = 1;

/// Maximum pause between two readings, so that changes of huge services show soon.
const REST_MAX: Duration = Duration::from_millis(50);

/// Readings shorter than this cause no pause, because timers have a resolution of one millisecond.
const REST_FROM: Duration = Duration::from_micros(500);

type Services = Arc<dyn ServiceSource>;

/// Upstreams whose nodes come from one registry.
#[derive(Default)]
pub struct ServiceNodes {
    /// `None` before the registry is connected.
    services: watch::Sender<Option<Services>>,
    /// Followed upstreams, by key.
    followed: Mutex<BTreeMap<String, FollowedUpstream>>,
    /// Limits on the addresses of instances.
    reach: Reach,
}

/// An upstream that follows a service.
struct FollowedUpstream {
    state: Arc<UpstreamState>,
    service: Discovery,
    /// Last result; `None` before the first reading.
    reading: Option<Reading>,
}

/// Result of the last reading of a service.
#[derive(Debug, Clone, PartialEq)]
enum Reading {
    Failed,
    Missing,
    Service { revision: u128, selected: SelectionResult },
}

impl Reading {
    fn revision(&self) -> Option<u128> {
        match self {
            Reading::Failed | Reading::Missing => None,
            Reading::Service { revision, .. } => Some(*revision),
        }
    }
}

impl ServiceNodes {
    /// `reach` limits the addresses of instances.
    pub fn within(reach: Reach) -> Self {
        Self { reach, ..Self::default() }
    }

    /// Switches to another registry. Nodes stay unchanged if the new registry has the same
    /// instances.
    pub fn connect(&self, services: Services) {
        self.services.send_replace(Some(services));
        // Revisions of different registries cannot be compared.
        for entry in self.lock().values_mut() {
            entry.reading = None;
            self.look_at(entry);
        }
    }

    /// Follows the service of an upstream, in place of another upstream of the same key. A new one
    /// has its nodes when this returns.
    pub fn follow_upstream(&self, state: &Arc<UpstreamState>) {
        let Some(discovery) = state.discovery() else { return };
        let service = discovery.service.clone();
        let mut followed = self.lock();
        let before = followed.remove(state.key());
        // A new state for the same key may have no nodes yet.
        let earlier = before.filter(|it| Arc::ptr_eq(&it.state, state));
        let reading = earlier.and_then(|earlier| earlier.reading);
        let mut entry = FollowedUpstream { state: Arc::clone(state), service, reading };
        if entry.reading.is_none() {
            self.look_at(&mut entry);
        }
        followed.insert(state.key().to_owned(), entry);
    }

    /// Stops following the service of the upstream `key`.
    pub fn leave(&self, key: &str) {
        self.lock().remove(key);
    }

    /// Follows the connected registry; never returns while `self` exists.
    pub async fn run(&self) {
        let mut connected = self.services.subscribe();
        loop {
            let services = connected.borrow_and_update().clone();
            let follow = async {
                match services {
                    Some(services) => self.follow(services.changes()).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = follow => {}
                changed = connected.changed() => if changed.is_err() { return },
            }
        }
    }

    /// Follows one registry until it closes.
    async fn follow(&self, mut changes: watch::Receiver<u64>) {
        loop {
            changes.mark_unchanged();
            let started = Instant::now();
            self.look();
            let took = started.elapsed();
            if took >= REST_FROM {
                tokio::time::sleep((took * REST_FACTOR).min(REST_MAX)).await;
            }
            if changes.changed().await.is_err() {
                // Waits for another registry.
                return std::future::pending().await;
            }
        }
    }

    /// Reads the services of all followed upstreams.
    fn look(&self) {
        for entry in self.lock().values_mut() {
            self.look_at(entry);
        }
    }

    /// Publishes the nodes of a service if it has changed.
    fn look_at(&self, entry: &mut FollowedUpstream) {
        let Some(services) = self.services.borrow().clone() else { return };
        let known = entry.reading.as_ref().and_then(Reading::revision);
        let ages = if entry.state.warm_up().is_some() { Ages::Told } else { Ages::Unused };
        let mut selection = Selection::new(&entry.service, ages, &self.reach);
        let lookup = services.read(&entry.service, known, &mut |facts| selection.take(facts));
        let reading = match lookup {
            ServiceLookup::Unchanged | ServiceLookup::Pending => return,
            ServiceLookup::Failed if entry.reading == Some(Reading::Failed) => return,
            ServiceLookup::Failed => {
                entry.state.publish_nodes(Vec::new());
                Reading::Failed
            }
            ServiceLookup::Missing if entry.reading == Some(Reading::Missing) => return,
            ServiceLookup::Missing => {
                entry.state.publish_nodes(Vec::new());
                Reading::Missing
            }
            ServiceLookup::Visited { revision, protect_threshold } => {
                let (nodes, selected) = selection.finish(protect_threshold);
                entry.state.publish_nodes(nodes);
                Reading::Service { revision, selected }
            }
        };
        report::log_turn(entry, &reading, services.failure(&entry.service).as_ref());
        entry.reading = Some(reading);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, FollowedUpstream>> {
        // A panic can leave changes out; the next snapshot contains them again.
        self.followed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for ServiceNodes {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("ServiceNodes").field("is_on", &self.services.borrow().is_some()).finish()
    }
}

#[cfg(test)]
mod tests;
