//! Nodes of an upstream at one time, and the subset that may be picked now.
//!
//! A set is immutable. The tables of its serving nodes depend on health and slow start; they are
//! rebuilt and published as a whole after each change. Priorities are resolved here, the choice
//! among equals in `balance/`.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use tokio::time::Instant;
use tollhouse_model::upstream::{self, Checks, Policy, Thresholds, WarmUp};
use tollhouse_net::resolve::Resolver;
use tollhouse_stdx::Endpoint;

use crate::balance::{self, Choice, Member, Needs, Table};
use crate::health::cell::Shift;
use crate::health::state::Signal;
use crate::node::{Node, NodeAddress, Vitals};
use crate::pick::{NodeIndex, Pick, PickRequest, Picked, SetRef, Tried, WhenUnresolved};
use crate::ramp::{self, Arrival};

/// Parameters from which a node set is built; sets with equal recipes are interchangeable.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Recipe {
    pub(crate) nodes: Vec<upstream::Node>,
    pub(crate) policy: Policy,
    pub(crate) checks: Option<Arc<Checks>>,
    pub(crate) warm_up: Option<WarmUp>,
}

/// Vitals that the nodes of a new set take over from the previous one.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Inherited<'a> {
    Nothing,
    /// The vitals themselves, because the new set replaces the previous one.
    Vitals(&'a NodeSet),
    /// Copies, because other upstreams keep the previous set.
    Copies(&'a NodeSet),
}

impl<'a> Inherited<'a> {
    fn previous(self) -> Option<&'a NodeSet> {
        match self {
            Self::Nothing => None,
            Self::Vitals(previous) | Self::Copies(previous) => Some(previous),
        }
    }
}

#[derive(Debug)]
pub(crate) struct NodeSet {
    recipe: Recipe,
    /// Counters that the policy needs; nothing for a single node.
    needs: Needs,
    nodes: Box<[Node]>,
    /// Number that identifies the set within the process.
    revision: u64,
    /// Groups of the nodes that may ever be picked, highest priority first.
    groups: Box<[Group]>,
    serving: ArcSwap<ServingTables>,
    /// Lock that is held while `serving` is rebuilt.
    rebuild: Mutex<()>,
    /// Set while there may be new nodes whose slow start has not begun.
    fresh: AtomicBool,
    /// Count of health flips of any node of the upstream, in this set or another.
    flips: Arc<AtomicU64>,
}

/// Members with equal priority.
#[derive(Debug)]
struct Group {
    members: Box<[Member]>,
    all: Arc<Table>,
}

/// Tables of the groups, over their serving members.
#[derive(Debug)]
struct ServingTables {
    /// Count of flips for which the tables were built.
    flips: u64,
    /// Whether all nodes serve because none is healthy.
    for_want_of_healthy: bool,
    tables: Box<[Arc<Table>]>,
}

// === impl NodeSet ===

impl NodeSet {
    /// Creates a set; nodes of the previous set keep their vitals. `ages` belong to the nodes in
    /// their order and may be incomplete.
    pub(crate) fn new(
        recipe: Recipe,
        ages: &[Option<Duration>],
        from: Inherited<'_>,
        flips: Arc<AtomicU64>,
        resolver: &Resolver,
    ) -> Arc<Self> {
        static REVISIONS: AtomicU64 = AtomicU64::new(1);
        let previous = from.previous();
        let inherited = previous.map(Self::vitals).unwrap_or_default();
        let node = |conf: &upstream::Node| {
            let vitals = inherited.get(&(conf.host.as_str(), conf.port)).copied();
            let vitals = vitals.map(|vitals| match from {
                Inherited::Copies(_) => Arc::new(vitals.successor()),
                Inherited::Nothing | Inherited::Vitals(_) => Arc::clone(vitals),
            });
            Node::new(conf.clone(), vitals.unwrap_or_default(), resolver)
        };
        let nodes: Box<[Node]> = recipe.nodes.iter().map(node).collect();
        if previous.is_some_and(|previous| previous.recipe.checks.is_none()) {
            // The findings of an earlier checker are outdated.
            nodes.iter().for_each(|node| node.vitals().health.reset());
        }
        if let Some(warm_up) = &recipe.warm_up {
            arrive(&nodes, ages, &inherited, warm_up);
        }
        let policy = if nodes.len() == 1 { Policy::RoundRobin } else { recipe.policy };
        let groups = groups(policy, &nodes);
        let tables = groups.iter().map(|group| Arc::clone(&group.all)).collect();
        let set = Self {
            recipe,
            needs: balance::needs(policy),
            nodes,
            revision: REVISIONS.fetch_add(1, Ordering::Relaxed),
            groups,
            serving: ArcSwap::from_pointee(ServingTables {
                flips: 0,
                for_want_of_healthy: false,
                tables,
            }),
            rebuild: Mutex::new(()),
            fresh: AtomicBool::new(true),
            flips,
        };
        set.refresh();
        Arc::new(set)
    }

