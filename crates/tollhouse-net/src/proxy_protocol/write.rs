//! Writes PROXY protocol headers.

use std::io::Write;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use super::{V2_START, crc32c};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// Version 1, a line of text.
    V1,
    /// Version 2, binary, for a stream.
    V2,
    /// Binary, for datagrams, which version 1 does not support.
    V2Datagram,
}

/// Type and length of the CRC-32C field.
const CHECKSUM_FIELD: [u8; 3] = [0x03, 0, 4];

/// Appends a header that says that `source` connected to `destination`. Addresses of two families are
/// both written as IPv6. A source without an address, as clients of Unix sockets are, is not told.
pub fn write(version: Version, source: SocketAddr, destination: SocketAddr, out: &mut Vec<u8>) {
    if source.ip().is_unspecified() {
        return write_own(version, out);
    }
    let (from, to) = (source.ip().to_canonical(), destination.ip().to_canonical());
    let ports = (source.port(), destination.port());
    match version {
        Version::V1 => {
            let (family, from, to) = match (from, to) {
                (IpAddr::V4(_), IpAddr::V4(_)) => ("TCP4", from, to),
                _ => ("TCP6", IpAddr::V6(as_v6(from)), IpAddr::V6(as_v6(to))),
            };
            // Writing to a vector cannot fail.
            let _ = write!(out, "PROXY {family} {from} {to} {} {}\r\n", ports.0, ports.1);
        }
        Version::V2 | Version::V2Datagram => {
            let transport = if version == Version::V2 { 1 } else { 2 };
            let start = out.len();
            out.extend_from_slice(V2_START);
            out.push(0x21);
            match (from, to) {
                (IpAddr::V4(from), IpAddr::V4(to)) => {
                    out.extend([0x10 | transport, 0, 12 + 7]);
                    out.extend(from.octets());
                    out.extend(to.octets());
                }
                _ => {
                    out.extend([0x20 | transport, 0, 36 + 7]);
                    out.extend(as_v6(from).octets());
                    out.extend(as_v6(to).octets());
                }
            }
            out.extend(ports.0.to_be_bytes());
            out.extend(ports.1.to_be_bytes());
            out.extend(CHECKSUM_FIELD);
            let mut sum = crc32c::Sum::new();
            sum.add(&out[start..]);
            sum.add(&[0; 4]);
            out.extend(sum.value().to_be_bytes());
        }
    }
}

/// Appends a header without addresses, for a connection that the gateway opens on its own behalf.
pub fn write_own(version: Version, out: &mut Vec<u8>) {
    match version {
        Version::V1 => out.extend_from_slice(b"PROXY UNKNOWN\r\n"),
        Version::V2 | Version::V2Datagram => {
            out.extend_from_slice(V2_START);
            // Command LOCAL, unspecified family, no fields.
            out.extend([0x20, 0, 0, 0]);
        }
    }
}

fn as_v6(address: IpAddr) -> Ipv6Addr {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    }
}
