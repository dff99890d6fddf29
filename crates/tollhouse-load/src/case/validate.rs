//! Validation of a case before anything is sent.
//!
//! Covers only what the case itself shows. Missing files, unresolvable names and limits of the
//! machine are reported when the case is prepared.

use super::{Body, Case, Checks, HttpRequest, Load, Protocol, TlsOptions};
use crate::error::BenchError;
use crate::target;

/// Maximum number of streams per connection, above the limit of any server.
const STREAMS_MAX: usize = 65_536;
/// Maximum number of connections of a case: 15 times the ports of one address.
const CONNECTIONS_MAX: usize = 1_000_000;

/// HTTP statuses: all numbers of three digits.
const HTTP_STATUSES: std::ops::RangeInclusive<u16> = 100..=999;
/// Range of gRPC statuses, `OK` to `Unauthenticated`.
const GRPC_STATUSES: std::ops::RangeInclusive<u16> = 0..=16;

/// Outcome of a check; the error holds the invalid key and the reason with a remedy.
type Found = Result<(), (&'static str, String)>;

impl Case {
    /// Validates the case.
    ///
    /// # Errors
    /// If settings contradict each other; the error names the key of the first one and a remedy.
    pub fn validate(&self) -> Result<(), BenchError> {
        let parsed = target::parse(&self.target).map_err(|error| BenchError::Target {
            target: self.target.clone(),
            why: error.to_string(),
        })?;
        let protocol = self.protocol();
        let validate = || {
            self.load.validate(protocol)?;
            self.validate_protocol(protocol)?;
            self.http.validate()?;
            self.checks.validate(protocol)?;
            self.tls.validate(parsed.is_tls)
        };
        validate().map_err(|(key, why)| BenchError::Case { key: key.to_owned(), why })
    }

    /// Checks that the protocol-specific parts of the case match the protocol.
    fn validate_protocol(&self, protocol: Protocol) -> Found {
        let is_http = matches!(protocol, Protocol::Http1 | Protocol::Http2);
        match (&self.grpc, protocol) {
            (None, Protocol::Grpc) => {
                return Err(("grpc", "is missing; write grpc.call: package.Service.Method".into()));
            }
            (Some(call), Protocol::Grpc) => {
                if !call.call.trim_start_matches('/').contains(['.', '/']) {
                    let why =
                        format!("`{}` is not a method; write package.Service.Method", call.call);
                    return Err(("grpc.call", why));
                }
                if call.proto.is_some() && call.protoset.is_some() {
                    return Err((
                        "grpc.protoset",
                        "is given together with grpc.proto; write one".into(),
                    ));
                }
            }
            (Some(_), _) => {
                return Err((
                    "grpc",
                    "is given, but the protocol is another; write a target of \
                             grpc:// or grpcs://"
                        .into(),
                ));
            }
            (None, _) => {}
        }
        let headers = match protocol {
            // These headers are sent with the handshake.
            Protocol::WebSocket => self.http.headers.clone(),
            _ => Vec::new(),
        };
        if !is_http && self.http != (HttpRequest { headers, ..HttpRequest::default() }) {
            return Err(("http", "is given, but the protocol is not HTTP; leave it out".into()));
        }
        if !self.message.is_empty() && !matches!(protocol, Protocol::WebSocket | Protocol::Tcp) {
            return Err(("message", "is for ws://, wss:// and tcp://; HTTP has http.body".into()));
        }
        Ok(())
    }
}

impl Load {
    fn validate(&self, protocol: Protocol) -> Found {
        let count = |key, value: usize, max: usize| {
            let is_fit = (1..=max).contains(&value);
            if is_fit { Ok(()) } else { Err((key, format!("is {value}; write 1 to {max}"))) }
        };
        count("load.connections", self.connections, CONNECTIONS_MAX)?;
        count("load.streams", self.streams, STREAMS_MAX)?;
        count("load.workers", self.workers.unwrap_or(1), CONNECTIONS_MAX)?;
        if self.streams > 1 && !matches!(protocol, Protocol::Http2 | Protocol::Grpc) {
            let why = format!(
                "is {}, but this protocol carries one exchange at a time on a \
                               connection; write 1, or protocol: http2",
                self.streams
            );
            return Err(("load.streams", why));
        }
        if self.requests == Some(0) {
            return Err(("load.requests", "is 0; write 1 or more, or leave it out".into()));
        }
        if self.duration.is_some_and(|duration| duration.is_zero()) {
            return Err(("load.duration", "is 0; write a time such as 30s".into()));
        }
        if self.timeout.is_zero() {
            return Err(("load.timeout", "is 0; write a time such as 10s".into()));
        }
        if let Some(why) = self.lanes.problem() {
            return Err(("load.lanes", why));
        }
        self.pace.problem().map_or(Ok(()), |why| Err(("load.pace", why)))
    }
}

impl HttpRequest {
    fn validate(&self) -> Found {
        if !is_token(&self.method) {
            return Err((
                "http.method",
                format!("`{}` is not a method; write GET, POST, …", self.method),
            ));
        }
        for (name, value) in &self.headers {
            if !is_token(name) {
                return Err(("http.headers", format!("`{name}` is not a header name")));
            }
            // A line break in a value would start another header, and a load generator must not
            // allow that by accident.
            if value.bytes().any(|byte| (byte < b' ' && byte != b'\t') || byte == 0x7f) {
                let why = format!("the value of {name} has a control character in it");
                return Err(("http.headers", why));
            }
        }
        if !self.urls.is_empty() && self.urls_file.is_some() {
            return Err(("http.urls_file", "is given together with http.urls; write one".into()));
        }
        if !self.urls.is_empty() && self.urls.iter().all(|entry| entry.weight == 0) {
            return Err(("http.urls", "every weight is 0; write at least one above it".into()));
        }
        if matches!(&self.body, Some(Body::File(path)) if path.as_os_str().is_empty()) {
            return Err(("http.body", "names no file".into()));
        }
        Ok(())
    }
}

impl Checks {
    fn validate(&self, protocol: Protocol) -> Found {
        let statuses = match protocol {
            Protocol::Grpc => GRPC_STATUSES,
            _ => HTTP_STATUSES,
        };
        if let Some(status) = self.status.iter().find(|status| !statuses.contains(status)) {
            let (from, to) = (statuses.start(), statuses.end());
            return Err((
                "checks.status",
                format!("{status} is not a status; write {from} to {to}"),
            ));
        }
        if let Some(Err(error)) = self.body_matches.as_deref().map(regex::bytes::Regex::new) {
            // The last line of the error states the problem; the lines before it mark the place.
            let text = error.to_string();
            let why = text.lines().last().unwrap_or_default().trim_start_matches("error: ");
            return Err(("checks.body_matches", format!("invalid regular expression: {why}")));
        }
        match &self.body_json {
            Some((pointer, _)) if !pointer.is_empty() && !pointer.starts_with('/') => {
                let why = format!(
                    "`{pointer}` is not a JSON pointer; write /{}",
                    pointer.replace('.', "/")
                );
                Err(("checks.body_json", why))
            }
            _ => Ok(()),
        }
    }
}

impl TlsOptions {
    fn validate(&self, is_tls: bool) -> Found {
        if self.cert.is_some() != self.key.is_some() {
            return Err(("tls", "cert and key belong together; write both".into()));
        }
        if !is_tls && *self != TlsOptions::default() {
            return Err((
                "tls",
                "is given, but the target's scheme has no TLS; write https://, wss:// \
                         or grpcs://"
                    .into(),
            ));
        }
        Ok(())
    }
}

/// Whether the text is an HTTP token (RFC 9110, section 5.6.2).
fn is_token(text: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.bytes().all(is_part)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::{GrpcCall, Occupancy};
    use super::*;
    use crate::pace::Pace;

    fn check(target: &str, change: impl FnOnce(&mut Case), expected: &str) {
        let mut case = Case::new(target);
        change(&mut case);
        let error = case.validate().expect_err(expected).to_string();
        assert!(error.starts_with(expected), "{error}\nis not\n{expected}");
        assert!(!error.contains('\n'), "{error}");
    }

    #[test]
    fn defaults_are_a_case() {
        for target in ["http://h/", "https://h", "ws://h/", "h:80", "tcp://h:1"] {
            Case::new(target).validate().expect(target);
        }
    }

    #[test]
    fn a_load_that_leads_nowhere_is_named() {
        let http = "http://h/";
        check("ftp://h", |_| (), "target `ftp://h`: scheme `ftp`");
        check(http, |case| case.load.connections = 0, "load.connections: is 0");
        check(http, |case| case.load.connections = 2_000_000, "load.connections: is 2000000");
        check(http, |case| case.load.streams = 0, "load.streams: is 0");
        check(http, |case| case.load.streams = 2, "load.streams: is 2, but this protocol");
        check(http, |case| case.load.workers = Some(0), "load.workers: is 0");
        check(http, |case| case.load.requests = Some(0), "load.requests: is 0");
        check(http, |case| case.load.duration = Some(Duration::ZERO), "load.duration: is 0");
        check(http, |case| case.load.timeout = Duration::ZERO, "load.timeout: is 0");
        check(http, |case| case.load.lanes = Occupancy::First(0), "load.lanes: is 0");
        check(http, |case| case.load.pace = Pace::Rate(0.0), "load.pace: rate is 0");
    }

    #[test]
    fn parts_of_another_protocol_are_named() {
        let call = |call: &str| Some(GrpcCall { call: call.into(), ..GrpcCall::default() });
        check("grpc://h", |_| (), "grpc: is missing");
        check("grpc://h", |case| case.grpc = call("Method"), "grpc.call: `Method` is not a method");
        check("ws://h", |case| case.grpc = call("a.B.C"), "grpc: is given");
        check("ws://h", |case| case.http.method = "PUT".into(), "http: is given");
        check("http://h", |case| case.message = "x".into(), "message: is for ws://");
        check("http://h", |case| case.tls.insecure = true, "tls: is given, but");
        check("https://h", |case| case.tls.cert = Some("c.pem".into()), "tls: cert and key");
    }

    #[test]
    fn requests_and_checks_that_cannot_be_are_named() {
        let http = "http://h/";
        let header = |name: &str, value: &str| vec![(name.to_owned(), value.to_owned())];
        check(http, |case| case.http.method = "G T".into(), "http.method: `G T`");
        check(http, |case| case.http.headers = header("a b", "c"), "http.headers: `a b`");
        check(
            http,
            |case| case.http.headers = header("a", "b\r\nc: d"),
            "http.headers: the value of a",
        );
        check(http, |case| case.checks.status = vec![20], "checks.status: 20");
        check(
            http,
            |case| case.checks.body_matches = Some("(".into()),
            "checks.body_matches: invalid regular expression",
        );
        let json = Some(("a.b".to_owned(), serde_json::Value::Null));
        check(
            http,
            |case| case.checks.body_json = json,
            "checks.body_json: `a.b` is not a JSON pointer; write /a/b",
        );
    }
}
