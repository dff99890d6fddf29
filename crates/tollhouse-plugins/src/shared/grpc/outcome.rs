//! Status of a finished call, from heads or trailers.

/// HTTP status of an unknown code.
const UNKNOWN_CODE: u16 = 599;

/// Status of a call as sent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// `grpc-status`; `None` if it is not a number.
    pub(crate) code: Option<u32>,
    /// Value of `grpc-message`, percent-decoded.
    pub(crate) message: String,
    /// Value of `grpc-status-details-bin`, still in base64.
    pub(crate) details: Option<Vec<u8>>,
}

impl Outcome {
    /// Reads the status from lines that `find` returns by name; `None` without `grpc-status`.
    pub(crate) fn find_in<'l>(find: impl Fn(&str) -> Option<&'l [u8]>) -> Option<Self> {
        let code = std::str::from_utf8(find("grpc-status")?).ok();
        Some(Self {
            code: code.and_then(|code| code.trim().parse().ok()),
            message: decode_message(find("grpc-message").unwrap_or_default()),
            details: find("grpc-status-details-bin").map(<[u8]>::to_vec),
        })
    }

    /// Reads the status from a trailer section.
    pub(crate) fn from_trailers(section: &[u8]) -> Option<Self> {
        Self::find_in(|name| find_line(section, name))
    }

    pub(crate) fn is_ok(&self) -> bool {
        self.code == Some(0)
    }
}

/// Returns the value of the first line with this name in a trailer section.
fn find_line<'s>(section: &'s [u8], name: &str) -> Option<&'s [u8]> {
    section.split(|&byte| byte == b'\n').find_map(|line| {
        let colon = line.iter().position(|&byte| byte == b':')?;
        let is_named = line[..colon].eq_ignore_ascii_case(name.as_bytes());
        is_named.then(|| line[colon + 1..].trim_ascii())
    })
}

/// Returns the HTTP status for a code, as in APISIX's table.
pub(crate) fn http_status(code: Option<u32>) -> u16 {
    match code {
        Some(0) => 200,
        Some(1) => 499,
        Some(2 | 13 | 15) => 500,
        Some(3 | 9 | 11) => 400,
        Some(4) => 504,
        Some(5) => 404,
        Some(6 | 10) => 409,
        Some(7) => 403,
        Some(8) => 429,
        Some(12) => 501,
        Some(14) => 503,
        Some(16) => 401,
        _ => UNKNOWN_CODE,
    }
}

/// Decodes the percent-encoding of a `grpc-message`.
fn decode_message(text: &[u8]) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&byte, after)) = rest.split_first() {
        let digits = after.get(..2).filter(|_| byte == b'%');
        let value = digits
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
        bytes.push(value.unwrap_or(byte));
        rest = if value.is_some() { &after[2..] } else { after };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_have_the_http_statuses_of_apisix() {
        let table =
            [200, 499, 500, 400, 504, 404, 409, 403, 429, 400, 409, 400, 501, 500, 503, 500, 401];
        for (code, expected) in (0..).zip(table) {
            assert_eq!(http_status(Some(code)), expected, "{code}");
        }
        assert_eq!((http_status(Some(17)), http_status(None)), (599, 599));
    }

    #[test]
    fn a_status_is_found_in_trailers() {
        let section = b"Grpc-Status: 5\r\ngrpc-message: 100%25 %C3%A9 %zz %\r\nx: y\r\n\r\n";
        let outcome = Outcome::from_trailers(section).unwrap();
        assert_eq!((outcome.code, outcome.is_ok()), (Some(5), false));
        assert_eq!(outcome.message, "100% é %zz %");
        assert_eq!(outcome.details, None);
        assert_eq!(Outcome::from_trailers(b"x: y\r\n\r\n"), None);
        assert_eq!(Outcome::from_trailers(b"grpc-status: x\r\n").unwrap().code, None);
    }
}
