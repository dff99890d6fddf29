//! The file that holds a session of measurements: results, their environment, what was published
//! about the same thing, and the warnings. Versioned JSON; HTML, text and comparisons are made of it.

pub mod compare;
pub mod csv;
mod environment;
pub mod figure;
pub mod hgrm;
pub mod html;
pub mod paint;
pub mod prometheus;
mod spread;
mod store;
pub mod text;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::result::CaseResult;

pub use environment::Environment;
pub use spread::{RUNS_MIN, Spread};
pub use store::{load, save};

/// The version of the file's shape. It changes when a reader of the old shape would misread the new one.
pub const SCHEMA: &str = "tollhouse.bench/1";

/// A report.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Report {
    /// [`SCHEMA`].
    pub schema: String,
    /// What the page calls itself.
    pub title: String,
    /// Which suite it is of, when it is of one: `shenyu`, `ngxway`, `api7`, `polaris`, `connections`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suite: Option<String>,
    /// A few sentences about what was measured how, in plain text.
    pub about: String,
    /// The command that repeats it.
    pub command: Vec<String>,
    /// Machine, kernel, versions, limits.
    pub environment: Environment,
    /// When it was made, in milliseconds of Unix time.
    pub created_at_ms: u64,
    /// What was measured, in the order of measuring.
    pub results: Vec<CaseResult>,
    /// What somebody published about the same cases: `subject` names the source.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub published: Vec<CaseResult>,
    /// What a reader must know before quoting a number.
    pub warnings: Vec<Warning>,
    /// Configurations that were used, by file name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub configurations: BTreeMap<String, String>,
}

impl Default for Report {
    fn default() -> Self {
        Self {
            schema: SCHEMA.into(),
            title: String::new(),
            suite: None,
            about: String::new(),
            command: Vec::new(),
            environment: Environment::default(),
            created_at_ms: 0,
            results: Vec::new(),
            published: Vec::new(),
            warnings: Vec::new(),
            configurations: BTreeMap::new(),
        }
    }
}

/// How much a warning weighs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Worth knowing.
    Note,
    /// The figure means less than it seems.
    Caution,
    /// The figure must not be quoted.
    Invalid,
}

/// A doubt about figures, raised by the rules of honesty.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Warning {
    /// Which rule raised it, such as `littles-law`.
    pub rule: String,
    /// How much it weighs.
    pub severity: Severity,
    /// About which result: `subject / case`; empty for the whole report.
    pub about: String,
    /// What is wrong, with the numbers, and what to do about it.
    pub message: String,
}
