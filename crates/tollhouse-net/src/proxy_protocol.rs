//! PROXY protocol, versions 1 and 2: a proxy's statement about its client, ahead of the
//! connection's own bytes (haproxy.org, "The PROXY protocol", 2020-03-05).
//!
//! Sans-IO: bytes in, addresses out. The caller decides which peers may send a header; its presence
//! is never guessed from the bytes.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

mod crc32c;
mod write;

pub use write::{Version, write, write_own};

/// Maximum length of an accepted header in bytes; equals nginx's limit. Addresses take 36 bytes
/// (216 for Unix sockets); the rest is for the fields after them, such as a certificate.
pub const HEADER_BYTES_MAX: usize = 4096;

/// Maximum length of a version 1 header in bytes, line end included (§2.1).
const V1_BYTES_MAX: usize = 107;

/// First bytes of a version 1 header.
const V1_START: &[u8] = b"PROXY ";

/// First bytes of a version 2 header.
const V2_START: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";

/// Length of the fixed part of version 2, before the addresses.
const V2_FIXED_BYTES: usize = 16;

/// Maximum length of `PP2_TYPE_UNIQUE_ID` in bytes (§2.2.5).
const UNIQUE_ID_BYTES_MAX: usize = 128;

/// Content of a PROXY protocol header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProxyHeader {
    /// The header names no client, because the proxy connects on its own behalf (a health check) or
    /// its client has no IP address. The peer's address applies.
    Nothing,
    /// Addresses of the connection between client and proxy.
    Proxied {
        /// Address of the client.
        source: SocketAddr,
        /// Address that the client connected to.
        destination: SocketAddr,
    },
}

/// Header that was received completely.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    pub said: ProxyHeader,
    /// Length of the header in bytes; the connection's own bytes follow.
    pub length: usize,
}

/// Why bytes are not a valid header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HeaderError {
    /// The bytes do not begin with a header of either version.
    #[error("no PROXY header")]
    Absent,
    /// The header exceeds the limit of its version.
    #[error("PROXY header too long")]
    TooLong,
    /// The version, command, family or transport is unknown.
    #[error("PROXY header of an unknown kind")]
    UnknownKind,
    /// An address, port or length is invalid.
    #[error("malformed PROXY header")]
    Malformed,
    /// The CRC-32C checksum of the header does not match.
    #[error("PROXY header with a wrong checksum")]
    Checksum,
}

/// Parses a header at the front of `bytes`; returns `None` until it is complete. The result does
/// not depend on how the bytes are split.
///
/// # Errors
/// [`HeaderError`], at the first byte that rules out a header or once the header is complete.
pub fn parse(bytes: &[u8]) -> Result<Option<Header>, HeaderError> {
    match bytes.first() {
        None => Ok(None),
        Some(b'P') => parse_v1(bytes),
        Some(_) => parse_v2(bytes),
    }
}

/// Whether `bytes` is a prefix of `start` or begins with it.
fn agrees(bytes: &[u8], start: &[u8]) -> bool {
    let common = bytes.len().min(start.len());
    bytes[..common] == start[..common]
}

fn parse_v1(bytes: &[u8]) -> Result<Option<Header>, HeaderError> {
    if !agrees(bytes, V1_START) {
        return Err(HeaderError::Absent);
    }
    let line = &bytes[..bytes.len().min(V1_BYTES_MAX)];
    let Some(end) = line.iter().position(|&byte| byte == b'\n') else {
        let is_full = line.len() == V1_BYTES_MAX;
        return if is_full { Err(HeaderError::TooLong) } else { Ok(None) };
    };
    let line = line[..end].strip_suffix(b"\r").ok_or(HeaderError::Malformed)?;
    let said = std::str::from_utf8(line).map_err(|_| HeaderError::Malformed).and_then(read_v1)?;
    Ok(Some(Header { said, length: end + 1 }))
}

/// Parses `PROXY TCP4 192.0.2.1 192.0.2.2 1234 443`, with single spaces between.
fn read_v1(line: &str) -> Result<ProxyHeader, HeaderError> {
    let mut words = line.split(' ').skip(1);
    let family = words.next();
    if family == Some("UNKNOWN") {
        return Ok(ProxyHeader::Nothing);
    }
    let mut word = || words.next().ok_or(HeaderError::Malformed);
    let (source, destination) = (word()?, word()?);
    let ports = (read_port(word()?)?, read_port(word()?)?);
    if words.next().is_some() {
        return Err(HeaderError::Malformed);
    }
    let address = |text: &str| -> Result<IpAddr, HeaderError> {
        match family {
            Some("TCP4") => text.parse::<Ipv4Addr>().map(IpAddr::from),
            Some("TCP6") => text.parse::<Ipv6Addr>().map(IpAddr::from),
            _ => return Err(HeaderError::UnknownKind),
        }
        .map_err(|_| HeaderError::Malformed)
    };
    Ok(ProxyHeader::Proxied {
        source: SocketAddr::new(address(source)?, ports.0),
        destination: SocketAddr::new(address(destination)?, ports.1),
    })
}

