//! gRPC status derived from HTTP: the codes and the encoding of `grpc-message` (gRPC's
//! PROTOCOL-HTTP2).

/// Returns the gRPC code of an HTTP response that has no gRPC status.
pub fn from_http(status: u16) -> u8 {
    const UNKNOWN: u8 = 2;
    const PERMISSION_DENIED: u8 = 7;
    const UNIMPLEMENTED: u8 = 12;
    const INTERNAL: u8 = 13;
    const UNAVAILABLE: u8 = 14;
    const UNAUTHENTICATED: u8 = 16;
    match status {
        400 | 431 => INTERNAL,
        401 => UNAUTHENTICATED,
        403 => PERMISSION_DENIED,
        404 => UNIMPLEMENTED,
        429 | 502 | 503 | 504 => UNAVAILABLE,
        _ => UNKNOWN,
    }
}

/// Encodes a text for `grpc-message`: bytes other than printable ASCII, and `%`, are
/// percent-encoded.
pub fn encode_message(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b' '..=b'~' if byte != b'%' => encoded.push(char::from(byte)),
            _ => {
                let digit = |nibble: u8| char::from(b"0123456789ABCDEF"[usize::from(nibble)]);
                encoded.extend(['%', digit(byte >> 4), digit(byte & 15)]);
            }
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_printable_ascii() {
        assert_eq!(encode_message("a b~"), "a b~");
        assert_eq!(encode_message("100%\n"), "100%25%0A");
        assert_eq!(encode_message("é"), "%C3%A9");
    }
}
