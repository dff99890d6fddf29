//! The words of a pick: what is asked, what is answered, which nodes a request has tried.
//!
//! How a node is chosen is in `node_set.rs` and `balance/`.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use smallvec::SmallVec;
use tollhouse_stdx::Endpoint;

use crate::balance::Needs;
use crate::node::Node;
use crate::node_set::NodeSet;

/// Words of a [`Tried`] kept in place: 128 nodes without an allocation, and a larger upstream
/// allocates only for a request that has to try again.
const TRIED_WORDS_INLINE: usize = 2;

/// What a pick may look at.
#[derive(Debug, Clone, Copy)]
pub struct PickRequest<'a> {
    /// What consistent hashing hashes; other policies ignore it.
    pub hash_key: Option<&'a [u8]>,
    /// A fresh random number.
    pub random: u64,
    /// The time, in milliseconds of any clock that never goes back and is common to all cores.
    pub now_ms: u64,
    /// Whether to wait for a name that is being looked up for the first time.
    pub when_unresolved: WhenUnresolved,
}

/// What to do with a node whose name has never been looked up to the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhenUnresolved {
    /// Answer [`Pick::Unresolved`]: the caller awaits `ready` and asks again.
    Wait,
    /// Take another node: the caller has waited long enough.
    Skip,
}

/// The answer to a pick.
#[derive(Debug)]
pub enum Pick<'a> {
    /// This node.
    Node(Picked<'a>),
    /// There is none that could be used, now or in this request before: answer 503.
    NoNodes,
    /// Every usable node has been tried in this request.
    AllTried,
    /// Names are still being looked up: await `ready`, then ask again with
    /// [`WhenUnresolved::Skip`].
    Unresolved,
}

/// Which node of its set; the same number may mean another node after a change of the upstream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct NodeIndex(pub(crate) u32);

impl NodeIndex {
    /// As a position in the list of nodes.
    pub fn as_usize(self) -> usize {
        self.0 as usize
    }
}

/// A picked node. While it lives, the request counts as under way for least connections, so keep
/// it until the response has ended.
#[derive(Debug)]
pub struct Picked<'a> {
    set: SetRef<'a>,
    index: NodeIndex,
    address: Endpoint,
    /// What its set keeps count of.
    needs: Needs,
}

/// A fixed set is borrowed from its state; a discovered one may be replaced at any time and is
/// held by a count.
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

    /// The only node of `set`, which is not looked at: nothing is counted where there is no choice.
    #[inline]
    pub(crate) fn only(set: &'a NodeSet, address: Endpoint) -> Self {
        let needs = Needs::default();
        Self { set: SetRef::Fixed(set), index: NodeIndex(0), address, needs }
    }

    #[inline]
    pub(crate) fn needs(&self) -> Needs {
        self.needs
    }

    /// Where to connect to.
    #[inline]
    pub fn address(&self) -> Endpoint {
        self.address
    }

    /// Which node of its set.
    #[inline]
    pub fn index(&self) -> NodeIndex {
        self.index
    }

    /// The node.
    #[inline]
    pub fn node(&self) -> &Node {
        &self.set.get().nodes()[self.index.as_usize()]
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

/// How an attempt ended, for passive checks and the moving average.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The node answered with this status.
    Answered {
        /// The status.
        status: u16,
        /// From the begin of the attempt, connecting included, to the head of the answer.
        response_time: Duration,
    },
    /// The connection was refused or broken, or the answer was not valid.
    Failed,
    /// Connecting, sending or waiting took too long.
    TimedOut,
}

/// The nodes that one request has tried.
#[derive(Debug, Clone, Default)]
pub struct Tried {
    /// Of which set; the numbers mean nothing in another one.
    revision: u64,
    words: SmallVec<[u64; TRIED_WORDS_INLINE]>,
}

impl Tried {
    /// None yet.
    pub const fn new() -> Self {
        Self { revision: 0, words: SmallVec::new_const() }
    }

    /// Counts a node as tried.
    pub fn insert(&mut self, picked: &Picked<'_>) {
        self.insert_index(picked.set().revision(), picked.index());
    }

    /// Whether there is none.
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

    /// Itself as far as it speaks of this set.
    pub(crate) fn within(&self, revision: u64) -> &Self {
        static NONE: Tried = Tried::new();
        if self.revision == revision { self } else { &NONE }
    }
}
