//! Values that a bootstrap key may take and that std has no type for.

use std::fmt;
use std::path::PathBuf;

use ipnet::IpNet;

/// Serving threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Workers {
    /// One a core that the process may use, pinned.
    Auto,
    /// So many.
    Count(u16),
}

/// Handling of paths that servers read in several ways, where a plugin judges the path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AmbiguousPaths {
    /// Answered by 400.
    Refuse,
    /// Passed on as sent.
    Allow,
}

/// How routes are matched; the names are APISIX's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RouterMode {
    /// Host first, then path.
    HostUri,
    /// Path only; the host is one more condition.
    Uri,
    /// As `Uri`, with `:name` parameters.
    UriWithParameter,
}

/// Meaning of a client's FIN while its answer is pending.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientHalfClose {
    /// The client has left: its request is given up.
    Abort,
    /// The client has said everything and still reads: its answer is sent.
    Wait,
}

/// What a line of the access log looks like.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AccessLogFormat {
    /// There is none.
    Off,
    /// The web's common format with referer and user agent.
    Combined,
    /// One object a line.
    Json,
    /// A text with `$variables`.
    Template(String),
}

/// Where lines of the access log go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AccessLogTarget {
    /// The standard output.
    StandardOutput,
    /// A file, opened anew on SIGHUP.
    File(PathBuf),
}

/// How it is proved to a certificate authority that a name is ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AcmeChallenge {
    /// By a plain request to port 80.
    Http01,
    /// By a handshake on port 443.
    TlsAlpn01,
}

/// Who may speak for a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Peer {
    /// Peers of a network.
    Network(IpNet),
    /// Peers over a Unix socket.
    UnixSocket,
}

/// A text that no message may show.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a secret.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The secret itself, for the one place that compares or sends it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("***")
    }
}
