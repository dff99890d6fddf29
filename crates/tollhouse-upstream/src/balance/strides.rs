//! Round robin for sums of weights too great for a schedule: every member owns a segment of a line,
//! and each turn advances by a fixed stride, with wrap-around.
//!
//! The stride is near the golden section of the line and coprime to its length, so that short runs
//! are distributed evenly and a whole cycle exactly. A turn costs two divisions and a binary
//! search.

use super::Member;

/// Maximum sum of weights on the line: the product of two positions fits into 64 bits, with room
/// for one unit for each member whose weight would be rounded to 0. Greater sums are scaled down,
/// which does not change shares noticeably.
const LENGTH_MAX: u64 = 1 << 31;

/// Golden section, in parts of 2^32.
const GOLDEN: u64 = 2_654_435_769;

#[derive(Debug)]
pub(crate) struct Strides {
    /// Ends of the segments, in ascending order.
    ends: Box<[u64]>,
    owners: Box<[u32]>,
    length: u64,
    stride: u64,
}

impl Strides {
    /// Assigns segments of the line to the members; at least one must have a weight.
    pub(crate) fn new(members: &[Member]) -> Self {
        let total: u64 = members.iter().map(|member| u64::from(member.weight)).sum();
        let scale = |weight: u32| match u64::from(weight) {
            weight if total <= LENGTH_MAX => weight,
            weight => {
                (u128::from(weight) * u128::from(LENGTH_MAX) / u128::from(total)).max(1) as u64
            }
        };
        let mut length = 0;
        let end = |member: &Member| {
            length += scale(member.weight);
            length
        };
        let ends: Box<[u64]> = members.iter().map(end).collect();
        let owners = members.iter().map(|member| member.index).collect();
        Self { ends, owners, length, stride: stride(length) }
    }

    /// Returns the member for the cursor position `turn`.
    pub(crate) fn at(&self, turn: usize) -> u32 {
        let place = (turn as u64 % self.length) * self.stride % self.length;
        let owner = self.ends.partition_point(|end| *end <= place);
        self.owners[owner]
    }

    pub(crate) fn members(&self) -> impl Iterator<Item = u32> {
        self.owners.iter().copied()
    }
}

/// Returns the stride near the golden section of `length` and coprime to it.
fn stride(length: u64) -> u64 {
    let near = ((length * GOLDEN) >> 32).max(1);
    // The search is short, because the next prime qualifies.
    (near..).find(|stride| divisor(*stride, length) == 1).unwrap_or(1)
}

fn divisor(mut one: u64, mut other: u64) -> u64 {
    while other != 0 {
        (one, other) = (other, one % other);
    }
    one
}

#[cfg(test)]
mod tests {
    use super::super::tests::members;
    use super::*;

    #[test]
    fn a_cycle_gives_everyone_its_weight() {
        for weights in [&[20_000, 1, 7][..], &[100; 300], &[65_535; 4], &[3]] {
            let strides = Strides::new(&members(weights));
            let mut hits = vec![0_u32; weights.len()];
            for turn in 0..usize::try_from(strides.length).unwrap() {
                hits[strides.at(turn) as usize] += 1;
            }
            assert_eq!(hits, weights);
        }
    }

    #[test]
    fn short_runs_are_spread_evenly() {
        let mut weights = vec![100; 1_000];
        weights[500] = 10;
        let strides = Strides::new(&members(&weights));
        for start in [0, 12_345, usize::MAX / 2] {
            let mut hits = vec![0_u32; weights.len()];
            for turn in start..start + 10_000 {
                hits[strides.at(turn) as usize] += 1;
            }
            let fresh = hits.remove(500);
            assert!(fresh <= 2, "{fresh}");
            // A random choice would give 0 to 25.
            assert!(hits.iter().all(|count| (8..=14).contains(count)), "{hits:?}");
        }
    }

    #[test]
    fn the_greatest_weights_do_not_overflow() {
        let weights = vec![u32::MAX; 1_000];
        let strides = Strides::new(&members(&weights));
        assert!(strides.length <= LENGTH_MAX + 1_000, "{}", strides.length);
        let seen: std::collections::HashSet<u32> =
            (0..2_000).map(|turn| strides.at(turn)).collect();
        assert!(seen.len() > 990, "{}", seen.len());
        assert!(strides.at(usize::MAX) < 1_000);
    }
}
