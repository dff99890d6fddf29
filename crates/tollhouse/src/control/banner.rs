//! The start-up text: what listens where, and a command that works as printed.

use std::net::SocketAddr;

use super::resources::Source;
use super::server::SideListeners;

/// Prints it to standard output; under ten lines, so that it is read.
pub fn print(data_plane: &[SocketAddr], side: &SideListeners, source: &Source, workers: usize) {
    println!("tollhouse {} serves with {workers} workers", env!("CARGO_PKG_VERSION"));
    for address in data_plane {
        println!("  data plane  http://{address}");
    }
    if let Some(address) = side.control {
        println!("  control     http://{address}/v1/configuration");
    }
    if let Some(address) = side.metrics {
        println!("  metrics     http://{address}/metrics");
    }
    println!("  resources   {}", source.name());
    if let (Source::BuiltIn(_), Some(address)) = (source, data_plane.first()) {
        println!("\nTry: curl -i http://{}/hello", reachable(*address));
    }
}

/// An address that a command on this machine can be pointed at.
fn reachable(address: SocketAddr) -> SocketAddr {
    let mut reachable = address;
    if address.ip().is_unspecified() {
        reachable.set_ip(match address {
            SocketAddr::V4(_) => std::net::Ipv4Addr::LOCALHOST.into(),
            SocketAddr::V6(_) => std::net::Ipv6Addr::LOCALHOST.into(),
        });
    }
    reachable
}
