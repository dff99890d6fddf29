//! The subset of DER that certificates and OCSP responses need: a sequence of elements, each with
//! tag and length (X.690 §8, §10). The meaning of elements is left to the callers.
//!
//! Every length is checked against the remaining bytes. Nothing is copied, and nothing recurses.

use x509_parser::prelude::FromDer;
use x509_parser::time::ASN1Time;

pub(super) const INTEGER: u8 = 0x02;
pub(super) const BITS: u8 = 0x03;
pub(super) const OCTETS: u8 = 0x04;
pub(super) const OID: u8 = 0x06;
pub(super) const ENUMERATED: u8 = 0x0a;
pub(super) const GENERALIZED_TIME: u8 = 0x18;
pub(super) const SEQUENCE: u8 = 0x30;
pub(super) const IMPLICIT_0: u8 = 0x80;
pub(super) const IMPLICIT_2: u8 = 0x82;
pub(super) const EXPLICIT_0: u8 = 0xa0;
pub(super) const EXPLICIT_1: u8 = 0xa1;
pub(super) const EXPLICIT_2: u8 = 0xa2;

/// Maximum number of octets that encode a length. Three octets allow 16 MiB, more than the largest
/// OCSP response that is accepted.
const LENGTH_OCTETS_MAX: usize = 3;

#[derive(Debug, Clone, Copy)]
pub(super) struct Element<'a> {
    pub(super) tag: u8,
    pub(super) content: &'a [u8],
    /// The bytes of the element, with tag and length.
    pub(super) whole: &'a [u8],
}

/// Reader over consecutive DER elements.
#[derive(Debug, Clone, Copy)]
pub(super) struct Der<'a> {
    rest: &'a [u8],
}

impl<'a> Der<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// Reads the next element; `None` at the end or if the encoding is invalid.
    pub(super) fn next(&mut self) -> Option<Element<'a>> {
        let bytes = self.rest;
        let (&[tag, first], behind) = bytes.split_first_chunk::<2>()?;
        // Tags of several octets do not occur in a response.
        if tag & 0x1f == 0x1f {
            return None;
        }
        let (length, behind) = match first {
            0..0x80 => (usize::from(first), behind),
            _ => {
                let octets = usize::from(first & 0x7f);
                if !(1..=LENGTH_OCTETS_MAX).contains(&octets) {
                    return None;
                }
                let (length, behind) = behind.split_at_checked(octets)?;
                // DER requires the shortest form of a length.
                if length[0] == 0 || (octets == 1 && length[0] < 0x80) {
                    return None;
                }
                let value = length.iter().fold(0, |sum, octet| sum << 8 | usize::from(*octet));
                (value, behind)
            }
        };
        let (content, rest) = behind.split_at_checked(length)?;
        self.rest = rest;
        Some(Element { tag, content, whole: &bytes[..bytes.len() - rest.len()] })
    }

    /// Reads the next element, which must have this tag.
    pub(super) fn expect(&mut self, tag: u8) -> Option<Element<'a>> {
        self.next().filter(|element| element.tag == tag)
    }

    /// Reads the next element if it has this tag; otherwise does not move.
    pub(super) fn skip_if(&mut self, tag: u8) -> Option<Element<'a>> {
        let mut ahead = *self;
        let element = ahead.expect(tag)?;
        *self = ahead;
        Some(element)
    }

    pub(super) fn is_at_end(self) -> bool {
        self.rest.is_empty()
    }
}

/// Decodes a `GeneralizedTime` to Unix time.
pub(super) fn time(element: Element<'_>) -> Option<i64> {
    if element.tag != GENERALIZED_TIME {
        return None;
    }
    ASN1Time::from_der(element.whole).ok().map(|(_, time)| time.timestamp())
}

/// Appends an element with its tag and length.
pub(super) fn put(tag: u8, content: &[u8], out: &mut Vec<u8>) {
    out.push(tag);
    match content.len() {
        length @ 0..0x80 => out.push(length as u8),
        length @ 0x80..0x100 => out.extend([0x81, length as u8]),
        length => out.extend([0x82, (length >> 8) as u8, length as u8]),
    }
    out.extend_from_slice(content);
}
