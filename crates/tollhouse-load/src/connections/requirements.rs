//! Checks the limits of this machine against the needs of a run, at both ends.

use crate::connections::plan::{End, PROCESSES_MAX, Plan, port_run};
use crate::error::BenchError;
use crate::preflight::{Advice, DESCRIPTORS_ASIDE, Limits, Need, Verdict, advise};

/// Estimated memory of one end of an idle connection without TLS, in bytes: measured 5 KiB in the
/// kernel and 1 to 2 KiB in the process, plus reserve.
const BYTES_EACH: u64 = 9 * 1024;
/// Memory of one TLS connection in bytes: measured 5 KiB in the kernel, and 11 KiB for keys and the
/// buffers of both layers.
const BYTES_EACH_TLS: u64 = 20 * 1024;
/// Maximum number of ports to recommend; more would reduce the local ports left for the
/// connections.
const PORTS_SERVED_MAX: u64 = 10_000;

/// Row of the table: a limit, and the end it applies to.
pub type Row = Advice;

/// Checks the plan against the limits, after raising the soft limits.
///
/// # Errors
/// If the plan is invalid.
pub fn preflight(plan: &Plan) -> Result<Vec<Row>, BenchError> {
    plan.check()?;
    rows(plan, &limits(plan))
}

/// Returns the limits if they suffice.
///
/// # Errors
/// If a limit is too low; the error names the need, the first such limit and the command that
/// raises it.
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
    // The name of a given target is not resolved yet; only the number of its ports matters here.
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
    let mut rows = advise(&need, limits);
    let servers = plan.servers(limits);
    rows.insert(0, processes(need.processes, servers, limits));
    if let End::Own(listen) = &plan.end {
        rows.insert(2, serving(plan, listen.ports, servers, limits));
    }
    Ok(rows)
}

/// Computes the row for the number of processes; the coordinator needs two pipes to each process.
fn processes(holders: u64, servers: u64, limits: &Limits) -> Row {
    let room = limits.descriptors.saturating_sub(DESCRIPTORS_ASIDE) / 2;
    let (need, have) = (holders + servers, (2 * PROCESSES_MAX).min(room));
    let wanted = DESCRIPTORS_ASIDE + 2 * need;
    Row {
        limit: "processes",
        need,
        have,
        verdict: if need > have { Verdict::TooSmall } else { Verdict::Enough },
        remedy: format!("run `sudo prlimit --pid $$ --nofile={wanted}:{wanted}` in this shell"),
    }
}

/// Returns a row for the descriptors of a server process: a port belongs to one process, which
/// needs a descriptor for each of its connections.
fn serving(plan: &Plan, ports: u16, servers: u64, limits: &Limits) -> Row {
    let (need, have) = (plan.descriptors_serving(servers), limits.descriptors);
    let room = have.saturating_sub(DESCRIPTORS_ASIDE + 1).max(1);
    let enough = plan.connections.div_ceil(room);
    let remedy = if enough <= PORTS_SERVED_MAX && enough > u64::from(ports) {
        format!("use --ports {enough} or more, so that more processes share them")
    } else {
        format!("run `sudo prlimit --pid $$ --nofile={need}:{need}` in this shell")
    };
    Row {
        limit: "descriptors to serve",
        need,
        have,
        verdict: if need > have { Verdict::TooSmall } else { Verdict::Enough },
        remedy,
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
                ports: 200,
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
    fn one_port_is_served_by_one_process_whose_descriptors_must_suffice() {
        let mut one_port = plan(5_000, None);
        let End::Own(listen) = &mut one_port.end else { panic!("our own") };
        listen.ports = 1;
        let rows = rows(&one_port, &limits()).expect("a plan");
        let refused: Vec<_> = rows.iter().filter(|row| row.verdict == Verdict::TooSmall).collect();
        assert_eq!((refused.len(), refused[0].limit), (1, "descriptors to serve"));
        assert!(refused[0].remedy.contains("--ports 6 "), "{refused:?}");
    }

    #[test]
    fn a_number_beyond_the_machine_is_refused_by_every_limit_that_nothing_makes_up_for() {
        assert_eq!(
            refused(&plan(3_000_000, None)),
            ["descriptors", "descriptors to serve", "open files of the machine", "MiB of memory"]
        );
    }
}
