//! Settings of a run with held connections, and their distribution over processes. Pure.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::case::TlsOptions;
use crate::error::BenchError;
use crate::preflight::{DESCRIPTORS_ASIDE, Limits};

/// Maximum number of processes. A million connections need only 53 processes with 20,000
/// descriptors each.
pub(super) const PROCESSES_MAX: u64 = 256;
/// Maximum number of connections; a larger number is taken for a typing error.
const CONNECTIONS_MAX: u64 = 100_000_000;
/// Maximum number of loopback source addresses. Each provides all local ports, so that these
/// suffice for any number of connections.
const SOURCES_MAX: u64 = 250;

/// Settings of a run with held connections.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    pub end: End,
    pub connections: u64,
    /// Number of connections to open per second.
    pub rate: f64,
    pub sources: Sources,
    /// Ping sent on every connection, if any.
    pub ping: Option<Ping>,
    /// TLS options for a given target.
    pub tls: TlsOptions,
    /// Hold time after all connections are open.
    pub hold: Duration,
    /// Time limit for opening a connection and for the response to a ping.
    pub timeout: Duration,
    /// Number of holder processes; by default as many as the descriptor limit requires.
    pub processes: Option<u64>,
}

/// Server to which the connections are opened.
#[derive(Debug, Clone, PartialEq)]
pub enum End {
    /// Our own server processes on loopback.
    Own(Listen),
    /// Existing target, as a URL. With `ports` above 1, the following ports are used too.
    Given {
        /// Target URL; its scheme determines whether TLS is used.
        url: String,
        /// Number of ports, beginning with that of the URL.
        ports: u16,
    },
}

/// Listening addresses of our own server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Listen {
    pub address: IpAddr,
    /// First port; with 0, the system chooses all ports.
    pub base_port: u16,
    /// Number of ports to listen on.
    pub ports: u16,
    /// Whether the server uses TLS, with a self-signed certificate.
    pub is_tls: bool,
}

/// Source addresses of connections, which limit their number per destination.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sources {
    /// The system chooses the addresses. On loopback, as many are used as the number of local ports
    /// requires.
    Automatic,
    /// This number of loopback addresses is used, from 127.0.0.1 on.
    Loopback(u64),
    /// These addresses of this machine are used.
    Addresses(Vec<IpAddr>),
}

/// Periodic ping that keeps a connection alive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ping {
    /// Interval between the pings of one connection.
    pub every: Duration,
    /// Whether the ping is an HTTP request; otherwise it is a byte that the server echoes.
    pub is_http: bool,
}

impl Listen {
    /// Returns one address per port.
    ///
    /// # Errors
    /// If the range of ports exceeds 65535.
    pub fn addresses(&self) -> Result<Vec<SocketAddr>, BenchError> {
        if self.base_port == 0 {
            return Ok(vec![SocketAddr::new(self.address, 0); usize::from(self.ports.max(1))]);
        }
        port_run(self.address, self.base_port, self.ports)
    }
}

/// Combines an address with a range of ports.
pub(super) fn port_run(
    address: IpAddr,
    first: u16,
    count: u16,
) -> Result<Vec<SocketAddr>, BenchError> {
    let last = first.checked_add(count.max(1) - 1).ok_or_else(|| BenchError::Case {
        key: "--ports".into(),
        why: format!(
            "{count} ports from {first} end above 65535; use fewer, or a lower first port"
        ),
    })?;
    Ok((first..=last).map(|port| SocketAddr::new(address, port)).collect())
}

impl Plan {
    pub(super) fn check(&self) -> Result<(), BenchError> {
        let problem = |key: &str, why: &str| {
            Err(BenchError::Case { key: key.to_owned(), why: why.to_owned() })
        };
        if self.connections == 0 || self.connections > CONNECTIONS_MAX {
            return problem("--connections", "must be 1 to 100000000");
        }
        if !(self.rate.is_finite() && self.rate >= 1.0) {
            return problem("--rate", "must be 1 a second or more");
        }
        if self.timeout.is_zero() {
            return problem("--timeout", "is 0; opening a connection takes some time");
        }
        if self.ping.is_some_and(|ping| ping.every.is_zero()) {
            return problem("--ping", "is 0; write how often, such as 10s");
        }
        if self.processes.is_some_and(|count| count == 0 || count > PROCESSES_MAX) {
            return problem("--processes", "must be 1 to 256");
        }
        match &self.sources {
            Sources::Loopback(count) if *count == 0 || *count > SOURCES_MAX => {
                problem("--sources", "must be 1 to 250, or addresses of this machine")
            }
            _ => Ok(()),
        }
    }

    /// Returns the number of holder processes.
    pub(super) fn holders(&self, limits: &Limits) -> u64 {
        let room = limits.descriptors.saturating_sub(DESCRIPTORS_ASIDE).max(1);
        let needed = self.connections.div_ceil(room).min(PROCESSES_MAX);
        self.processes.unwrap_or(needed).min(self.connections)
    }

    /// Returns the number of server processes. Each serves whole ports, over which connections are
    /// spread evenly.
    pub(super) fn servers(&self, limits: &Limits) -> u64 {
        let End::Own(listen) = &self.end else { return 0 };
        let ports = u64::from(listen.ports.max(1));
        let room = limits.descriptors.saturating_sub(DESCRIPTORS_ASIDE).max(1);
        let ports_each = (room / self.on_each_port(listen)).max(1);
        ports.div_ceil(ports_each).min(PROCESSES_MAX)
    }

