//! Messages between the coordinator and its processes: one JSON object per line.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::case::TlsOptions;
use crate::connections::plan::Ping;
use crate::distribution::Distribution;
use crate::result::FirstError;

/// Line after which a holder begins to open connections. A process ends when its input ends.
pub(super) const GO: &str = "go";

/// Task of a process, sent as its first line.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Order {
    Hold(Box<HoldOrder>),
    Serve(ServeOrder),
}

/// A holder's share of the connections.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct HoldOrder {
    /// Destinations that connections use in turn; never empty.
    pub(super) destinations: Vec<SocketAddr>,
    /// Source addresses of the connections; if empty, the system chooses.
    pub(super) sources: Vec<IpAddr>,
    /// First local port and number of ports, for connections with a given source address.
    pub(super) ports: LocalPorts,
    /// Number of connections for this holder.
    pub(super) connections: u64,
    /// Index of this holder; `of` is the number of holders.
    pub(super) index: u64,
    pub(super) of: u64,
    /// Number of connections to open per second.
    pub(super) rate: f64,
    /// Target URL: its scheme determines whether TLS is used; pings use its host and path.
    pub(super) target: String,
    pub(super) tls: TlsOptions,
    pub(super) ping: Option<Ping>,
    pub(super) timeout: Duration,
}

/// A server's share of the addresses.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct ServeOrder {
    /// Addresses to listen on; with port 0, the system chooses the port.
    pub(super) addresses: Vec<SocketAddr>,
    pub(super) is_tls: bool,
}

/// Report of a process to the coordinator.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Update {
    /// The process is ready; a server reports its addresses.
    Ready(Vec<SocketAddr>),
    Tally(Tally),
    /// The process has finished; holds its distributions.
    FinalReport(Box<FinalReport>),
    /// The process cannot carry out its task.
    Failed(String),
}

/// Range of local ports of a source address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct LocalPorts {
    pub(super) first: u16,
    pub(super) count: u64,
}

/// Final report of a process.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(super) struct FinalReport {
    pub(super) tally: Tally,
    pub(super) connect: Distribution,
    pub(super) ping: Distribution,
}

/// Reason why a connection could not be opened, or why it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Loss {
    Refused,
    Reset,
    TimedOut,
    Closed,
    Tls,
    Ping,
    /// Limits of this machine: descriptors, local ports, memory.
    Local,
    Other,
}

impl Loss {
    /// Returns the word used in results.
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Loss::Refused => "refused",
            Loss::Reset => "reset",
            Loss::TimedOut => "timed_out",
            Loss::Closed => "closed",
            Loss::Tls => "tls",
            Loss::Ping => "ping",
            Loss::Local => "local",
            Loss::Other => "other",
        }
    }
}

/// Counts of one process, or the sum of several.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Tally {
    pub(super) attempted: u64,
    pub(super) connecting: u64,
    pub(super) established: u64,
    pub(super) open: u64,
    pub(super) failed: BTreeMap<Loss, u64>,
    pub(super) lost: BTreeMap<Loss, u64>,
    pub(super) pings: u64,
    pub(super) pings_failed: u64,
    /// Number of holders that have attempted their whole share, or given up.
    pub(super) opened: u64,
    pub(super) gave_up: bool,
    pub(super) first_error: Option<FirstError>,
}

impl Tally {
    /// Adds the counts of another process.
    pub(super) fn add(&mut self, other: &Self) {
        self.attempted += other.attempted;
        self.connecting += other.connecting;
        self.established += other.established;
        self.open += other.open;
        self.pings += other.pings;
        self.pings_failed += other.pings_failed;
        self.opened += other.opened;
        self.gave_up |= other.gave_up;
        for (into, from) in [(&mut self.failed, &other.failed), (&mut self.lost, &other.lost)] {
            for (loss, count) in from {
                *into.entry(*loss).or_default() += count;
            }
        }
        let errors = [self.first_error.take(), other.first_error.clone()];
        self.first_error = errors.into_iter().flatten().min_by_key(|error| error.at_ns);
    }

    /// Returns the number of connections that could not be opened.
    pub(super) fn failures(&self) -> u64 {
        self.failed.values().sum()
    }

    /// Returns the number of connections that were open and then ended.
    pub(super) fn losses(&self) -> u64 {
        self.lost.values().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tallies_add_up_and_the_earliest_error_is_the_first() {
        let error = |at_ns| Some(FirstError { at_ns, open: 1, message: format!("at {at_ns}") });
        let one = Tally {
            open: 3,
            failed: [(Loss::Refused, 2)].into(),
            first_error: error(9),
            ..Tally::default()
        };
        let mut sum = Tally {
            open: 4,
            failed: [(Loss::Refused, 1), (Loss::Reset, 5)].into(),
            first_error: error(12),
            ..Tally::default()
        };
        sum.add(&one);
        assert_eq!((sum.open, sum.failures(), sum.losses()), (7, 8, 0));
        assert_eq!(sum.failed[&Loss::Refused], 3);
        assert_eq!(sum.first_error, error(9));
    }

    #[test]
    fn an_update_is_one_line_and_reads_back() {
        let tally = Tally { lost: [(Loss::TimedOut, 1)].into(), ..Tally::default() };
        let update = Update::FinalReport(Box::new(FinalReport { tally, ..FinalReport::default() }));
        let line = serde_json::to_string(&update).expect("plain data");
        assert!(!line.contains('\n') && line.contains("timed_out"), "{line}");
        assert_eq!(serde_json::from_str::<Update>(&line).expect("its own"), update);
    }
}
