//! Types of bootstrap values for which std has none.

use std::fmt;
use std::path::PathBuf;

use ipnet::IpNet;

/// Number of worker threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Workers {
    /// A pinned thread per core available to the process.
    Auto,
    /// A fixed number.
    Count(u16),
}

/// Handling of ambiguous paths, which servers interpret differently, where a plugin depends on the
/// path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AmbiguousPaths {
    /// The request is answered with 400.
    Refuse,
    /// The path is passed on as sent.
    Allow,
}

/// Route matching; the names are those of APISIX.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RouterMode {
    /// Host first, then path.
    HostUri,
    /// Path only; the host is a further condition.
    Uri,
    /// As `Uri`, with `:name` parameters.
    UriWithParameter,
}

/// Meaning of a client's FIN while its response is pending.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientHalfClose {
    /// The client has left, so its request is aborted.
    Abort,
    /// The client has sent everything and still reads, so the response is sent.
    Wait,
}

/// Format of access log lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AccessLogFormat {
    /// No access log.
    Off,
    /// The common web server format with referer and user agent.
    Combined,
    /// A JSON object per line.
    Json,
    /// A template with `$variables`.
    Template(String),
}

/// Destination of access log lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AccessLogTarget {
    StandardOutput,
    /// A file, reopened on SIGHUP.
    File(PathBuf),
}

/// Proof of control over a name towards a certificate authority.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AcmeChallenge {
    /// A plain HTTP request to port 80.
    Http01,
    /// A TLS handshake on port 443.
    TlsAlpn01,
}

/// A peer trusted to report the client's address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Peer {
    /// Peers in a network.
    Network(IpNet),
    /// Peers over a Unix socket.
    UnixSocket,
}

/// A secret text that `Debug` does not reveal.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Returns the secret itself, for comparing or sending it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("***")
    }
}
