//! Names under which a machine is called by those who know it, and not by a website that has its
//! name resolved to this machine's address so that browsers call here (DNS rebinding).

use std::net::{IpAddr, Ipv6Addr};

/// Endings of names that nobody can register.
const PRIVATE_ENDINGS: [&str; 7] =
    [".localhost", ".local", ".internal", ".lan", ".home.arpa", ".svc", ".test"];

/// Whether an authority, with or without a port, is an address or a name that no website can have:
/// one without a dot, or with an ending for private use. None at all is as good as one.
#[must_use]
pub fn is_local(authority: &str) -> bool {
    if let Some(rest) = authority.strip_prefix('[') {
        let address = rest.split_once(']').map_or("", |(address, _)| address);
        return address.parse::<Ipv6Addr>().is_ok();
    }
    let name = authority.rsplit_once(':').map_or(authority, |(name, _)| name);
    let name = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
    name.parse::<IpAddr>().is_ok()
        || !name.contains('.')
        || PRIVATE_ENDINGS.iter().any(|ending| name.ends_with(ending))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_private_names_are_local_and_registered_names_are_not() {
        for local in [
            "",
            "localhost",
            "localhost:9180",
            "127.0.0.1:9180",
            "10.0.0.7",
            "[::1]:9180",
            "[fe80::1]",
            "apisix:9180",
            "admin.localhost",
            "gw.svc.cluster.local",
            "GW.Internal:1",
            "localhost.",
        ] {
            assert!(is_local(local), "{local}");
        }
        for foreign in [
            "evil.example",
            "evil.com:9180",
            "127.0.0.1.evil.com",
            "local.evil.com",
            "[evil.com]",
            "1.2.3.4.5:80",
            "a.b.",
        ] {
            assert!(!is_local(foreign), "{foreign}");
        }
    }
}
