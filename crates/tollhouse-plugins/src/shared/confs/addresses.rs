//! Lists of addresses and networks, for access lists and trusted proxies.

use std::borrow::Cow;
use std::net::IpAddr;
use std::ops::Deref;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use tollhouse_model::network;
use tollhouse_plugin::ConfError;

/// Address or network, as written.
#[derive(Debug, Deserialize)]
#[serde(transparent)]
pub struct AddressText(String);

impl Deref for AddressText {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl JsonSchema for AddressText {
    fn schema_name() -> Cow<'static, str> {
        "Address".into()
    }

    fn json_schema(_generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "anyOf": [
                {"title": "IPv4", "type": "string", "format": "ipv4"},
                {
                    "title": "IPv4/CIDR",
                    "type": "string",
                    "pattern": IPV4_NETWORK,
                },
                {"title": "IPv6", "type": "string", "format": "ipv6"},
                {
                    "title": "IPv6/CIDR",
                    "type": "string",
                    "pattern": IPV6_NETWORK,
                },
            ],
        })
    }
}

const IPV4_NETWORK: &str = concat!(
    r"^(([0-9]|[1-9][0-9]|1[0-9]{2}|2[0-4][0-9]|25[0-5])\.){3}",
    r"([0-9]|[1-9][0-9]|1[0-9]{2}|2[0-4][0-9]|25[0-5])/([12]?[0-9]|3[0-2])$",
);

/// Approximate pattern of IPv6 networks. The parser refuses the invalid ones that pass it.
const IPV6_NETWORK: &str = r"^([a-fA-F0-9]{0,4}:){1,8}(:[a-fA-F0-9]{0,4}){0,8}([a-fA-F0-9]{0,4}|([0-9]{1,3}\.){3}[0-9]{1,3})?/[0-9]{1,3}$";

/// Set of addresses. A look-up costs one binary search, regardless of the number of networks.
#[derive(Debug, Default)]
pub(crate) struct Addresses {
    /// First and last address of each range; sorted and disjoint. IPv4 addresses are mapped to
    /// IPv6.
    ranges: Box<[(u128, u128)]>,
}

impl Addresses {
    pub(crate) fn parse(texts: &[AddressText]) -> Result<Self, ConfError> {
        let ranges: Result<Vec<_>, ConfError> = texts.iter().map(range).collect();
        let mut ranges = ranges?;
        ranges.sort_unstable();
        ranges.dedup_by(|next, kept| {
            let is_inside = next.0 <= kept.1;
            if is_inside {
                kept.1 = kept.1.max(next.1);
            }
            is_inside
        });
        Ok(Self { ranges: ranges.into() })
    }

    /// Whether the set contains an address.
    pub(crate) fn contains(&self, address: IpAddr) -> bool {
        let number = number(address);
        let after = self.ranges.partition_point(|(first, _)| *first <= number);
        after > 0 && number <= self.ranges[after - 1].1
    }
}

fn range(text: &AddressText) -> Result<(u128, u128), ConfError> {
    let network = network::parse(text);
    let network = network.ok_or_else(|| format!("invalid ip address: {}", &**text))?;
    Ok((number(network.network()), number(network.broadcast())))
}

fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().into(),
        IpAddr::V6(address) => address.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(texts: &[&str]) -> Result<Addresses, ConfError> {
        let texts: Vec<_> = texts.iter().map(|text| AddressText((*text).into())).collect();
        Addresses::parse(&texts)
    }

    fn addresses_of(texts: &[&str]) -> Addresses {
        addresses(texts).expect("they are good")
    }

    #[test]
    fn addresses_are_found_in_networks_that_overlap() {
        let list = ["10.0.0.0/8", "10.1.0.0/16", "127.0.0.1", "192.168.1.7/24", "fe80::/10", "::1"];
        let addresses = addresses(&list).unwrap();
        for inside in ["10.0.0.0", "10.255.255.255", "127.0.0.1", "192.168.1.255", "fe80::1", "::1"]
        {
            assert!(addresses.contains(inside.parse().unwrap()), "{inside}");
        }
        assert!(addresses.contains("::ffff:127.0.0.1".parse().unwrap()));
        for outside in ["9.255.255.255", "11.0.0.0", "127.0.0.2", "192.168.2.0", "::2", "ff::"] {
            assert!(!addresses.contains(outside.parse().unwrap()), "{outside}");
        }
        let mapped = addresses_of(&["::ffff:192.0.2.0/120"]);
        assert!(mapped.contains("192.0.2.9".parse().unwrap()));
        assert!(mapped.contains("::ffff:192.0.2.9".parse().unwrap()));
        assert!(!mapped.contains("192.0.3.0".parse().unwrap()));
        assert!(!Addresses::default().contains("127.0.0.1".parse().unwrap()));
    }

    #[test]
    fn everything_is_a_network_too() {
        assert!(addresses(&["0.0.0.0/0"]).unwrap().contains("1.2.3.4".parse().unwrap()));
        assert!(!addresses(&["0.0.0.0/0"]).unwrap().contains("1::".parse().unwrap()));
        assert!(addresses(&["::/0"]).unwrap().contains("1::".parse().unwrap()));
    }

    #[test]
    fn what_is_no_address_is_named() {
        for text in ["::1/129", "1.2.3.4/33", "a", "300.1.1.1/8"] {
            let refusal = addresses(&[text]).unwrap_err();
            assert_eq!(refusal.text(), format!("invalid ip address: {text}"));
        }
    }
}
