//! Policies: how one of several nodes is chosen. One file and one variant each.
//!
//! A `Table` covers the members of one priority group; it is immutable but for its counters and
//! is narrowed, not changed, when nodes become unhealthy. Picking does not allocate or lock.
//! Priorities, health and names are not decided here.

pub(crate) mod consistent_hash;
pub(crate) mod ewma;
pub(crate) mod least_connections;
pub(crate) mod round_robin;
mod strides;

use tollhouse_model::upstream::Balance;

use crate::node::Node;
use crate::pick::{PickRequest, Tried};

use consistent_hash::HashTable;
use ewma::EwmaTable;
use least_connections::LeastConnectionsTable;
use round_robin::Schedule;

/// How a node is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    /// Weighted, interleaved.
    RoundRobin,
    /// A ring of hashes.
    ConsistentHash,
    /// Fewest requests under way, by weight.
    LeastConnections,
    /// The faster of two by chance.
    Ewma,
}

impl Policy {
    /// The policy of a document; what is hashed is the caller's business.
    pub fn of(balance: &Balance) -> Self {
        match balance {
            Balance::RoundRobin => Self::RoundRobin,
            Balance::ConsistentHash(_) => Self::ConsistentHash,
            Balance::LeastConnections => Self::LeastConnections,
            Balance::Ewma => Self::Ewma,
        }
    }
}

/// A node that takes part, by its number and its weight, which is not 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Member {
    pub(crate) index: u32,
    pub(crate) weight: u32,
}

/// What a policy may look at.
pub(crate) struct Choice<'a> {
    pub(crate) request: &'a PickRequest<'a>,
    pub(crate) tried: &'a Tried,
    pub(crate) nodes: &'a [Node],
}

/// The members of one priority group, prepared for picking.
#[derive(Debug)]
pub(crate) enum Table {
    RoundRobin(Schedule),
    ConsistentHash(HashTable),
    LeastConnections(LeastConnectionsTable),
    Ewma(EwmaTable),
}

impl Table {
    /// A table over these members of `nodes`.
    pub(crate) fn new(policy: Policy, members: &[Member], nodes: &[Node]) -> Self {
        match policy {
            Policy::RoundRobin => Self::RoundRobin(Schedule::new(members)),
            Policy::ConsistentHash => Self::ConsistentHash(HashTable::new(members, nodes)),
            Policy::LeastConnections => Self::LeastConnections(LeastConnectionsTable::new(members)),
            Policy::Ewma => Self::Ewma(EwmaTable::new(members)),
        }
    }

    /// The same table for fewer members; cursors and rings are shared with it.
    pub(crate) fn narrowed(&self, members: &[Member]) -> Self {
        match self {
            Self::RoundRobin(table) => Self::RoundRobin(table.narrowed(members)),
            Self::ConsistentHash(table) => Self::ConsistentHash(table.narrowed(members)),
            Self::LeastConnections(_) => {
                Self::LeastConnections(LeastConnectionsTable::new(members))
            }
            Self::Ewma(_) => Self::Ewma(EwmaTable::new(members)),
        }
    }

    /// A member that has not been tried.
    pub(crate) fn pick(&self, choice: &Choice<'_>) -> Option<u32> {
        match self {
            Self::RoundRobin(table) => table.pick(choice.tried),
            Self::ConsistentHash(table) => table.pick(choice),
            Self::LeastConnections(table) => table.pick(choice),
            Self::Ewma(table) => table.pick(choice),
        }
    }
}

/// A "random" number that stands for the first of any list.
pub(crate) const FIRST: u64 = 0;

/// A number below `count` from a random one, without a division; 0 when `count` is 0.
pub(crate) fn below(random: u64, count: usize) -> usize {
    ((u128::from(random) * count as u128) >> 64) as usize
}

/// The greatest common divisor of all weights; 1 when there is none.
fn common_divisor(members: &[Member]) -> u32 {
    let divide = |mut a: u32, mut b: u32| {
        while b != 0 {
            (a, b) = (b, a % b);
        }
        a
    };
    members.iter().fold(0, |divisor, member| divide(divisor, member.weight)).max(1)
}

#[cfg(test)]
pub(crate) mod tests {
    use tollhouse_stdx::random::Random;

    use super::*;
    use crate::pick::WhenUnresolved;

    pub(crate) fn members(weights: &[u32]) -> Vec<Member> {
        let all = weights.iter().zip(0..).map(|(&weight, index)| Member { index, weight });
        all.filter(|member| member.weight > 0).collect()
    }

    pub(crate) fn request(random: u64) -> PickRequest<'static> {
        PickRequest { hash_key: None, random, now_ms: 0, when_unresolved: WhenUnresolved::Skip }
    }

    #[test]
    fn a_random_number_is_spread_evenly_below_the_count() {
        let mut random = Random::seeded(1);
        let mut hits = [0_u32; 3];
        (0..30_000).for_each(|_| hits[below(random.next_u64(), 3)] += 1);
        assert!(hits.iter().all(|&h| (9_700..10_300).contains(&h)), "{hits:?}");
        assert_eq!(below(u64::MAX, 0), 0);
        assert_eq!(below(u64::MAX, 1), 0);
    }

    #[test]
    fn the_common_divisor_covers_all_weights() {
        for (weights, expected) in [(&[6, 9][..], 3), (&[4], 4), (&[], 1), (&[5, 1], 1)] {
            assert_eq!(common_divisor(&members(weights)), expected);
        }
    }
}
