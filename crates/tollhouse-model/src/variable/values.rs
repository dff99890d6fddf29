//! One value out of a query string, a form body, or a `Cookie` header; a scan, without building a
//! table of all of them, and without allocating unless the value is encoded.

use std::borrow::Cow;

/// The first value of argument `name` in a query string or form body, with `%XX` and `+` decoded,
/// in the name as well. An argument without `=` has an empty value. A `%` that no two hexadecimal
/// digits follow stands for itself.
pub fn query_argument<'q>(query: &'q [u8], name: &str) -> Option<Cow<'q, [u8]>> {
    query.split(|&byte| byte == b'&').find_map(|pair| {
        let (key, value) = split_at_first(pair, b'=');
        decodes_to(key, name.as_bytes()).then(|| decoded(value))
    })
}

/// The value of the first cookie called exactly `name`, as it was sent.
pub fn cookie_value<'h>(header: &'h [u8], name: &str) -> Option<&'h [u8]> {
    header.split(|&byte| byte == b';').find_map(|pair| {
        let (key, value) = split_at_first(pair, b'=');
        let is_pair = key.len() < pair.len();
        (is_pair && key.trim_ascii() == name.as_bytes()).then(|| value.trim_ascii())
    })
}

/// What stands before and after the first `separator`; nothing after where there is none.
fn split_at_first(text: &[u8], separator: u8) -> (&[u8], &[u8]) {
    match text.iter().position(|&byte| byte == separator) {
        Some(at) => (&text[..at], &text[at + 1..]),
        None => (text, &[]),
    }
}

/// Whether `encoded` is non-empty and decodes to `plain`.
fn decodes_to(encoded: &[u8], plain: &[u8]) -> bool {
    // Decoding never makes a text longer, and at most three times shorter.
    if encoded.len() < plain.len() || encoded.is_empty() {
        return false;
    }
    decode(encoded).eq(plain.iter().copied())
}

fn decoded(value: &[u8]) -> Cow<'_, [u8]> {
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
