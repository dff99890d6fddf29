//! Messages of the syslog protocol (RFC 5424).

use std::fmt;

use tollhouse_plugin::Brand;
use tollhouse_stdx::civil::CivilTime;

/// Facility USER: RFC 5424, section 6.2.1.
pub(crate) const FACILITY_USER: u8 = 1;
/// Facility SYSLOG.
pub(crate) const FACILITY_SYSLOG: u8 = 5;
/// Severity INFO.
pub(crate) const SEVERITY_INFO: u8 = 6;

/// Longest host in a message: RFC 5424, section 6.
const HOST_BYTES_MAX: usize = 255;

/// Length of date and time without fraction and zone: `1994-11-06T08:49:37`.
const SECONDS_BYTES: usize = 19;

/// Message without a line end.
pub(crate) struct Message<'m> {
    pub facility: u8,
    pub severity: u8,
    pub unix_ms: u64,
    /// Host of the request, as the client sent it.
    pub host: &'m [u8],
    pub application: &'static str,
    /// Structured data, as in [`element`]; `-` for none.
    pub structured: &'m str,
    pub text: &'m str,
}

impl fmt::Display for Message<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { facility, severity, unix_ms, host, application, structured, text } = self;
        let priority = facility * 8 + severity;
        let (time, host, process) = (timestamp(*unix_ms), visible(host), std::process::id());
        write!(out, "<{priority}>1 {time} {host} {application} {process} - {structured} {text}")
    }
}

/// Returns the name of the gateway in messages.
pub(crate) fn application(brand: Brand) -> &'static str {
    match brand {
        Brand::Tollhouse => "tollhouse",
        Brand::Apisix => "apisix",
    }
}

/// Formats an element of structured data: `[id name="value" …]` (RFC 5424, section 6.3).
pub(crate) fn element(id: &str, parameters: &[(&str, &str)]) -> String {
    let mut out = format!("[{id}");
    for (name, value) in parameters {
        out.push_str(&format!(" {name}=\""));
        for letter in value.chars() {
            if matches!(letter, '"' | '\\' | ']') {
                out.push('\\');
            }
            out.push(letter);
        }
        out.push('"');
    }
    out.push(']');
    out
}

/// Formats a time: `1994-11-06T08:49:37.123Z` (RFC 3339).
pub(crate) fn timestamp(unix_ms: u64) -> String {
    let seconds = i64::try_from(unix_ms / 1_000).unwrap_or(i64::MAX);
    let date = CivilTime::from_unix_seconds(seconds).iso_date();
    let date = String::from_utf8_lossy(&date[..SECONDS_BYTES]);
    format!("{date}.{:03}Z", unix_ms % 1_000)
}

/// Returns a host with visible ASCII characters only, so that a client cannot change the message's
/// other parts; `-` for none.
fn visible(host: &[u8]) -> String {
    let visible = |byte: &u8| if byte.is_ascii_graphic() { char::from(*byte) } else { '?' };
    let host: String = host.iter().take(HOST_BYTES_MAX).map(visible).collect();
    if host.is_empty() { "-".to_owned() } else { host }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_words() {
        for (host, expected) in [("a.test", "a.test"), ("", "-"), ("a b\nc\u{e9}", "a?b?c??")] {
            assert_eq!(visible(host.as_bytes()), expected, "{host:?}");
        }
        assert_eq!(visible(&[b'a'; 300]).len(), HOST_BYTES_MAX);
    }

    #[test]
    fn times_have_milliseconds() {
        assert_eq!(timestamp(784_111_777_042), "1994-11-06T08:49:37.042Z");
    }

    #[test]
    fn values_cannot_end_an_element() {
        let element = element("x@1", &[("a", "b"), ("c", r#"d"] e=\"#)]);
        assert_eq!(element, r#"[x@1 a="b" c="d\"\] e=\\"]"#);
    }
}
