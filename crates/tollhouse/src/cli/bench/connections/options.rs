//! Conversion of the options of `bench connections` to a plan.

use clap::ValueEnum;
use tollhouse_load::case::TlsOptions;
use tollhouse_load::connections::{End, Listen, Ping, Plan, Sources};

use super::ConnectionsArguments;

/// Default number of ports of the end that accepts connections, as in the program c1000k.
const PORTS_OWN: u16 = 100;
/// Default maximum number of connections per port. One process serves a port, so that the usual
/// limits of descriptors suffice.
const CONNECTIONS_A_PORT: u64 = 10_000;

/// Examples that follow the options in the help text.
pub const EXAMPLES: &str = "\
Examples:
  tollhouse bench connections --serve -n 100000            both ends here
  tollhouse bench connections --serve -n 100000 --preflight
  tollhouse bench connections 127.0.0.1:9080 -n 20000      a gateway, connections that say nothing
  tollhouse bench connections http://10.0.0.5:9080/health -n 50000 --ping 10s --sources 10.0.0.7,10.0.0.8
  tollhouse bench connections --listen 0.0.0.0:20000       the other end, for a holder elsewhere:
  tollhouse bench connections tcp://10.0.0.5:20000 --ports 100 -n 1000000

Exit codes: 0 all were held to the end; 1 some were not; 2 nothing could be measured.";

/// Kind of ping.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PingWith {
    /// A byte that must be echoed.
    Byte,
    /// A GET request.
    Http,
}

impl ConnectionsArguments {
    /// Converts the options to a plan.
    pub(super) fn plan(&self) -> Plan {
        let end = match &self.target {
            Some(url) => End::Given { url: url.clone(), ports: self.ports.unwrap_or(1) },
            None => End::Own(Listen {
                address: std::net::Ipv4Addr::LOCALHOST.into(),
                base_port: self.base_port,
                ports: self.ports_own(),
                is_tls: self.tls,
            }),
        };
        Plan {
            end,
            connections: self.connections,
            rate: self.rate,
            sources: self.sources.clone().unwrap_or(Sources::Automatic),
            ping: self.ping.map(|every| Ping { every, is_http: self.pings_http() }),
            tls: TlsOptions {
                insecure: self.insecure,
                ca: self.ca.clone(),
                ..TlsOptions::default()
            },
            hold: self.hold,
            timeout: self.timeout,
            processes: self.processes,
        }
    }

    /// Returns the number of ports of the end that accepts connections, if this run starts it.
    pub(super) fn ports_own(&self) -> u16 {
        let needed = self.connections.div_ceil(CONNECTIONS_A_PORT);
        self.ports.unwrap_or(u16::try_from(needed).unwrap_or(u16::MAX).max(PORTS_OWN))
    }

    /// Whether pings are GET requests: by default for every target that is not `tcp:`.
    fn pings_http(&self) -> bool {
        match (self.ping_with, &self.target) {
            (Some(with), _) => with == PingWith::Http,
            (None, Some(url)) => !url.starts_with("tcp:"),
            (None, None) => false,
        }
    }
}

pub fn sources(text: &str) -> Result<Sources, String> {
    if let Ok(count) = text.parse() {
        return Ok(Sources::Loopback(count));
    }
    let address = |part: &str| part.trim().parse().map_err(|_| part.trim().to_owned());
    let addresses: Result<Vec<_>, String> = text.split(',').map(address).collect();
    addresses.map(Sources::Addresses).map_err(|part| {
        format!("{part:?} is not an address; write a number, or addresses with commas between")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_are_a_number_or_addresses() {
        assert_eq!(sources("4"), Ok(Sources::Loopback(4)));
        let two = vec![[10, 0, 0, 7].into(), [10, 0, 0, 8].into()];
        assert_eq!(sources("10.0.0.7, 10.0.0.8"), Ok(Sources::Addresses(two)));
        assert!(sources("eth0").expect_err("a name").contains("\"eth0\""));
    }
}
