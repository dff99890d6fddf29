//! Configuration of the data plane: immutable, published as a whole, shared by all cores.
//!
//! Clones share structure, so a snapshot that differs in one route costs only that route. State
//! that outlives a snapshot (pools, health, counters) is owned elsewhere and referenced here.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use tollhouse_model::variable::Variable;
use tollhouse_model::{Id, Route, Service, Timeouts};
use tollhouse_router::Router;
use tollhouse_stdx::CowVec;
use tollhouse_telemetry::object_counts::UNCOUNTED;

use crate::challenges::Challenges;
use crate::consumers::Consumers;
use crate::l4::table::StreamTable;
use crate::plugins::chain::Chain;
use crate::snapshot::certificates::Certificates;

pub(crate) mod certificates;
mod shenyu;
pub(crate) mod upstream;

pub use certificates::TlsHost;
pub use shenyu::{ShenyuTable, ShenyuTerms};
pub use upstream::{NodeHost, UpstreamEntry, UpstreamTerms};

/// A complete revision of the configuration.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// Number that rises with every published change.
    pub revision: u64,
    pub router: Router<Arc<RouteEntry>>,
    /// Upstream objects by slot, so that a change of one does not touch the routes that reference
    /// it.
    pub upstreams: CowVec<Option<Arc<UpstreamEntry>>>,
    /// Plugins of all global rules, merged.
    pub globals: Arc<Chain>,
    pub consumers: Consumers,
    pub certificates: Certificates,
    /// Body variables that the configuration uses.
    pub body_variables: Arc<[Variable]>,
    pub streams: StreamTable,
    /// ShenYu's objects; `None` if none are in effect.
    pub shenyu: Option<Arc<ShenyuTable>>,
}

impl Snapshot {
    #[inline]
    pub(crate) fn upstream(&self, slot: u32) -> Option<&UpstreamEntry> {
        self.upstreams.get(slot).and_then(Option::as_deref)
    }

    /// Returns the routes whose requests are counted: those of the configuration, and those of
    /// ShenYu's rules.
    pub fn counted_routes(&self) -> impl Iterator<Item = &Arc<RouteEntry>> {
        let shenyu = self.shenyu.iter();
        let of_shenyu = shenyu.flat_map(|table| table.targets.iter().chain([&table.entry]));
        self.router.values().chain(of_shenyu)
    }
}

/// A compiled route. With many routes, a request finds its entry in no processor cache; therefore
/// all fields that a route without plugins needs are in the first cache line.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct RouteEntry {
    pub id: Id,
    /// Upstream of the route's requests.
    pub target: Target,
    /// Plugins of the route, in the order in which they run.
    pub chain: Chain,
    /// Properties that few routes have; `None` for a route without any.
    terms: Option<Box<RouteTerms>>,
    /// Number of the route in request counters.
    pub number: u32,
    /// Whether WebSocket upgrades are passed on.
    pub websocket: bool,
    pub route: Arc<Route>,
}

/// All fields before `route` fit into one cache line.
const _: () = assert!(std::mem::offset_of!(RouteEntry, route) <= 64);

/// Rarely used properties of a route.
#[derive(Debug, Default)]
pub struct RouteTerms {
    pub service: Reference<Arc<Service>>,
    /// Reference to the plugin config; if it is missing, requests get 503.
    pub plugin_config: Reference<()>,
    /// Timeouts of the route, which take precedence over the upstream's.
    pub timeout: Option<Timeouts>,
    /// Retries and error responses, if the route was made from ShenYu objects.
    pub shenyu: Option<ShenyuTerms>,
}

/// Terms of a route that has none of these properties.
static NO_TERMS: RouteTerms = RouteTerms {
    service: Reference::Unnamed,
    plugin_config: Reference::Unnamed,
    timeout: None,
    shenyu: None,
};

impl RouteEntry {
    /// Creates a route to `target` that does not pass upgrades.
    pub fn new(route: Arc<Route>, target: Target, terms: RouteTerms) -> Self {
        let is_plain = matches!(
            terms,
            RouteTerms {
                service: Reference::Unnamed,
                plugin_config: Reference::Unnamed,
                timeout: None,
                shenyu: None
            }
        );
        Self {
            id: route.id.clone(),
            target,
            chain: Chain::default(),
            terms: (!is_plain).then(|| Box::new(terms)),
            number: UNCOUNTED,
            websocket: false,
            route,
        }
    }

    /// Returns the properties that few routes have; empty defaults for the others.
    #[inline]
    pub fn terms(&self) -> &RouteTerms {
        self.terms.as_deref().unwrap_or(&NO_TERMS)
    }
}

/// A reference to an object by its id.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Reference<T> {
    #[default]
    Unnamed,
    /// The object with the configured id does not exist.
    Missing,
    Found(T),
}

/// Upstream of a route, or none.
#[derive(Debug, Clone)]
pub enum Target {
    /// The route has no upstream; requests are answered by plugins or refused.
    None,
    /// Inline upstream of the route or its service.
    Inline(Arc<UpstreamEntry>),
    Slot(u32),
}

