//! Limits on the addresses of registry instances. Any client of the registry names hosts and ports,
//! and routes send the requests of strangers there. Listeners for operators are never allowed,
//! because they trust this machine. Other addresses of this machine are allowed only while all
//! clients of the registry run on it: the registry of this process listens on loopback only, or all
//! servers of another one have loopback addresses.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Arc;

use tollhouse_config::Bootstrap;
use tollhouse_config::bootstrap::RegistryServer;
use tollhouse_web::client::Server;

use crate::console::bound::BoundAddresses;

/// Permission for instances on loopback and link-local addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LocalInstances {
    Allowed,
    Refused,
}

/// Limits on the addresses of instances.
#[derive(Debug)]
pub struct Reach {
    local: LocalInstances,
    /// Configured addresses of listeners for operators and of the registry.
    configured: Vec<SocketAddr>,
    /// Bound addresses of the listeners in `configured`, which may have port 0 there.
    bound: Arc<BoundAddresses>,
}

impl Default for Reach {
    fn default() -> Self {
        let local = LocalInstances::Allowed;
        Self { local, configured: Vec::new(), bound: Arc::default() }
    }
}

impl Reach {
    /// Limits for instances of the registry of this process.
    pub fn new(bootstrap: &Bootstrap, bound: Arc<BoundAddresses>) -> Self {
        let listen = &bootstrap.listen;
        let mut registry = listen.registry_grpc.iter().chain(&listen.registry_http);
        let is_private = registry.all(|address| address.ip().is_loopback());
        // All clients of such a registry run on this machine.
        let local = if is_private { LocalInstances::Allowed } else { LocalInstances::Refused };
        Self::with(bootstrap, bound, local)
    }

    /// Limits for instances of a registry outside of this process, by the addresses of its servers.
    pub fn from_servers(
        bootstrap: &Bootstrap,
        bound: Arc<BoundAddresses>,
        servers: &[RegistryServer],
    ) -> Self {
        let is_private = !servers.is_empty() && servers.iter().all(is_loopback_server);
        // All clients of such a registry run on this machine.
        let local = if is_private { LocalInstances::Allowed } else { LocalInstances::Refused };
        Self::with(bootstrap, bound, local)
    }

    /// Creates the limits with the treatment of local instances that `registry.local_instances` widens.
    fn with(bootstrap: &Bootstrap, bound: Arc<BoundAddresses>, local: LocalInstances) -> Self {
        let listen = &bootstrap.listen;
        let local =
            if bootstrap.registry.local_instances { LocalInstances::Allowed } else { local };
        let configured = [
            &listen.admin,
            &listen.control,
            &listen.metrics,
            &listen.status,
            &listen.registry_grpc,
            &listen.registry_http,
            &listen.shenyu,
        ];
        Self { local, configured: configured.into_iter().flatten().copied().collect(), bound }
    }

    /// Whether an instance must not serve because of its address. Host names are not resolved here
    /// and can change at any time, so that a name with the port of an own listener is refused.
    pub(super) fn forbids(&self, host: &str, port: u16) -> bool {
        match host.parse::<IpAddr>() {
            Ok(ip) => {
                let ip = ip.to_canonical();
                let is_local = is_near(ip);
                (is_local && self.local == LocalInstances::Refused)
                    || self.own_with(port).any(|own| is_of(own, ip))
            }
            Err(_) => {
                let is_local = is_local_name(host);
                (is_local && self.local == LocalInstances::Refused)
                    || ends_in_number(host)
                    || self.own_with(port).next().is_some()
            }
        }
    }

    fn own_with(&self, port: u16) -> impl Iterator<Item = SocketAddr> {
        let bound = self.bound.for_operators().into_iter();
        let configured = self.configured.iter().copied();
        configured.chain(bound).filter(move |own| own.port() == port)
    }
}

/// Whether the address of a server is a loopback one; other names are not resolved.
fn is_loopback_server(server: &RegistryServer) -> bool {
    let Ok(Server { host, .. }) = server.url.parse() else { return false };
    match host.parse::<IpAddr>() {
        Ok(ip) => ip.to_canonical().is_loopback(),
        Err(_) => is_local_name(&host),
    }
}

/// Whether an address always refers to this machine or its link.
fn is_near(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => {
            ip.is_loopback() || ip.is_link_local() || ip.is_unspecified() || ip.octets()[0] == 0
        }
        IpAddr::V6(ip) => ip.is_loopback() || ip.is_unicast_link_local() || ip.is_unspecified(),
    }
}

/// Whether a connection to `ip`, on the listener's port, reaches the listener `own`.
fn is_of(own: SocketAddr, ip: IpAddr) -> bool {
    let listens = own.ip().to_canonical();
    listens == ip
        || ip.is_unspecified()
        || (listens.is_unspecified() && is_own_address(ip))
        || (listens.is_loopback() && ip.is_loopback())
}

/// Whether the address is this machine's, tested by binding a socket to it.
fn is_own_address(ip: IpAddr) -> bool {
    let unspecified = match ip {
        IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    };
    ip == unspecified || ip.is_loopback() || UdpSocket::bind((ip, 0)).is_ok()
}

