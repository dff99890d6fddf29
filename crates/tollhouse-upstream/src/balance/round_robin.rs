//! Weighted round robin over a precomputed schedule: weights 5 and 1 yield `A A A A A B`.
//!
//! All cores share one cursor. A cursor per core would avoid a contended counter (about 20 ns), but
//! a short run over several connections would not be distributed exactly, and operators test a
//! gateway with such runs. Sums of weights too great for a schedule are handled in strides
//! (`strides.rs`), which is equally exact over a whole cycle.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crossbeam_utils::CachePadded;

use super::strides::Strides;
use super::{Choice, Member, PolicyTable, common_divisor};
use crate::node::Node;
use crate::pick::Tried;

/// Maximum number of slots of a schedule, which then occupies 64 KiB. Larger sums of weights use
/// strides.
pub(crate) const SCHEDULE_SLOTS_MAX: u64 = 16_384;

/// Round-robin state of the members of one group.
#[derive(Debug)]
pub(crate) struct Schedule {
    turns: TurnTable,
    /// Position in the schedule; only increases. Shared with narrowed schedules, so that a change
    /// of health does not restart the round. `None` for a single member, which has no turns.
    cursor: Option<Arc<CachePadded<AtomicUsize>>>,
}

/// Assignment of cursor positions to members.
#[derive(Debug)]
enum TurnTable {
    /// Slots, one per unit of weight.
    Slots(Box<[u32]>),
    Strides(Strides),
}

impl PolicyTable for Schedule {
    fn new(members: &[Member], _nodes: &[Node]) -> Self {
        let cursor = (members.len() > 1).then(Arc::default);
        Self { turns: turns(members), cursor }
    }

    fn narrowed(&self, members: &[Member], _nodes: &[Node]) -> Self {
        Self { turns: turns(members), cursor: self.cursor.clone() }
    }

    #[inline]
    fn pick(&self, choice: &Choice<'_>) -> Option<u32> {
        self.pick_untried(choice.tried)
    }
}

impl Schedule {
    #[inline]
    fn pick_untried(&self, tried: &Tried) -> Option<u32> {
        let slots = match &self.turns {
            TurnTable::Slots(slots) => slots,
            TurnTable::Strides(strides) => return self.pick_in_strides(strides, tried),
        };
        let count = slots.len();
        if count == 0 {
            return None;
        }
        let start = self.advance(1) % count;
        let first = slots[start];
        if !tried.contains(first) {
            return Some(first);
        }
        // A retry advances the shared cursor; otherwise the successor of a dead node would get
        // twice its share.
        let free = |step: &usize| !tried.contains(slots[(start + step) % count]);
        let step = (1..count).find(free)?;
        self.advance(step);
        Some(slots[(start + step) % count])
    }

    /// Moves the cursor; returns its position before. This is the only line of memory that cores
    /// write for an ordinary request, so that nothing else is on it.
    #[inline]
    fn advance(&self, steps: usize) -> usize {
        self.cursor.as_ref().map_or(0, |cursor| cursor.fetch_add(steps, Ordering::Relaxed))
    }

    fn pick_in_strides(&self, strides: &Strides, tried: &Tried) -> Option<u32> {
        let start = self.advance(1);
        let first = strides.at(start);
        if !tried.contains(first) {
            return Some(first);
        }
        for step in 1..=STEPS_MAX {
            let next = strides.at(start.wrapping_add(step));
            if !tried.contains(next) {
                self.advance(step);
                return Some(next);
            }
        }
        strides.members().find(|member| !tried.contains(*member))
    }
}

/// Maximum number of positions that a retry examines before it takes any untried member; sufficient
/// unless most of the weight has been tried.
const STEPS_MAX: usize = 16;

fn turns(members: &[Member]) -> TurnTable {
    let divisor = common_divisor(members);
    let reduce = |member: &Member| Member { weight: member.weight / divisor, ..*member };
    let members: Vec<Member> = members.iter().map(reduce).collect();
    let total: u64 = members.iter().map(|member| u64::from(member.weight)).sum();
    if total <= SCHEDULE_SLOTS_MAX {
        TurnTable::Slots(slots(&members))
    } else {
        TurnTable::Strides(Strides::new(&members))
    }
}

