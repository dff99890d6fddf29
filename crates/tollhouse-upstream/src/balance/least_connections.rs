//! Least connections: picks the member with the smallest `(open requests + 1) / weight`.
//!
//! The counts belong to the nodes and are shared by all cores, so they survive changes of the
//! upstream. A pick visits every member, at a few nanoseconds each.

use std::sync::atomic::Ordering;

use super::{Choice, Member, Needs, PolicyTable, below};
use crate::node::Node;

#[derive(Debug)]
pub(crate) struct LeastConnectionsTable(Box<[Member]>);

impl PolicyTable for LeastConnectionsTable {
    const NEEDS: Needs = Needs { requests_under_way: true, response_time: false };

    fn new(members: &[Member], _nodes: &[Node]) -> Self {
        Self(members.into())
    }

    fn pick(&self, choice: &Choice<'_>) -> Option<u32> {
        let active =
            |index: u32| choice.nodes[index as usize].vitals().active.load(Ordering::Relaxed);
        self.pick_by(choice, active)
    }
}

impl LeastConnectionsTable {
    /// Returns the member with the least load. The search starts at a random position, because an
    /// idle upstream would otherwise send everything to its first node.
    fn pick_by(&self, choice: &Choice<'_>, active: impl Fn(u32) -> u32) -> Option<u32> {
        let start = below(choice.request.random, self.0.len());
        let (before, after) = self.0.split_at(start);
        let mut best: Option<(u64, &Member)> = None;
        for member in after.iter().chain(before) {
            if choice.tried.contains(member.index) {
                continue;
            }
            let load = u64::from(active(member.index)) + 1;
            let lighter = best.is_none_or(|(least, least_member)| {
                // Both products are below 2^64, because the load is at most 2^32 and a weight is
                // below that.
                load * u64::from(least_member.weight) < least * u64::from(member.weight)
            });
            if lighter {
                best = Some((load, member));
            }
        }
        best.map(|(_, member)| member.index)
    }
}

#[cfg(test)]
mod tests {
    use tollhouse_stdx::random::Random;

    use super::super::tests::{members, request};
    use super::*;
    use crate::pick::{NodeIndex, Tried};

    fn run(weights: &[u32], active: &[u32], tried: &[u32], random: u64) -> Option<u32> {
        let mut marks = Tried::new();
        tried.iter().for_each(|&index| marks.insert_index(1, NodeIndex(index)));
        let choice = Choice { request: &request(random), tried: &marks, nodes: &[] };
        let table = LeastConnectionsTable::new(&members(weights), &[]);
        table.pick_by(&choice, |index| active[index as usize])
    }

    #[test]
    fn the_least_loaded_by_weight_is_picked() {
        for (weights, active, tried, expected) in [
            (&[1, 1][..], &[3, 2][..], &[][..], Some(1)),
            (&[2, 1], &[0, 0], &[], Some(0)),
            (&[2, 1], &[2, 0], &[], Some(1)),
            (&[1, 1, 1], &[0, 1, 2], &[0], Some(1)),
            (&[1, 1], &[0, 0], &[0, 1], None),
            (&[0, 1], &[0, 9], &[], Some(1)),
            (&[u32::MAX, 1], &[u32::MAX, 0], &[], Some(1)),
            (&[], &[], &[], None),
        ] {
            for random in [0, u64::MAX / 2, u64::MAX] {
                assert_eq!(run(weights, active, tried, random), expected, "{weights:?} {active:?}");
            }
        }
    }

    #[test]
    fn requests_that_stay_settle_at_the_weights() {
        let mut random = Random::seeded(7);
        let mut active = [0; 3];
        for _ in 0..600 {
            let index = run(&[1, 2, 3], &active, &[], random.next_u64()).unwrap();
            active[index as usize] += 1;
        }
        assert_eq!(active, [100, 200, 300]);
    }

    #[test]
    fn ties_of_an_idle_upstream_spread() {
        let mut random = Random::seeded(3);
        let mut hits = [0; 4];
        for _ in 0..4_000 {
            hits[run(&[1; 4], &[0; 4], &[], random.next_u64()).unwrap() as usize] += 1;
        }
        assert!(hits.iter().all(|hit| (900..1_100).contains(hit)), "{hits:?}");
    }
}