/// Parses a port number: digits without leading zeros.
fn read_port(text: &str) -> Result<u16, HeaderError> {
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    let has_leading_zero = text.len() > 1 && text.starts_with('0');
    let port = text.parse().ok().filter(|_| is_number && !has_leading_zero);
    port.ok_or(HeaderError::Malformed)
}

fn parse_v2(bytes: &[u8]) -> Result<Option<Header>, HeaderError> {
    if !agrees(bytes, V2_START) {
        return Err(HeaderError::Absent);
    }
    let Some(&command) = bytes.get(12) else { return Ok(None) };
    if !matches!(command, 0x20 | 0x21) {
        return Err(HeaderError::UnknownKind);
    }
    let Some(&kind) = bytes.get(13) else { return Ok(None) };
    let Some(family) = Family::from_byte(kind) else { return Err(HeaderError::UnknownKind) };
    let Some(fixed) = bytes.get(..V2_FIXED_BYTES) else { return Ok(None) };
    let length = V2_FIXED_BYTES + usize::from(u16::from_be_bytes([fixed[14], fixed[15]]));
    if length > HEADER_BYTES_MAX {
        return Err(HeaderError::TooLong);
    }
    let Some(header) = bytes.get(..length) else { return Ok(None) };
    // The addresses of a LOCAL header are ignored.
    let said = if command == 0x20 { ProxyHeader::Nothing } else { read_v2(family, header)? };
    Ok(Some(Header { said, length }))
}

/// Address family of a version 2 header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Family {
    Unspecified,
    V4,
    V6,
    Unix,
}

impl Family {
    /// Decodes family (high four bits) and transport (low four bits: stream or datagram).
    fn from_byte(byte: u8) -> Option<Self> {
        match byte {
            0x00 => Some(Self::Unspecified),
            0x11 | 0x12 => Some(Self::V4),
            0x21 | 0x22 => Some(Self::V6),
            0x31 | 0x32 => Some(Self::Unix),
            _ => None,
        }
    }

    /// Returns the length of both addresses and ports in bytes.
    fn address_bytes(self) -> usize {
        match self {
            Self::Unspecified => 0,
            Self::V4 => 12,
            Self::V6 => 36,
            Self::Unix => 216,
        }
    }
}

fn read_v2(family: Family, header: &[u8]) -> Result<ProxyHeader, HeaderError> {
    let body = &header[V2_FIXED_BYTES..];
    if body.len() < family.address_bytes() {
        return Err(HeaderError::Malformed);
    }
    let (addresses, fields) = body.split_at(family.address_bytes());
    // Bytes after an unspecified family have no defined meaning (§2.2).
    if family != Family::Unspecified {
        check_fields(header, fields)?;
    }
    let port = |at: usize| u16::from_be_bytes([addresses[at], addresses[at + 1]]);
    Ok(match family {
        Family::Unspecified | Family::Unix => ProxyHeader::Nothing,
        Family::V4 => {
            let address = |at: usize| {
                let [a, b, c, d] = [0, 1, 2, 3].map(|offset| addresses[at + offset]);
                IpAddr::from([a, b, c, d])
            };
            ProxyHeader::Proxied {
                source: SocketAddr::new(address(0), port(8)),
                destination: SocketAddr::new(address(4), port(10)),
            }
        }
        Family::V6 => {
            let address = |at: usize| {
                let mut octets = [0; 16];
                octets.copy_from_slice(&addresses[at..at + 16]);
                IpAddr::from(octets)
            };
            ProxyHeader::Proxied {
                source: SocketAddr::new(address(0), port(32)),
                destination: SocketAddr::new(address(16), port(34)),
            }
        }
    })
}

/// Types of the fields that are checked; others are skipped.
const FIELD_CHECKSUM: u8 = 0x03;
const FIELD_UNIQUE_ID: u8 = 0x05;

/// Checks the fields after the addresses: a type, a length of two bytes, and the value.
fn check_fields(header: &[u8], fields: &[u8]) -> Result<(), HeaderError> {
    let mut at = header.len() - fields.len();
    while at < header.len() {
        let Some(&[kind, high, low]) = header.get(at..at + 3) else {
            return Err(HeaderError::Malformed);
        };
        let (start, bytes) = (at + 3, usize::from(u16::from_be_bytes([high, low])));
        let value = header.get(start..start + bytes).ok_or(HeaderError::Malformed)?;
        match kind {
            FIELD_CHECKSUM => check_sum(header, start, value)?,
            FIELD_UNIQUE_ID if bytes > UNIQUE_ID_BYTES_MAX => return Err(HeaderError::Malformed),
            _ => {}
        }
        at = start + bytes;
    }
    Ok(())
}

/// Checks the CRC-32C of the whole header, computed with zeros in place of the checksum (§2.2.3).
fn check_sum(header: &[u8], start: usize, value: &[u8]) -> Result<(), HeaderError> {
    let &[a, b, c, d] = value else { return Err(HeaderError::Malformed) };
    let mut sum = crc32c::Sum::new();
    sum.add(&header[..start]);
    sum.add(&[0; 4]);
    sum.add(&header[start + 4..]);
    if sum.value() == u32::from_be_bytes([a, b, c, d]) {
        Ok(())
    } else {
        Err(HeaderError::Checksum)
    }
}

#[cfg(test)]
mod tests;
