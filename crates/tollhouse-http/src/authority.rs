//! `host[:port]` as it stands in `Host` and in absolute targets (RFC 3986 §3.2, RFC 9110 §7.2).

use crate::Span;

/// Splits an authority into its host and port parts, offsets relative to `text`. `None` when it
/// could be read in two ways or is empty: user info, a stray colon, bytes outside of a name.
#[inline]
pub fn split(text: &[u8]) -> Option<(Span, Option<Span>)> {
    let host_end = if text.first() == Some(&b'[') {
        let close = text.iter().position(|&byte| byte == b']')?;
        let is_address = |byte: &u8| byte.is_ascii_hexdigit() || matches!(byte, b':' | b'.');
        if close < 3 || !text[1..close].iter().all(is_address) {
            return None;
        }
        close + 1
    } else {
        let end = text.iter().position(|&byte| !is_name_byte(byte)).unwrap_or(text.len());
        if end == 0 {
            return None;
        }
        end
    };
    let host = Span::new(0, host_end);
    match text.get(host_end) {
        None => Some((host, None)),
        Some(b':') => {
            let port = &text[host_end + 1..];
            let is_port = port.len() <= 5 && port.iter().all(u8::is_ascii_digit);
            is_port.then(|| (host, Some(Span::new(host_end + 1, text.len()))))
        }
        Some(_) => None,
    }
}

/// Unreserved bytes and sub-delimiters of a registered name; `%` is left out on purpose, and so
/// is `,`, which some readers take for a list.
#[inline]
fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(
            byte,
            b'.' | b'-'
                | b'_'
                | b'~'
                | b'!'
                | b'$'
                | b'&'
                | b'\''
                | b'('
                | b')'
                | b'*'
                | b'+'
                | b';'
                | b'='
        )
}

#[cfg(test)]
mod tests {
    use super::split;

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
            ("user@a.com", None),
            ("a.com:80:80", None),
            ("a.com:8a", None),
            ("a.com:123456", None),
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
