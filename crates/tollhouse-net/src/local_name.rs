//! Host names that can legitimately denote this machine, as opposed to the name of a website that
//! resolves to its address so that browsers send requests here (DNS rebinding).

use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

/// Endings of names that cannot be registered.
const PRIVATE_ENDINGS: [&str; 7] =
    [".localhost", ".local", ".internal", ".lan", ".home.arpa", ".svc", ".test"];

/// Whether an authority, with or without a port, is an IP address or a name that a website cannot
/// have: a name without a dot, or with an ending for private use. An empty authority counts as
/// local.
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

/// Additional names of this machine, beside its addresses and the names that are local by their
/// form.
#[derive(Debug, Clone, Default)]
pub struct HostNames(Arc<[String]>);

impl HostNames {
    /// Creates a set of names, given in lower case.
    pub fn new(names: &[String]) -> Self {
        Self(names.into())
    }

    /// Whether a request may come from a website in a browser: its host is a name that the website
    /// could control, or its `Origin` is another host.
    #[must_use]
    pub fn may_be_a_websites(&self, host: &str, origin: Option<&str>) -> bool {
        let is_same = |origin: &str| {
            origin.split_once("://").is_some_and(|(_, from)| from.eq_ignore_ascii_case(host))
        };
        !self.admits(host) || !origin.is_none_or(is_same)
    }

    /// Whether an authority is one of these names, an IP address, or a name that a website cannot
    /// have.
    #[must_use]
    pub fn admits(&self, authority: &str) -> bool {
        let name = authority.rsplit_once(':').map_or(authority, |(name, _)| name);
        let name = name.strip_suffix('.').unwrap_or(name);
        is_local(authority) || self.0.iter().any(|known| known.eq_ignore_ascii_case(name))
    }
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

    #[test]
    fn what_a_website_can_bring_is_told_by_host_and_origin() {
        let hosts = HostNames::new(&["gw.example.org".to_owned()]);
        for (host, origin, expected) in [
            ("127.0.0.1:8090", None, false),
            ("", None, false),
            ("GW.example.org.:8090", None, false),
            ("gw.example.org", Some("https://gw.example.org"), false),
            ("127.0.0.1:8090", Some("http://127.0.0.1:8090"), false),
            ("LOCALHOST:1", Some("http://localhost:1"), false),
            ("evil.example", None, true),
            ("evil.example", Some("http://evil.example"), true),
            ("gw.example.org.evil.example", None, true),
            ("127.0.0.1:8090", Some("http://evil.example"), true),
            ("127.0.0.1:8090", Some("http://127.0.0.1:3000"), true),
            ("127.0.0.1:8090", Some("null"), true),
            ("127.0.0.1:8090", Some(""), true),
        ] {
            assert_eq!(hosts.may_be_a_websites(host, origin), expected, "{host} {origin:?}");
        }
        assert!(HostNames::default().may_be_a_websites("gw.example.org", None));
    }
}
