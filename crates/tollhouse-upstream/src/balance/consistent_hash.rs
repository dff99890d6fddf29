//! Consistent hashing: a ring with 160 points per unit of weight, hashed with CRC32.
//!
//! The points follow the ketama scheme as nginx and APISIX compute them (`host`, a zero byte,
//! `port`, the previous point), so that keys stay on their nodes when one of those gateways is
//! replaced. The ring contains all members; unhealthy and tried ones are skipped clockwise, so that
//! only their keys move.

use std::sync::Arc;

use super::{Choice, Member, PolicyTable, common_divisor};
use crate::node::Node;

/// Points per unit of weight, after division by the common divisor of the weights.
const POINTS_PER_WEIGHT: u64 = 160;

/// Maximum number of points of a ring, which then occupies 2 MiB. Larger sums of weights are scaled
/// down; every node keeps at least one point.
pub(crate) const RING_POINTS_MAX: u64 = 262_144;

/// A ring and the set of members that may be picked.
#[derive(Debug)]
pub(crate) struct HashTable {
    ring: Arc<[Point]>,
    /// Bitmap with a bit per node of the upstream; empty if no member is left.
    eligible: Box<[u64]>,
}

/// Point of a node on the hash ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Point {
    hash: u32,
    index: u32,
}

impl PolicyTable for HashTable {
    fn new(members: &[Member], nodes: &[Node]) -> Self {
        let hosts = |index: u32| {
            let node = &nodes[index as usize];
            (node.host(), node.port())
        };
        Self::over(ring(members, hosts), members)
    }

    fn narrowed(&self, members: &[Member], _nodes: &[Node]) -> Self {
        Self::over(Arc::clone(&self.ring), members)
    }

    fn pick(&self, choice: &Choice<'_>) -> Option<u32> {
        if self.eligible.is_empty() {
            // Avoids a walk over the whole ring.
            return None;
        }
        let hash = match choice.request.hash_key {
            Some(key) => crc32fast::hash(key),
            // Without a key, any position is equally good.
            None => (choice.request.random >> 32) as u32,
        };
        let start = self.ring.partition_point(|point| point.hash < hash);
        let (before, after) = self.ring.split_at(start);
        let free = |point: &&Point| {
            let word = self.eligible.get(point.index as usize / 64).copied().unwrap_or(0);
            word >> (point.index % 64) & 1 == 1 && !choice.tried.contains(point.index)
        };
        after.iter().chain(before).find(free).map(|point| point.index)
    }
}

impl HashTable {
    fn over(ring: Arc<[Point]>, members: &[Member]) -> Self {
        let words = members.iter().map(|m| m.index as usize / 64 + 1).max().unwrap_or(0);
        let mut eligible = vec![0; words];
        for member in members {
            eligible[member.index as usize / 64] |= 1 << (member.index % 64);
        }
        Self { ring, eligible: eligible.into() }
    }
}

fn ring<'n>(members: &[Member], hosts: impl Fn(u32) -> (&'n str, u16)) -> Arc<[Point]> {
    let divisor = common_divisor(members);
    let points_of = |member: &Member| u64::from(member.weight / divisor) * POINTS_PER_WEIGHT;
    let total: u64 = members.iter().map(points_of).sum();
    let mut ring = Vec::new();
    for member in members {
        let count = match points_of(member) {
            points if total <= RING_POINTS_MAX => points,
            points => (u128::from(points) * u128::from(RING_POINTS_MAX) / u128::from(total)) as u64,
        };
        let (host, port) = hosts(member.index);
        let mut base = crc32fast::Hasher::new();
        base.update(host.as_bytes());
        base.update(b"\0");
        base.update(port.to_string().as_bytes());
        let mut previous = 0_u32;
        // Each point is hashed from the previous one, as ketama does, so that keys stay on their
        // nodes when a gateway of that scheme is replaced.
        for _ in 0..count.max(1) {
            let mut hasher = base.clone();
            hasher.update(&previous.to_le_bytes());
            previous = hasher.finalize();
            ring.push(Point { hash: previous, index: member.index });
        }
    }
    ring.sort_unstable();
    ring.into()
}

#[cfg(test)]
mod tests {
    use super::super::tests::{members, request};
    use super::*;
    use crate::pick::{NodeIndex, PickRequest, Tried};

    const KEYS: u32 = 20_000;

    fn table(weights: &[u32]) -> HashTable {
        let hosts = ["10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4"];
        let members = members(weights);
        HashTable::over(ring(&members, |index| (hosts[index as usize], 80)), &members)
    }

    fn pick(table: &HashTable, key: u32, tried: &Tried) -> Option<u32> {
        let key = key.to_string();
        let request = PickRequest { hash_key: Some(key.as_bytes()), ..request(0) };
        table.pick(&Choice { request: &request, tried, nodes: &[] })
    }

    fn all(table: &HashTable) -> Vec<u32> {
        (0..KEYS).map(|key| pick(table, key, &Tried::new()).unwrap()).collect()
    }

    fn hits(picks: &[u32], index: u32) -> f64 {
        picks.iter().filter(|&&pick| pick == index).count() as f64
    }

    #[test]
    fn keys_spread_by_weight() {
        let picks = all(&table(&[1, 1, 2]));
        for (index, share) in [(0, 0.25), (1, 0.25), (2, 0.5)] {
            let found = hits(&picks, index) / f64::from(KEYS);
            assert!((found - share).abs() < 0.05, "{index}: {found}");
        }
    }

    #[test]
    fn a_ring_has_160_points_for_each_unit_of_weight() {
        for (weights, expected) in [(&[1, 1][..], 320), (&[10, 20], 480), (&[0, 3], 160)] {
            assert_eq!(table(weights).ring.len(), expected, "{weights:?}");
        }
        let bounded = table(&[u32::MAX, 1]).ring.len() as u64;
        assert!(bounded <= RING_POINTS_MAX + 2, "{bounded}");
    }

    #[test]
    fn only_the_keys_of_a_lost_member_move() {
        let full = table(&[1, 1, 1, 1]);
        let before = all(&full);
        for after in [all(&full.narrowed(&members(&[1, 0, 1, 1]), &[])), all(&table(&[1, 0, 1, 1]))]
        {
            for (was, is) in before.iter().zip(&after) {
                assert!(was == is || *was == 1, "{was} moved to {is}");
            }
        }
        let returned = all(&full.narrowed(&members(&[1, 1, 1, 1]), &[]));
        assert_eq!((returned, all(&table(&[1, 1, 1, 1]))), (before.clone(), before));
    }

    #[test]
    fn a_second_attempt_goes_on_clockwise_until_all_are_tried() {
        let table = table(&[1, 1, 1]);
        let mut tried = Tried::new();
        let mut seen = Vec::new();
        while let Some(index) = pick(&table, 7, &tried) {
            tried.insert_index(1, NodeIndex(index));
            seen.push(index);
        }
        seen.sort_unstable();
        assert_eq!(seen, [0, 1, 2]);
    }

    #[test]
    fn without_members_there_is_no_pick() {
        assert_eq!(pick(&table(&[0, 0]), 1, &Tried::new()), None);
        assert_eq!(pick(&table(&[1, 1]).narrowed(&[], &[]), 1, &Tried::new()), None);
    }
}
