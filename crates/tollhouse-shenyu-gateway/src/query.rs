//! Queries in the form in which ShenYu sends them to nodes, and the characters that its gateway
//! accepts in a target.
//!
//! ShenYu takes a query apart and puts it together again: pairs without a name disappear, and
//! values of one name are placed side by side. If path or query have an escape, names and values
//! are decoded as those of a form and encoded anew, so that `+` becomes `%20`, and `%41` becomes
//! `A`.

use std::borrow::Cow;
use std::collections::BTreeMap;

use tollhouse_plugin::{Exchange, path_of};

use crate::shared::form;

/// Number of pairs whose names are compared with each other; longer queries are always rewritten.
const COMPARED_PAIRS_MAX: usize = 8;

/// Form in which the names and values of a query are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Encoding {
    /// The client's bytes.
    AsSent,
    /// Decoded as those of a form and encoded anew, because path or query have an escape.
    Anew,
}

impl Encoding {
    /// Returns the encoding that a part of a target, path or query, demands.
    pub(crate) fn required_by(part: &[u8]) -> Self {
        if part.contains(&b'%') { Self::Anew } else { Self::AsSent }
    }
}

/// Whether a target has only characters that a URI may have (as `java.net.URI` reads RFC 2396), and
/// whole escapes. ShenYu refuses all others.
pub(crate) fn is_uri(target: &[u8]) -> bool {
    let query = find(b'?', target).unwrap_or(target.len());
    target.iter().enumerate().all(|(place, byte)| match byte {
        b'%' => target[place + 1..].iter().take(2).filter(|it| it.is_ascii_hexdigit()).count() == 2,
        b'[' | b']' => place > query,
        _ => is_uri_byte(*byte),
    })
}

const fn is_uri_byte(byte: u8) -> bool {
    byte.is_ascii_graphic()
        && !matches!(byte, b'"' | b'#' | b'<' | b'>' | b'\\' | b'^' | b'`' | b'{' | b'|' | b'}')
}

/// Whether ShenYu sends a query as it came, if the path has no escape. Costs one pass over the query
/// and allocates nothing; `false` also for some long queries that ShenYu would not change.
pub(crate) fn is_plain(query: &[u8]) -> bool {
    let is_clear = query.iter().all(|byte| *byte != b'%' && is_uri_byte(*byte));
    if !is_clear || query.is_empty() {
        return false;
    }
    let mut names = [&b""[..]; COMPARED_PAIRS_MAX];
    for (place, pair) in query.split(|byte| *byte == b'&').enumerate() {
        let name = &pair[..find(b'=', pair).unwrap_or(pair.len())];
        if name.is_empty() || place == COMPARED_PAIRS_MAX {
            return false;
        }
        // A name may only be repeated directly after itself.
        let is_apart = place > 0 && names[..place - 1].contains(&name) && names[place - 1] != name;
        if is_apart {
            return false;
        }
        names[place] = name;
    }
    true
}

/// Returns a query in the form in which ShenYu sends it to nodes.
fn written(query: &[u8], encoding: Encoding) -> Vec<u8> {
    let pairs = pairs(query).map(|(name, value)| match encoding {
        Encoding::Anew => {
            let encoded =
                |part: &[u8]| Cow::Owned(form::encoded(&form::decode_part(part)).into_bytes());
            (encoded(name), value.map(encoded))
        }
        Encoding::AsSent => (Cow::Borrowed(name), value.map(Cow::Borrowed)),
    });
    join(pairs.collect())
}

fn find(byte: u8, text: &[u8]) -> Option<usize> {
    text.iter().position(|each| *each == byte)
}

/// Returns a query in the form in which ShenYu sends it to nodes, if it differs; `of_path` is the
/// encoding that the path demands.
pub(crate) fn rewritten(query: Option<&[u8]>, of_path: Encoding) -> Option<Vec<u8>> {
    let query = query.filter(|query| of_path == Encoding::Anew || !is_plain(query))?;
    let encoding = if of_path == Encoding::Anew { of_path } else { Encoding::required_by(query) };
    let written = written(query, encoding);
    // A question mark without a query is not sent either.
    (written != query || query.is_empty()).then_some(written)
}

/// Returns the query of a request in the form in which ShenYu sends it to nodes; may be empty.
pub(crate) fn sent_to_nodes(exchange: &dyn Exchange) -> Option<Cow<'_, [u8]>> {
    let of_path = Encoding::required_by(&path_of(exchange.real_request_uri()));
    let query = exchange.query()?;
    Some(rewritten(Some(query), of_path).map_or(Cow::Borrowed(query), Cow::Owned))
}

/// Returns the decoded parameters of a query; the value is `None` if a pair has no equals sign.
pub(crate) fn parameters(query: &[u8]) -> Vec<(String, Option<String>)> {
    pairs(query)
        .map(|(name, value)| (form::decode_part(name), value.map(form::decode_part)))
        .collect()
}

