//! Caller to whom a client and its keys belong: its address and its token.

use std::net::{IpAddr, Ipv6Addr};

use aws_lc_rs::digest::{SHA256, digest};

/// Caller that opens counters and reports to them.
///
/// Keys of clients hold for one owner: they outlive a connection, because SDKs connect again, and are
/// unknown to callers at another address or with another token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Owner {
    address: Option<IpAddr>,
    /// SHA-256 of the token; `None` without one.
    token: Option<[u8; 32]>,
}

/// Address whose clients share a part of the memory: an IPv4 address, or a /64 network of IPv6, because one
/// host has all addresses of that.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Peer(Option<IpAddr>);

impl Owner {
    /// Creates the owner of a caller; an empty token counts as none.
    pub fn new(address: Option<IpAddr>, token: Option<&str>) -> Self {
        let token = token.filter(|token| !token.is_empty());
        let hash = |token: &str| {
            let mut hash = [0; 32];
            hash.copy_from_slice(digest(&SHA256, token.as_bytes()).as_ref());
            hash
        };
        Self { address: address.map(|it| it.to_canonical()), token: token.map(hash) }
    }

    pub(super) fn peer(&self) -> Peer {
        Peer(self.address.map(|address| match address {
            IpAddr::V4(_) => address,
            IpAddr::V6(address) => {
                Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX)).into()
            }
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_is_an_ipv4_address_or_a_network_of_ipv6() {
        let peer = |text: &str| Owner::new(text.parse().ok(), None).peer();
        assert_eq!(peer("::ffff:10.0.0.1"), peer("10.0.0.1"));
        assert_ne!(peer("10.0.0.1"), peer("10.0.0.2"));
        assert_eq!(peer("2001:db8::1"), peer("2001:db8::ffff:0:0:1"));
        assert_ne!(peer("2001:db8::1"), peer("2001:db8:0:1::1"));
    }

    #[test]
    fn owners_differ_by_token_and_an_empty_one_is_none() {
        let owner = |token| Owner::new("10.0.0.1".parse().ok(), token);
        assert_eq!(owner(Some("")), owner(None));
        assert_ne!(owner(Some("a")), owner(None));
        assert_ne!(owner(Some("a")), owner(Some("b")));
    }
}
