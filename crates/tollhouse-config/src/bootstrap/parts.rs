//! Types of bootstrap values for which std has none.

use std::fmt;
use std::path::PathBuf;

use ipnet::IpNet;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Workers {
    /// A pinned thread per core available to the process.
    Auto,
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

/// Order in which routes are matched by host and path; the names are those of APISIX.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RouterMode {
    /// Routes are matched by host first, then by path.
    HostUri,
    /// Routes are matched by path; the host is a further condition.
    Uri,
    /// Routes are matched as by `Uri`, with `:name` parameters in paths.
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

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AccessLogFormat {
    Off,
    /// The common web server format with referer and user agent.
    Combined,
    Json,
    /// A template with `$variables`.
    Template(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AccessLogTarget {
    StandardOutput,
    /// Log file, which is reopened on SIGHUP.
    File(PathBuf),
}

/// Kind of challenge by which a certificate authority verifies control over a host name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AcmeChallenge {
    /// The authority sends a plain HTTP request to port 80.
    Http01,
    /// The authority opens a TLS handshake with port 443.
    TlsAlpn01,
}

/// A peer trusted to report the client's address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Peer {
    /// All peers with an address in this network.
    Network(IpNet),
    /// All peers that connect over a Unix socket.
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
