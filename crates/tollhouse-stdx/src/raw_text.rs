//! Support for unescaped control characters in JSON strings, such as line ends of pasted source
//! code. The decoder that APISIX uses accepts such characters. The Admin API accepts them too, and
//! so do JSON documents inside of its objects; no other part of the gateway does.

/// Maximum length of the escaped body, as a multiple of the original length. An escaped line end or
/// tab has twice its length; other control characters grow more, but are rare.
const GROWTH_MAX: usize = 2;

/// Returns a JSON text with escaped control characters in its strings; `None` if it contains no such
/// characters, or too many.
pub fn escape(body: &[u8]) -> Option<Vec<u8>> {
    let mut escaped = Vec::with_capacity(body.len() + body.len() / 8);
    let (mut in_text, mut after_backslash) = (false, false);
    for &byte in body {
        if in_text && byte < b' ' {
            push_escaped(&mut escaped, byte);
            if escaped.len() > body.len().saturating_mul(GROWTH_MAX) {
                return None;
            }
        } else {
            escaped.push(byte);
        }
        in_text ^= byte == b'"' && !after_backslash;
        after_backslash = in_text && byte == b'\\' && !after_backslash;
    }
    (escaped.len() > body.len()).then_some(escaped)
}

fn push_escaped(escaped: &mut Vec<u8>, byte: u8) {
    let short = match byte {
        b'\n' => b'n',
        b'\r' => b'r',
        b'\t' => b't',
        0x08 => b'b',
        0x0c => b'f',
        _ => {
            const HEX: &[u8; 16] = b"0123456789abcdef";
            let (high, low) = (HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]);
            escaped.extend([b'\\', b'u', b'0', b'0', high, low]);
            return;
        }
    };
    escaped.extend([b'\\', short]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped_inside_of_texts_alone() {
        let table: [(&[u8], Option<&str>); 6] = [
            (b"{\n\"a\": \"b\"}", None),
            (b"{\n\"a\": \"b\nc\td\"}", Some("{\n\"a\": \"b\\nc\\td\"}")),
            (b"[\"a\\\"\r\",\n\"\\\\\",\n1]", Some("[\"a\\\"\\r\",\n\"\\\\\",\n1]")),
            (b"[\"long enough\x01\"]", Some("[\"long enough\\u0001\"]")),
            (b"[\"\x1f\x1f\x1f\x1f\x1f\"]", None),
            (b"", None),
        ];
        for (body, expected) in table {
            let escaped =
                escape(body).map(|escaped| String::from_utf8(escaped).expect("it is text"));
            assert_eq!(escaped.as_deref(), expected, "{body:?}");
        }
    }
}