/// Computes the slots in rounds with a decreasing threshold: each round contains the members whose
/// weight reaches it, in their order.
fn slots(members: &[Member]) -> Box<[u32]> {
    let mut descending: Vec<&Member> = members.iter().collect();
    descending.sort_by_key(|member| std::cmp::Reverse(member.weight));
    let mut waiting = descending.into_iter().peekable();
    let heaviest = waiting.peek().map_or(0, |member| member.weight);
    let mut round: Vec<u32> = Vec::with_capacity(members.len());
    let mut slots = Vec::new();
    for threshold in (1..=heaviest).rev() {
        let before = round.len();
        while let Some(member) = waiting.next_if(|member| member.weight >= threshold) {
            round.push(member.index);
        }
        if round.len() > before {
            // Two sorted runs, which a stable sort merges.
            round.sort();
        }
        slots.extend_from_slice(&round);
    }
    slots.into()
}

#[cfg(test)]
mod tests {
    use super::super::tests::members;
    use super::*;
    use crate::pick::NodeIndex;

    fn run(weights: &[u32], picks: usize) -> String {
        let schedule = Schedule::new(&members(weights), &[]);
        let letter = |index: u32| char::from(b'A' + u8::try_from(index).unwrap());
        (0..picks).filter_map(|_| schedule.pick_untried(&Tried::new()).map(letter)).collect()
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
    fn a_schedule_is_small_whatever_the_weights() {
        let of_each = |weights: &[u32]| match Schedule::new(&members(weights), &[]).turns {
            TurnTable::Slots(slots) => slots.len(),
            TurnTable::Strides(strides) => strides.members().count(),
        };
        let hundreds = vec![100; 10_000];
        let mut mixed = hundreds.clone();
        mixed[17] = 99;
        for (weights, expected) in [
            (&hundreds[..], 10_000),
            (&mixed, 10_000),
            (&[65_535, 1, 65_534], 3),
            (&[16_383, 1], 16_384),
            (&[0; 20], 0),
        ] {
            assert_eq!(of_each(weights), expected);
        }
    }

    #[test]
    fn great_weights_are_exact_over_a_cycle_and_nobody_starves() {
        let schedule = Schedule::new(&members(&[65_535, 1, 32_000]), &[]);
        let mut hits = [0; 3];
        for _ in 0..97_536 {
            hits[schedule.pick_untried(&Tried::new()).unwrap() as usize] += 1;
        }
        assert_eq!(hits, [65_535, 1, 32_000]);
    }

    #[test]
    fn second_attempts_in_strides_end_when_all_are_tried() {
        let schedule = Schedule::new(&members(&[u32::MAX, 1, 0, 1]), &[]);
        let mut tried = Tried::new();
        let mut seen = Vec::new();
        while let Some(index) = schedule.pick_untried(&tried) {
            tried.insert_index(1, NodeIndex(index));
            seen.push(index);
        }
        seen.sort_unstable();
        assert_eq!(seen, [0, 1, 3]);
    }

    #[test]
    fn tried_members_are_skipped_and_the_rest_shares_their_turns() {
        let schedule = Schedule::new(&members(&[1, 1, 1]), &[]);
        let mut tried = Tried::new();
        tried.insert_index(1, NodeIndex(0));
        let mut hits = [0; 3];
        for _ in 0..300 {
            // As for requests that fail on the first node: one pick, then a second one.
            match schedule.pick_untried(&Tried::new()).unwrap() {
                0 => hits[schedule.pick_untried(&tried).unwrap() as usize] += 1,
                other => hits[other as usize] += 1,
            }
        }
        assert_eq!(hits, [0, 150, 150]);
        tried.insert_index(1, NodeIndex(1));
        tried.insert_index(1, NodeIndex(2));
        assert_eq!(schedule.pick_untried(&tried), None);
    }

    #[test]
    fn a_narrowed_schedule_goes_on_where_the_round_stood() {
        let schedule = Schedule::new(&members(&[1, 1, 1]), &[]);
        assert_eq!(schedule.pick_untried(&Tried::new()), Some(0));
        let narrowed = schedule.narrowed(&members(&[1, 0, 1]), &[]);
        assert_eq!(narrowed.pick_untried(&Tried::new()), Some(2));
        assert_eq!(schedule.pick_untried(&Tried::new()), Some(2));
    }
}
