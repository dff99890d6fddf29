//! The start-up text: what listens where, and a command that works as printed.

use std::net::SocketAddr;
use std::path::Path;

use tollhouse_config::bootstrap::Secret;
use tollhouse_proxy::worker::Transport;

use crate::admin::RunningAdmin;
use crate::feed::Source;
use crate::introspection::listeners::SideListeners;
use crate::registry::RunningRegistry;
use crate::shenyu_admin::RunningShenyuAdmin;

/// What it says.
#[derive(Debug)]
pub struct Banner<'a> {
    /// Where the data plane listens.
    pub data_plane: &'a [(SocketAddr, Transport)],
    /// Where stream routes are served, each with `tcp` or `udp`.
    pub streams: &'a [(&'static str, SocketAddr)],
    /// Where introspection listens.
    pub side: &'a SideListeners,
    /// The Admin API.
    pub admin: Option<&'a RunningAdmin>,
    /// ShenYu's admin.
    pub shenyu_admin: Option<&'a RunningShenyuAdmin>,
    /// The registry.
    pub registry: Option<&'a RunningRegistry>,
    /// Where resources come from.
    pub source: &'a Source,
    /// The data folder, where it was made just now.
    pub new_data_dir: Option<&'a Path>,
    /// The key of the Admin API, where it was made just now.
    pub new_admin_key: Option<&'a Secret>,
    /// Whether the demonstration route is in service.
    pub has_demonstration: bool,
    /// Serving threads.
    pub workers: usize,
}

impl Banner<'_> {
    /// Prints it to standard output; few lines, so that they are read.
    pub fn print(&self) {
        let workers = self.workers;
        println!("tollhouse {} serves with {workers} workers", env!("CARGO_PKG_VERSION"));
        for (address, transport) in self.data_plane {
            let scheme = match transport {
                Transport::Plain => "http",
                Transport::Tls => "https",
            };
            println!("  data plane  {scheme}://{address}");
        }
        for (protocol, address) in self.streams {
            println!("  stream      {protocol}://{address}");
        }
        if let Some(admin) = self.admin {
            let scheme = scheme(admin.is_tls);
            println!("  admin       {scheme}://{}/apisix/admin", admin.address);
        }
        if let Some(address) = self.side.control {
            println!(
                "  control     {}://{address}/v1/configuration",
                scheme(self.side.control_is_tls)
            );
        }
        if let Some(address) = self.side.metrics {
            println!("  metrics     {}://{address}/metrics", scheme(self.side.metrics_are_tls));
        }
        if let Some(address) = self.side.status {
            println!("  status      {}://{address}/status", scheme(self.side.status_is_tls));
        }
        let registry_is_tls = self.registry.is_some_and(RunningRegistry::is_tls);
        if let Some(address) = self.registry.and_then(|registry| registry.grpc) {
            println!(
                "  registry    {}://{address}",
                if registry_is_tls { "grpcs" } else { "grpc" }
            );
        }
        if let Some(address) = self.registry.and_then(|registry| registry.http) {
            println!("  registry    {}://{address}", scheme(registry_is_tls));
        }
        for address in self.shenyu_admin.iter().flat_map(|admin| &admin.addresses) {
            println!("  shenyu      http://{address}");
        }
        println!("  resources   {}", self.source.name());
        if let Some(folder) = self.new_data_dir {
            println!("\nCreated {}, which keeps the store, keys and state.", folder.display());
        }
        let admin = self.new_admin_key.map(|key| ("Admin key", key));
        let registry = self.registry.map(RunningRegistry::new_secrets).unwrap_or_default();
        let registry = registry.iter().map(|(what, secret)| (&**what, secret));
        for (what, secret) in admin.into_iter().chain(registry) {
            println!("\n{what}, generated now and shown only once: {}", secret.expose());
        }
        // An address with TLS would need a certificate for the command to work as printed.
        let mut plain = self.data_plane.iter().filter(|(_, it)| *it == Transport::Plain);
        if let (true, Some((address, _))) = (self.has_demonstration, plain.next()) {
            println!("\nTry: curl -i http://{}/demo", reachable(*address));
        }
    }
}

fn scheme(is_tls: bool) -> &'static str {
    if is_tls { "https" } else { "http" }
}

/// An address that a command on this machine can be pointed at.
pub fn reachable(address: SocketAddr) -> SocketAddr {
    let mut reachable = address;
    if address.ip().is_unspecified() {
        reachable.set_ip(match address {
            SocketAddr::V4(_) => std::net::Ipv4Addr::LOCALHOST.into(),
            SocketAddr::V6(_) => std::net::Ipv6Addr::LOCALHOST.into(),
        });
    }
    reachable
}
