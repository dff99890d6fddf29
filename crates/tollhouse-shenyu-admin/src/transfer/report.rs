//! Outcome of an import.

use serde_json::{Map, Value};

/// Maximum number of problems listed per file; the rest are counted. An archive may contain
/// millions of invalid objects.
const PROBLEMS_MAX: usize = 100;

/// Outcome for the objects of one file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Part {
    /// ShenYu's name of the content: `plugin`, `selector`, `rule` and others.
    pub name: &'static str,
    /// Number of imported objects.
    pub taken: usize,
    /// Why objects were not imported, or not completely; the first hundred.
    pub problems: Vec<String>,
    /// Number of problems beyond the first hundred.
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

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// Outcome of each file, in import order.
    pub parts: Vec<Part>,
    /// Files of the archive that an export does not contain.
    pub unknown: Vec<String>,
}

impl Report {
    /// Converts the report to the answer of ShenYu's admin: `<name>ImportSuccessCount` and
    /// `<name>ImportFailMessage`.
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