    /// Returns the number of descriptors that each of `servers` server processes needs.
    pub(super) fn descriptors_serving(&self, servers: u64) -> u64 {
        let End::Own(listen) = &self.end else { return 0 };
        let ports_each = u64::from(listen.ports.max(1)).div_ceil(servers.max(1));
        ports_each.saturating_mul(self.on_each_port(listen)).saturating_add(DESCRIPTORS_ASIDE)
    }

    /// Returns the number of descriptors per port: its connections and the listening socket.
    fn on_each_port(&self, listen: &Listen) -> u64 {
        self.connections.div_ceil(u64::from(listen.ports.max(1))) + 1
    }

    /// Returns the number of server processes under this machine's limits, after raising the soft
    /// limits.
    pub fn servers_here(&self) -> u64 {
        self.servers(&Limits::after_raising(self.connections.saturating_add(DESCRIPTORS_ASIDE)))
    }

    /// Returns the source addresses of the connections; if empty, the system chooses.
    pub(super) fn source_addresses(
        &self,
        destinations: &[SocketAddr],
        limits: &Limits,
    ) -> Vec<IpAddr> {
        let count = match &self.sources {
            Sources::Addresses(addresses) => return addresses.clone(),
            Sources::Loopback(count) => *count,
            Sources::Automatic => {
                let on_loopback =
                    destinations.iter().all(|at| at.is_ipv4() && at.ip().is_loopback());
                let room = limits.ports.saturating_mul(destinations.len() as u64);
                match self.connections.div_ceil(room.max(1)) {
                    0 | 1 => return Vec::new(),
                    // 5 % in reserve, because other programs occupy some ports.
                    needed if on_loopback => (needed + needed / 20 + 1).min(SOURCES_MAX),
                    _ => return Vec::new(),
                }
            }
        };
        let address = |host: u64| {
            let host = u8::try_from(host.min(SOURCES_MAX)).unwrap_or(u8::MAX);
            IpAddr::V4(Ipv4Addr::new(127, 0, 0, host))
        };
        (1..=count).map(address).collect()
    }
}

/// Returns part `index` when `total` is divided evenly into `of` parts.
pub(super) fn share(total: u64, index: u64, of: u64) -> u64 {
    total / of + u64::from(index < total % of)
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
            tracked_free: None,
            memory_bytes: 8 << 30,
        }
    }

    fn plan(connections: u64, ports: u16) -> Plan {
        Plan {
            end: End::Own(Listen {
                address: Ipv4Addr::LOCALHOST.into(),
                base_port: 0,
                ports,
                is_tls: false,
            }),
            connections,
            rate: 1_000.0,
            sources: Sources::Automatic,
            ping: None,
            tls: TlsOptions::default(),
            hold: Duration::ZERO,
            timeout: Duration::from_secs(1),
            processes: None,
        }
    }

    #[test]
    fn processes_are_as_many_as_descriptors_make_necessary() {
        for (connections, ports, holders, servers) in [
            (10, 100, 1, 1),
            (19_900, 100, 1, 2),
            (19_901, 100, 2, 2),
            (100_000, 100, 6, 6),
            (1_000_000, 100, 51, 100),
            (1_000, 1, 1, 1),
        ] {
            let plan = plan(connections, ports);
            let found = (plan.holders(&limits()), plan.servers(&limits()));
            assert_eq!(found, (holders, servers), "{connections}");
        }
        let told = Plan { processes: Some(3), ..plan(10, 1) };
        assert_eq!(told.holders(&limits()), 3);
    }

    #[test]
    fn more_source_addresses_are_used_when_ports_do_not_suffice() {
        let one = [SocketAddr::from(([127, 0, 0, 1], 9080))];
        let sources = |plan: &Plan, to: &[SocketAddr]| plan.source_addresses(to, &limits()).len();
        assert_eq!(sources(&plan(28_232, 1), &one), 0);
        assert_eq!(sources(&plan(28_233, 1), &one), 3);
        assert_eq!(sources(&plan(100_000, 1), &one), 5);
        let elsewhere = [SocketAddr::from(([192, 0, 2, 1], 80))];
        assert_eq!(sources(&plan(100_000, 1), &elsewhere), 0);
        let given = Plan { sources: Sources::Loopback(2), ..plan(1, 1) };
        assert_eq!(
            given.source_addresses(&one, &limits()),
            [IpAddr::from([127, 0, 0, 1]), IpAddr::from([127, 0, 0, 2])]
        );
    }

    #[test]
    fn shares_add_up_to_the_whole() {
        for (total, of) in [(10, 3), (3, 10), (100_000, 6), (0, 2)] {
            assert_eq!((0..of).map(|index| share(total, index, of)).sum::<u64>(), total);
        }
    }

    #[test]
    fn what_cannot_be_meant_is_refused_by_its_key() {
        let plain = plan(1, 1);
        assert!(plain.check().is_ok());
        for (wrong, key) in [
            (Plan { connections: 0, ..plain.clone() }, "--connections"),
            (Plan { rate: f64::NAN, ..plain.clone() }, "--rate"),
            (Plan { timeout: Duration::ZERO, ..plain.clone() }, "--timeout"),
            (Plan { processes: Some(1_000), ..plain.clone() }, "--processes"),
            (Plan { sources: Sources::Loopback(0), ..plain.clone() }, "--sources"),
        ] {
            let error = wrong.check().expect_err(key);
            assert!(error.to_string().starts_with(key), "{error}");
        }
        let error = port_run(Ipv4Addr::LOCALHOST.into(), 65_500, 100).expect_err("too high");
        assert!(error.to_string().contains("--ports"), "{error}");
    }
}
