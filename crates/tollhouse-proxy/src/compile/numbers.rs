//! What requests of objects are counted by: small numbers, one after the other.
//! Counting itself, and reading the counts, is the work of the metrics.

use hashbrown::HashMap;
use tollhouse_model::Id;
use tollhouse_telemetry::object_counts::{NUMBERS_MAX, UNCOUNTED};

/// Numbers of the objects of a kind. One that comes back has the number that it had; ids that come and go leave theirs, up
/// to a bound beyond which new objects are not counted.
#[derive(Debug, Default)]
pub(super) struct Numbers(HashMap<Id, u32>);

impl Numbers {
    pub(super) fn number_for(&mut self, id: &Id) -> u32 {
        if let Some(number) = self.0.get(id) {
            return *number;
        }
        let next = u32::try_from(self.0.len()).ok().filter(|next| *next < NUMBERS_MAX);
        let Some(next) = next else { return UNCOUNTED };
        self.0.insert(id.clone(), next);
        next
    }
}
