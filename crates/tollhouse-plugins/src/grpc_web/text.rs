//! Text form of grpc-web bodies, and the lines of their last frame.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// Number of base64 characters for three bytes.
const GROUP_CHARS: usize = 4;

/// Decodes base64 that consists of separately padded pieces (PROTOCOL-WEB of gRPC). Returns `None`
/// if the text is invalid.
pub(super) fn decode(text: &[u8]) -> Option<Vec<u8>> {
    let text = text.trim_ascii();
    let mut decoded = Vec::with_capacity(text.len() / GROUP_CHARS * 3);
    let mut rest = text;
    while !rest.is_empty() {
        // A piece ends with its padding, which completes a group.
        let end = match rest.iter().position(|&byte| byte == b'=') {
            Some(at) => (at / GROUP_CHARS + 1) * GROUP_CHARS,
            None => rest.len(),
        };
        let (piece, after) = rest.split_at_checked(end)?;
        STANDARD.decode_vec(piece, &mut decoded).ok()?;
        rest = after;
    }
    Some(decoded)
}

/// Converts a trailer section to the format of the last frame: lower-case names, `name:value`,
/// CRLF.
pub(super) fn trailer_lines(section: &[u8]) -> Vec<u8> {
    let mut lines = Vec::with_capacity(section.len());
    for line in section.split(|&byte| byte == b'\n') {
        let Some(colon) = line.iter().position(|&byte| byte == b':') else { continue };
        lines.extend(line[..colon].iter().map(u8::to_ascii_lowercase));
        lines.push(b':');
        lines.extend_from_slice(line[colon + 1..].trim_ascii());
        lines.extend_from_slice(b"\r\n");
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_with_padding_of_their_own_are_decoded() {
        for (text, expected) in [
            ("", Some("")),
            ("Zm9v", Some("foo")),
            ("Zm8=Zm9v", Some("fofoo")),
            ("Zg==Zg==", Some("ff")),
            ("Zm9v\r\n", Some("foo")),
            ("Zm9", None),
            ("Zm8", None),
            ("Z===", None),
            ("=", None),
            ("Zm 9v", None),
            ("Zg==Z", None),
        ] {
            let decoded = decode(text.as_bytes());
            assert_eq!(decoded.as_deref(), expected.map(str::as_bytes), "{text}");
        }
    }

    #[test]
    fn lines_have_the_form_of_the_last_frame() {
        let lines = trailer_lines(b"Grpc-Status: 0\r\nX-A:b: c \r\n\r\n");
        assert_eq!(lines, b"grpc-status:0\r\nx-a:b: c\r\n");
        assert_eq!(trailer_lines(b"\r\n"), b"");
    }
}
