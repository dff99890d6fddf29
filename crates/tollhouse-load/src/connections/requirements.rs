//! What holding needs of this machine, at both ends, against what it allows.

use crate::connections::plan::{End, PROCESSES_MAX, Plan, port_run};
use crate::error::BenchError;
use crate::preflight::{Advice, DESCRIPTORS_ASIDE, Limits, Need, Verdict, judge};

/// What an idle connection costs one end, in its process and in the kernel: measured 0.7 KiB and
/// 3.9 KiB, with some reserve.
const BYTES_EACH: u64 = 6 * 1024;
/// The same over TLS: keys, and buffers of both layers.
const BYTES_EACH_TLS: u64 = 40 * 1024;

/// One row of the table: a limit, and for which end.
pub type Row = Advice;

/// Judges the plan against the limits, after raising what may be raised.
///
/// # Errors
/// When the plan cannot be meant.
pub fn preflight(plan: &Plan) -> Result<Vec<Row>, BenchError> {
    plan.check()?;
    rows(plan, &limits(plan))
}

/// The limits, when they suffice.
///
/// # Errors
/// The first that is too small, with the need, the limit and the command that raises it.
pub(super) fn enough(plan: &Plan) -> Result<Limits, BenchError> {
    let limits = limits(plan);
    let rows = rows(plan, &limits)?;
    match rows.iter().find(|row| row.verdict == Verdict::TooSmall) {
        Some(row) => Err(BenchError::Machine(row.sentence())),
        None => Ok(limits),
    }
}

fn limits(plan: &Plan) -> Limits {
    Limits::after_raising(plan.connections.saturating_add(DESCRIPTORS_ASIDE))
}

fn rows(plan: &Plan, limits: &Limits) -> Result<Vec<Row>, BenchError> {
    // For a given target the name is not resolved yet; what matters is the number of its ports.
    let destinations = match &plan.end {
        End::Own(listen) => listen.addresses()?,
        End::Given { ports, .. } => port_run([127, 0, 0, 1].into(), 1, *ports)?,
    };
    let is_tls = match &plan.end {
        End::Own(listen) => listen.is_tls,
        End::Given { url, .. } => url.starts_with("https:"),
    };
    let sources = plan.source_addresses(&destinations, limits).len().max(1) as u64;
    let need = Need {
        connections: plan.connections,
        destinations: destinations.len() as u64,
        sources,
        processes: plan.holders(limits),
        bytes_each: if is_tls { BYTES_EACH_TLS } else { BYTES_EACH },
        ends: if matches!(plan.end, End::Own(_)) { 2 } else { 1 },
    };
    let mut rows = judge(&need, limits);
    rows.insert(0, processes(plan, &need));
    Ok(rows)
}

/// Processes share the connections, up to a number.
fn processes(plan: &Plan, need: &Need) -> Row {
    let given = plan.processes.map_or("as many as descriptors make necessary", |_| "as told");
    Row {
        limit: "processes that hold",
        need: need.processes,
        have: PROCESSES_MAX,
        verdict: Verdict::Enough,
        remedy: given.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::time::Duration;

    use super::*;
    use crate::case::TlsOptions;
    use crate::connections::plan::{Listen, Sources};

    fn plan(connections: u64, processes: Option<u64>) -> Plan {
        Plan {
            end: End::Own(Listen {
                address: Ipv4Addr::LOCALHOST.into(),
                base_port: 0,
                ports: 100,
                is_tls: false,
            }),
            connections,
            rate: 1_000.0,
            sources: Sources::Automatic,
            ping: None,
            tls: TlsOptions::default(),
            hold: Duration::ZERO,
            timeout: Duration::from_secs(1),
            processes,
        }
    }

    fn limits() -> Limits {
        Limits {
            descriptors: 1_024,
            descriptors_possible: 1_048_576,
            files_free: 1_000_000,
            ports: 28_232,
            port_first: 32_768,
            listen_queue: 4_096,
            tracked_free: None,
            memory_bytes: 8 << 30,
        }
    }

    fn refused(plan: &Plan) -> Vec<&'static str> {
        let rows = rows(plan, &limits()).expect("a plan");
        let refused = rows.iter().filter(|row| row.verdict == Verdict::TooSmall);
        refused.map(|row| row.limit).collect()
    }

    #[test]
    fn processes_make_up_for_descriptors_unless_told_otherwise() {
        assert_eq!(refused(&plan(100_000, None)), Vec::<&str>::new());
        assert_eq!(refused(&plan(100_000, Some(1))), ["descriptors"]);
    }

    #[test]
    fn a_number_beyond_the_machine_is_refused_by_every_limit_that_nothing_makes_up_for() {
        assert_eq!(
            refused(&plan(3_000_000, None)),
            ["descriptors", "open files of the machine", "MiB of memory"]
        );
    }
}
