//! `host[:port]` in `Host` headers and absolute targets (RFC 3986 §3.2, RFC 9110 §7.2).

use std::net::Ipv6Addr;

use tollhouse_stdx::word_bytes::word_bytes;

use crate::Span;
use crate::grammar::byte_table;

/// Splits an authority into its host and port; offsets are relative to `text`. A final dot of a
/// domain name is not part of the host: `a.com.` equals `a.com`, as in nginx and most servers.
/// Returns `None` for an empty or ambiguous authority: user info, a stray colon, an empty label, or
/// bytes that names may not contain.
#[inline]
pub fn split(text: &[u8]) -> Option<(Span, Option<Span>)> {
    let host_end = if text.first() == Some(&b'[') {
        let close = text.iter().position(|&byte| byte == b']')?;
        str::from_utf8(&text[1..close]).ok()?.parse::<Ipv6Addr>().ok()?;
        close + 1
    } else {
        let mut end = word_bytes(text);
        while text.get(end).is_some_and(|&byte| is_name_byte(byte)) {
            end += 1;
        }
        // Servers interpret an empty label differently.
        if has_empty_label(&text[..end]) {
            return None;
        }
        end
    };
    let host_bytes = host_end - usize::from(text[..host_end].ends_with(b"."));
    if host_bytes == 0 {
        return None;
    }
    let host = Span::new(0, host_bytes);
    match text.get(host_end) {
        None => Some((host, None)),
        Some(b':') => {
            let port = &text[host_end + 1..];
            is_port(port).then(|| (host, Some(Span::new(host_end + 1, text.len()))))
        }
        Some(_) => None,
    }
}

/// Whether the name contains two consecutive dots. Compares eight bytes at a time, because it runs
/// for every request.
#[inline]
fn has_empty_label(name: &[u8]) -> bool {
    let Some(last) = name.last_chunk() else { return name.windows(2).any(|pair| pair == b"..") };
    // The last eight bytes overlap the previous block, which is cheaper than a bytewise rest. The
    // other blocks overlap by one byte, so that no pair lies between two of them.
    let mut found = pairs(last);
    let mut rest = name;
    while let Some(block) = rest.first_chunk().filter(|_| rest.len() > 8) {
        found |= pairs(block);
        rest = &rest[7..];
    }
    found != 0
}

/// Sets a bit for each pair of consecutive dots.
#[inline]
fn pairs(bytes: &[u8; 8]) -> u64 {
    let dots = dots(bytes);
    dots & (dots >> 8)
}

/// Sets the highest bit of each byte that is a dot.
#[inline]
fn dots(bytes: &[u8; 8]) -> u64 {
    const DOTS: u64 = u64::from_ne_bytes([b'.'; 8]);
    const LOW_BITS: u64 = u64::from_ne_bytes([0x7f; 8]);
    let differences = u64::from_le_bytes(*bytes) ^ DOTS;
    // No carry crosses a byte, so every result bit is exact.
    !(((differences & LOW_BITS) + LOW_BITS) | differences | LOW_BITS)
}

/// Whether the text is empty or a number that a port can have.
fn is_port(text: &[u8]) -> bool {
    if text.len() > 5 || !text.iter().all(u8::is_ascii_digit) {
        return false;
    }
    let number = text.iter().fold(0, |sum, digit| sum * 10 + u32::from(digit - b'0'));
    number <= u32::from(u16::MAX)
}

#[inline]
fn is_name_byte(byte: u8) -> bool {
    NAME_BYTES[usize::from(byte)]
}

/// Unreserved bytes and sub-delimiters of a registered name, deliberately without `%`, and without
/// `,`, which some readers take for a list separator.
static NAME_BYTES: [bool; 256] = byte_table(b".-_~!$&'()*+;=");

#[cfg(test)]
mod tests {
    use super::{has_empty_label, split};

    #[test]
    fn two_dots_are_found_wherever_they_stand() {
        for length in 0..40 {
            let mut name = vec![b'a'; length];
            for first in 0..length {
                name[first] = b'.';
                assert!(!has_empty_label(&name), "{first} of {length}");
                for second in first + 1..length {
                    name[second] = b'.';
                    assert_eq!(has_empty_label(&name), second == first + 1, "{first} {second}");
                    name[second] = b'a';
                }
                // Bytes that differ from a dot in one bit.
                if let Some(next) = name.get_mut(first + 1) {
                    *next = b'/';
                    assert!(!has_empty_label(&name));
                    name[first + 1] = 0xae;
                    assert!(!has_empty_label(&name));
                    name[first + 1] = b'a';
                }
                name[first] = b'a';
            }
        }
    }

    #[test]
    fn authorities_are_split_or_refused() {
        for (text, expected) in [
            ("a.com", Some(("a.com", None))),
            ("a.com:8080", Some(("a.com", Some("8080")))),
            ("a.com:", Some(("a.com", Some("")))),
            ("[::1]:80", Some(("[::1]", Some("80")))),
            ("[::1]", Some(("[::1]", None))),
            ("foo_bar-1.x", Some(("foo_bar-1.x", None))),
            ("", None),
            (":80", None),
            ("a b", None),
            ("a.com.", Some(("a.com", None))),
            ("a.com.:80", Some(("a.com", Some("80")))),
            ("10.0.0.1.", Some(("10.0.0.1", None))),
            (".a.com", Some((".a.com", None))),
            (".", None),
            (".:80", None),
            ("..", None),
            ("a.com..", None),
            ("a..com", None),
            ("a.com..:80", None),
            ("user@a.com", None),
            ("a.com:80:80", None),
            ("a.com:8a", None),
            ("a.com:123456", None),
            ("a.com:65535", Some(("a.com", Some("65535")))),
            ("a.com:65536", None),
            ("[1:2]", None),
            ("[::ffff:1.2.3.4]", Some(("[::ffff:1.2.3.4]", None))),
            ("[fe80::1%25eth0]", None),
            ("[v1.a]", None),
            ("[::1", None),
            ("[]", None),
            ("[::1]x", None),
            ("a.com/x", None),
            ("a.com,b.com", None),
            ("a%2ecom", None),
            ("\u{e9}.com", None),
        ] {
            let found = split(text.as_bytes()).map(|(host, port)| {
                let slice = |span: crate::Span| &text[span.start as usize..span.end()];
                (slice(host), port.map(slice))
            });
            assert_eq!(found, expected, "{text:?}");
        }
    }
}
