//! Compares needs with limits; rows with verdict and remedy. Pure.

use std::fmt;

use crate::preflight::Limits;

/// Descriptors a process needs besides its connections: standard streams, event loops, timers,
/// files.
pub(crate) const DESCRIPTORS_ASIDE: u64 = 100;
/// Kernel memory per connection: socket, file, inode and bound port.
const KERNEL_BYTES_EACH: u64 = 5 * 1024;
/// Memory per connection in this process: buffers in both directions.
const OWN_BYTES_EACH: u64 = 20 * 1024;
/// Largest possible range of local ports; ports below 1024 are reserved for services.
const PORTS_MAX: u64 = 65_535 - 1_024 + 1;

/// Resources that a load needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Need {
    pub connections: u64,
    /// Number of destinations, as pairs of address and port; 0 for a Unix socket.
    pub destinations: u64,
    pub sources: u64,
    /// Number of processes that share the connections evenly.
    pub processes: u64,
    /// Memory per connection on this machine in bytes, in processes and kernel.
    pub bytes_each: u64,
    /// Number of connection ends on this machine: 2 if both ends are here.
    pub ends: u64,
}

impl Default for Need {
    fn default() -> Self {
        Self {
            connections: 1,
            destinations: 1,
            sources: 1,
            processes: 1,
            bytes_each: KERNEL_BYTES_EACH + OWN_BYTES_EACH,
            ends: 1,
        }
    }
}

impl Need {
    /// Returns the number of descriptors each process needs.
    pub fn descriptors_each(&self) -> u64 {
        self.connections.div_ceil(self.processes.max(1)).saturating_add(DESCRIPTORS_ASIDE)
    }
}

/// Comparison of a need with a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    Enough,
    /// The limit may be reached; the load still runs, and the report mentions it.
    Tight,
    TooSmall,
}

impl fmt::Display for Verdict {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(match self {
            Verdict::Enough => "ok",
            Verdict::Tight => "tight",
            Verdict::TooSmall => "TOO SMALL",
        })
    }
}

/// Row of the table: a limit, the need, and a remedy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Advice {
    /// Name of the limited resource, such as `descriptors a process`.
    pub limit: &'static str,
    pub need: u64,
    pub have: u64,
    pub verdict: Verdict,
    /// Commands that raise the limit, or another remedy.
    pub remedy: String,
}

impl Advice {
    /// Returns the row as one sentence.
    pub fn sentence(&self) -> String {
        let Self { limit, need, have, remedy, .. } = self;
        format!("{need} {limit} are needed and {have} available: {remedy}")
    }

    fn new(limit: &'static str, need: u64, have: u64, short: Verdict, remedy: String) -> Self {
        let verdict = if need > have { short } else { Verdict::Enough };
        Self { limit, need, have, verdict, remedy }
    }
}

/// Returns all rows, most important first.
pub fn advise(need: &Need, limits: &Limits) -> Vec<Advice> {
    let mut rows = vec![descriptors(need, limits), files(need, limits)];
    if need.destinations > 0 {
        rows.push(ports(need, limits));
    }
    rows.push(memory(need, limits));
    rows.push(listen_queue(need, limits));
    rows.extend(limits.tracked_free.map(|free| tracked(need, free)));
    rows
}

fn descriptors(need: &Need, limits: &Limits) -> Advice {
    let each = need.descriptors_each();
    let mut remedy = format!("run `sudo prlimit --pid $$ --nofile={each}:{each}` in this shell");
    if each > limits.descriptors_possible {
        remedy = format!("run `sudo sysctl -w fs.nr_open={each}`, then {}", &remedy[4..]);
    }
    Advice::new("descriptors", each, limits.descriptors, Verdict::TooSmall, remedy)
}

fn files(need: &Need, limits: &Limits) -> Advice {
    let ends = need.connections.saturating_mul(need.ends).saturating_add(DESCRIPTORS_ASIDE);
    let wanted = ends.saturating_mul(2);
    let remedy = format!("run `sudo sysctl -w fs.file-max={wanted}`");
    Advice::new("open files of the machine", ends, limits.files_free, Verdict::TooSmall, remedy)
}

/// Returns a row for local ports. A connection is identified by both addresses and ports, so that
/// each pair of source and destination has all local ports.
fn ports(need: &Need, limits: &Limits) -> Advice {
    let pairs = need.destinations.saturating_mul(need.sources.max(1));
    let have = limits.ports.saturating_mul(pairs);
    let wide_enough = need.connections <= PORTS_MAX.saturating_mul(pairs);
    let widen = "run `sudo sysctl -w net.ipv4.ip_local_port_range=\"1024 65535\"`";
    let spread = "use more destination ports or source addresses";
    let remedy = if wide_enough { format!("{widen}, or {spread}") } else { spread.to_owned() };
    Advice::new("local ports", need.connections, have, Verdict::TooSmall, remedy)
}

