//! What is asked for, and how it is shared among processes. Pure.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::case::TlsOptions;
use crate::error::BenchError;
use crate::preflight::{DESCRIPTORS_ASIDE, Limits};

/// More processes than this would be a mistake: a million connections are held by 53 that have 20,000
/// descriptors each.
pub(super) const PROCESSES_MAX: u64 = 256;
/// More connections than this are a mistake in the number.
const CONNECTIONS_MAX: u64 = 100_000_000;
/// Loopback has more addresses, but each brings all local ports: these suffice for any number.
const SOURCES_MAX: u64 = 250;

/// What to hold.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// The other end.
    pub end: End,
    /// How many connections.
    pub connections: u64,
    /// How many are opened a second.
    pub rate: f64,
    /// Where they come from.
    pub sources: Sources,
    /// A sign of life on every connection.
    pub ping: Option<Ping>,
    /// How TLS is done with a given target.
    pub tls: TlsOptions,
    /// How long they are held once all are open.
    pub hold: Duration,
    /// How long opening one, or the answer to a sign of life, may take.
    pub timeout: Duration,
    /// Processes that hold them; by default as many as the limit of descriptors makes necessary.
    pub processes: Option<u64>,
}

/// The other end of the connections.
#[derive(Debug, Clone, PartialEq)]
pub enum End {
    /// Processes of our own on loopback.
    Own(Listen),
    /// A target, as a URL; with `ports` above 1 also the ports after its own.
    Given {
        /// The URL; its scheme tells whether TLS is spoken.
        url: String,
        /// How many ports, from that of the URL.
        ports: u16,
    },
}

/// Where our own server listens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Listen {
    /// The address.
    pub address: IpAddr,
    /// The first port; 0 leaves all numbers to the system.
    pub base_port: u16,
    /// How many ports.
    pub ports: u16,
    /// Whether it speaks TLS, with a certificate of its own making.
    pub is_tls: bool,
}

/// Where connections come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sources {
    /// What the system chooses; on loopback as many addresses as the number of ports makes necessary.
    Automatic,
    /// So many addresses of loopback, from 127.0.0.1.
    Loopback(u64),
    /// These addresses of this machine.
    Addresses(Vec<IpAddr>),
}

/// A sign of life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ping {
    /// How often each connection gives one.
    pub every: Duration,
    /// Whether it is an HTTP request; otherwise a byte that comes back.
    pub is_http: bool,
}

impl Listen {
    /// The addresses of all its ports.
    ///
    /// # Errors
    /// When there are not so many ports from the first on.
    pub fn addresses(&self) -> Result<Vec<SocketAddr>, BenchError> {
        if self.base_port == 0 {
            return Ok(vec![SocketAddr::new(self.address, 0); usize::from(self.ports.max(1))]);
        }
        port_run(self.address, self.base_port, self.ports)
    }
}

/// An address with a run of ports.
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
    /// Refuses what cannot be meant.
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

    /// How many processes hold the connections.
    pub(super) fn holders(&self, limits: &Limits) -> u64 {
        let room = limits.descriptors.saturating_sub(DESCRIPTORS_ASIDE).max(1);
        let needed = self.connections.div_ceil(room).min(PROCESSES_MAX);
        self.processes.unwrap_or(needed).min(self.connections)
    }

    /// How many processes serve them, each with whole ports over which connections are spread evenly.
    pub(super) fn servers(&self, limits: &Limits) -> u64 {
        let End::Own(listen) = &self.end else { return 0 };
        let ports = u64::from(listen.ports.max(1));
        let room = limits.descriptors.saturating_sub(DESCRIPTORS_ASIDE).max(1);
        let ports_each = (room / self.on_each_port(listen)).max(1);
        ports.div_ceil(ports_each).min(PROCESSES_MAX)
    }

    /// Descriptors that each of so many serving processes needs.
    pub(super) fn descriptors_serving(&self, servers: u64) -> u64 {
        let End::Own(listen) = &self.end else { return 0 };
        let ports_each = u64::from(listen.ports.max(1)).div_ceil(servers.max(1));
        ports_each.saturating_mul(self.on_each_port(listen)).saturating_add(DESCRIPTORS_ASIDE)
    }

    /// Connections that come to each port, and its listening socket.
    fn on_each_port(&self, listen: &Listen) -> u64 {
        self.connections.div_ceil(u64::from(listen.ports.max(1))) + 1
    }

    /// How many processes serve them with this machine's limits, after raising what may be raised.
    pub fn servers_here(&self) -> u64 {
        self.servers(&Limits::after_raising(self.connections.saturating_add(DESCRIPTORS_ASIDE)))
    }

    /// The addresses that connections come from; empty leaves that to the system.
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
                    // A twentieth more, since some ports are taken by others.
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

/// Share `index` of `total` things among `of`.
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
