//! Several nodes that keep one registry in a store that they share.
//!
//! Any client may speak to any node at any time. What is registered is in the store's commits, which every node
//! takes in whole and in their order, so that all of them come to the same state with the same revisions. Beats are
//! in no commit of the registry: each node says from time to time whom it has heard of ([`rounds`]), over the
//! store or over a faster [`BeatChannel`], and so each knows of all. Whose turn it is to say that an instance has
//! fallen silent follows from who is a [member](member); it may say so only once every member has said whom it had
//! heard of until then ([`evidence`]). Without that nobody expires: a node or an engine that is away freezes health
//! instead of changing it.
//!
//! No clock of a node is compared with another's.

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
use rounds::Heard;

/// Where keys stand that say which cluster a store is of; whoever opens it has to do with them.
pub(crate) const PROOFS: &str = "/tollhouse/";

/// A node of a registry: a random number, never used again. A process that starts anew is another one.
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

/// How a node keeps a registry together with others.
#[derive(Clone)]
pub struct ClusterOptions {
    /// The name of this node, for people; a process of the same name that is still counted as a member is taken
    /// for dead.
    pub name: Box<str>,
    /// Whether a process of the same name still serves, and will say itself when it ends.
    pub has_predecessor: bool,
    /// A faster way for beats than the store.
    pub channel: Option<Arc<dyn BeatChannel>>,
    /// A key without which the store is not the one that was shared before: then what is known is kept.
    pub proof: Option<Box<str>>,
}

impl fmt::Debug for ClusterOptions {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("ClusterOptions").field("name", &self.name).finish_non_exhaustive()
    }
}

/// A way for rounds of beats from each node to all others. What it loses is noticed by the rounds' numbers, and what
/// it cannot take goes over the store: it need not be durable.
pub trait BeatChannel: Send + Sync {
    /// How often a round is worth sending.
    fn interval(&self) -> Duration;

    /// Sends a round; when this returns, the others can read it.
    ///
    /// # Errors
    /// What is wrong with the channel; nobody knows whether it was sent.
    fn send<'a>(&'a self, node: NodeId, round: &'a [u8]) -> BoxFuture<'a, Result<(), String>>;

    /// Rounds that these nodes have sent since they were asked for before, each node's in their order; returns at once
    /// or after a moment of waiting for some.
    ///
    /// # Errors
    /// What is wrong with the channel.
    fn receive<'a>(
        &'a self,
        nodes: &'a [NodeId],
    ) -> BoxFuture<'a, Result<Vec<(NodeId, bytes::Bytes)>, String>>;
}

/// What the threads of a node share about its cluster.
pub(crate) struct Cluster {
    pub(crate) options: ClusterOptions,
    /// Beats taken here that the others have not been told of.
    pub(crate) heard: Heard,
    pub(crate) evidence: Evidence,
    /// Whether anybody may expire, so that the others wait for this node's rounds.
    pub(crate) is_awaited: AtomicBool,
    /// Who keeps the registry, by name.
    members: Mutex<BTreeMap<NodeId, Box<str>>>,
    numbers: Mutex<Random>,
}

/// A node that keeps the registry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// Its number, anew for each process.
    pub node: NodeId,
    /// Its name.
    pub name: Box<str>,
    /// Whether it is the one that says so.
    pub is_self: bool,
}

/// A node's membership.
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
            heard: Heard::default(),
            evidence: Evidence::default(),
            is_awaited: AtomicBool::new(false),
            members: Mutex::default(),
            numbers: Mutex::new(Random::seeded(seed)),
        })
    }

    /// A number that no other process has.
    pub(crate) fn next_node(&self) -> NodeId {
        NodeId(self.numbers.lock().unwrap_or_else(PoisonError::into_inner).next_u64())
    }

    /// This node, while it is a member, or about to become one.
    pub(crate) fn node(&self) -> Option<NodeId> {
        self.evidence.own()
    }

    /// Takes note of who keeps the registry.
    pub(crate) fn set_members(&self, members: &HashMap<NodeId, Box<str>>) {
        let members = members.iter().map(|(node, name)| (*node, name.clone())).collect();
        *self.members.lock().unwrap_or_else(PoisonError::into_inner) = members;
    }

    /// Who keeps the registry.
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

    /// Whether rounds are to be sent although nobody was heard of.
    pub(crate) fn is_awaited(&self) -> bool {
        self.is_awaited.load(Ordering::Relaxed)
    }
}
