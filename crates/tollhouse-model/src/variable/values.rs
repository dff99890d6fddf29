//! Extraction of one value from a query string, a form body, a `Cookie` header or header lines.
//! Each call scans the input without building a table, and allocates only if the value is encoded.

use std::borrow::Cow;

/// Returns the first value of argument `name` in a query string or form body. `%XX` and `+` are
/// decoded in names and values. An argument without `=` has an empty value. A `%` without two
/// hexadecimal digits after it is kept.
pub fn query_argument<'q>(query: &'q [u8], name: &str) -> Option<Cow<'q, [u8]>> {
    let name = name.as_bytes();
    // Almost no name is encoded, so that most are found as they are.
    let is_plain = !name.is_empty() && !name.iter().any(|&byte| byte == b'%' || byte == b'+');
    let mut rest = Some(query);
    while let Some(pairs) = rest {
        if let Some([b'=', value @ ..]) = pairs.strip_prefix(name).filter(|_| is_plain) {
            return Some(decode_argument(split_at_first(value, b'&').0));
        }
        let (pair, following) = split_at_first(pairs, b'&');
        let (key, value) = split_at_first(pair, b'=');
        if decodes_to(key, name) {
            return Some(decode_argument(value));
        }
        rest = (pair.len() < pairs.len()).then_some(following);
    }
    None
}

/// Returns the first value of the cookie `name`, as sent. The name is case-sensitive.
pub fn cookie_value<'h>(header: &'h [u8], name: &str) -> Option<&'h [u8]> {
    header.split(|&byte| byte == b';').find_map(|pair| {
        let (key, value) = split_at_first(pair, b'=');
        let is_pair = key.len() < pair.len();
        (is_pair && key.trim_ascii() == name.as_bytes()).then(|| value.trim_ascii())
    })
}

/// Headers of which only the first line counts, as in nginx. The lines of all others are joined.
const FIRST_COUNTS: [&str; 5] = ["host", "user-agent", "referer", "content-type", "content-length"];

/// Returns the value of the variable `http_<name>`, where `name` is in lower case with `-` for `_`.
/// In the header, either is accepted. Several lines are joined by commas (`Cookie` by semicolons).
pub fn header_value<'h>(
    name: &str,
    lines: impl Iterator<Item = (&'h [u8], &'h [u8])>,
) -> Option<Cow<'h, [u8]>> {
    let mut values = lines.filter(|(other, _)| is_named(other, name.as_bytes())).map(|(_, v)| v);
    let first = values.next()?;
    if FIRST_COUNTS.contains(&name) {
        return Some(Cow::Borrowed(first));
    }
    let Some(second) = values.next() else { return Some(Cow::Borrowed(first)) };
    let separator = if name == "cookie" { b"; " } else { b", " };
    let mut joined = first.to_vec();
    for value in std::iter::once(second).chain(values) {
        joined.extend_from_slice(separator);
        joined.extend_from_slice(value);
    }
    Some(Cow::Owned(joined))
}

/// Whether a header has the name of a variable; `_` in the header counts as `-`.
fn is_named(header: &[u8], name: &[u8]) -> bool {
    let is_same =
        |byte: u8, named: u8| byte.eq_ignore_ascii_case(&named) || (byte == b'_' && named == b'-');
    header.len() == name.len()
        && header.iter().zip(name).all(|(byte, named)| is_same(*byte, *named))
}

/// Splits at the first `separator`; the second part is empty without one.
fn split_at_first(text: &[u8], separator: u8) -> (&[u8], &[u8]) {
    match text.iter().position(|&byte| byte == separator) {
        Some(at) => (&text[..at], &text[at + 1..]),
        None => (text, &[]),
    }
}

/// Whether `encoded` is non-empty and decodes to `plain`.
fn decodes_to(encoded: &[u8], plain: &[u8]) -> bool {
    // Decoding never lengthens a text.
    if encoded.len() < plain.len() || encoded.is_empty() {
        return false;
    }
    // Almost no name is encoded, and one without `%` keeps its length.
    if !encoded.contains(&b'%') {
        let decoded = encoded.iter().map(|&byte| if byte == b'+' { b' ' } else { byte });
        return encoded.len() == plain.len() && decoded.zip(plain).all(|(byte, own)| byte == *own);
    }
    decode(encoded).eq(plain.iter().copied())
}

