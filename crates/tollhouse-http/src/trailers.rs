//! Trailer sections (RFC 9110 §6.5), reduced to the lines that may follow a relayed body.
//!
//! A receiver that merges trailers into the head must not take from them fields that frame, route
//! or authenticate a message, or that concern a single connection.

use crate::field::Known;

/// Names that are not allowed in trailers, besides those that are [`Known`].
const FORBIDDEN: &[&[u8]] = &[
    b"age",
    b"authorization",
    b"cache-control",
    b"content-encoding",
    b"content-range",
    b"expires",
    b"location",
    b"max-forwards",
    b"pragma",
    b"proxy-authenticate",
    b"proxy-authorization",
    b"range",
    b"retry-after",
    b"set-cookie",
    b"vary",
    b"warning",
    b"www-authenticate",
];

/// Prefixes of forbidden names: routing, conditions, and access control.
const FORBIDDEN_STARTS: &[&[u8]] = &[b"access-control-", b"if-", b"x-forwarded-"];

/// Appends the last chunk and the permitted lines of `section`, which the decoder has read to its
/// end.
pub fn write_last_chunk(out: &mut Vec<u8>, section: &[u8]) {
    out.extend_from_slice(b"0\r\n");
    for line in section.split_inclusive(|&byte| byte == b'\n') {
        let name = line.split(|&byte| byte == b':').next().unwrap_or_default();
        if name.len() < line.len() && may_pass(name) {
            out.extend_from_slice(line);
        }
    }
    out.extend_from_slice(b"\r\n");
}

fn may_pass(name: &[u8]) -> bool {
    let starts_with = |start: &&[u8]| {
        name.get(..start.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(start))
    };
    Known::from_name(name) == Known::Other
        && !FORBIDDEN.iter().any(|other| name.eq_ignore_ascii_case(other))
        && !FORBIDDEN_STARTS.iter().any(starts_with)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passed(section: &str) -> String {
        let mut out = Vec::new();
        write_last_chunk(&mut out, section.as_bytes());
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn what_frames_routes_or_authenticates_does_not_follow_a_body() {
        assert_eq!(passed("\r\n"), "0\r\n\r\n");
        assert_eq!(passed(""), "0\r\n\r\n");
        for name in [
            "Connection",
            "content-length",
            "Transfer-Encoding",
            "Host",
            "X-Consumer-Username",
            "X_Credential_Of_Anybody",
            "X-Real-IP",
            "X-Forwarded-Host",
            "AUTHORIZATION",
            "Set-Cookie",
            "Content-Type",
            "TE",
            "If-Match",
            "Keep-Alive",
            "Trailer",
            "Upgrade",
            "Date",
            "Server",
        ] {
            let section = format!("A: 1\r\n{name}: x\r\nX-Sum: 2\r\n\r\n");
            assert_eq!(passed(&section), "0\r\nA: 1\r\nX-Sum: 2\r\n\r\n", "{name}");
        }
        let grpc = "grpc-status: 0\r\nETag: \"x\"\r\nServer-Timing: a\r\n\r\n";
        assert_eq!(passed(grpc), format!("0\r\n{grpc}"));
    }
}
