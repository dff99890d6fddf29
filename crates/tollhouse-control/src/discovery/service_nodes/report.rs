//! State of upstreams with registered nodes: log lines when it changes, and reports for the control
//! API.

use serde::Serialize;
use tollhouse_model::upstream::DiscoverySource;

use super::select::{Counts, SelectionResult};
use super::{FollowedUpstream, Reading, ServiceNodes, SourceFailure};
use crate::discovery::Detail;

/// State of an upstream whose nodes come from a registry.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct UpstreamReport {
    /// The object that holds the upstream, such as `routes/1`.
    pub upstream: String,
    /// Name of the service, as `namespace/name`.
    pub service: String,
    pub state: SourceState,
    /// Reason of the state; without nodes, also the reason why requests are refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Revision of the service in use, as 32 hexadecimal digits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
    pub node_count: usize,
    /// Instances of the service, counted by use.
    pub instances: Counts,
    /// Nodes of the upstream, if requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nodes: Option<Vec<NodeReport>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NodeReport {
    pub host: String,
    pub port: u16,
    pub weight: u32,
    /// Effective weight in percent of `weight`; below 100 during slow start.
    pub weight_percent: u8,
}

/// State of an upstream with registered nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SourceState {
    /// The upstream consists of healthy instances.
    Serving,
    /// Unhealthy instances serve too, because too few are healthy.
    Protected,
    /// No instance of the service may serve.
    Empty,
    Missing,
    /// The registry is not connected.
    Off,
    /// The service was not read yet.
    Pending,
    /// The registry cannot be read; nodes of an earlier reading serve.
    Stale,
    /// The registry cannot be read, and no nodes serve.
    Failed,
}

impl ServiceNodes {
    /// Returns the state of all followed upstreams.
    pub fn report(&self, detail: Detail) -> Vec<UpstreamReport> {
        let services = self.services.borrow().clone();
        let report = |entry: &FollowedUpstream| {
            let source = match &services {
                None => SourceStanding::Off,
                Some(services) => match services.failure(&entry.service) {
                    None => SourceStanding::Good,
                    Some(failure) => SourceStanding::Failing(failure),
                },
            };
            report(entry, source, detail)
        };
        self.lock().values().map(report).collect()
    }
}

/// State of the registry itself, as far as a service is concerned.
enum SourceStanding {
    Off,
    Good,
    Failing(SourceFailure),
}

fn report(entry: &FollowedUpstream, source: SourceStanding, detail: Detail) -> UpstreamReport {
    let origin = entry.service.source.origin();
    let (state, reason) = match (source, &entry.reading) {
        (SourceStanding::Failing(failure), reading) => failing(origin, &failure, reading.as_ref()),
        (SourceStanding::Good, None) => {
            (SourceState::Pending, Some(format!("{origin} was not read yet")))
        }
        (SourceStanding::Off | SourceStanding::Good, reading) => standing(entry, reading.as_ref()),
    };
    let (revision, counts, node_count) = match &entry.reading {
        Some(Reading::Service { revision, selected }) => {
            (Some(format!("{revision:032x}")), selected.counts, selected.nodes)
        }
        Some(Reading::Failed | Reading::Missing) | None => (None, Counts::default(), 0),
    };
    let nodes = match detail {
        Detail::Counts => None,
        Detail::Nodes => Some(nodes(entry)),
    };
    UpstreamReport {
        upstream: entry.state.key().to_owned(),
        service: entry.service.to_string(),
        state,
        reason,
        revision,
        node_count,
        instances: counts,
        nodes,
    }
}

fn nodes(entry: &FollowedUpstream) -> Vec<NodeReport> {
    let mut nodes = Vec::with_capacity(entry.state.node_count());
    entry.state.each_node(|node| {
        nodes.push(NodeReport {
            host: node.host().to_owned(),
            port: node.port(),
            weight: node.weight(),
            weight_percent: node.share_percent(),
        });
    });
    nodes
}