/// Encodes parameters as the plugin `request` does: only the characters that a query may not have,
/// and a plus sign, which would be read as a space.
pub(crate) fn encode(parameters: &[(String, Option<String>)]) -> Vec<u8> {
    let encoded = |part: &str| {
        let is_kept =
            |byte: u8| byte.is_ascii_alphanumeric() || b"-._~!$'()*,;:@/?".contains(&byte);
        part.bytes().fold(Vec::with_capacity(part.len()), |mut text, byte| {
            match is_kept(byte) {
                true => text.push(byte),
                false => text.extend_from_slice(format!("%{byte:02X}").as_bytes()),
            }
            text
        })
    };
    let pairs = parameters.iter();
    let pairs = pairs.map(|(name, value)| (encoded(name), value.as_deref().map(encoded)));
    join(pairs.map(|(name, value)| (name.into(), value.map(Part::from))).collect())
}

/// Pairs of a query as they came; equality signs before a name are skipped, and a pair without a
/// name too.
fn pairs(query: &[u8]) -> impl Iterator<Item = (&[u8], Option<&[u8]>)> {
    query.split(|byte| *byte == b'&').filter_map(|pair| {
        let start = pair.iter().position(|byte| *byte != b'=')?;
        let pair = &pair[start..];
        Some(match find(b'=', pair) {
            Some(at) => (&pair[..at], Some(&pair[at + 1..])),
            None => (pair, None),
        })
    })
}

type Part<'q> = Cow<'q, [u8]>;

/// Joins pairs to a query. All pairs of one name take the place of its first pair.
fn join(pairs: Vec<(Part<'_>, Option<Part<'_>>)>) -> Vec<u8> {
    let mut groups: Vec<Vec<usize>> = Vec::new();
    let mut places: BTreeMap<&[u8], usize> = BTreeMap::new();
    for (index, (name, _)) in pairs.iter().enumerate() {
        let place = *places.entry(name).or_insert_with(|| {
            groups.push(Vec::new());
            groups.len() - 1
        });
        groups[place].push(index);
    }
    let mut query = Vec::new();
    for (name, value) in groups.iter().flatten().map(|index| &pairs[*index]) {
        if !query.is_empty() {
            query.push(b'&');
        }
        query.extend_from_slice(name);
        if let Some(value) = value {
            query.push(b'=');
            query.extend_from_slice(value);
        }
    }
    query
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Queries, and what the gateway of ShenYu 2.7.1 sent to a node for them, for paths without an
    /// escape.
    const WRITTEN: [(&str, &str); 18] = [
        ("a=1&b=2", "a=1&b=2"),
        ("a=b+c", "a=b+c"),
        ("a=1:2/3?4", "a=1:2/3?4"),
        ("a=b+c&d=%20", "a=b%20c&d=%20"),
        ("a=1:2&b=%2f", "a=1%3A2&b=%2F"),
        ("a=%41%7e", "a=A~"),
        ("a=%c3%a9", "a=%C3%A9"),
        ("a=%ff", "a=%EF%BF%BD"),
        ("=b", "b"),
        ("==b=c", "b=c"),
        ("a==b", "a==b"),
        ("a=&b", "a=&b"),
        ("&&a=1&&b=2&", "a=1&b=2"),
        ("", ""),
        ("&", ""),
        ("=", ""),
        ("a=1&b=2&a=3", "a=1&a=3&b=2"),
        ("a=1&b=2&%61=3", "a=1&a=3&b=2"),
    ];

    #[test]
    fn queries_are_written_as_shenyu_writes_them() {
        for (sent, expected) in WRITTEN {
            let result = written(sent.as_bytes(), Encoding::required_by(sent.as_bytes()));
            assert_eq!(String::from_utf8_lossy(&result), expected, "{sent}");
        }
        let anew = written(b"a=b+1:2&c", Encoding::Anew);
        assert_eq!(anew, b"a=b%201%3A2&c", "the path has an escape");
    }

    #[test]
    fn a_query_is_plain_only_if_it_is_written_as_it_came() {
        for (sent, expected) in WRITTEN {
            let is_same = sent == expected && !sent.contains('%') && !sent.is_empty();
            assert_eq!(is_plain(sent.as_bytes()), is_same, "{sent}");
        }
        assert!(is_plain(b"a=1&a=2&b=3&b=4"));
        assert!(!is_plain(b"a=1&a=2&b=3&a=4"));
        assert!(!is_plain(b"a&b&c&d&e&f&g&h&i"), "too long to be compared");
        assert!(!is_plain(b"a=|"));
    }

    #[test]
    fn targets_have_the_characters_of_a_uri() {
        for good in ["/a", "/a;b=c,d", "/a%20b", "/a?b=[c]", "/a?b=c?d'()*!$&+,;:@/"] {
            assert!(is_uri(good.as_bytes()), "{good}");
        }
        let bad = ["/a[b]", "/a?\"", "/a?b|c", "/{a}", "/a?b=^", "/a?`", "/a?b=<c>", "/a\\b"];
        for bad in bad.into_iter().chain(["/a%", "/a%2", "/a%zz", "/a?b=%", "/a?b=%4", "/a?b=%g1"])
        {
            assert!(!is_uri(bad.as_bytes()), "{bad}");
        }
    }
}