fn memory(need: &Need, limits: &Limits) -> Advice {
    const MIB: u64 = 1 << 20;
    let bytes = need.connections.saturating_mul(need.bytes_each).saturating_mul(need.ends);
    let fitting = limits.memory_bytes / need.bytes_each.max(1) / need.ends.max(1);
    let remedy = format!("use at most {fitting} connections, or a machine with more memory");
    let (need, have) = (bytes.div_ceil(MIB), limits.memory_bytes / MIB);
    Advice::new("MiB of memory", need, have, Verdict::TooSmall, remedy)
}

fn listen_queue(need: &Need, limits: &Limits) -> Advice {
    let at_once = need.connections.div_ceil(need.destinations.max(1));
    let remedy = format!(
        "only a server on this machine meets it, when connections come faster than it accepts: \
         run `sudo sysctl -w net.core.somaxconn={0} net.ipv4.tcp_max_syn_backlog={0}`, restart it",
        at_once.min(65_535)
    );
    Advice::new("places in a listen queue", at_once, limits.listen_queue, Verdict::Tight, remedy)
}

fn tracked(need: &Need, free: u64) -> Advice {
    let wanted = need.connections.saturating_mul(2);
    let remedy = format!(
        "only with firewall rules that track connections: \
         run `sudo sysctl -w net.netfilter.nf_conntrack_max={wanted}`"
    );
    Advice::new("tracked connections", need.connections, free, Verdict::Tight, remedy)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits() -> Limits {
        Limits {
            descriptors: 20_000,
            descriptors_possible: 1_048_576,
            files_free: 1_000_000,
            ports: 28_232,
            port_first: 32_768,
            listen_queue: 4_096,
            tracked_free: Some(65_536),
            memory_bytes: 8 << 30,
        }
    }

    fn rows(need: &Need, limits: &Limits) -> Vec<(&'static str, Verdict)> {
        let rows = advise(need, limits).into_iter().map(|row| (row.limit, row.verdict));
        rows.filter(|(_, verdict)| *verdict != Verdict::Enough).collect()
    }

    fn need(connections: u64) -> Need {
        Need { connections, ..Need::default() }
    }

    #[test]
    fn each_limit_is_met_at_its_own_number() {
        use Verdict::{Tight, TooSmall};
        let queue = ("places in a listen queue", Tight);
        let descriptors = ("descriptors", TooSmall);
        for (connections, expected) in [
            (4_000, vec![]),
            (5_000, vec![queue]),
            (19_901, vec![descriptors, queue]),
            (28_300, vec![descriptors, ("local ports", TooSmall), queue]),
        ] {
            assert_eq!(rows(&need(connections), &limits()), expected, "{connections}");
        }
    }

    #[test]
    fn processes_ports_and_sources_share_the_connections() {
        let spread = Need {
            connections: 100_000,
            destinations: 100,
            processes: 6,
            ends: 2,
            bytes_each: 4_096,
            ..Need::default()
        };
        assert_eq!(rows(&spread, &limits()), [("tracked connections", Verdict::Tight)]);
        let by_sources = Need { destinations: 1, sources: 4, ..spread };
        assert!(!rows(&by_sources, &limits()).contains(&("local ports", Verdict::TooSmall)));
    }

    #[test]
    fn a_unix_socket_needs_no_ports() {
        let unix = Need { destinations: 0, ..need(19_000) };
        assert_eq!(rows(&unix, &limits()), [("places in a listen queue", Verdict::Tight)]);
    }

    #[test]
    fn every_sentence_names_need_limit_and_remedy() {
        let sentences: Vec<String> =
            advise(&need(2_000_000), &limits()).iter().map(Advice::sentence).collect();
        for (index, parts) in [
            (0, ["2000100 descriptors", "20000 available", "fs.nr_open=2000100"]),
            (1, ["2000100 open files", "1000000 available", "fs.file-max=4000200"]),
            (2, ["2000000 local ports", "28232 available", "more destination ports"]),
            (3, ["48829 MiB of memory", "8192 available", "at most 335544 connections"]),
        ] {
            for part in parts {
                assert!(sentences[index].contains(part), "{part}: {}", sentences[index]);
            }
        }
    }
}
