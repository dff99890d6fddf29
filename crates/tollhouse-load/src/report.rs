//! Report file of a measurement session: results, environment, published figures for comparison,
//! warnings. Versioned JSON, from which HTML, text and comparisons are generated.

pub mod compare;
pub mod csv;
pub mod figure;
pub mod hgrm;
pub mod html;
pub mod outcome;
pub mod paint;
pub mod prometheus;
mod spread;
mod store;
pub mod summary;
pub mod text;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::result::CaseResult;

pub use spread::{RUNS_MIN, Spread};
pub use store::{load, save};
pub use tollhouse_testbed::Environment;

/// Version of the file format; changed if readers of the old format would misread the new one.
pub const SCHEMA: &str = "tollhouse.bench/1";

/// Report on one or more measurements, stored as JSON.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Report {
    /// Version of the format, [`SCHEMA`].
    pub schema: String,
    /// Title of the report's page.
    pub title: String,
    /// Suite that produced the report, if any: `shenyu`, `ngxway`, `api7`, `polaris`,
    /// `connections`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suite: Option<String>,
    /// A few sentences about the measurement, in plain text.
    pub about: String,
    /// Command line that repeats the measurement.
    pub command: Vec<String>,
    /// Machine, kernel, versions, limits.
    pub environment: Environment,
    /// Creation time in milliseconds of Unix time.
    pub created_at_ms: u64,
    /// Results in the order of measurement.
    pub results: Vec<CaseResult>,
    /// Figures that others published for these cases; `subject` names the source.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub published: Vec<CaseResult>,
    /// Warnings a reader must know before quoting a number.
    pub warnings: Vec<Warning>,
    /// Configuration files used, by file name.
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

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The reader should know it, but the result is valid.
    Note,
    /// The figure is less meaningful than it seems.
    Caution,
    /// The figure must not be quoted.
    Invalid,
}

/// Warning about figures, raised by the rules of honesty.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Warning {
    /// Name of the rule, such as `littles-law`.
    pub rule: String,
    pub severity: Severity,
    /// Result concerned, as `subject / case`; empty for the whole report.
    pub about: String,
    /// Problem with its numbers, and the remedy.
    pub message: String,
}
