//! Several nodes that keep one registry in a shared store.
//!
//! A client may talk to any node at any time. Registered objects are in the store's commits. Every
//! node applies all commits in their order, so that all nodes reach the same state with the same
//! revisions. Heartbeats are not in these commits: each node periodically tells the others which
//! instances it has heard of ([`rounds`]), over the store or over a faster [`BeatChannel`], so that
//! every node knows all heartbeats. The [members](member) decide which node may expire an instance.
//! That node must wait until every member has reported its heartbeats up to then ([`evidence`]).
//! Without these reports no instance expires: while a node or the store is unreachable, health is
//! frozen.
//!
//! Clocks of different nodes are never compared.

pub(crate) mod digest;
pub(crate) mod evidence;
pub(crate) mod member;
pub(crate) mod rounds;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hashbrown::HashMap;
use tollhouse_stdx::Random;
use tollhouse_store::{BoxFuture, LeaseId};

use evidence::Evidence;
use rounds::HeardInstances;

/// Prefix of the keys that prove which cluster a store belongs to; the code that opens the store
/// writes them.
pub(crate) const PROOFS: &str = "/tollhouse/";

/// Id of a registry node: a random number, new for each process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u64);

impl fmt::Display for NodeId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:016x}", self.0)
    }
}

impl std::str::FromStr for NodeId {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        u64::from_str_radix(text, 16).map(Self)
    }
}

/// Settings of a node that shares its registry with others.
#[derive(Clone)]
pub struct ClusterOptions {
    /// Name of this node, for operators. At the start, an existing member with this name is taken
    /// for a dead process and removed.
    pub name: Box<str>,
    /// Whether an earlier process with this name still serves and will end its membership itself.
    pub has_predecessor: bool,
    /// Channel that carries heartbeats faster than the store; `None` to use the store.
    pub channel: Option<Arc<dyn BeatChannel>>,
    /// Key that the shared store must contain. If it is missing, the store was emptied or replaced:
    /// the node then keeps the state that it has.
    pub proof: Option<Box<str>>,
}

impl fmt::Debug for ClusterOptions {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("ClusterOptions").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Channel that carries rounds of heartbeats from each node to all others. It need not be durable:
/// gaps in the numbers of rounds show what was lost, and rounds that it refuses go over the store.
pub trait BeatChannel: Send + Sync {
    fn interval(&self) -> Duration;

    /// Sends a round; on return the other nodes can read it.
    ///
    /// # Errors
    /// If the channel fails. The round may have been sent nevertheless.
    fn send<'a>(&'a self, node: NodeId, round: &'a [u8]) -> BoxFuture<'a, Result<(), String>>;

    /// Returns the rounds that these nodes have sent since the last call, those of each node in
    /// their order. The call returns at once or waits a moment for some.
    ///
    /// # Errors
    /// If the channel fails.
    fn receive<'a>(
        &'a self,
        nodes: &'a [NodeId],
    ) -> BoxFuture<'a, Result<Vec<(NodeId, bytes::Bytes)>, String>>;
}

/// Cluster state that the threads of a node share.
pub(crate) struct Cluster {
    pub(crate) options: ClusterOptions,
    /// Heartbeats received here that were not sent to the other nodes yet.
    pub(crate) heard: HeardInstances,
    pub(crate) evidence: Evidence,
    /// Set while any instance may expire, so that the other nodes wait for this node's rounds.
    pub(crate) is_awaited: AtomicBool,
    /// Names of the current members.
    members: Mutex<BTreeMap<NodeId, Box<str>>>,
    numbers: Mutex<Random>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// Id of the node, new for each process.
    pub node: NodeId,
    pub name: Box<str>,
    /// Whether this is the node that answers the query.
    pub is_self: bool,
}

/// Id and lease of a node's membership.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) node: NodeId,
    pub(crate) lease: LeaseId,
}

impl fmt::Debug for Cluster {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Cluster").field("options", &self.options).finish_non_exhaustive()
    }
}

impl Cluster {
    pub(crate) fn new(options: ClusterOptions, seed: u64) -> Arc<Self> {
        Arc::new(Self {
            options,
            heard: HeardInstances::default(),
            evidence: Evidence::default(),
            is_awaited: AtomicBool::new(false),
            members: Mutex::default(),
            numbers: Mutex::new(Random::seeded(seed)),
        })
    }

    /// Returns a new random node id.
    pub(crate) fn next_node(&self) -> NodeId {
        NodeId(self.numbers.lock().unwrap_or_else(PoisonError::into_inner).next_u64())
    }

    /// Returns the id of this node while it is a member or about to become one.
    pub(crate) fn node(&self) -> Option<NodeId> {
        self.evidence.own()
    }

    pub(crate) fn set_members(&self, members: &HashMap<NodeId, Box<str>>) {
        let members = members.iter().map(|(node, name)| (*node, name.clone())).collect();
        *self.members.lock().unwrap_or_else(PoisonError::into_inner) = members;
    }

    pub(crate) fn members(&self) -> Vec<Member> {
        let members = self.members.lock().unwrap_or_else(PoisonError::into_inner);
        let own = self.node();
        let members = members.iter().map(|(node, name)| Member {
            node: *node,
            name: name.clone(),
            is_self: own == Some(*node),
        });
        members.collect()
    }

    /// Whether rounds must be sent even when no heartbeat was heard.
    pub(crate) fn is_awaited(&self) -> bool {
        self.is_awaited.load(Ordering::Relaxed)
    }
}
