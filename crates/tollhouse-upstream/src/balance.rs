//! Balancing policies. Each has a file here and a row in the table of policies of
//! `tollhouse-model`, from which the dispatch below is generated.
//!
//! A `Table` covers the members of one priority group. Apart from counters it is immutable; if
//! nodes become unhealthy, a narrowed copy is made. Picking neither allocates nor locks.
//! Priorities, health and DNS names are handled elsewhere.

pub(crate) mod consistent_hash;
pub(crate) mod ewma;
pub(crate) mod least_connections;
pub(crate) mod round_robin;
mod strides;

use tollhouse_model::upstream::Policy;

use crate::node::Node;
use crate::pick::{PickRequest, Tried};

/// A node that takes part in balancing: its index and its weight, which is not 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Member {
    pub(crate) index: u32,
    pub(crate) weight: u32,
}

/// Request, nodes, and already tried nodes, from which a policy picks.
pub(crate) struct Choice<'a> {
    pub(crate) request: &'a PickRequest<'a>,
    pub(crate) tried: &'a Tried,
    pub(crate) nodes: &'a [Node],
}

/// Members of one priority group, prepared for picking by one policy.
pub(crate) trait PolicyTable: Sized {
    /// Counters that the policy needs per node.
    const NEEDS: Needs = Needs { requests_under_way: false, response_time: false };

    /// Builds a table over these members of `nodes`.
    fn new(members: &[Member], nodes: &[Node]) -> Self;

    /// Returns a table of fewer members. State that must continue, such as a cursor, is shared with
    /// this table.
    fn narrowed(&self, members: &[Member], nodes: &[Node]) -> Self {
        Self::new(members, nodes)
    }

    /// Picks a member that has not been tried.
    fn pick(&self, choice: &Choice<'_>) -> Option<u32>;
}

/// Counters that a policy needs per node; each adds a cost to every request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Needs {
    pub(crate) requests_under_way: bool,
    pub(crate) response_time: bool,
}

/// Generates an enum of the tables of all policies, and dispatches each call to its variant.
macro_rules! tables {
    ($(
        $(#[$doc:meta])*
        $policy:ident $name:literal {
            hashes_key: $hashes_key:literal, slow_start: $slow_start:literal,
            table: $module:ident::$table:ident
        }
    )+) => {
        /// Members of one priority group, prepared for picking.
        #[derive(Debug)]
        pub(crate) enum Table {
            $($policy($module::$table),)+
        }

        impl Table {
            /// Builds a table over these members of `nodes`.
            pub(crate) fn new(policy: Policy, members: &[Member], nodes: &[Node]) -> Self {
                match policy {
                    $(Policy::$policy => Self::$policy(PolicyTable::new(members, nodes)),)+
                }
            }

            /// Returns a table of fewer members; cursors and rings are shared with this table.
            pub(crate) fn narrowed(&self, members: &[Member], nodes: &[Node]) -> Self {
                match self {
                    $(Self::$policy(table) => Self::$policy(table.narrowed(members, nodes)),)+
                }
            }

            /// Picks a member that has not been tried.
            #[inline]
            pub(crate) fn pick(&self, choice: &Choice<'_>) -> Option<u32> {
                match self {
                    $(Self::$policy(table) => table.pick(choice),)+
                }
            }
        }

        /// Returns the counters that a policy needs per node.
        pub(crate) fn needs(policy: Policy) -> Needs {
            match policy {
                $(Policy::$policy => <$module::$table as PolicyTable>::NEEDS,)+
            }
        }
    };
}

tollhouse_model::balancing_policies!(tables);

/// A "random" number that selects the first element of any list.
pub(crate) const FIRST: u64 = 0;

/// Maps a random number to the range below `count` without a division; 0 if `count` is 0.
pub(crate) fn below(random: u64, count: usize) -> usize {
    ((u128::from(random) * count as u128) >> 64) as usize
}

/// Returns the greatest common divisor of all weights; 1 if `members` is empty.
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
