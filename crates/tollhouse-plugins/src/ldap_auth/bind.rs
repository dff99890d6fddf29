//! Simple bind of LDAP version 3 (RFC 4511 §4.2): the only operation that checks a password.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// Longest answer to a bind that is read, in bytes.
const ANSWER_BYTES_MAX: usize = 64 << 10;

const SEQUENCE: u8 = 0x30;
const INTEGER: u8 = 0x02;
const ENUMERATED: u8 = 0x0a;
const OCTETS: u8 = 0x04;
/// `[APPLICATION 0]`.
const BIND_REQUEST: u8 = 0x60;
/// `[APPLICATION 1]`.
const BIND_RESPONSE: u8 = 0x61;
/// Context-specific tag of a simple password.
const SIMPLE: u8 = 0x80;

/// Result code of a successful bind.
const SUCCESS: u32 = 0;

/// Whether the server accepts the password of `dn`.
///
/// # Errors
/// If the connection fails or the answer is not one of LDAP.
pub(super) async fn bind<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut S,
    dn: &str,
    password: &[u8],
) -> io::Result<bool> {
    stream.write_all(&request(dn, password)).await?;
    stream.flush().await?;
    let invalid = || io::Error::new(io::ErrorKind::InvalidData, "the answer is not one of LDAP");
    let mut answer = Vec::new();
    loop {
        if let Some(whole) = element(&answer) {
            let code = whole.and_then(result_code).ok_or_else(invalid)?;
            return Ok(code == SUCCESS);
        }
        if answer.len() > ANSWER_BYTES_MAX {
            return Err(invalid());
        }
        if stream.read_buf(&mut answer).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
}

fn request(dn: &str, password: &[u8]) -> Vec<u8> {
    let mut bind = tagged(INTEGER, &[3]);
    bind.extend(tagged(OCTETS, dn.as_bytes()));
    bind.extend(tagged(SIMPLE, password));
    let mut message = tagged(INTEGER, &[1]);
    message.extend(tagged(BIND_REQUEST, &bind));
    tagged(SEQUENCE, &message)
}

fn tagged(tag: u8, content: &[u8]) -> Vec<u8> {
    let mut out = vec![tag];
    match content.len() {
        length @ 0..=0x7f => out.push(length as u8),
        length => {
            let bytes = (length as u32).to_be_bytes();
            out.push(0x80 | bytes.len() as u8);
            out.extend(bytes);
        }
    }
    out.extend_from_slice(content);
    out
}

/// Element of BER with its tag and content, and the bytes after it.
struct Element<'b> {
    tag: u8,
    content: &'b [u8],
    rest: &'b [u8],
}

/// Reads the first element. `None`: more bytes are needed; `Some(None)`: the bytes are invalid.
fn element(bytes: &[u8]) -> Option<Option<Element<'_>>> {
    let (&tag, &first) = (bytes.first()?, bytes.get(1)?);
    let (length, start) = match first {
        0..=0x7f => (usize::from(first), 2),
        0x81..=0x84 => {
            let count = usize::from(first & 0x7f);
            let digits = bytes.get(2..2 + count)?;
            let length = digits.iter().fold(0, |sum, digit| sum << 8 | usize::from(*digit));
            (length, 2 + count)
        }
        _ => return Some(None),
    };
    if length > ANSWER_BYTES_MAX {
        return Some(None);
    }
    let content = bytes.get(start..start + length)?;
    Some(Some(Element { tag, content, rest: &bytes[start + length..] }))
}

/// Returns the result code of the answer to a bind.
fn result_code(message: Element<'_>) -> Option<u32> {
    if message.tag != SEQUENCE {
        return None;
    }
    let id = element(message.content)??;
    let bind = element(id.rest)??;
    if (id.tag, id.content, bind.tag) != (INTEGER, &[1][..], BIND_RESPONSE) {
        return None;
    }
    let code = element(bind.content)??;
    let is_code = code.tag == ENUMERATED && (1..=4).contains(&code.content.len());
    is_code.then(|| code.content.iter().fold(0, |sum, byte| sum << 8 | u32::from(*byte)))
}

/// Escapes a value for a distinguished name (RFC 4514 §2.4).
pub(super) fn escape_dn(value: &str) -> String {
    let mut out = String::with_capacity(value.len());
    let last = value.chars().count().saturating_sub(1);
    for (index, letter) in value.chars().enumerate() {
        match letter {
            '\0' => out.push_str("\\00"),
            ',' | '+' | '"' | '\\' | '<' | '>' | ';' | '=' => out.extend(['\\', letter]),
            '#' if index == 0 => out.push_str("\\#"),
            ' ' if index == 0 || index == last => out.push_str("\\ "),
            _ => out.push(letter),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bind_is_written_as_the_rfc_says() {
        let expected = b"\x30\x16\x02\x01\x01\x60\x11\x02\x01\x03\x04\x04cn=a\x80\x06secret";
        assert_eq!(request("cn=a", b"secret"), expected);
        assert_eq!(tagged(OCTETS, &[7; 200])[..6], [OCTETS, 0x84, 0, 0, 0, 200]);
    }

    #[test]
    fn only_a_whole_answer_with_a_code_is_read() {
        let code = |bytes: &[u8]| element(bytes).map(|whole| whole.and_then(result_code));
        let good = b"\x30\x0c\x02\x01\x01\x61\x07\x0a\x01\x00\x04\x00\x04\x00";
        assert_eq!(code(good), Some(Some(0)));
        assert_eq!(code(b"\x30\x84\0\0\0\x0c\x02\x01\x01\x61\x07\x0a\x01\x31\x04\x00\x04\x00"), Some(Some(49)));
        for length in 0..good.len() {
            assert_eq!(code(&good[..length]), None, "{length}");
        }
        for bad in [&b"\x30\x85\0\0\0\0\x01"[..], b"\x04\x00", b"\x30\x00", b"\x30\x05\x02\x01\x02\x61\x00", b"\x30\x84\xff\xff\xff\xff"] {
            assert_eq!(code(bad), Some(None), "{bad:?}");
        }
    }

    #[test]
    fn names_are_escaped() {
        for (value, expected) in
            [("user01", "user01"), ("a,dc=b", "a\\,dc\\=b"), (" #a ", "\\ #a\\ "), ("#", "\\#"), ("é\0", "é\\00")]
        {
            assert_eq!(escape_dn(value), expected);
        }
    }
}
