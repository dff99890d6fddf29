//! The two ways of escaping text from outside in a log line, as in nginx.
//!
//! Nearly all text needs no escaping and is copied at once.

use tollhouse_stdx::plain_bytes::plain_bytes;

const HEX: &[u8; 16] = b"0123456789ABCDEF";

/// Appends `text` with `\xHH` for quotes, backslashes, control and non-ASCII bytes.
#[inline]
pub(super) fn push_hex_escaped(text: &[u8], line: &mut Vec<u8>) {
    let clean = plain_bytes(text);
    line.extend_from_slice(&text[..clean]);
    if clean < text.len() {
        push_hex_escaped_slowly(&text[clean..], line);
    }
}

#[cold]
fn push_hex_escaped_slowly(text: &[u8], line: &mut Vec<u8>) {
    for byte in text.iter().copied() {
        if plain_bytes(&[byte]) == 0 {
            let (high, low) = (HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]);
            line.extend_from_slice(&[b'\\', b'x', high, low]);
        } else {
            line.push(byte);
        }
    }
}

/// Appends `text` as the inside of a JSON string; invalid UTF-8 becomes U+FFFD.
pub(super) fn push_json_escaped(text: &[u8], line: &mut Vec<u8>) {
    let clean = plain_bytes(text);
    line.extend_from_slice(&text[..clean]);
    if clean < text.len() {
        push_json_escaped_slowly(&text[clean..], line);
    }
}

#[cold]
fn push_json_escaped_slowly(text: &[u8], line: &mut Vec<u8>) {
    for chunk in text.utf8_chunks() {
        for byte in chunk.valid().bytes() {
            push_json_byte(byte, line);
        }
        if !chunk.invalid().is_empty() {
            line.extend_from_slice("\u{fffd}".as_bytes());
        }
    }
}

fn push_json_byte(byte: u8, line: &mut Vec<u8>) {
    let short = match byte {
        b'"' | b'\\' => byte,
        b'\n' => b'n',
        b'\r' => b'r',
        b'\t' => b't',
        0x08 => b'b',
        0x0c => b'f',
        0x00..0x20 => {
            let (high, low) = (HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]);
            line.extend_from_slice(&[b'\\', b'u', b'0', b'0', high, low]);
            return;
        }
        _ => {
            line.push(byte);
            return;
        }
    };
    line.extend_from_slice(&[b'\\', short]);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn hex(text: &[u8]) -> String {
        let mut line = Vec::new();
        push_hex_escaped(text, &mut line);
        String::from_utf8(line).expect("escaped text is ASCII")
    }

    fn json(text: &[u8]) -> String {
        let mut line = Vec::new();
        push_json_escaped(text, &mut line);
        String::from_utf8(line).expect("escaped text is UTF-8")
    }

    #[test]
    fn text_is_escaped_both_ways() {
        let table: [(&[u8], &str, &str); 12] = [
            (b"", "", ""),
            (
                b"plain text, longer than a word",
                "plain text, longer than a word",
                "plain text, longer than a word",
            ),
            (b"say \"hi\"", r"say \x22hi\x22", r#"say \"hi\""#),
            (b"back\\slash", r"back\x5Cslash", r"back\\slash"),
            (b"a\nb\rc\td", r"a\x0Ab\x0Dc\x09d", r"a\nb\rc\td"),
            (b"\x08\x0c", r"\x08\x0C", r"\b\f"),
            (b"\x00\x1f\x1b[31m", r"\x00\x1F\x1B[31m", r"\u0000\u001F\u001B[31m"),
            (b"~\x7f", r"~\x7F", "~\x7f"),
            ("caf\u{e9}".as_bytes(), r"caf\xC3\xA9", "caf\u{e9}"),
            (b"bad \xff utf", r"bad \xFF utf", "bad \u{fffd} utf"),
            (b"cut \xe2\x82", r"cut \xE2\x82", "cut \u{fffd}"),
            (b"12345678\"", r"12345678\x22", r#"12345678\""#),
        ];
        for (text, expected_hex, expected_json) in table {
            assert_eq!(hex(text), expected_hex);
            assert_eq!(json(text), expected_json);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

        #[test]
        fn no_text_can_end_its_field_or_line(text in prop::collection::vec(any::<u8>(), 0..80)) {
            let escaped = hex(&text);
            prop_assert!(escaped.bytes().all(|byte| (0x20..0x7f).contains(&byte) && byte != b'"'));
            let parsed: String = serde_json::from_str(&format!("\"{}\"", json(&text)))
                .expect("the escaped text is the inside of a JSON string");
            prop_assert_eq!(parsed, String::from_utf8_lossy(&text));
        }
    }
}
