//! What requests hold of an upstream: its state, and beside it all that a pick without a choice reads.

use std::ops::Deref;
use std::sync::Arc;

use tollhouse_stdx::Endpoint;

use crate::node_set::NodeSet;
use crate::pick::{Outcome, Pick, PickRequest, Picked, Tried};
use crate::state::UpstreamState;

/// A state and, where it is a single node with an address that nobody checks, that node. Most upstreams are such,
/// and among ten thousand of them each line of memory that a request reads is one that no cache holds.
#[derive(Debug, Clone)]
pub struct UpstreamHandle {
    state: Arc<UpstreamState>,
    only: Option<Only>,
}

/// The only node of a set.
#[derive(Debug, Clone)]
pub(crate) struct Only {
    pub(crate) set: Arc<NodeSet>,
    pub(crate) address: Endpoint,
}

impl UpstreamHandle {
    /// A handle to `state`.
    pub fn new(state: Arc<UpstreamState>) -> Self {
        let only = state.unchecked_only();
        Self { state, only }
    }

    /// The state.
    pub fn state(&self) -> &Arc<UpstreamState> {
        &self.state
    }

    /// See [`UpstreamState::pick`].
    #[inline]
    pub fn pick(&self, request: &PickRequest<'_>, tried: &Tried) -> Pick<'_> {
        match &self.only {
            Some(only) => Pick::Node(Picked::only(&only.set, only.address)),
            None => self.state.pick(request, tried),
        }
    }

    /// See [`UpstreamState::report`]: there is nothing to learn of a node that is neither chosen nor checked.
    #[inline]
    pub fn report(&self, picked: &Picked<'_>, outcome: Outcome, now_ms: u64) {
        if self.only.is_none() {
            self.state.report(picked, outcome, now_ms);
        }
    }

    /// See [`UpstreamState::node_count`].
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