/// Decodes `%XX` and `+` in a part of a query or form; incomplete escapes stay.
pub fn decode_argument(value: &[u8]) -> Cow<'_, [u8]> {
    if value.iter().any(|&byte| byte == b'%' || byte == b'+') {
        return Cow::Owned(decode(value).collect());
    }
    Cow::Borrowed(value)
}

fn decode(encoded: &[u8]) -> impl Iterator<Item = u8> {
    let mut rest = encoded;
    std::iter::from_fn(move || {
        let (&first, after) = rest.split_first()?;
        let escaped = match (first, after) {
            (b'%', [high, low, ..]) => hex(*high).zip(hex(*low)),
            _ => None,
        };
        if let Some((high, low)) = escaped {
            rest = &after[2..];
            return Some(high << 4 | low);
        }
        rest = after;
        Some(if first == b'+' { b' ' } else { first })
    })
}

fn hex(digit: u8) -> Option<u8> {
    // At most 15, so the cast keeps the value.
    char::from(digit).to_digit(16).map(|value| value as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_found_in_both_spellings_and_joined() {
        let lines = [
            ("X-A", "1"),
            ("x_a", "2"),
            ("custom_header", "3"),
            ("X.A", "4"),
            ("Host", "a"),
            ("HOST", "b"),
            ("Cookie", "k=1"),
            ("cookie", "l=2"),
            ("X-Empty", ""),
        ];
        let value = |name: &str| {
            let lines = lines.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()));
            header_value(name, lines).map(|value| String::from_utf8_lossy(&value).into_owned())
        };
        for (name, expected) in [
            ("x-a", Some("1, 2")),
            ("custom-header", Some("3")),
            ("host", Some("a")),
            ("cookie", Some("k=1; l=2")),
            ("x-empty", Some("")),
            ("x-b", None),
        ] {
            assert_eq!(value(name).as_deref(), expected, "{name}");
        }
    }

    #[test]
    fn the_first_value_of_an_argument_is_found_and_decoded() {
        let cases: &[(&str, &str, Option<&str>)] = &[
            ("a=1&b=2", "b", Some("2")),
            ("a=1&a=2", "a", Some("1")),
            ("a", "a", Some("")),
            ("a=", "a", Some("")),
            ("a=b=c", "a", Some("b=c")),
            ("x=1", "a", None),
            ("", "a", None),
            ("", "", None),
            ("=1", "", None),
            ("a=1&ab=2", "ab", Some("2")),
            ("a+b=1", "a+b", None),
            ("a%=1", "a%", Some("1")),
            ("&&a=1", "a", Some("1")),
            ("ab=1", "a", None),
            ("A=1", "a", None),
            ("a=x%20y+z", "a", Some("x y z")),
            ("%61=1", "a", Some("1")),
            ("a+b=1", "a b", Some("1")),
            ("a=%", "a", Some("%")),
            ("a=%4", "a", Some("%4")),
            ("a=%zz%41", "a", Some("%zzA")),
        ];
        for (query, name, expected) in cases {
            let value = query_argument(query.as_bytes(), name);
            assert_eq!(value.as_deref(), expected.map(str::as_bytes), "{query} {name}");
        }
    }

    #[test]
    fn a_value_without_escapes_is_borrowed() {
        assert!(matches!(query_argument(b"a=plain", "a"), Some(Cow::Borrowed(b"plain"))));
    }

    #[test]
    fn a_cookie_is_found_by_its_exact_name() {
        let cases: &[(&str, &str, Option<&str>)] = &[
            ("a=1; b=2", "b", Some("2")),
            ("a=1;b=2", "b", Some("2")),
            ("a=1; a=2", "a", Some("1")),
            ("aa=1", "a", None),
            ("A=1", "a", None),
            ("a=x=y", "a", Some("x=y")),
            ("a = 1 ", "a", Some("1")),
            ("a=", "a", Some("")),
            ("a", "a", None),
            ("", "a", None),
        ];
        for (header, name, expected) in cases {
            let value = cookie_value(header.as_bytes(), name);
            assert_eq!(value, expected.map(str::as_bytes), "{header} {name}");
        }
    }
}
