//! The configuration as the data plane sees it: immutable, published whole, shared by all cores.
//!
//! Clones share structure, so a snapshot that differs in one route costs that route. What must
//! outlive a snapshot (pools, health, counters) is owned elsewhere and only referred to here.

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

/// One whole revision of the configuration.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// Counts up with every published change.
    pub revision: u64,
    /// Which route a request takes.
    pub router: Router<Arc<RouteEntry>>,
    /// Upstream objects by slot, so that one change does not touch the routes that name it.
    pub upstreams: CowVec<Option<Arc<UpstreamEntry>>>,
    /// Plugins of all global rules.
    pub globals: Arc<Chain>,
    /// Who may ask.
    pub consumers: Consumers,
    /// Which certificates clients are shown.
    pub certificates: Certificates,
    /// The variables of the configuration that look into request bodies.
    pub body_variables: Arc<[Variable]>,
    /// Which stream route a connection below HTTP takes.
    pub streams: StreamTable,
    /// What ShenYu's objects do with requests; `None` where there are none.
    pub shenyu: Option<Arc<ShenyuTable>>,
}

impl Snapshot {
    /// The upstream object in `slot`.
    #[inline]
    pub(crate) fn upstream(&self, slot: u32) -> Option<&UpstreamEntry> {
        self.upstreams.get(slot).and_then(Option::as_deref)
    }
}

/// A route, ready to serve. Among many routes, a request finds nothing of its own in the processor's caches: all
/// that one without plugins reads stands in the first cache line.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct RouteEntry {
    /// Its id.
    pub id: Id,
    /// Where its requests go.
    pub target: Target,
    /// Its plugins, in the order in which they run.
    pub chain: Chain,
    /// What most routes have nothing of.
    terms: Option<Box<RouteTerms>>,
    /// What its requests are counted by.
    pub number: u32,
    /// Whether upgrades pass.
    pub websocket: bool,
    /// The route as configured.
    pub route: Arc<Route>,
}

/// All before the route as configured is in one cache line.
const _: () = assert!(std::mem::offset_of!(RouteEntry, route) <= 64);

/// What most routes have nothing of.
#[derive(Debug, Default)]
pub struct RouteTerms {
    /// Its service.
    pub service: Reference<Arc<Service>>,
    /// Its plugin config, whose absence answers 503.
    pub plugin_config: Reference<()>,
    /// Its own time-outs, which go before the upstream's.
    pub timeout: Option<Timeouts>,
    /// How it repeats attempts and words failures, where it came of ShenYu's objects.
    pub shenyu: Option<ShenyuTerms>,
}

/// The terms of a route that has none of its own.
static NO_TERMS: RouteTerms = RouteTerms {
    service: Reference::Unnamed,
    plugin_config: Reference::Unnamed,
    timeout: None,
    shenyu: None,
};

impl RouteEntry {
    /// A route that goes to `target`, without upgrades.
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

    /// What most routes have nothing of.
    #[inline]
    pub fn terms(&self) -> &RouteTerms {
        self.terms.as_deref().unwrap_or(&NO_TERMS)
    }
}

/// Something named by id.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Reference<T> {
    /// Nothing is named.
    #[default]
    Unnamed,
    /// An object is named that does not exist.
    Missing,
    /// The object.
    Found(T),
}

/// Where a route's requests go.
#[derive(Debug, Clone)]
pub enum Target {
    /// Nowhere: plugins answer, or nobody does.
    None,
    /// An upstream that stands in the route or its service.
    Inline(Arc<UpstreamEntry>),
    /// An upstream object, by its slot in the snapshot.
    Slot(u32),
}

/// Where snapshots are published, and where every core finds the newest.
#[derive(Debug)]
pub struct SnapshotCell {
    current: ArcSwap<Snapshot>,
    generation: AtomicU64,
    /// Beside the generation, which every request reads.
    challenges: Challenges,
    /// Earlier ones, until nobody else holds them: taking one apart is work for whoever publishes, and not for the core
    /// whose request was the last to hold it.
    retired: Mutex<Vec<Arc<Snapshot>>>,
}

impl SnapshotCell {
    /// Publishes the first one.
    pub fn new(first: Arc<Snapshot>) -> Self {
        let current = ArcSwap::new(first);
        Self {
            current,
            generation: AtomicU64::new(1),
            challenges: Challenges::default(),
            retired: Mutex::default(),
        }
    }

    /// Publishes `next` to every core's next request.
    pub fn publish(&self, next: Arc<Snapshot>) {
        let before = self.current.swap(next);
        self.generation.fetch_add(1, Ordering::Release);
        self.retired.lock().unwrap_or_else(PoisonError::into_inner).push(before);
        self.drop_retired();
    }

    /// Drops those earlier snapshots that no core holds any more; says how many are left. It is for the control side, from
    /// time to time: cores let go when they come to it.
    pub fn drop_retired(&self) -> usize {
        let mut retired = self.retired.lock().unwrap_or_else(PoisonError::into_inner);
        // Who has the only count has it here, and nobody else can get another.
        let (free, held): (Vec<_>, Vec<_>) = std::mem::take(&mut *retired)
            .into_iter()
            .partition(|snapshot| Arc::strong_count(snapshot) == 1);
        let left = held.len();
        *retired = held;
        // Whoever publishes meanwhile does not wait for what is taken apart.
        drop(retired);
        drop(free);
        left
    }

    /// What certificate authorities ask, and is answered by every core.
    pub fn challenges(&self) -> &Challenges {
        &self.challenges
    }

    /// The newest.
    pub fn load(&self) -> Arc<Snapshot> {
        self.current.load_full()
    }
}

/// One core's view of a [`SnapshotCell`]: taking it for a request costs one load and a count that
/// no other core touches.
#[derive(Debug)]
pub struct SnapshotView {
    cell: Arc<SnapshotCell>,
    generation: Cell<u64>,
    #[expect(clippy::redundant_allocation, reason = "a request's count must stay on its core")]
    held: RefCell<Rc<Arc<Snapshot>>>,
}

impl SnapshotView {
    /// A view of `cell`.
    pub fn new(cell: Arc<SnapshotCell>) -> Self {
        let generation = cell.generation.load(Ordering::Acquire);
        let held = RefCell::new(Rc::new(cell.load()));
        Self { cell, generation: Cell::new(generation), held }
    }

    /// The newest snapshot, to be kept for one request.
    #[inline]
    pub fn take(&self) -> Rc<Arc<Snapshot>> {
        self.refresh();
        Rc::clone(&self.held.borrow())
    }

    /// What certificate authorities ask.
    #[inline]
    pub(crate) fn challenges(&self) -> &Challenges {
        &self.cell.challenges
    }

    /// Lets go of an old snapshot even when no request comes by.
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
        // The last that a core has to do with it.
        drop(request);
        assert!(watched.upgrade().is_some());
        assert_eq!(cell.drop_retired(), 0);
        assert!(watched.upgrade().is_none());
        // Each that is published does the same.
        let second = Arc::downgrade(&cell.load());
        cell.publish(snapshot(3));
        view.refresh();
        assert!(second.upgrade().is_some());
        cell.publish(snapshot(4));
        assert!(second.upgrade().is_none());
    }
}