/// Latest snapshot, which all cores read.
#[derive(Debug)]
pub struct SnapshotCell {
    current: ArcSwap<Snapshot>,
    generation: AtomicU64,
    /// Placed beside the generation, which every request reads.
    challenges: Challenges,
    /// Earlier snapshots that are still referenced. The publisher frees them, so that the core with
    /// the last request does not spend time on that.
    retired: Mutex<Vec<Arc<Snapshot>>>,
}

impl SnapshotCell {
    /// Creates the cell with the first snapshot.
    pub fn new(first: Arc<Snapshot>) -> Self {
        let current = ArcSwap::new(first);
        Self {
            current,
            generation: AtomicU64::new(1),
            challenges: Challenges::default(),
            retired: Mutex::default(),
        }
    }

    /// Publishes `next`; the next request of every core uses it.
    pub fn publish(&self, next: Arc<Snapshot>) {
        let before = self.current.swap(next);
        self.generation.fetch_add(1, Ordering::Release);
        self.retired.lock().unwrap_or_else(PoisonError::into_inner).push(before);
        self.drop_retired();
    }

    /// Frees earlier snapshots that are no longer referenced; returns the number of those that
    /// remain. Called periodically by the control side, because cores release snapshots at any
    /// time.
    pub fn drop_retired(&self) -> usize {
        let mut retired = self.retired.lock().unwrap_or_else(PoisonError::into_inner);
        // A count of one cannot rise, because the only reference is in this list.
        let (free, held): (Vec<_>, Vec<_>) = std::mem::take(&mut *retired)
            .into_iter()
            .partition(|snapshot| Arc::strong_count(snapshot) == 1);
        let left = held.len();
        *retired = held;
        // The lock is released first, so that a concurrent publisher does not wait for the drop.
        drop(retired);
        drop(free);
        left
    }

    /// Returns the ACME challenges, answered by every core.
    pub fn challenges(&self) -> &Challenges {
        &self.challenges
    }

    pub fn load(&self) -> Arc<Snapshot> {
        self.current.load_full()
    }
}

/// A core's view of a [`SnapshotCell`]. Taking the snapshot for a request costs one atomic load
/// and a reference count that no other core touches.
#[derive(Debug)]
pub struct SnapshotView {
    cell: Arc<SnapshotCell>,
    generation: Cell<u64>,
    #[expect(clippy::redundant_allocation, reason = "a request's count must stay on its core")]
    held: RefCell<Rc<Arc<Snapshot>>>,
}

impl SnapshotView {
    pub fn new(cell: Arc<SnapshotCell>) -> Self {
        let generation = cell.generation.load(Ordering::Acquire);
        let held = RefCell::new(Rc::new(cell.load()));
        Self { cell, generation: Cell::new(generation), held }
    }

    /// Returns the latest snapshot, to be held during one request.
    #[inline]
    pub fn take(&self) -> Rc<Arc<Snapshot>> {
        self.refresh();
        Rc::clone(&self.held.borrow())
    }

    #[inline]
    pub(crate) fn challenges(&self) -> &Challenges {
        &self.cell.challenges
    }

    /// Replaces an outdated snapshot; called also without requests, so that an idle core does not
    /// keep it alive.
    #[inline]
    pub fn refresh(&self) {
        let generation = self.cell.generation.load(Ordering::Acquire);
        if generation != self.generation.get() {
            self.generation.set(generation);
            *self.held.borrow_mut() = Rc::new(self.cell.load());
        }
    }
}

#[cfg(test)]
mod tests {
    use tollhouse_router::Mode;

    use super::*;

    fn snapshot(revision: u64) -> Arc<Snapshot> {
        Arc::new(Snapshot {
            revision,
            router: Router::new(Mode::HostUri),
            upstreams: CowVec::new(),
            globals: Arc::default(),
            consumers: Consumers::default(),
            certificates: Certificates::default(),
            body_variables: Arc::default(),
            streams: StreamTable::default(),
            shenyu: None,
        })
    }

    #[test]
    fn an_old_snapshot_is_taken_apart_by_whoever_publishes_and_never_by_a_core() {
        let first = snapshot(1);
        let watched = Arc::downgrade(&first);
        let cell = Arc::new(SnapshotCell::new(first));
        let view = SnapshotView::new(Arc::clone(&cell));
        let request = view.take();
        cell.publish(snapshot(2));
        view.refresh();
        assert_eq!(cell.drop_retired(), 1, "a request holds it");
        // Releases the core's last reference.
        drop(request);
        assert!(watched.upgrade().is_some());
        assert_eq!(cell.drop_retired(), 0);
        assert!(watched.upgrade().is_none());
        // Every publication does the same.
        let second = Arc::downgrade(&cell.load());
        cell.publish(snapshot(3));
        view.refresh();
        assert!(second.upgrade().is_some());
        cell.publish(snapshot(4));
        assert!(second.upgrade().is_none());
    }
}
