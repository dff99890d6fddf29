//! Read-only checks of the external engines that a configuration names; each finding has a cause
//! and a remedy. One module per engine collects and judges the facts.

mod database;
mod etcd;
mod redis;
mod version;

use tollhouse_config::Bootstrap;

pub use crate::findings::{Finding, Severity};

use crate::registry;

impl Finding {
    fn problem(what: String, remedy: &str) -> Self {
        Self::new(Severity::Problem, what, remedy)
    }

    fn warning(what: String, remedy: &str) -> Self {
        Self::new(Severity::Warning, what, remedy)
    }

    fn note(what: String, remedy: &str) -> Self {
        Self::new(Severity::Note, what, remedy)
    }
}

/// Checks made and problems found by `doctor`.
#[derive(Debug, Default)]
pub struct Examination {
    /// A line per engine that answered.
    pub looked_at: Vec<String>,
    pub findings: Vec<Finding>,
}

/// Checks the etcd, databases and Redis in the configuration.
///
/// # Errors
/// If the configuration of an engine is invalid.
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

/// Tolerated clock difference between an engine and this machine, in milliseconds.
const CLOCK_DIFFERENCE_MS_MAX: i64 = 1_000;

/// Asserts that `found` is empty, or has exactly one finding with this severity and with these
/// words in its text and remedy.
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
