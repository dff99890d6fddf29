//! Types of a pick: request, result, and the nodes that a request has tried.
//!
//! The choice itself is in `node_set.rs` and `balance/`.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use smallvec::SmallVec;
use tollhouse_stdx::Endpoint;

use crate::balance::Needs;
use crate::node::Node;
use crate::node_set::NodeSet;

/// Number of words of a [`Tried`] stored inline: 128 nodes without an allocation. A larger upstream
/// allocates only for requests that are retried.
const TRIED_WORDS_INLINE: usize = 2;

/// Facts about a request from which a node is picked.
#[derive(Debug, Clone, Copy)]
pub struct PickRequest<'a> {
    /// Bytes for consistent hashing; other policies ignore it.
    pub hash_key: Option<&'a [u8]>,
    /// Fresh random number for random policies.
    pub random: u64,
    /// Current time in milliseconds, of any monotonic clock that all cores share.
    pub now_ms: u64,
    /// Behaviour for a name whose first look-up is pending.
    pub when_unresolved: WhenUnresolved,
}

/// Treatment of a node whose name has never been resolved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhenUnresolved {
    /// Return [`Pick::Unresolved`]: the caller awaits `ready` and picks again.
    Wait,
    /// Choose another node, because the caller has waited long enough.
    Skip,
}

/// Picked node, or the reason why no node is available.
#[derive(Debug)]
pub enum Pick<'a> {
    Node(Picked<'a>),
    /// No usable node exists: answer 503.
    NoNodes,
    /// Every usable node has been tried in this request.
    AllTried,
    /// Names are still being resolved: await `ready`, then pick again with
    /// [`WhenUnresolved::Skip`].
    Unresolved,
}

/// Index of a node in its set; another set may assign it to a different node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct NodeIndex(pub(crate) u32);

impl NodeIndex {
    /// Returns the index as a position in the list of nodes.
    pub fn as_usize(self) -> usize {
        self.0 as usize
    }
}

/// A picked node. While it lives, the request counts as open for least connections, so keep it
/// until the response has ended.
#[derive(Debug)]
pub struct Picked<'a> {
    set: SetRef<'a>,
    index: NodeIndex,
    address: Endpoint,
    /// Counters that the set's policy needs.
    needs: Needs,
}

/// Reference to a node set. A fixed set is borrowed from its state; a discovered one may be
/// replaced at any time and is reference-counted.
#[derive(Debug)]
pub(crate) enum SetRef<'a> {
    Fixed(&'a NodeSet),
    Discovered(Arc<NodeSet>),
}

impl SetRef<'_> {
    #[inline]
    pub(crate) fn get(&self) -> &NodeSet {
        match self {
            SetRef::Fixed(set) => set,
            SetRef::Discovered(set) => set,
        }
    }
}

impl<'a> Picked<'a> {
    #[inline]
    pub(crate) fn new(set: SetRef<'a>, index: NodeIndex, address: Endpoint) -> Self {
        let needs = set.get().needs();
        if needs.requests_under_way {
            let node = &set.get().nodes()[index.as_usize()];
            node.vitals().active.fetch_add(1, Ordering::Relaxed);
        }
        Self { set, index, address, needs }
    }

    /// Picks the only node of `set` without reading the set, because its counters only serve to
    /// choose between several nodes.
    #[inline]
    pub(crate) fn only(set: &'a NodeSet, address: Endpoint) -> Self {
        let needs = Needs::default();
        Self { set: SetRef::Fixed(set), index: NodeIndex(0), address, needs }
    }

    #[inline]
    pub(crate) fn needs(&self) -> Needs {
        self.needs
    }

    #[inline]
    pub fn address(&self) -> Endpoint {
        self.address
    }

    /// Returns the index of the node in its set.
    #[inline]
    pub fn index(&self) -> NodeIndex {
        self.index
    }

    #[inline]
    pub fn node(&self) -> &Node {
        &self.set.get().nodes()[self.index.as_usize()]
    }

    /// Counts a failure of the node, for operators; `unix_ms` is the time since 1970.
    #[cold]
    pub fn note_failure(&self, unix_ms: u64) {
        self.node().vitals().streak.fail(unix_ms);
    }

    /// Records that the node has answered, which ends its row of failures.
    #[cold]
    pub fn note_answer(&self) {
        self.node().vitals().streak.end();
    }

    pub(crate) fn set(&self) -> &NodeSet {
        self.set.get()
    }
}

impl Drop for Picked<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.needs.requests_under_way {
            self.node().vitals().active.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// Outcome of an attempt, for passive checks and the moving average.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    Answered {
        status: u16,
        /// Duration from the start of the attempt, connecting included, to the response head.
        response_time: Duration,
    },
    /// The connection was refused or broken, or the response was invalid.
    Failed,
    /// Connecting, sending or waiting timed out.
    TimedOut,
}

/// Nodes that one request has tried.
#[derive(Debug, Clone, Default)]
pub struct Tried {
    /// Revision of the set that the indexes belong to.
    revision: u64,
    words: SmallVec<[u64; TRIED_WORDS_INLINE]>,
}

impl Tried {
    pub const fn new() -> Self {
        Self { revision: 0, words: SmallVec::new_const() }
    }

    pub fn insert(&mut self, picked: &Picked<'_>) {
        self.insert_index(picked.set().revision(), picked.index());
    }

    /// Whether no node has been tried.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    #[inline]
    pub(crate) fn contains(&self, index: u32) -> bool {
        let word = self.words.get(index as usize / 64).copied().unwrap_or(0);
        word >> (index % 64) & 1 == 1
    }

    pub(crate) fn insert_index(&mut self, revision: u64, index: NodeIndex) {
        if self.revision != revision {
            self.words.clear();
            self.revision = revision;
        }
        let word = index.as_usize() / 64;
        if self.words.len() <= word {
            self.words.resize(word + 1, 0);
        }
        self.words[word] |= 1 << (index.0 % 64);
    }

    /// Returns the tried nodes of the set with this revision; empty if they belong to another.
    pub(crate) fn within(&self, revision: u64) -> &Self {
        static NONE: Tried = Tried::new();
        if self.revision == revision { self } else { &NONE }
    }
}
