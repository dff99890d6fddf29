//! Small consecutive numbers that identify objects in request counters. The metrics count and read
//! them.

use hashbrown::HashMap;
use tollhouse_model::Id;
use tollhouse_telemetry::object_counts::{NUMBERS_MAX, UNCOUNTED};

/// Numbers of the objects of one kind. A deleted object keeps its number for its return. Beyond
/// `NUMBERS_MAX` numbers, new objects are not counted.
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