/// Returns the state of an upstream, with the reason.
fn standing(entry: &FollowedUpstream, reading: Option<&Reading>) -> (SourceState, Option<String>) {
    let (service, origin) = (&entry.service, entry.service.source.origin());
    match reading {
        None if entry.service.source == DiscoverySource::Registry => {
            (SourceState::Off, Some(format!("{origin} is off in this process")))
        }
        None => {
            let name = entry.service.source.name();
            let reason = format!("{origin} is not configured: set discovery.{name} and restart");
            (SourceState::Off, Some(reason))
        }
        Some(Reading::Failed) => (SourceState::Failed, Some(format!("{origin} cannot be read"))),
        Some(Reading::Missing) => {
            (SourceState::Missing, Some(format!("{origin} has no service {service}")))
        }
        Some(Reading::Service { selected, .. }) if selected.nodes == 0 => {
            (SourceState::Empty, Some(why_empty(selected)))
        }
        Some(Reading::Service { selected, .. }) if selected.is_protected => {
            let Counts { healthy, unhealthy, .. } = selected.counts;
            let all = healthy + unhealthy;
            let reason = match healthy {
                0 => format!("none of {all} instances is healthy: all of them serve"),
                _ => format!("only {healthy} of {all} instances are healthy: all of them serve"),
            };
            (SourceState::Protected, Some(reason))
        }
        Some(Reading::Service { .. }) => (SourceState::Serving, None),
    }
}

/// Returns the state of an upstream whose registry cannot be read.
fn failing(
    origin: &str,
    failure: &SourceFailure,
    reading: Option<&Reading>,
) -> (SourceState, Option<String>) {
    let SourceFailure { reason, age, keeps_nodes } = failure;
    let age_s = age.as_secs();
    let serves = matches!(reading, Some(Reading::Service { selected, .. }) if selected.nodes > 0);
    let kept = if *keeps_nodes { "; what was read last stays in use" } else { "" };
    let reason = format!("{origin} cannot be read for {age_s} s: {reason}{kept}");
    (if serves { SourceState::Stale } else { SourceState::Failed }, Some(reason))
}

fn why_empty(selected: &SelectionResult) -> String {
    let counts = selected.counts;
    let Counts { total, filtered_out, isolated, weightless, unreachable, .. } = counts;
    let Counts { forbidden, unhealthy, .. } = counts;
    if total == 0 {
        return "the service has no instance".to_owned();
    }
    if filtered_out == total {
        return format!("none of its {total} instances has the metadata and version asked for");
    }
    let parts = [
        (filtered_out, "without the metadata or version asked for"),
        (isolated, "isolated"),
        (weightless, "of weight 0"),
        (unreachable, "without a usable host and port"),
        (unhealthy, "unhealthy"),
        (forbidden, "on this machine, which is not allowed (registry.local_instances)"),
    ];
    let reasons = parts.iter().filter(|(count, _)| *count > 0);
    let reasons: Vec<String> = reasons.map(|(count, what)| format!("{count} {what}")).collect();
    format!("none of its {total} instances may serve: {}", reasons.join(", "))
}

/// Logs a change of an upstream's state.
pub(super) fn log_turn(
    entry: &FollowedUpstream,
    reading: &Reading,
    failure: Option<&SourceFailure>,
) {
    let before = entry.reading.as_ref().map(|before| standing(entry, Some(before)).0);
    let (state, reason) = standing(entry, Some(reading));
    let (upstream, service) = (entry.state.key(), entry.service.to_string());
    let origin = entry.service.source.origin();
    let reason = failure.map(|failure| failure.reason.clone()).or(reason).unwrap_or_default();
    match state {
        _ if before == Some(state) => {}
        SourceState::Protected => {
            tracing::warn!(upstream, service, reason, "unhealthy instances of a service serve");
        }
        SourceState::Empty
        | SourceState::Missing
        | SourceState::Off
        | SourceState::Failed
        | SourceState::Pending => {
            tracing::warn!(upstream, service, reason, "upstream has no node from {origin}");
        }
        // An upstream that serves from the start is not logged.
        SourceState::Serving if before.is_none() => {}
        SourceState::Serving | SourceState::Stale => {
            tracing::info!(upstream, service, "upstream has nodes from {origin} again");
        }
    }
}
