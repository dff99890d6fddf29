//! Findings about registries outside of this process: those that cannot be read, and services without
//! nodes.

use std::collections::BTreeMap;

use tollhouse_model::upstream::DiscoverySource;
use tollhouse_stdx::plural::counted_as;

use super::finding::{Finding, Kind, Severity};
use crate::discovery::{Detail, NodeSources, SourceState, UpstreamReport};

/// Limit of findings about upstreams, because more would hide the others.
const UPSTREAMS_MAX: usize = 50;

/// Adds the findings about all sources but the registry of this process.
pub(super) fn find(sources: &NodeSources, findings: &mut Vec<Finding>) {
    let others = DiscoverySource::ALL.iter().filter(|source| **source != DiscoverySource::Registry);
    for source in others.filter(|source| source.is_reported()) {
        let reports = sources.report(*source, Detail::Counts);
        find_in(*source, &reports, findings);
    }
}

fn find_in(source: DiscoverySource, reports: &[UpstreamReport], findings: &mut Vec<Finding>) {
    let mut failing: BTreeMap<&str, Vec<&UpstreamReport>> = BTreeMap::new();
    let mut empty = 0;
    for report in reports {
        match report.state {
            SourceState::Serving | SourceState::Protected | SourceState::Pending => {}
            SourceState::Off => failing.entry("off").or_default().push(report),
            SourceState::Stale | SourceState::Failed => {
                failing.entry("failing").or_default().push(report);
            }
            SourceState::Empty | SourceState::Missing if empty < UPSTREAMS_MAX => {
                empty += 1;
                let what = format!(
                    "{} has no nodes: {}",
                    report.upstream,
                    report.reason.as_deref().unwrap_or_default()
                );
                let subject = report.upstream.clone();
                findings.push(Finding::about(Severity::Problem, Kind::ServiceEmpty, subject, what));
            }
            SourceState::Empty | SourceState::Missing => {}
        }
    }
    findings.extend(failing.into_values().filter_map(|reports| failure(source, &reports)));
}

/// Returns the finding about a source that fails for some upstreams.
fn failure(source: DiscoverySource, reports: &[&UpstreamReport]) -> Option<Finding> {
    let first = reports.first()?;
    let without = reports.iter().filter(|report| report.state != SourceState::Stale).count() as u64;
    let severity = if without > 0 { Severity::Problem } else { Severity::Warning };
    let upstreams = counted_as(reports.len() as u64, "upstream depends", "upstreams depend");
    let reason = first.reason.as_deref().unwrap_or_default();
    let mut what = format!("{reason}; {upstreams} on it");
    if without > 0 {
        what.push_str(&format!(", and {without} without nodes"));
    }
    let subject = format!("discovery.{}", source.name());
    let remedy = match first.state {
        SourceState::Off => "configure the registry in the bootstrap file and restart",
        _ => "see that the addresses in the bootstrap file answer, and that the token is valid",
    };
    Some(Finding::about(severity, Kind::SourceFailing, subject, what).with_remedy(remedy))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(upstream: &str, state: SourceState, reason: &str) -> UpstreamReport {
        UpstreamReport {
            upstream: upstream.to_owned(),
            service: "orders".to_owned(),
            state,
            reason: Some(reason.to_owned()),
            revision: None,
            node_count: 0,
            instances: Default::default(),
            nodes: None,
        }
    }

    #[test]
    fn a_registry_that_fails_is_one_finding_and_a_problem_once_nodes_are_missing() {
        let stale =
            report("routes/1", SourceState::Stale, "Consul cannot be read for 5 s: refused");
        let failed =
            report("routes/2", SourceState::Failed, "Consul cannot be read for 5 s: refused");
        let empty = report("routes/3", SourceState::Missing, "Consul has no service orders");
        for (reports, expected) in [
            (vec![stale.clone()], vec![(Severity::Warning, "discovery.consul")]),
            (vec![stale, failed], vec![(Severity::Problem, "discovery.consul")]),
            (vec![empty], vec![(Severity::Problem, "routes/3")]),
            (vec![report("routes/4", SourceState::Serving, "")], vec![]),
        ] {
            let mut findings = Vec::new();
            find_in(DiscoverySource::Consul, &reports, &mut findings);
            let found: Vec<_> = findings.iter().map(|it| (it.severity, &*it.subject)).collect();
            assert_eq!(found, expected, "{reports:?}");
        }
    }
}
