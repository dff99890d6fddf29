//! Queue of entries in the order of their arrival, divided into groups. The oldest entry of all and
//! that of a group are found directly, and any entry can be removed. Every operation takes constant
//! time.
//!
//! Meant for limited resources taken by untrusted clients, such as connections by client address:
//! when the limit is reached, the oldest entry is removed.

use std::hash::Hash;

use hashbrown::HashMap;

const NIL: u32 = u32::MAX;

/// A queue with groups; see the module.
#[derive(Debug)]
pub struct ArrivalQueue<G, T> {
    slots: Vec<Slot<G, T>>,
    free: Vec<u32>,
    all: Chain,
    groups: HashMap<G, Chain, foldhash::fast::RandomState>,
}

/// Handle of an entry, for its removal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ticket {
    slot: u32,
    /// Number of the arrival, because the slot may hold a later entry.
    number: u64,
}

#[derive(Debug)]
struct Slot<G, T> {
    number: u64,
    entry: Option<(G, T)>,
    /// Neighbours in the whole queue, and in the group.
    links: [Link; 2],
}

#[derive(Debug, Clone, Copy)]
struct Link {
    previous: u32,
    next: u32,
}

#[derive(Debug, Clone, Copy)]
struct Chain {
    first: u32,
    last: u32,
    len: usize,
}

impl Chain {
    const EMPTY: Self = Self { first: NIL, last: NIL, len: 0 };
}

const ALL: usize = 0;
const GROUP: usize = 1;

impl<G, T> Default for ArrivalQueue<G, T> {
    fn default() -> Self {
        Self { slots: Vec::new(), free: Vec::new(), all: Chain::EMPTY, groups: HashMap::default() }
    }
}

impl<G: Hash + Eq + Copy, T> ArrivalQueue<G, T> {
    pub fn len(&self) -> usize {
        self.all.len
    }

    pub fn is_empty(&self) -> bool {
        self.all.len == 0
    }

    /// Returns the number of entries that were pushed with this group and not removed.
    pub fn len_of(&self, group: &G) -> usize {
        self.groups.get(group).map_or(0, |chain| chain.len)
    }

    /// Whether the queue still contains an entry.
    pub fn contains(&self, ticket: &Ticket) -> bool {
        let slot = self.slots.get(ticket.slot as usize);
        slot.is_some_and(|slot| slot.number == ticket.number && slot.entry.is_some())
    }

    /// Appends an entry; the ticket identifies it for removal.
    pub fn push(&mut self, group: G, value: T) -> Ticket {
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None => {
                let links = [Link { previous: NIL, next: NIL }; 2];
                self.slots.push(Slot { number: 0, entry: None, links });
                self.slots.len() as u32 - 1
            }
        };
        let place = &mut self.slots[slot as usize];
        place.number += 1;
        place.entry = Some((group, value));
        let number = place.number;
        let of_group = self.groups.entry(group).or_insert(Chain::EMPTY);
        append(&mut self.slots, of_group, GROUP, slot);
        append(&mut self.slots, &mut self.all, ALL, slot);
        Ticket { slot, number }
    }

    /// Removes an entry; `None` if it was already removed.
    pub fn remove(&mut self, ticket: &Ticket) -> Option<T> {
        if self.contains(ticket) { self.take(ticket.slot) } else { None }
    }

    /// Removes the entry that was pushed first.
    pub fn pop_oldest(&mut self) -> Option<T> {
        self.take(self.all.first)
    }

    /// Removes the oldest entry of a group.
    pub fn pop_oldest_of(&mut self, group: &G) -> Option<T> {
        let first = self.groups.get(group)?.first;
        self.take(first)
    }

    fn take(&mut self, slot: u32) -> Option<T> {
        let (group, value) = self.slots.get_mut(slot as usize)?.entry.take()?;
        unlink(&mut self.slots, &mut self.all, ALL, slot);
        if let Some(of_group) = self.groups.get_mut(&group) {
            unlink(&mut self.slots, of_group, GROUP, slot);
            if of_group.len == 0 {
                self.groups.remove(&group);
            }
        }
        self.free.push(slot);
        Some(value)
    }
}

fn append<G, T>(slots: &mut [Slot<G, T>], chain: &mut Chain, which: usize, slot: u32) {
    slots[slot as usize].links[which] = Link { previous: chain.last, next: NIL };
    match chain.last {
        NIL => chain.first = slot,
        last => slots[last as usize].links[which].next = slot,
    }
    chain.last = slot;
    chain.len += 1;
}

fn unlink<G, T>(slots: &mut [Slot<G, T>], chain: &mut Chain, which: usize, slot: u32) {
    let Link { previous, next } = slots[slot as usize].links[which];
    match previous {
        NIL => chain.first = next,
        previous => slots[previous as usize].links[which].next = next,
    }
    match next {
        NIL => chain.last = previous,
        next => slots[next as usize].links[which].previous = previous,
    }
    chain.len -= 1;
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_oldest_leaves_first_among_all_and_in_its_group() {
        let mut queue = ArrivalQueue::default();
        for (group, value) in [('a', 1), ('b', 2), ('a', 3), ('b', 4)] {
            queue.push(group, value);
        }
        assert_eq!((queue.len(), queue.len_of(&'b'), queue.len_of(&'c')), (4, 2, 0));
        assert_eq!(queue.pop_oldest_of(&'b'), Some(2));
        assert_eq!(queue.pop_oldest(), Some(1));
        assert_eq!(queue.pop_oldest(), Some(3));
        assert_eq!(queue.pop_oldest_of(&'a'), None);
        assert_eq!(queue.pop_oldest(), Some(4));
        assert!(queue.is_empty() && queue.pop_oldest().is_none());
    }

    #[test]
    fn a_ticket_takes_out_its_own_entry_and_no_later_one() {
        let mut queue = ArrivalQueue::default();
        let first = queue.push((), 'x');
        assert_eq!(queue.remove(&first), Some('x'));
        let second = queue.push((), 'y');
        assert!(!queue.contains(&first) && queue.contains(&second));
        assert_eq!(queue.remove(&first), None);
        assert_eq!(queue.remove(&second), Some('y'));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn it_does_what_a_list_does(steps in prop::collection::vec((0u8..4, 0u8..3, any::<u8>()), 0..80)) {
            let (mut queue, mut list) = (ArrivalQueue::default(), Vec::new());
            let mut tickets = Vec::new();
            for (index, (step, group, choice)) in steps.into_iter().enumerate() {
                match step {
                    0 | 1 => {
                        tickets.push((queue.push(group, index), index));
                        list.push((group, index));
                    }
                    2 => {
                        let place = list.iter().position(|(of, _)| *of == group);
                        let expected = place.map(|place| list.remove(place).1);
                        prop_assert_eq!(queue.pop_oldest_of(&group), expected);
                    }
                    _ if tickets.is_empty() => {
                        prop_assert_eq!(queue.pop_oldest(), None);
                    }
                    _ => {
                        let (ticket, value) = tickets.swap_remove(usize::from(choice) % tickets.len());
                        let place = list.iter().position(|(_, of)| *of == value);
                        let expected = place.map(|place| list.remove(place).1);
                        prop_assert_eq!(queue.remove(&ticket), expected);
                    }
                }
                prop_assert_eq!(queue.len(), list.len());
                let of_group = list.iter().filter(|(of, _)| *of == group).count();
                prop_assert_eq!(queue.len_of(&group), of_group);
            }
            while let Some(value) = queue.pop_oldest() {
                prop_assert_eq!(value, list.remove(0).1);
            }
            prop_assert!(list.is_empty());
        }
    }
}
