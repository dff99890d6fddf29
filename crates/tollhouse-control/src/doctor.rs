//! What is wrong with the engines that a configuration names, each with its cause and what helps. Here is what a
//! finding is; gathering facts and judging them is in a file for each engine. Nothing is changed anywhere.

mod database;
mod etcd;
mod redis;
mod version;

use serde_json::{Value, json};
use tollhouse_config::Bootstrap;

use crate::registry;

/// How bad something is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Requests fail for it.
    Problem,
    /// They may soon.
    Warning,
    /// As somebody wants it, perhaps.
    Note,
}

impl Severity {
    /// As it is printed.
    pub fn name(self) -> &'static str {
        match self {
            Self::Problem => "problem",
            Self::Warning => "warning",
            Self::Note => "note",
        }
    }
}

/// Something that is not as it should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// What, and where.
    pub what: String,
    /// What helps; may be empty.
    pub remedy: String,
}

impl Finding {
    /// One of this severity.
    pub fn new(severity: Severity, what: String, remedy: &str) -> Self {
        Self { severity, what, remedy: remedy.to_owned() }
    }

    fn problem(what: String, remedy: &str) -> Self {
        Self::new(Severity::Problem, what, remedy)
    }

    fn warning(what: String, remedy: &str) -> Self {
        Self::new(Severity::Warning, what, remedy)
    }

    fn note(what: String, remedy: &str) -> Self {
        Self::new(Severity::Note, what, remedy)
    }

    /// For programs.
    pub fn to_json(&self) -> Value {
        json!({"severity": self.severity.name(), "what": self.what, "remedy": self.remedy})
    }
}

/// What was looked at, and what was found.
#[derive(Debug, Default)]
pub struct Examination {
    /// A line about each engine that answered.
    pub looked_at: Vec<String>,
    /// The worst first.
    pub findings: Vec<Finding>,
}

/// Looks at all engines that the configuration names.
///
/// # Errors
/// The configuration names one in a way that cannot be used.
pub async fn examine(bootstrap: &Bootstrap) -> anyhow::Result<Examination> {
    let mut examination = Examination::default();
    if bootstrap.store.etcd.endpoints.is_empty() {
        let place = bootstrap.data_dir.display();
        examination.looked_at.push(format!("the configuration is kept in {place}"));
    } else {
        etcd::examine(bootstrap, &mut examination).await?;
    }
    if registry::is_shared(bootstrap) {
        database::examine(bootstrap, &mut examination).await?;
        redis::examine(&bootstrap.registry.store, &mut examination).await;
    } else if registry::is_wanted(bootstrap) {
        let place = registry::offline::folder(bootstrap);
        examination.looked_at.push(format!("the registry is kept in {}", place.display()));
    }
    examination.findings.sort_by_key(|finding| finding.severity);
    Ok(examination)
}

/// How far a clock may be from the one here before somebody should know.
const CLOCK_DIFFERENCE_MS_MAX: i64 = 1_000;

/// What tests of an engine's judgement expect: nothing, or one finding of this severity with these words in what it
/// says and in its remedy.
#[cfg(test)]
fn assert_found(found: &[Finding], expected: Option<(Severity, &str, &str)>) {
    match (found, expected) {
        ([], None) => {}
        ([one], Some((severity, what, remedy))) => {
            assert_eq!(one.severity, severity, "{one:?}");
            assert!(one.what.contains(what) && one.remedy.contains(remedy), "{one:?}");
        }
        _ => panic!("expected {expected:?}, found {found:?}"),
    }
}
