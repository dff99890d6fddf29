//! A discovered node set: nodes that a discovery source publishes.
//!
//! The set is replaced as a whole while requests continue; nodes that stay keep their vitals.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use tokio::sync::watch;
use tollhouse_model::upstream::{Checks, Discovery, FirstNodes, Node, Policy, Scheme, WarmUp};
use tollhouse_net::resolve::Resolver;

use crate::node_set::{Inherited, NodeSet, Recipe};

/// A node as published by its source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublishedNode {
    pub node: Node,
    /// Duration since the node started, if known; used by slow start.
    pub age: Option<Duration>,
}

impl From<Node> for PublishedNode {
    fn from(node: Node) -> Self {
        Self { node, age: None }
    }
}

/// Parameters of a discovered set. While they stay equal, the set is kept across changes of the
/// upstream.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Terms {
    pub(crate) discovery: Discovery,
    pub(crate) scheme: Scheme,
    pub(crate) policy: Policy,
    pub(crate) checks: Option<Arc<Checks>>,
    pub(crate) warm_up: Option<WarmUp>,
}

pub(crate) struct Discovered {
    terms: Terms,
    set: ArcSwapOption<NodeSet>,
    /// Whether a first look-up has ended, with success or failure.
    looked_up: watch::Sender<bool>,
    flips: Arc<AtomicU64>,
    resolver: Arc<Resolver>,
    /// Lock that is held while a new set is built from the previous one.
    publishing: Mutex<()>,
}

impl Discovered {
    /// Creates a set that has the nodes of a predecessor until its source publishes others.
    pub(crate) fn new(
        terms: Terms,
        previous: Option<Arc<NodeSet>>,
        flips: Arc<AtomicU64>,
        resolver: &Arc<Resolver>,
    ) -> Arc<Self> {
        let awaits = terms.discovery.source.first_nodes() == FirstNodes::Awaited;
        let discovered = Arc::new(Self {
            terms,
            set: ArcSwapOption::empty(),
            looked_up: watch::Sender::new(!awaits || previous.is_some()),
            flips,
            resolver: Arc::clone(resolver),
            publishing: Mutex::new(()),
        });
        if let Some(previous) = previous {
            discovered.replace(previous.recipe().nodes.clone(), &[], Some(&*previous));
        }
        discovered
    }

    pub(crate) fn terms(&self) -> &Terms {
        &self.terms
    }

    pub(crate) fn resolver(&self) -> &Arc<Resolver> {
        &self.resolver
    }

    pub(crate) fn set(&self) -> Option<Arc<NodeSet>> {
        self.set.load_full()
    }

    pub(crate) fn load(&self) -> arc_swap::Guard<Option<Arc<NodeSet>>> {
        self.set.load()
    }

    pub(crate) fn has_looked_up(&self) -> bool {
        *self.looked_up.borrow()
    }

    pub(crate) async fn looked_up(&self) {
        let mut looked_up = self.looked_up.subscribe();
        // An error would mean that the sender is gone, but it is part of `self`.
        let _ = looked_up.wait_for(|done| *done).await;
    }

    /// Replaces the nodes; equal nodes only update their ages.
    pub(crate) fn publish(&self, published: Vec<PublishedNode>) {
        let _publishing = self.publishing.lock().unwrap_or_else(PoisonError::into_inner);
        let ages: Vec<_> = published.iter().map(|published| published.age).collect();
        let nodes: Vec<_> = published.into_iter().map(|published| published.node).collect();
        let previous = self.set.load_full();
        match previous.as_deref() {
            Some(previous) if previous.recipe().nodes == nodes => previous.retell(&ages),
            previous => self.replace(nodes, &ages, previous),
        }
        self.note_look_up();
    }

    fn replace(&self, nodes: Vec<Node>, ages: &[Option<Duration>], previous: Option<&NodeSet>) {
        let Terms { policy, checks, warm_up, .. } = self.terms.clone();
        let recipe = Recipe { nodes, policy, checks, warm_up };
        let from = previous.map_or(Inherited::Nothing, Inherited::Vitals);
        let set = NodeSet::new(recipe, ages, from, Arc::clone(&self.flips), &self.resolver);
        self.set.store(Some(set));
    }

    fn note_look_up(&self) {
        self.looked_up.send_if_modified(|done| !std::mem::replace(done, true));
    }
}

impl std::fmt::Debug for Discovered {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Discovered").field("terms", &self.terms).finish_non_exhaustive()
    }
}