/// Whether the name is `localhost` or below it; these always refer to this machine (RFC 6761 §6.3).
fn is_local_name(host: &str) -> bool {
    let host = host.trim_end_matches('.').to_ascii_lowercase();
    host == "localhost" || host.ends_with(".localhost")
}

/// Whether the last label is numeric: some resolvers read `127.1` and `0x7f000001` as addresses,
/// although DNS has no such names.
fn ends_in_number(host: &str) -> bool {
    let last = host.trim_end_matches('.').rsplit('.').next().unwrap_or_default();
    let is_hex = last.get(..2).is_some_and(|start| start.eq_ignore_ascii_case("0x"));
    is_hex || (!last.is_empty() && last.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reach(local: LocalInstances) -> Reach {
        let bound = BoundAddresses::default();
        bound.set("admin", [SocketAddr::from(([0, 0, 0, 0], 9180))]);
        bound.set("http", [SocketAddr::from(([0, 0, 0, 0], 80))]);
        let configured = vec![SocketAddr::from(([127, 0, 0, 1], 9092))];
        Reach { local, configured, bound: Arc::new(bound) }
    }

    #[test]
    fn no_address_and_no_name_leads_to_an_own_listener() {
        let reach = reach(LocalInstances::Allowed);
        for (host, port, is_forbidden) in [
            ("127.0.0.1", 9180, true),
            ("127.9.9.9", 9180, true),
            ("0.0.0.0", 9180, true),
            ("::ffff:127.0.0.1", 9180, true),
            ("::1", 9180, true),
            ("::", 9180, true),
            ("localhost", 9180, true),
            ("any.example", 9180, true),
            ("127.0.0.1", 9092, true),
            ("127.0.0.2", 9092, true),
            ("0.0.0.0", 9092, true),
            ("10.255.255.1", 9180, false),
            ("127.0.0.1", 80, false),
            ("127.0.0.1", 8080, false),
            ("any.example", 8080, false),
            ("127.1", 8080, true),
            ("0x7f000001", 8080, true),
        ] {
            assert_eq!(reach.forbids(host, port), is_forbidden, "{host}:{port}");
        }
    }

    #[test]
    fn this_machine_is_out_of_reach_for_clients_of_other_machines() {
        for (host, is_near) in [
            ("127.0.0.1", true),
            ("169.254.169.254", true),
            ("fe80::1", true),
            ("::ffff:127.0.0.1", true),
            ("0.0.0.0", true),
            ("LOCALHOST.", true),
            ("a.localhost", true),
            ("10.255.255.1", false),
            ("orders.example", false),
        ] {
            assert_eq!(reach(LocalInstances::Refused).forbids(host, 8080), is_near, "{host}");
            assert!(!reach(LocalInstances::Allowed).forbids(host, 8080), "{host}");
        }
    }

    #[test]
    fn clients_of_other_machines_are_those_that_reach_the_registry() {
        for (listen, switch, expected) in [
            ("[127.0.0.1:8091]", "false", LocalInstances::Allowed),
            ("[0.0.0.0:8091]", "false", LocalInstances::Refused),
            ("[0.0.0.0:8091]", "true", LocalInstances::Allowed),
        ] {
            let text = format!(
                "listen: {{registry_grpc: {listen}}}\nregistry: {{local_instances: {switch}}}"
            );
            let loaded = Bootstrap::parse(Some(&text), &|_: &str| None, &[]).expect("it is good");
            assert_eq!(Reach::new(&loaded.bootstrap, Arc::default()).local, expected, "{text}");
        }
    }

    #[test]
    fn a_registry_elsewhere_names_no_local_addresses_unless_they_are_allowed() {
        for (servers, switch, expected) in [
            ("[]", "false", LocalInstances::Refused),
            ("['http://10.0.0.1:8500']", "false", LocalInstances::Refused),
            ("['http://10.0.0.1:8500']", "true", LocalInstances::Allowed),
            (
                "['http://127.0.0.1:8500', 'https://consul.example']",
                "false",
                LocalInstances::Refused,
            ),
            ("['http://169.254.1.1:8500']", "false", LocalInstances::Refused),
            ("['http://127.0.0.1:8500', 'http://[::1]:8500']", "false", LocalInstances::Allowed),
            ("['https://localhost:8501']", "false", LocalInstances::Allowed),
        ] {
            let text = format!(
                "registry: {{local_instances: {switch}}}\n\
                 discovery: {{consul: {{servers: {servers}}}}}"
            );
            let servers = match servers {
                "[]" => Vec::new(),
                _ => consul_servers(&text),
            };
            let text = format!("registry: {{local_instances: {switch}}}");
            let loaded = Bootstrap::parse(Some(&text), &|_: &str| None, &[]).expect("it is good");
            let reach = Reach::from_servers(&loaded.bootstrap, Arc::default(), &servers);
            assert_eq!(reach.local, expected, "{servers:?}");
            let is_refused = expected == LocalInstances::Refused;
            for host in ["127.0.0.1", "169.254.169.254"] {
                assert_eq!(reach.forbids(host, 8080), is_refused, "{host}");
            }
        }
    }

    fn consul_servers(text: &str) -> Vec<RegistryServer> {
        let loaded = Bootstrap::parse(Some(text), &|_: &str| None, &[]).expect("it is good");
        loaded.bootstrap.discovery.consul.expect("a registry").access.servers
    }
}
