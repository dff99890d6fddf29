//! Text printed at the start: addresses of all listeners, locations of the keys, and a command that
//! works as printed.
//!
//! Secrets are never printed, because service managers and container runtimes keep what a process
//! prints.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use tollhouse_proxy::worker::Transport;
use tollhouse_stdx::UnixPath;
use tollhouse_stdx::plural::counted;

use crate::admin::RunningAdmin;
use crate::feed::Source;
use crate::introspection::listeners::{SideListener, SideListeners};
use crate::registry::RunningRegistry;
use crate::shenyu_admin::RunningShenyuAdmin;

/// Facts for the text that is printed when the gateway has started.
#[derive(Debug)]
pub struct Banner<'a> {
    pub data_plane: &'a [(SocketAddr, Transport)],
    /// Unix sockets of the data plane.
    pub unix_paths: &'a [UnixPath],
    /// Listeners of stream routes, each with `tcp` or `udp`.
    pub streams: &'a [(&'static str, SocketAddr)],
    /// Listeners of the control API, metrics and status.
    pub side: &'a SideListeners,
    pub admin: Option<&'a RunningAdmin>,
    pub shenyu_admin: Option<&'a RunningShenyuAdmin>,
    pub registry: Option<&'a RunningRegistry>,
    pub source: &'a Source,
    /// The data folder, if this start created it.
    pub new_data_dir: Option<&'a Path>,
    /// File of the Admin API's key, unless the key is configured.
    pub admin_key_file: Option<PathBuf>,
    /// Files of secrets that registry clients need, each with its name.
    pub registry_secret_files: Vec<(String, PathBuf)>,
    /// Whether the demonstration route is in service.
    pub has_demonstration: bool,
    /// Number of worker threads.
    pub workers: usize,
}

impl Banner<'_> {
    /// Prints the text to standard output, in few lines so that users read it.
    pub fn print(&self) {
        let workers = counted(self.workers, "worker");
        println!("tollhouse {} serves with {workers}", env!("CARGO_PKG_VERSION"));
        for (address, transport) in self.data_plane {
            let scheme = match transport {
                Transport::Plain => "http",
                Transport::Tls => "https",
            };
            println!("  data plane  {scheme}://{address}");
        }
        for path in self.unix_paths {
            println!("  data plane  http over {path}");
        }
        for (protocol, address) in self.streams {
            println!("  stream      {protocol}://{address}");
        }
        if let Some(admin) = self.admin {
            let scheme = scheme(admin.is_tls);
            println!("  admin       {scheme}://{}/apisix/admin", admin.address);
        }
        for (name, listener, path) in [
            ("control", self.side.control, "/v1/configuration"),
            ("metrics", self.side.metrics, "/metrics"),
            ("status", self.side.status, "/status"),
        ] {
            if let Some(SideListener { address, is_tls }) = listener {
                println!("  {name:<12}{}://{address}{path}", scheme(is_tls));
            }
        }
        let registry_is_tls = self.registry.is_some_and(RunningRegistry::is_tls);
        for address in self.registry.iter().flat_map(|registry| &registry.grpc) {
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
            println!("\nCreated {} for the store, keys and state.", folder.display());
        } else {
            println!();
        }
        self.print_console();
        if self.registry.is_some() {
            for (name, file) in &self.registry_secret_files {
                println!("{name}: in {}", file.display());
            }
        }
        if self.data_plane.iter().all(|(address, _)| address.ip().is_loopback()) {
            println!("{LOOPBACK_ONLY}");
        }
        // Without TLS, because the command would otherwise need a trusted certificate to work as
        // printed.
        let mut plain = self.data_plane.iter().filter(|(_, it)| *it == Transport::Plain);
        if let (true, Some((address, _))) = (self.has_demonstration, plain.next()) {
            println!("Try: curl -i http://{}/demo", reachable(*address));
        }
    }

    /// Prints the console's address and the location of its key. Printed at every start, because
    /// users need both each time.
    fn print_console(&self) {
        let Some(admin) = self.admin else { return };
        let address = reachable(admin.address);
        let key = match &self.admin_key_file {
            Some(file) => format!("key in {}", file.display()),
            None => "key as configured in admin.key".to_owned(),
        };
        println!("Console: {}://{address}/ ({key})", scheme(admin.is_tls));
    }
}

/// Printed if all data plane listeners are on loopback.
const LOOPBACK_ONLY: &str =
    "Only this machine reaches the data plane; to open it: --set listen.http=0.0.0.0:9080";

fn scheme(is_tls: bool) -> &'static str {
    if is_tls { "https" } else { "http" }
}

/// Returns the address for a client on this machine: an unspecified address is replaced by
/// loopback.
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
