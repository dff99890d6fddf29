//! Parameters of queries and forms (`application/x-www-form-urlencoded`).

use std::borrow::Cow;

/// Returns the decoded parameters of a query, in order.
pub(crate) fn parameters(query: &[u8]) -> Vec<(Cow<'static, str>, Cow<'static, str>)> {
    let pairs = query.split(|byte| *byte == b'&').filter(|pair| !pair.is_empty());
    pairs
        .map(|pair| {
            let at = pair.iter().position(|byte| *byte == b'=');
            let (name, value) = at.map_or((pair, &b""[..]), |at| (&pair[..at], &pair[at + 1..]));
            (Cow::Owned(decode_part(name)), Cow::Owned(decode_part(value)))
        })
        .collect()
}

/// Decodes a name or value of a query or form.
pub(crate) fn decode_part(part: &[u8]) -> String {
    let spaced: Vec<u8> =
        part.iter().map(|byte| if *byte == b'+' { b' ' } else { *byte }).collect();
    decode(&spaced)
}

/// Percent-decodes bytes to text; invalid UTF-8 is replaced.
pub(crate) fn decode(bytes: &[u8]) -> String {
    let mut out = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some((&byte, behind)) = rest.split_first() {
        let hex = |at: usize| behind.get(at).and_then(|digit| (*digit as char).to_digit(16));
        match (byte, hex(0), hex(1)) {
            (b'%', Some(high), Some(low)) => {
                out.push((high * 16 + low) as u8);
                rest = &behind[2..];
            }
            _ => {
                out.push(byte);
                rest = behind;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// Encodes names and values as a query or form: everything except unreserved characters (RFC 3986
/// §2.1).
pub(crate) fn encode(pairs: &[(impl AsRef<str>, String)]) -> String {
    let mut text = String::new();
    for (place, (name, value)) in pairs.iter().enumerate() {
        text.push_str(if place > 0 { "&" } else { "" });
        text.push_str(&encoded(name.as_ref()));
        text.push('=');
        text.push_str(&encoded(value));
    }
    text
}

/// Encodes a name or value: everything except unreserved characters.
pub(crate) fn encoded(part: &str) -> String {
    let mut text = String::with_capacity(part.len());
    for byte in part.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            text.push(char::from(byte));
        } else {
            text.push_str(&format!("%{byte:02X}"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_decoded_in_their_order() {
        let found = parameters(b"b=1+2&a=%e4%bd%A0&&c&d=%zz=");
        let pairs: Vec<_> = found.iter().map(|(name, value)| (&**name, &**value)).collect();
        assert_eq!(pairs, [("b", "1 2"), ("a", "\u{4f60}"), ("c", ""), ("d", "%zz=")]);
    }

    #[test]
    fn forms_hold_whatever_a_client_brings() {
        let form = [("code", "a b&client_id=x\u{e9}".to_owned()), ("c", String::new())];
        assert_eq!(encode(&form), "code=a%20b%26client_id%3Dx%C3%A9&c=");
    }
}
