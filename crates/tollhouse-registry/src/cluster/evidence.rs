//! Evidence: the time up to which the heartbeats of every member are known.
//!
//! A node cuts a round only after the previous round has arrived where all nodes can read it. So
//! when a round is first seen here, the next but one is cut only later: every heartbeat taken by
//! then is in one of these three rounds. It follows that every heartbeat is known that a member
//! took before its last round but one was seen here. All times are of this node's own clock.

use std::sync::{Mutex, MutexGuard, PoisonError};

use hashbrown::HashMap;

use super::NodeId;
use super::rounds::Round;

#[derive(Debug, Default)]
pub(crate) struct Evidence(Mutex<EvidenceState>);

#[derive(Debug, Default)]
struct EvidenceState {
    /// Id of this node, whose own heartbeats are always known.
    own: Option<NodeId>,
    members: HashMap<NodeId, Member>,
    losses: Vec<Loss>,
}

#[derive(Debug)]
struct Member {
    /// Number of the member's newest round.
    number: Option<u64>,
    /// Time when the newest complete round was seen; initially the time of joining. The next field
    /// is that of the round before, initially 0.
    newest_ms: u64,
    previous_ms: u64,
    /// Whether its newest round was its last one.
    has_left: bool,
}

/// Period for which the heartbeats of a node are unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Loss {
    pub(crate) from_ms: u64,
    pub(crate) until_ms: u64,
}

impl Evidence {
    /// Sets the id under which this node becomes a member, or `None` when its membership has ended.
    pub(crate) fn set_own(&self, node: Option<NodeId>) {
        self.lock().own = node;
    }

    /// Returns the id of this node while it is a member or about to become one.
    pub(crate) fn own(&self) -> Option<NodeId> {
        self.lock().own
    }

    pub(crate) fn join(&self, node: NodeId, now_ms: u64) {
        let member = Member { number: None, newest_ms: now_ms, previous_ms: 0, has_left: false };
        let mut seen = self.lock();
        if seen.own != Some(node) {
            seen.members.entry(node).or_insert(member);
        }
    }

    /// Removes a member. Unless it had sent its last round, the time since its newest round becomes
    /// a loss.
    pub(crate) fn leave(&self, node: NodeId, now_ms: u64) {
        let mut seen = self.lock();
        let Some(member) = seen.members.remove(&node) else { return };
        if !member.has_left {
            seen.losses.push(Loss { from_ms: member.newest_ms, until_ms: now_ms });
        }
    }

    /// Returns all members but this one.
    pub(crate) fn members(&self) -> Vec<NodeId> {
        self.lock().members.keys().copied().collect()
    }

    /// Records that a round of another node has arrived. Returns false if earlier rounds of that
    /// node are missing; the heartbeats in this round are valid nevertheless.
    pub(crate) fn receive(&self, node: NodeId, round: &Round<'_>, now_ms: u64) -> bool {
        let mut seen = self.lock();
        let Some(member) = seen.members.get_mut(&node) else { return true };
        if member.number.is_some_and(|number| round.number <= number) {
            return true;
        }
        let is_next = member.number.is_none_or(|number| round.number == number + 1);
        let gap = Loss { from_ms: member.newest_ms, until_ms: now_ms };
        let is_first = member.number.replace(round.number).is_none();
        member.has_left = round.is_last;
        if round.is_whole {
            // The arrival of the round before the first one is unknown.
            member.previous_ms = if is_first { 0 } else { member.newest_ms };
            member.newest_ms = now_ms;
        }
        if !is_next {
            // The rounds in between are lost, or delayed on another channel.
            seen.losses.push(gap);
        }
        is_next
    }

    /// Returns the time up to which, exclusively, all heartbeats of all members are known.
    pub(crate) fn complete_until_ms(&self, now_ms: u64) -> u64 {
        let seen = self.lock();
        seen.members.values().map(|member| member.previous_ms).min().unwrap_or(now_ms)
    }

    /// Returns and clears the losses noticed since the last call.
    pub(crate) fn take_losses(&self) -> Vec<Loss> {
        std::mem::take(&mut self.lock().losses)
    }

    fn lock(&self) -> MutexGuard<'_, EvidenceState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(number: u64) -> Round<'static> {
        Round { number, is_whole: true, is_last: false, ids: &[] }
    }

    #[test]
    fn what_a_member_took_is_known_two_rounds_later() {
        let evidence = Evidence::default();
        assert_eq!(evidence.complete_until_ms(500), 500, "who is alone knows all");
        let other = NodeId(7);
        evidence.join(other, 1_000);
        let mut until = Vec::new();
        for (number, now_ms) in [(4, 1_100), (5, 1_300), (6, 1_500)] {
            until.push(evidence.complete_until_ms(now_ms));
            evidence.receive(other, &round(number), now_ms);
        }
        until.push(evidence.complete_until_ms(9_000));
        assert_eq!(until, [0, 0, 1_100, 1_300]);
        // A part of a round does not count as a round, and a duplicate round counts once.
        evidence.receive(other, &Round { is_whole: false, ..round(7) }, 1_700);
        evidence.receive(other, &round(6), 1_800);
        assert_eq!(evidence.complete_until_ms(9_000), 1_300);
        assert_eq!(evidence.take_losses(), []);
    }

    #[test]
    fn the_slowest_member_counts_until_it_is_gone() {
        let evidence = Evidence::default();
        for node in [1, 2] {
            evidence.join(NodeId(node), 0);
        }
        for number in 1..5 {
            evidence.receive(NodeId(1), &round(number), 100 * number);
        }
        evidence.receive(NodeId(2), &round(1), 150);
        evidence.receive(NodeId(2), &round(2), 160);
        assert_eq!(evidence.complete_until_ms(400), 150);
        evidence.leave(NodeId(2), 390);
        assert_eq!(evidence.complete_until_ms(400), 300);
        assert_eq!(evidence.take_losses(), [Loss { from_ms: 160, until_ms: 390 }]);
    }

    #[test]
    fn who_says_good_bye_leaves_nothing_unknown() {
        let evidence = Evidence::default();
        evidence.join(NodeId(1), 0);
        evidence.receive(NodeId(1), &Round { is_last: true, ..round(1) }, 100);
        evidence.leave(NodeId(1), 110);
        assert_eq!(evidence.take_losses(), []);
    }

    #[test]
    fn rounds_that_are_missing_are_a_loss() {
        let evidence = Evidence::default();
        evidence.join(NodeId(1), 0);
        assert!(evidence.receive(NodeId(1), &round(1), 100));
        assert!(!evidence.receive(NodeId(1), &round(3), 300));
        assert!(evidence.receive(NodeId(1), &round(2), 310), "late, and known to be missing");
        assert_eq!(evidence.take_losses(), [Loss { from_ms: 100, until_ms: 300 }]);
    }
}