    fn vitals(&self) -> VitalsByName<'_> {
        self.nodes.iter().map(|node| ((node.host(), node.port()), node.vitals())).collect()
    }

    pub(crate) fn recipe(&self) -> &Recipe {
        &self.recipe
    }

    pub(crate) fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    #[inline]
    pub(crate) fn needs(&self) -> Needs {
        self.needs
    }

    #[inline]
    pub(crate) fn revision(&self) -> u64 {
        self.revision
    }

    /// Returns the address of the only node, if it needs neither a look-up nor a choice: the fast
    /// path.
    pub(crate) fn only_address(&self) -> Option<Endpoint> {
        match &*self.nodes {
            [node] if node.weight() > 0 => node.literal(),
            _ => None,
        }
    }

    /// Chooses a node. Reads the tables once; takes no lock unless a node has just flipped.
    pub(crate) fn pick<'a>(
        &self,
        request: &PickRequest<'_>,
        tried: &Tried,
        hold: impl FnOnce() -> SetRef<'a>,
    ) -> Pick<'a> {
        match self.choose(request, tried.within(self.revision)) {
            OwnedPick::Node(index, address) => Pick::Node(Picked::new(hold(), index, address)),
            OwnedPick::NoNodes => Pick::NoNodes,
            OwnedPick::AllTried => Pick::AllTried,
            OwnedPick::Unresolved => Pick::Unresolved,
        }
    }

    fn choose(&self, request: &PickRequest<'_>, tried: &Tried) -> OwnedPick {
        // With a single node, neither health nor earlier attempts matter.
        let only = self.nodes.len() == 1;
        let before = if only { &Tried::new() } else { tried };
        // Names without an address are skipped like tried nodes; the copy is rarely needed.
        let mut passed: Option<Tried> = None;
        while let Some(index) = self.choose_index(request, passed.as_ref().unwrap_or(before)) {
            match self.nodes[index as usize].locate(request.random) {
                NodeAddress::At(address) => return OwnedPick::Node(NodeIndex(index), address),
                NodeAddress::Pending if request.when_unresolved == WhenUnresolved::Wait => {
                    return OwnedPick::Unresolved;
                }
                NodeAddress::Pending | NodeAddress::Failed => {
                    let passed = passed.get_or_insert_with(|| before.clone());
                    passed.insert_index(self.revision, NodeIndex(index));
                }
            }
        }
        if before.is_empty() { OwnedPick::NoNodes } else { OwnedPick::AllTried }
    }

    fn choose_index(&self, request: &PickRequest<'_>, tried: &Tried) -> Option<u32> {
        let mut serving = self.serving.load();
        if serving.flips != self.flips.load(Ordering::Relaxed) {
            // A node flipped through another set of this upstream, such as that of the previous
            // snapshot.
            self.refresh();
            serving = self.serving.load();
        }
        let choice = Choice { request, tried, nodes: &self.nodes };
        serving.tables.iter().find_map(|table| table.pick(&choice))
    }

    /// Applies a signal to a node's health; a flip takes effect at once.
    pub(crate) fn observe(&self, index: NodeIndex, signal: Signal, thresholds: &Thresholds) {
        let Some(node) = self.nodes.get(index.as_usize()) else { return };
        let shift = node.vitals().health.observe(signal, signal.limit(thresholds));
        if shift == Shift::None {
            return;
        }
        let status = node.health().status;
        tracing::info!(host = node.host(), port = node.port(), ?status, "node changed its health");
        self.flips.fetch_add(1, Ordering::AcqRel);
        self.refresh();
    }

    /// Updates the ages of remaining nodes, because a node may have been replaced at its address.
    pub(crate) fn retell(&self, ages: &[Option<Duration>]) {
        let Some(warm_up) = &self.recipe.warm_up else { return };
        let share = |node: &Node| node.vitals().ramp.share();
        let before: u64 = self.nodes.iter().map(|node| u64::from(share(node))).sum();
        for (node, age) in self.nodes.iter().zip(ages) {
            node.vitals().ramp.arrive(warm_up, Arrival::Stays, *age);
        }
        // Ages can only lower a share, so equal sums mean equal shares.
        let after: u64 = self.nodes.iter().map(|node| u64::from(share(node))).sum();
        if before != after {
            self.fresh.store(true, Ordering::Release);
            self.refresh();
        }
    }

    /// Whether new nodes may have been added since the last call.
    pub(crate) fn take_fresh(&self) -> bool {
        self.fresh.swap(false, Ordering::AcqRel)
    }

    /// Raises the weights of new nodes to their value at `now`. Returns the time of the next step;
    /// `None` once all nodes have their full weight.
    pub(crate) fn warm(&self, now: Instant, uptime: Duration) -> Option<Instant> {
        let warm_up = self.recipe.warm_up?;
        let mut rose = false;
        let mut warms = false;
        for node in &self.nodes {
            let step = node.vitals().ramp.step(&warm_up, now, uptime);
            rose |= step.rose;
            warms |= step.warms;
        }
        if rose {
            self.refresh();
        }
        warms.then(|| now + warm_up.interval)
    }

    /// Rebuilds the tables of the serving nodes, after flips and steps only. Takes a lock, and
    /// allocates for each group with nodes that do not serve or have a reduced weight.
    fn refresh(&self) {
        let _rebuilding = self.rebuild.lock().unwrap_or_else(PoisonError::into_inner);
        // Read before the health states, so that a flip in between triggers another rebuild.
        let flips = self.flips.load(Ordering::Acquire);
        let members: Vec<Vec<Member>> = self.groups.iter().map(|g| g.members(self)).collect();
        let none_serves = members.iter().all(Vec::is_empty);
        let for_want_of_healthy = none_serves && !self.groups.is_empty();
        if for_want_of_healthy && !self.serving.load().for_want_of_healthy {
            tracing::warn!(nodes = self.nodes.len(), "no node is healthy, so all nodes serve");
        }
        let table = |(group, members): (&Group, Vec<Member>)| {
            if none_serves { Arc::clone(&group.all) } else { group.table(&members, &self.nodes) }
        };
        let tables = self.groups.iter().zip(members).map(table).collect();
        self.serving.store(Arc::new(ServingTables { flips, for_want_of_healthy, tables }));
    }

    fn serves(&self, member: &Member) -> bool {
        self.recipe.checks.is_none()
            || self.nodes.len() == 1
            || self.nodes[member.index as usize].health().status.serves()
    }

    fn share(&self, member: &Member) -> u32 {
        self.nodes[member.index as usize].vitals().ramp.share()
    }
}

