//! Findings about limits of the gateway that connections and datagrams meet, with or without an
//! answer. Limits that requests meet have an error code and are in `routes.rs`.

use tollhouse_stdx::plural::counted;
use tollhouse_telemetry::{ConnectionRefusal, DatagramDrop, Metrics};

use super::finding::{Finding, Kind, Severity};
use super::period::Period;

/// Watches what the limits refuse.
#[derive(Debug, Default)]
pub(super) struct LimitWatch(Period<&'static str>);

/// A limit with the number of its refusals since the start.
struct Limit {
    key: &'static str,
    refused: u64,
    severity: Severity,
    noun: &'static str,
    /// Ends the sentence that the noun begins.
    reason: &'static str,
    remedy: &'static str,
}

impl LimitWatch {
    /// Adds the findings about refusals of the last minute or two.
    pub(super) fn find(&mut self, metrics: &Metrics, now_ms: u64, findings: &mut Vec<Finding>) {
        let limits = limits(metrics);
        for limit in &limits {
            let new = self.0.new_of(&limit.key, limit.refused);
            if new == 0 {
                continue;
            }
            let what = format!("{} {}", counted(new, limit.noun), limit.reason);
            let subject = limit.key.to_owned();
            let finding = Finding::about(limit.severity, Kind::LimitReached, subject, what);
            findings.push(finding.with_remedy(limit.remedy).with_count(new));
        }
        let counts = limits.iter().map(|limit| (limit.key, limit.refused));
        self.0.mark(now_ms, 0, counts);
    }
}

fn limits(metrics: &Metrics) -> [Limit; 5] {
    const CLIENTS: &str =
        "see whether these are clients or an attack, and raise the limit or the number of workers";
    const ONE_CLIENT: &str =
        "see which address it is in the log; raise the limit if it is a proxy of yours";
    let connections = |refusal| metrics.connections_refused(refusal);
    let datagrams = |drop| metrics.datagrams_dropped(drop);
    [
        Limit {
            key: "limits.connections_per_worker",
            refused: connections(ConnectionRefusal::Limit),
            severity: Severity::Problem,
            noun: "connection",
            reason: "refused: limits.connections_per_worker is reached",
            remedy: CLIENTS,
        },
        Limit {
            key: "limits.connections_per_address",
            refused: connections(ConnectionRefusal::LimitPerAddress),
            severity: Severity::Warning,
            noun: "connection",
            reason: "refused: limits.connections_per_address is reached",
            remedy: ONE_CLIENT,
        },
        Limit {
            key: "open files",
            refused: connections(ConnectionRefusal::Accept),
            severity: Severity::Problem,
            noun: "connection",
            reason: "not accepted: the process lacks file descriptors",
            remedy: "raise the limit of open files of the process (LimitNOFILE of a systemd unit)",
        },
        Limit {
            key: "limits.udp_sessions_per_worker",
            refused: datagrams(DatagramDrop::Limit),
            severity: Severity::Problem,
            noun: "datagram",
            reason: "dropped: limits.udp_sessions_per_worker is reached",
            remedy: CLIENTS,
        },
        Limit {
            key: "limits.udp_sessions_per_address",
            refused: datagrams(DatagramDrop::LimitPerAddress),
            severity: Severity::Warning,
            noun: "datagram",
            reason: "dropped: limits.udp_sessions_per_address is reached",
            remedy: ONE_CLIENT,
        },
    ]
}

#[cfg(test)]
mod tests {
    use super::super::period::MARK_MS;
    use super::*;

    #[test]
    fn a_limit_is_told_while_it_refuses_and_a_minute_or_two_longer() {
        let metrics = Metrics::new();
        let core = metrics.for_core();
        let mut watch = LimitWatch::default();
        let mut found = |now_ms| {
            let mut findings = Vec::new();
            watch.find(&metrics, now_ms, &mut findings);
            findings.first().map(|finding| finding.what.clone())
        };
        assert_eq!(found(1), None);
        core.downstream_connections_refused.increment(ConnectionRefusal::Limit);
        let expected = "1 connection refused: limits.connections_per_worker is reached";
        assert_eq!(found(2).as_deref(), Some(expected));
        assert!(found(MARK_MS).is_some() && found(2 * MARK_MS).is_some());
        assert_eq!(found(2 * MARK_MS + 1), None);
    }
}
