//! Handle of an upstream for requests: its state, and the node itself if there is only one to pick.

use std::ops::Deref;
use std::sync::Arc;

use tollhouse_stdx::Endpoint;

use crate::node_set::NodeSet;
use crate::pick::{Outcome, Pick, PickRequest, Picked, Tried};
use crate::state::UpstreamState;

/// State of an upstream. If the upstream consists of a single unchecked node with a literal
/// address, the handle also contains that node. Most upstreams are of this kind; with ten thousand
/// of them, every additional cache line that a request reads is a cache miss.
#[derive(Debug, Clone)]
pub struct UpstreamHandle {
    state: Arc<UpstreamState>,
    only: Option<SingleNode>,
}

/// The node of a set with a single node.
#[derive(Debug, Clone)]
pub(crate) struct SingleNode {
    pub(crate) set: Arc<NodeSet>,
    pub(crate) address: Endpoint,
}

impl UpstreamHandle {
    pub fn new(state: Arc<UpstreamState>) -> Self {
        let only = state.unchecked_only();
        Self { state, only }
    }

    pub fn state(&self) -> &Arc<UpstreamState> {
        &self.state
    }

    /// Picks a node as [`UpstreamState::pick`] does.
    #[inline]
    pub fn pick(&self, request: &PickRequest<'_>, tried: &Tried) -> Pick<'_> {
        match &self.only {
            Some(only) => Pick::Node(Picked::only(&only.set, only.address)),
            None => self.state.pick(request, tried),
        }
    }

    /// See [`UpstreamState::report`]; does nothing for a single unchecked node.
    #[inline]
    pub fn report(&self, picked: &Picked<'_>, outcome: Outcome, now_ms: u64) {
        if self.only.is_none() {
            self.state.report(picked, outcome, now_ms);
        }
    }

    #[inline]
    pub fn node_count(&self) -> usize {
        if self.only.is_some() { 1 } else { self.state.node_count() }
    }
}

impl Deref for UpstreamHandle {
    type Target = UpstreamState;

    fn deref(&self) -> &UpstreamState {
        &self.state
    }
}