/// Vitals (health and load) by host and port.
type VitalsByName<'a> = HashMap<(&'a str, u16), &'a Arc<Vitals>>;

/// Begins the slow start of every node, depending on whether the node is new and whether others
/// were there before.
fn arrive(
    nodes: &[Node],
    ages: &[Option<Duration>],
    inherited: &VitalsByName<'_>,
    warm_up: &WarmUp,
) {
    let ages = ages.iter().copied().chain(std::iter::repeat(None));
    for (node, age) in nodes.iter().zip(ages) {
        let arrival = if inherited.contains_key(&(node.host(), node.port())) {
            Arrival::Stays
        } else if inherited.is_empty() {
            Arrival::First
        } else {
            Arrival::Later
        };
        node.vitals().ramp.arrive(warm_up, arrival, age);
    }
}

/// A [`Pick`] without a reference to the set.
enum OwnedPick {
    Node(NodeIndex, Endpoint),
    NoNodes,
    AllTried,
    Unresolved,
}

// === impl Group ===

impl Group {
    /// Returns the members that serve now, with their current weights.
    fn members(&self, set: &NodeSet) -> Vec<Member> {
        let serving = self.members.iter().filter(|member| set.serves(member));
        let mut members: Vec<Member> = serving.copied().collect();
        let warms = set.recipe.warm_up.is_some();
        if warms && members.iter().any(|member| set.share(member) < ramp::WHOLE) {
            let heaviest = members.iter().map(|member| member.weight).max().unwrap_or(0);
            let parts = if heaviest <= u32::MAX / ramp::PARTS { ramp::PARTS } else { 1 };
            for member in &mut members {
                member.weight = ramp::weighed(member.weight, set.share(member), parts);
            }
        }
        members
    }

    fn table(&self, members: &[Member], nodes: &[Node]) -> Arc<Table> {
        if *members == *self.members {
            return Arc::clone(&self.all);
        }
        Arc::new(self.all.narrowed(members, nodes))
    }
}

/// Groups of the nodes by priority, without nodes of weight 0.
fn groups(policy: Policy, nodes: &[Node]) -> Box<[Group]> {
    let mut by_priority: BTreeMap<Reverse<i32>, Vec<Member>> = BTreeMap::new();
    for (node, index) in nodes.iter().zip(0..) {
        if node.weight() > 0 {
            let member = Member { index, weight: node.weight() };
            by_priority.entry(Reverse(node.priority())).or_default().push(member);
        }
    }
    let group = |members: Vec<Member>| Group {
        all: Arc::new(Table::new(policy, &members, nodes)),
        members: members.into(),
    };
    by_priority.into_values().map(group).collect()
}
