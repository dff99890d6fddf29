//! The static table (RFC 7541 appendix A).

use crate::field::FieldKind;

/// Number of static entries; the dynamic table's indices follow.
pub(crate) const LENGTH: usize = 61;

/// Entry of the static table (RFC 7541 appendix A), with the field kind that its name implies.
pub(crate) struct Entry {
    pub(crate) name: &'static [u8],
    pub(crate) value: &'static [u8],
    pub(crate) kind: FieldKind,
}

const fn entry(name: &'static str, value: &'static str, kind: FieldKind) -> Entry {
    Entry { name: name.as_bytes(), value: value.as_bytes(), kind }
}

const fn plain(name: &'static str) -> Entry {
    entry(name, "", FieldKind::Regular)
}

/// All entries, in the order of their indices from 1. An entry whose empty value is not allowed,
/// such as that of `host`, is malformed.
pub(crate) static ENTRIES: [Entry; LENGTH] = [
    entry(":authority", "", FieldKind::Malformed),
    entry(":method", "GET", FieldKind::Method),
    entry(":method", "POST", FieldKind::Method),
    entry(":path", "/", FieldKind::Path),
    entry(":path", "/index.html", FieldKind::Path),
    entry(":scheme", "http", FieldKind::Scheme),
    entry(":scheme", "https", FieldKind::Scheme),
    entry(":status", "200", FieldKind::Status),
    entry(":status", "204", FieldKind::Status),
    entry(":status", "206", FieldKind::Status),
    entry(":status", "304", FieldKind::Status),
    entry(":status", "400", FieldKind::Status),
    entry(":status", "404", FieldKind::Status),
    entry(":status", "500", FieldKind::Status),
    plain("accept-charset"),
    entry("accept-encoding", "gzip, deflate", FieldKind::Regular),
    plain("accept-language"),
    plain("accept-ranges"),
    plain("accept"),
    plain("access-control-allow-origin"),
    plain("age"),
    plain("allow"),
    plain("authorization"),
    plain("cache-control"),
    plain("content-disposition"),
    plain("content-encoding"),
    plain("content-language"),
    entry("content-length", "", FieldKind::Malformed),
    plain("content-location"),
    plain("content-range"),
    plain("content-type"),
    entry("cookie", "", FieldKind::Cookie),
    plain("date"),
    plain("etag"),
    plain("expect"),
    plain("expires"),
    plain("from"),
    entry("host", "", FieldKind::Malformed),
    plain("if-match"),
    plain("if-modified-since"),
    plain("if-none-match"),
    plain("if-range"),
    plain("if-unmodified-since"),
    plain("last-modified"),
    plain("link"),
    plain("location"),
    plain("max-forwards"),
    plain("proxy-authenticate"),
    plain("proxy-authorization"),
    plain("range"),
    plain("referer"),
    plain("refresh"),
    plain("retry-after"),
    plain("server"),
    plain("set-cookie"),
    plain("strict-transport-security"),
    entry("transfer-encoding", "", FieldKind::Malformed),
    plain("user-agent"),
    plain("vary"),
    plain("via"),
    plain("www-authenticate"),
];

/// Returns the index of the first entry with this name, if any.
#[inline]
pub(crate) fn name_index(name: &[u8]) -> Option<u32> {
    // A `match` compiles to comparisons by length and word; a map would hash every name.
    Some(match name {
        b":authority" => 1,
        b":method" => 2,
        b":path" => 4,
        b":scheme" => 6,
        b":status" => 8,
        b"accept-charset" => 15,
        b"accept-encoding" => 16,
        b"accept-language" => 17,
        b"accept-ranges" => 18,
        b"accept" => 19,
        b"access-control-allow-origin" => 20,
        b"age" => 21,
        b"allow" => 22,
        b"authorization" => 23,
        b"cache-control" => 24,
        b"content-disposition" => 25,
        b"content-encoding" => 26,
        b"content-language" => 27,
        b"content-length" => 28,
        b"content-location" => 29,
        b"content-range" => 30,
        b"content-type" => 31,
        b"cookie" => 32,
        b"date" => 33,
        b"etag" => 34,
        b"expect" => 35,
        b"expires" => 36,
        b"from" => 37,
        b"host" => 38,
        b"if-match" => 39,
        b"if-modified-since" => 40,
        b"if-none-match" => 41,
        b"if-range" => 42,
        b"if-unmodified-since" => 43,
        b"last-modified" => 44,
        b"link" => 45,
        b"location" => 46,
        b"max-forwards" => 47,
        b"proxy-authenticate" => 48,
        b"proxy-authorization" => 49,
        b"range" => 50,
        b"referer" => 51,
        b"refresh" => 52,
        b"retry-after" => 53,
        b"server" => 54,
        b"set-cookie" => 55,
        b"strict-transport-security" => 56,
        b"transfer-encoding" => 57,
        b"user-agent" => 58,
        b"vary" => 59,
        b"via" => 60,
        b"www-authenticate" => 61,
        _ => return None,
    })
}

/// Returns the index of the entry for a pseudo-header field with this value, if any.
#[inline]
pub(crate) fn pseudo_index(name: &[u8], value: &[u8]) -> Option<u32> {
    Some(match (name, value) {
        (b":method", b"GET") => 2,
        (b":method", b"POST") => 3,
        (b":path", b"/") => 4,
        (b":path", b"/index.html") => 5,
        (b":scheme", b"http") => 6,
        (b":scheme", b"https") => 7,
        (b":status", b"200") => 8,
        (b":status", b"204") => 9,
        (b":status", b"206") => 10,
        (b":status", b"304") => 11,
        (b":status", b"400") => 12,
        (b":status", b"404") => 13,
        (b":status", b"500") => 14,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::classify;

    #[test]
    fn look_ups_agree_with_the_table() {
        for (position, entry) in ENTRIES.iter().enumerate() {
            let first = ENTRIES.iter().position(|other| other.name == entry.name);
            let found = name_index(entry.name).map(|index| index as usize - 1);
            assert_eq!(found, first);
            if entry.name[0] == b':' && !entry.value.is_empty() {
                let found = pseudo_index(entry.name, entry.value);
                assert_eq!(found, Some(position as u32 + 1));
            }
        }
        assert_eq!(name_index(b"accep"), None);
        assert_eq!(pseudo_index(b":status", b"201"), None);
    }

    #[test]
    fn kinds_are_those_of_a_literal() {
        for entry in &ENTRIES {
            let name = String::from_utf8_lossy(entry.name);
            assert_eq!(classify(entry.name, entry.value), entry.kind, "{name}");
        }
    }
}
