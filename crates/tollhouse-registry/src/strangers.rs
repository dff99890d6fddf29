//! Ids that beat without being registered: counted, so that the fifth beat can be refused as Polaris
//! does; bounded, so that made-up ids take no memory.

use std::sync::{Mutex, PoisonError};

use hashbrown::HashMap;

use crate::limits::STRANGERS_MAX;
use crate::pulse::LastBeat;

/// See the module. Two generations: when the young one is full it becomes the old one, and what the
/// old one held is forgotten.
#[derive(Debug, Default)]
pub(crate) struct Strangers(Mutex<Generations>);

#[derive(Debug, Default)]
struct Generations {
    young: HashMap<Box<str>, LastBeat>,
    old: HashMap<Box<str>, LastBeat>,
}

impl Strangers {
    /// Takes a beat; tells how many there were, this one included.
    pub(crate) fn beat(&self, id: &str, now_ms: u64) -> u64 {
        let mut generations = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = generations.young.get(id).or_else(|| generations.old.get(id));
        let count = known.map_or(0, |beat| beat.count) + 1;
        generations.put(id, LastBeat { at_ms: now_ms, count });
        count
    }

    /// What is known of an id.
    pub(crate) fn get(&self, id: &str) -> Option<LastBeat> {
        let generations = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        generations.young.get(id).or_else(|| generations.old.get(id)).copied()
    }

    /// Forgets an id: it was registered, or its beats were deleted.
    pub(crate) fn forget(&self, id: &str) {
        let mut generations = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        generations.young.remove(id);
        generations.old.remove(id);
    }
}

impl Generations {
    fn put(&mut self, id: &str, beat: LastBeat) {
        if let Some(known) = self.young.get_mut(id) {
            *known = beat;
            return;
        }
        if self.young.len() >= STRANGERS_MAX / 2 {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(id.into(), beat);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beats_of_an_id_are_counted_until_it_is_forgotten() {
        let strangers = Strangers::default();
        let counts: Vec<u64> = (0..3).map(|now| strangers.beat("a", now)).collect();
        assert_eq!(counts, [1, 2, 3]);
        assert_eq!(strangers.get("a"), Some(LastBeat { at_ms: 2, count: 3 }));
        strangers.forget("a");
        assert_eq!((strangers.get("a"), strangers.beat("a", 9)), (None, 1));
    }

    #[test]
    fn a_million_ids_leave_a_bounded_table() {
        let strangers = Strangers::default();
        for number in 0..1_000_000_u32 {
            strangers.beat(&number.to_string(), 1);
        }
        let generations = strangers.0.lock().expect("nobody panicked");
        assert!(generations.young.len() + generations.old.len() <= STRANGERS_MAX);
        assert!(generations.young.contains_key("999999"));
    }
}
