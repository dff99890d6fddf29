//! Addresses and networks as documents and the bootstrap file write them.

use std::net::IpAddr;

use ipnet::{IpNet, Ipv4Net};

/// Bits of an IPv6 address before the IPv4 address that it maps (RFC 4291 §2.5.5.2).
const MAPPED_PREFIX_BITS: u8 = 96;

/// Parses an address or a network; host bits are dropped. IPv4-mapped networks
/// (`::ffff:192.0.2.0/120`) become IPv4, as addresses of clients on dual-stack sockets do.
pub fn parse(text: &str) -> Option<IpNet> {
    if let Ok(address) = text.parse::<IpAddr>() {
        return Some(IpNet::from(address.to_canonical()));
    }
    let network = text.parse::<IpNet>().ok()?.trunc();
    let IpNet::V6(mapped) = network else { return Some(network) };
    let bits = mapped.prefix_len().checked_sub(MAPPED_PREFIX_BITS);
    let address = mapped.addr().to_ipv4_mapped();
    let of_ipv4 = address.zip(bits).and_then(|(it, bits)| Ipv4Net::new(it, bits).ok());
    Some(of_ipv4.map_or(network, IpNet::V4))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mapped_networks_are_those_of_ipv4_in_either_spelling() {
        for (text, expected) in [
            ("192.0.2.7/24", Some("192.0.2.0/24")),
            ("192.0.2.7", Some("192.0.2.7/32")),
            ("::ffff:192.0.2.0/120", Some("192.0.2.0/24")),
            ("::ffff:c000:200/120", Some("192.0.2.0/24")),
            ("::FFFF:192.0.2.7", Some("192.0.2.7/32")),
            ("::ffff:0:0/96", Some("0.0.0.0/0")),
            ("::ffff:0:0/95", Some("::fffe:0:0/95")),
            ("::/0", Some("::/0")),
            ("2001:db8::1/32", Some("2001:db8::/32")),
            ("::ffff:192.0.2.0/129", None),
            ("192.0.2.0/33", None),
            ("a", None),
        ] {
            let found = parse(text).map(|network| network.to_string());
            assert_eq!(found.as_deref(), expected, "{text}");
        }
    }
}
