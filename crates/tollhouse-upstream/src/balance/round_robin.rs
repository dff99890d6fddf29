//! Weighted round robin over a schedule computed once: of weights 5 and 1, `A A A A A B`.
//!
//! All cores share one cursor. A cursor per core would spare a contended counter (some 20 ns),
//! but then a short run over several connections is not spread exactly, and people test their
//! gateway with exactly such runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::{Member, common_divisor};
use crate::pick::Tried;

/// Slots of a schedule, unless there are more nodes than that: 64 KiB. Greater sums of weights
/// are scaled down, with an error below one part in a thousand for any usual share.
pub(crate) const SCHEDULE_SLOTS_MAX: u64 = 16_384;

/// See the module.
#[derive(Debug)]
pub(crate) struct Schedule {
    slots: Box<[u32]>,
    /// Only ever grows; shared with narrowed schedules, so that a flip of health does not start
    /// the round anew.
    cursor: Arc<AtomicUsize>,
}

impl Schedule {
    pub(crate) fn new(members: &[Member]) -> Self {
        Self { slots: slots(members), cursor: Arc::default() }
    }

    pub(crate) fn narrowed(&self, members: &[Member]) -> Self {
        Self { slots: slots(members), cursor: Arc::clone(&self.cursor) }
    }

    pub(crate) fn pick(&self, tried: &Tried) -> Option<u32> {
        let count = self.slots.len();
        if count == 0 {
            return None;
        }
        let start = self.cursor.fetch_add(1, Ordering::Relaxed) % count;
        let first = self.slots[start];
        if !tried.contains(first) {
            return Some(first);
        }
        // A second attempt takes its turn out of the common round: left where it is, the cursor
        // would give the successor of a dead node twice its share.
        let free = |step: &usize| !tried.contains(self.slots[(start + step) % count]);
        let step = (1..count).find(free)?;
        self.cursor.fetch_add(step, Ordering::Relaxed);
        Some(self.slots[(start + step) % count])
    }
}

/// Rounds over the members with a sinking threshold: each round takes those whose weight reaches
/// it, in their order.
fn slots(members: &[Member]) -> Box<[u32]> {
    let members = scaled(members);
    let mut descending: Vec<&Member> = members.iter().collect();
    descending.sort_by_key(|member| std::cmp::Reverse(member.weight));
    let mut waiting = descending.into_iter().peekable();
    let heaviest = waiting.peek().map_or(0, |member| member.weight);
    let mut round: Vec<u32> = Vec::with_capacity(members.len());
    let mut slots = Vec::new();
    for threshold in (1..=heaviest).rev() {
        while let Some(member) = waiting.next_if(|member| member.weight >= threshold) {
            let place = round.partition_point(|&index| index < member.index);
            round.insert(place, member.index);
        }
        slots.extend_from_slice(&round);
    }
    slots.into()
}

/// Weights without their common divisor, small enough for the schedule; none becomes 0.
fn scaled(members: &[Member]) -> Vec<Member> {
    let divisor = common_divisor(members);
    let total: u64 = members.iter().map(|member| u64::from(member.weight / divisor)).sum();
    let scale = |weight: u32| {
        let reduced = u64::from(weight / divisor);
        if total <= SCHEDULE_SLOTS_MAX {
            return reduced;
        }
        (reduced * SCHEDULE_SLOTS_MAX / total).max(1)
    };
    let narrow = |weight: u64| u32::try_from(weight).unwrap_or(u32::MAX);
    members.iter().map(|m| Member { index: m.index, weight: narrow(scale(m.weight)) }).collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::members;
    use super::*;
    use crate::pick::NodeIndex;

    fn run(weights: &[u32], picks: usize) -> String {
        let schedule = Schedule::new(&members(weights));
        let letter = |index: u32| char::from(b'A' + u8::try_from(index).unwrap());
        (0..picks).filter_map(|_| schedule.pick(&Tried::new()).map(letter)).collect()
    }

    #[test]
    fn shares_are_exact_and_interleaved() {
        for (weights, picks, expected) in [
            (&[1, 1][..], 5, "ABABA"),
            (&[100, 100, 100], 6, "ABCABC"),
            (&[5, 1], 12, "AAAAABAAAAAB"),
            (&[3, 2], 5, "AABAB"),
            (&[1, 3], 4, "BBAB"),
            (&[4, 2], 6, "AABAAB"),
            (&[0, 7], 3, "BBB"),
            (&[0, 0], 3, ""),
            (&[], 3, ""),
        ] {
            assert_eq!(run(weights, picks), expected, "{weights:?}");
        }
    }

    #[test]
    fn huge_weights_are_scaled_and_nobody_starves() {
        let schedule = Schedule::new(&members(&[u32::MAX, u32::MAX / 2, 1]));
        assert!(schedule.slots.len() as u64 <= SCHEDULE_SLOTS_MAX + 3);
        let hits = |index| schedule.slots.iter().filter(|&&slot| slot == index).count();
        let share = hits(0) as f64 / hits(1) as f64;
        assert!((share - 2.0).abs() < 0.001, "{share}");
        assert_eq!(hits(2), 1);
    }

    #[test]
    fn tried_members_are_skipped_and_the_rest_shares_their_turns() {
        let schedule = Schedule::new(&members(&[1, 1, 1]));
        let mut tried = Tried::new();
        tried.insert_index(1, NodeIndex(0));
        let mut hits = [0; 3];
        for _ in 0..300 {
            // As in requests that fail on the first node: one pick, then a second one.
            match schedule.pick(&Tried::new()).unwrap() {
                0 => hits[schedule.pick(&tried).unwrap() as usize] += 1,
                other => hits[other as usize] += 1,
            }
        }
        assert_eq!(hits, [0, 150, 150]);
        tried.insert_index(1, NodeIndex(1));
        tried.insert_index(1, NodeIndex(2));
        assert_eq!(schedule.pick(&tried), None);
    }

    #[test]
    fn a_narrowed_schedule_goes_on_where_the_round_stood() {
        let schedule = Schedule::new(&members(&[1, 1, 1]));
        assert_eq!(schedule.pick(&Tried::new()), Some(0));
        let narrowed = schedule.narrowed(&members(&[1, 0, 1]));
        assert_eq!(narrowed.pick(&Tried::new()), Some(2));
        assert_eq!(schedule.pick(&Tried::new()), Some(2));
    }
}
