//! Heartbeats of unregistered ids. They are counted so that the fifth is refused as Polaris does.
//! The table is bounded in number and bytes, so that invented ids cannot fill the memory. Ids
//! longer than an instance id never get here.

use std::sync::{Mutex, PoisonError};

use hashbrown::HashMap;

use crate::limits::{UNREGISTERED_BYTES_MAX, UNREGISTERED_MAX};
use crate::pulse::LastHeartbeat;

/// Counters in two generations: when the young one is full it becomes the old one, and the previous
/// old one is dropped.
#[derive(Debug, Default)]
pub(crate) struct UnregisteredHeartbeats(Mutex<Generations>);

#[derive(Debug, Default)]
struct Generations {
    young: HashMap<Box<str>, LastHeartbeat>,
    /// Bytes of the ids in `young`.
    young_bytes: usize,
    old: HashMap<Box<str>, LastHeartbeat>,
}

impl UnregisteredHeartbeats {
    /// Counts a heartbeat. Returns the number of heartbeats of the id, this one included.
    pub(crate) fn record(&self, id: &str, now_ms: u64) -> u64 {
        let mut generations = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = generations.young.get(id).or_else(|| generations.old.get(id));
        let count = known.map_or(0, |last| last.count) + 1;
        generations.put(id, LastHeartbeat { at_ms: now_ms, count });
        count
    }

    pub(crate) fn get(&self, id: &str) -> Option<LastHeartbeat> {
        let generations = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        generations.young.get(id).or_else(|| generations.old.get(id)).copied()
    }

    /// Removes an id, because it was registered or its heartbeats were deleted.
    pub(crate) fn forget(&self, id: &str) {
        let mut generations = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if generations.young.remove(id).is_some() {
            generations.young_bytes -= id.len();
        }
        generations.old.remove(id);
    }
}

impl Generations {
    fn put(&mut self, id: &str, last: LastHeartbeat) {
        if let Some(known) = self.young.get_mut(id) {
            *known = last;
            return;
        }
        let is_full = self.young.len() >= UNREGISTERED_MAX / 2
            || self.young_bytes + id.len() > UNREGISTERED_BYTES_MAX / 2;
        if is_full {
            self.old = std::mem::take(&mut self.young);
            self.young_bytes = 0;
        }
        self.young.insert(id.into(), last);
        self.young_bytes += id.len();
        debug_assert!(
            self.young.len() <= UNREGISTERED_MAX / 2,
            "a full generation is not added to"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heartbeats_of_an_id_are_counted_until_it_is_forgotten() {
        let heartbeats = UnregisteredHeartbeats::default();
        let counts: Vec<u64> = (0..3).map(|now| heartbeats.record("a", now)).collect();
        assert_eq!(counts, [1, 2, 3]);
        assert_eq!(heartbeats.get("a"), Some(LastHeartbeat { at_ms: 2, count: 3 }));
        heartbeats.forget("a");
        assert_eq!((heartbeats.get("a"), heartbeats.record("a", 9)), (None, 1));
    }

    #[test]
    fn a_million_ids_leave_a_bounded_table() {
        let heartbeats = UnregisteredHeartbeats::default();
        for number in 0..1_000_000_u32 {
            heartbeats.record(&number.to_string(), 1);
        }
        let generations = heartbeats.0.lock().expect("nobody panicked");
        assert!(generations.young.len() + generations.old.len() <= UNREGISTERED_MAX);
        assert!(generations.young.contains_key("999999"));
    }

    #[test]
    fn long_ids_leave_a_table_of_bounded_bytes() {
        let heartbeats = UnregisteredHeartbeats::default();
        for number in 0..200_000_u32 {
            heartbeats.record(&format!("{number:0>500}"), 1);
        }
        let generations = heartbeats.0.lock().expect("nobody panicked");
        let ids = generations.young.keys().chain(generations.old.keys());
        let bytes: usize = ids.map(|id| id.len()).sum();
        assert!(bytes <= UNREGISTERED_BYTES_MAX && bytes > UNREGISTERED_BYTES_MAX / 2, "{bytes}");
    }
}
