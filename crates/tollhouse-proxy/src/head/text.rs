//! Addresses as text, without the cost of `fmt` for IPv4.

use std::io::Write;
use std::net::{IpAddr, SocketAddr};

use tollhouse_net::unix::UNIX_PEER;
use tollhouse_stdx::Endpoint;

pub(crate) use tollhouse_http::writer::write_decimal;

/// Maximum length of an IP address as text: IPv6 with an embedded IPv4 address.
const ADDRESS_CHARS_MAX: usize = 45;

/// Text of the address of a client of a Unix socket, as nginx has it.
const UNIX: &[u8] = b"unix:";

/// An IP address as text, formatted once per connection.
#[derive(Debug, Clone, Copy)]
pub struct AddressText {
    bytes: [u8; ADDRESS_CHARS_MAX],
    len: u8,
}

impl AddressText {
    /// Returns the text of `address`; an IPv4-mapped address is written as IPv4, and that of a Unix
    /// socket as `unix:`.
    pub fn new(address: IpAddr) -> Self {
        let mut bytes = [0; ADDRESS_CHARS_MAX];
        let mut len = 0;
        if address == UNIX_PEER.ip() {
            bytes[..UNIX.len()].copy_from_slice(UNIX);
            return Self { bytes, len: UNIX.len() as u8 };
        }
        match address.to_canonical() {
            IpAddr::V4(v4) => {
                for (index, octet) in v4.octets().into_iter().enumerate() {
                    if index > 0 {
                        bytes[len] = b'.';
                        len += 1;
                    }
                    if octet >= 100 {
                        bytes[len] = b'0' + octet / 100;
                        len += 1;
                    }
                    if octet >= 10 {
                        bytes[len] = b'0' + octet / 10 % 10;
                        len += 1;
                    }
                    bytes[len] = b'0' + octet % 10;
                    len += 1;
                }
            }
            IpAddr::V6(v6) => {
                let mut room = &mut bytes[..];
                // The buffer is large enough for every address.
                let _ = write!(room, "{v6}");
                len = ADDRESS_CHARS_MAX - room.len();
            }
        }
        Self { bytes, len: len as u8 }
    }

    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

/// Appends the address of a node as `ip:port` or `unix:/path`.
pub(crate) fn write_endpoint(out: &mut Vec<u8>, address: Endpoint) {
    match address {
        Endpoint::Ip(address) => write_socket_address(out, address),
        Endpoint::Unix(path) => {
            out.extend_from_slice(b"unix:");
            out.extend_from_slice(path.as_str().as_bytes());
        }
    }
}

/// Appends `address` as `ip:port`, IPv6 in brackets.
fn write_socket_address(out: &mut Vec<u8>, address: SocketAddr) {
    let text = AddressText::new(address.ip());
    if address.ip().to_canonical().is_ipv6() {
        out.push(b'[');
        out.extend_from_slice(text.as_bytes());
        out.push(b']');
    } else {
        out.extend_from_slice(text.as_bytes());
    }
    out.push(b':');
    write_decimal(out, u64::from(address.port()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_read_as_usual() {
        let mut out = Vec::new();
        for (address, expected) in [
            ("127.0.0.1:80", "127.0.0.1:80"),
            ("[::1]:8080", "[::1]:8080"),
            ("[::ffff:10.0.0.1]:1", "10.0.0.1:1"),
            ("0.9.10.99:1", "0.9.10.99:1"),
            ("100.101.200.255:1", "100.101.200.255:1"),
            (
                "[1111:2222:3333:4444:5555:6666:7777:8888]:65535",
                "[1111:2222:3333:4444:5555:6666:7777:8888]:65535",
            ),
        ] {
            out.clear();
            write_socket_address(&mut out, address.parse().expect("an address"));
            assert_eq!(out, expected.as_bytes());
        }
    }
}
