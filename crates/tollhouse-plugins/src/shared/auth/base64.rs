//! Base64 as APISIX reads it: padding is optional, and anything after it is ignored.

use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::RequireNone)
        .with_decode_allow_trailing_bits(true),
);

/// Decodes base64 in the standard alphabet, with or without padding.
pub(crate) fn decode_base64(text: &[u8]) -> Option<Vec<u8>> {
    let end = text.iter().position(|&byte| byte == b'=').unwrap_or(text.len());
    LENIENT.decode(&text[..end]).ok()
}

/// Decodes the URL-safe alphabet and the standard one.
pub(crate) fn decode_base64_url(text: &[u8]) -> Option<Vec<u8>> {
    let standard = |byte: &u8| match byte {
        b'-' => b'+',
        b'_' => b'/',
        byte => *byte,
    };
    decode_base64(&text.iter().map(standard).collect::<Vec<u8>>())
}

/// Encodes in the standard alphabet, padded.
pub(crate) fn encode_base64(bytes: impl AsRef<[u8]>) -> String {
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn padding_may_be_missing_and_ends_the_text() {
        for (text, expected) in [
            ("Zm9v", Some("foo")),
            ("Zm8=", Some("fo")),
            ("Zm8", Some("fo")),
            ("Zm8=Zm9v", Some("fo")),
            ("Zm9", Some("fo")),
            ("", Some("")),
            ("Z", None),
            ("Zm 9v", None),
            ("Zm9v\n", None),
            ("__8", None),
        ] {
            let decoded = decode_base64(text.as_bytes());
            assert_eq!(decoded.as_deref(), expected.map(str::as_bytes), "{text}");
        }
        assert_eq!(decode_base64_url(b"_-8"), decode_base64(b"/+8="));
        assert_eq!(encode_base64("fo"), "Zm8=");
    }
}
