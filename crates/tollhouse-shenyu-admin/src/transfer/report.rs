//! What became of an import.

use serde_json::{Map, Value};

/// Problems of a part that are repeated in full; more are counted. Whoever sends them may send millions.
const PROBLEMS_MAX: usize = 100;

/// What became of the objects of one file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Part {
    /// What ShenYu calls it: `plugin`, `selector`, `rule` and others.
    pub name: &'static str,
    /// Objects that were taken over.
    pub taken: usize,
    /// Objects that were not, or not as they are, and why: the first hundred.
    pub problems: Vec<String>,
    /// Problems beyond those.
    pub more_problems: usize,
}

impl Part {
    pub(super) fn add_problem(&mut self, problem: impl FnOnce() -> String) {
        if self.problems.len() < PROBLEMS_MAX {
            self.problems.push(problem());
        } else {
            self.more_problems += 1;
        }
    }
}

/// What became of an import.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// The files, in the order in which they were taken over.
    pub parts: Vec<Part>,
    /// Files of the archive that are none of an export's.
    pub unknown: Vec<String>,
}

impl Report {
    /// As ShenYu's admin answers: `<name>ImportSuccessCount` and `<name>ImportFailMessage`.
    pub(crate) fn to_json(&self) -> Value {
        let mut map = Map::new();
        for part in &self.parts {
            map.insert(format!("{}ImportSuccessCount", part.name), part.taken.into());
            if !part.problems.is_empty() {
                let mut text = part.problems.join("; ");
                if part.more_problems > 0 {
                    text.push_str(&format!("; and {} more", part.more_problems));
                }
                map.insert(format!("{}ImportFailMessage", part.name), text.into());
            }
        }
        Value::Object(map)
    }
}
