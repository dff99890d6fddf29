//! HTTP/1 encoding of a request.

use crate::case::{Case, HttpVersion, RequestForm};
use crate::target::Target;

/// Constant parts of all requests of a case.
#[derive(Debug, Clone)]
pub(super) struct Wire {
    /// Prefix of the path: empty, or the origin for a proxy.
    origin: String,
    version: &'static str,
    /// Value of the `Connection` header, if the case needs one.
    connection: Option<&'static str>,
}

impl Wire {
    /// Determines the constant parts for a case.
    pub(super) fn new(case: &Case, target: &Target) -> Self {
        let origin = match case.http.form {
            RequestForm::Origin => String::new(),
            RequestForm::Absolute => format!("{}://{}", target.scheme, target.authority),
        };
        let (version, connection) = match (case.http.version, case.load.keep_alive) {
            (HttpVersion::Http11, true) => ("1.1", None),
            (HttpVersion::Http11, false) => ("1.1", Some("close")),
            (HttpVersion::Http10, true) => ("1.0", Some("Keep-Alive")),
            (HttpVersion::Http10, false) => ("1.0", None),
        };
        let says = case.http.headers.iter().any(|(n, _)| n.eq_ignore_ascii_case("connection"));
        Self { origin, version, connection: connection.filter(|_| !says) }
    }

    /// Encodes a request into `out`, replacing its content.
    pub(super) fn encode(
        &self,
        method: &str,
        path: &str,
        headers: &[(String, String)],
        body: &[u8],
        out: &mut Vec<u8>,
    ) {
        out.clear();
        let mut put = |parts: &[&str]| {
            for part in parts {
                out.extend_from_slice(part.as_bytes());
            }
        };
        put(&[method, " ", &self.origin, path, " HTTP/", self.version, "\r\n"]);
        for (name, value) in headers {
            put(&[name, ": ", value, "\r\n"]);
        }
        if let Some(connection) = self.connection {
            put(&["Connection: ", connection, "\r\n"]);
        }
        put(&["\r\n"]);
        out.extend_from_slice(body);
    }
}
