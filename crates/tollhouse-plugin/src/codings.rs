//! Content codings (RFC 9110 §8.4.1) in which plugins can read the bodies of answers.
//!
//! A plugin that hides parts of bodies lists the codings that it reads
//! ([`Plugin::answer_codings`](crate::Plugin)). Requests to nodes then accept no other coding,
//! whatever the client accepts.

/// Set of content codings in which a body can be read. `identity` is always included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Codings(u8);

/// Codings by their names in `Content-Encoding`.
const NAMES: [(&str, Codings); 2] = [("gzip", Codings::GZIP), ("br", Codings::BROTLI)];

impl Codings {
    /// No coding: only plain bodies can be read.
    pub const IDENTITY: Self = Self(0);
    /// Bodies in `gzip` can be read, besides plain ones.
    pub const GZIP: Self = Self(1);
    /// Bodies in `br` (Brotli) can be read, besides plain ones.
    pub const BROTLI: Self = Self(2);

    /// Returns the codings of either set.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns the codings that are in both sets.
    #[must_use]
    pub const fn intersection(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Whether a body with this `Content-Encoding` can be read: the value must name one coding, in
    /// upper or lower case.
    pub fn read(self, content_encoding: &[u8]) -> bool {
        let name = content_encoding.trim_ascii();
        name.is_empty() || name.eq_ignore_ascii_case(b"identity") || self.has(name)
    }

    fn has(self, name: &[u8]) -> bool {
        NAMES.iter().any(|(known, coding)| {
            self.0 & coding.0 != 0 && known.as_bytes().eq_ignore_ascii_case(name)
        })
    }

    /// Narrows the value of an `Accept-Encoding` header to the codings of this set, with their
    /// qualities. If none is left, the result is `identity` and not an empty header, because an
    /// absent header accepts any coding (RFC 9110 §12.5.3).
    pub fn narrow(self, accepted: Option<&[u8]>) -> Vec<u8> {
        let choices = accepted.unwrap_or_default().split(|byte| *byte == b',');
        let is_read = |choice: &&[u8]| {
            let name = choice.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
            name.eq_ignore_ascii_case(b"identity") || self.has(name)
        };
        let choices: Vec<&[u8]> = choices.map(<[u8]>::trim_ascii).filter(is_read).collect();
        if choices.is_empty() { b"identity".to_vec() } else { choices.join(&b", "[..]) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_asked_for_what_can_be_read_and_the_client_accepts() {
        let both = Codings::GZIP.union(Codings::BROTLI);
        for (codings, accepted, expected) in [
            (both, Some("gzip, deflate, br;q=0.5, zstd"), "gzip, br;q=0.5"),
            (both, Some("GZIP;q=0 , identity;q=0.1"), "GZIP;q=0, identity;q=0.1"),
            (both, Some("deflate, *"), "identity"),
            (both, Some("xgzip, x-gzip, gzip x"), "identity"),
            (both, Some(""), "identity"),
            (both, None, "identity"),
            (both.intersection(Codings::GZIP), Some("br, gzip"), "gzip"),
            (Codings::IDENTITY, Some("br, gzip"), "identity"),
        ] {
            let narrowed = codings.narrow(accepted.map(str::as_bytes));
            assert_eq!(String::from_utf8_lossy(&narrowed), expected, "{accepted:?}");
        }
    }

    #[test]
    fn one_coding_of_the_set_can_be_read() {
        let gzip = Codings::GZIP;
        for (name, expected) in [
            ("gzip", true),
            ("GZip", true),
            ("identity", true),
            ("", true),
            ("br", false),
            ("gzip, gzip", false),
            ("deflate", false),
        ] {
            assert_eq!(gzip.read(name.as_bytes()), expected, "{name}");
        }
    }
}
