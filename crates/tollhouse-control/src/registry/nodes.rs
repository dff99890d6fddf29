//! Brings the instances of registry services to the upstreams that name them: at once when a
//! snapshot brings such an upstream, and whenever the registry publishes another state.
//!
//! Which instances serve is decided in `select.rs`, what is told about it in `report.rs`. The
//! registry itself is behind [`ServiceSource`]. Routes are never compiled for it: nodes go into the
//! upstream's own cell, where every core's next request finds them. A service that no upstream
//! names costs nothing here.

mod reach;
mod report;
mod select;
mod source;

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;
use tollhouse_model::upstream::{Discovery, RegistryService};
use tollhouse_upstream::{UpstreamChange, UpstreamState};

pub use self::reach::Reach;
pub use self::report::Detail;
pub use self::select::InstanceFacts;
use self::select::{Ages, Selected, Selection};

/// Where services and their instances are read.
pub trait ServiceSource: Send + Sync {
    /// Shows every instance of a service to `show`, unless its revision is `known`.
    fn read(
        &self,
        service: &RegistryService,
        known: Option<u128>,
        show: &mut dyn FnMut(&InstanceFacts<'_>),
    ) -> ServiceLookup;

    /// Counts the published states; changes when there is something to read again.
    fn changes(&self) -> watch::Receiver<u64>;
}

/// What became of a look at a service.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ServiceLookup {
    /// It does not exist.
    Missing,
    /// It is as it was.
    Unchanged,
    /// Its instances have been visited.
    Visited {
        /// Differs whenever the set of instances does.
        revision: u128,
        /// Below or at this part of healthy instances, unhealthy ones serve as well; 0 to 1.
        protect_threshold: f64,
    },
}

/// How much longer than a look took the next one waits, so that a storm of changes costs half a core
/// at most.
const REST_FACTOR: u32 = 1;

/// The longest of such rests: changes show soon even where services are huge.
const REST_MAX: Duration = Duration::from_millis(50);

/// Looks shorter than this are not rested from: a timer is no finer than a millisecond.
const REST_FROM: Duration = Duration::from_micros(500);

/// The name of the thread that follows.
const THREAD: &str = "registry-nodes";

type Services = Arc<dyn ServiceSource>;

/// See the module.
pub struct RegistryNodes {
    /// `None` while no registry runs in this process.
    services: watch::Sender<Option<Services>>,
    /// Upstreams by key, in the order in which they are told of.
    followed: Mutex<BTreeMap<String, Followed>>,
    /// Whether the thread that follows has been started.
    has_thread: AtomicBool,
    /// Limits on the addresses of instances.
    reach: Reach,
}

/// An upstream that follows a service.
struct Followed {
    state: Arc<UpstreamState>,
    service: RegistryService,
    /// What was found last; `None` before the first look.
    found: Option<Found>,
}

/// What was found at the last look.
#[derive(Debug, Clone, PartialEq)]
enum Found {
    Missing,
    Service { revision: u128, selected: Selected },
}

impl Found {
    fn revision(&self) -> Option<u128> {
        match self {
            Found::Missing => None,
            Found::Service { revision, .. } => Some(*revision),
        }
    }
}

impl Default for RegistryNodes {
    fn default() -> Self {
        Self {
            services: watch::Sender::new(None),
            followed: Mutex::default(),
            has_thread: AtomicBool::new(false),
            reach: Reach::default(),
        }
    }
}

impl RegistryNodes {
    /// Follows instances that lead where `reach` lets them.
    pub fn within(reach: Reach) -> Self {
        Self { reach, ..Self::default() }
    }

    /// Reads services from `services` from now on. Nodes of a registry before it serve on where the
    /// new one says the same.
    pub fn connect(&self, services: Services) {
        self.services.send_replace(Some(services));
        // Revisions of one registry mean nothing to another.
        for entry in self.lock().values_mut() {
            entry.found = None;
            self.look_at(entry);
        }
    }

    /// What the snapshot that is about to serve changes; upstreams whose nodes come from elsewhere
    /// are passed over. New ones have their nodes when this returns.
    pub fn change_upstreams(&self, changes: &[UpstreamChange]) {
        let mut followed = self.lock();
        for UpstreamChange { key, state } in changes {
            let before = followed.remove(key);
            let Some(state) = state else { continue };
            let Some(Discovery::Registry(service)) = state.discovery() else { continue };
            let service = service.clone();
            // Another state of the same key may have begun without nodes.
            let earlier = before.filter(|it| Arc::ptr_eq(&it.state, state));
            let found = earlier.and_then(|earlier| earlier.found);
            let mut entry = Followed { state: Arc::clone(state), service, found };
            if entry.found.is_none() {
                self.look_at(&mut entry);
            }
            followed.insert(key.clone(), entry);
        }
    }

    /// Starts to follow, on a thread of its own: the control side gives way to requests, and a node
    /// that is gone must go also while the cores are busy. Does nothing the second time.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn start(self: &Arc<Self>) -> io::Result<()> {
        if self.has_thread.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        let source = Arc::clone(self);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
        let thread = std::thread::Builder::new().name(THREAD.to_owned());
        thread.spawn(move || runtime.block_on(source.run())).map(drop)
    }

    /// Follows whatever registry is connected, for ever.
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

    /// Follows one registry to its end.
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
                // Only another registry brings anything new.
                return std::future::pending().await;
            }
        }
    }

    /// Looks at every service that is followed.
    fn look(&self) {
        for entry in self.lock().values_mut() {
            self.look_at(entry);
        }
    }

    /// Publishes the nodes of a service that is not as it was.
    fn look_at(&self, entry: &mut Followed) {
        let Some(services) = self.services.borrow().clone() else { return };
        let known = entry.found.as_ref().and_then(Found::revision);
        let ages = if entry.state.warm_up().is_some() { Ages::Told } else { Ages::Unused };
        let mut selection = Selection::new(&entry.service, ages, &self.reach);
        let lookup = services.read(&entry.service, known, &mut |facts| selection.take(facts));
        let found = match lookup {
            ServiceLookup::Unchanged => return,
            ServiceLookup::Missing if entry.found == Some(Found::Missing) => return,
            ServiceLookup::Missing => {
                entry.state.publish_nodes(Vec::new());
                Found::Missing
            }
            ServiceLookup::Visited { revision, protect_threshold } => {
                let (nodes, selected) = selection.finish(protect_threshold);
                entry.state.publish_nodes(nodes);
                Found::Service { revision, selected }
            }
        };
        report::log_turn(entry, &found);
        entry.found = Some(found);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Followed>> {
        // What a panic leaves out comes with the next snapshot.
        self.followed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for RegistryNodes {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("RegistryNodes").field("is_on", &self.services.borrow().is_some()).finish()
    }
}

#[cfg(test)]
mod tests;
