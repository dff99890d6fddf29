//! Locations of hosts by their addresses, for instances and clients that give none.

use ipnet::IpNet;
use std::net::IpAddr;
use tollhouse_registry::Location;

/// Location of the hosts in a network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetworkLocation {
    pub network: IpNet,
    pub location: Location,
}

/// Networks with their locations, the narrowest first.
#[derive(Debug, Clone, Default)]
pub struct Locations(Vec<NetworkLocation>);

impl Locations {
    pub fn new(mut networks: Vec<NetworkLocation>) -> Self {
        networks.sort_by_key(|it| std::cmp::Reverse(it.network.prefix_len()));
        Self(networks)
    }

    pub(crate) fn networks(&self) -> &[NetworkLocation] {
        &self.0
    }

    /// Returns the location of a host, by the narrowest network that contains its address. A host
    /// name has none.
    pub(crate) fn find(&self, host: &str) -> Option<&Location> {
        if self.0.is_empty() {
            return None;
        }
        let address = host.trim().parse::<IpAddr>().ok()?.to_canonical();
        self.0.iter().find(|it| it.network.contains(&address)).map(|it| &it.location)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(network: &str, region: &str) -> NetworkLocation {
        let location = Location { region: region.into(), ..Location::default() };
        NetworkLocation { network: network.parse().expect("a network"), location }
    }

    #[test]
    fn the_narrowest_network_decides() {
        let locations =
            Locations::new(vec![place("10.0.0.0/8", "wide"), place("10.1.0.0/16", "narrow")]);
        for (host, expected) in [
            ("10.2.0.1", Some("wide")),
            (" 10.1.0.1", Some("narrow")),
            ("::ffff:10.1.0.1", Some("narrow")),
            ("192.0.2.1", None),
            ("host.example", None),
        ] {
            let found = locations.find(host).map(|location| &*location.region);
            assert_eq!(found, expected, "{host}");
        }
    }
}
