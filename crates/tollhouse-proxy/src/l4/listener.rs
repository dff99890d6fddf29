//! What a core listens on for stream routes, and what the operator has said of it.

use std::net::{TcpListener, UdpSocket};

use tollhouse_net::proxy_protocol::Version;

/// One listening socket of a core.
#[derive(Debug)]
pub struct StreamListener {
    /// The socket, non-blocking.
    pub socket: StreamSocket,
    /// How it is served.
    pub options: StreamOptions,
}

/// A socket by what comes over it.
#[derive(Debug)]
pub enum StreamSocket {
    /// Connections.
    Tcp(TcpListener),
    /// Datagrams.
    Udp(UdpSocket),
}

/// How a listener is served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamOptions {
    /// What is done about TLS.
    pub tls: StreamTls,
    /// Whether connections must begin with a PROXY header.
    pub header_in: HeaderIn,
    /// Whether nodes get one.
    pub header_out: HeaderOut,
}

/// What a listener does about TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamTls {
    /// Nothing: bytes are bytes.
    Off,
    /// The name in the client's hello chooses the route; the bytes pass as they are.
    PassThrough,
    /// It ends here, with the certificate of the name; nodes get what was inside.
    Terminated,
}

/// Whether connections begin with a PROXY header. Configured, never guessed from the bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeaderIn {
    /// They do not.
    Absent,
    /// They must.
    Required,
}

/// Whether nodes get a PROXY header, and which.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeaderOut {
    /// None.
    Absent,
    /// A line of text.
    V1,
    /// The binary form.
    V2,
}

impl HeaderOut {
    /// The form for a connection.
    pub(super) fn for_stream(self) -> Option<Version> {
        match self {
            Self::Absent => None,
            Self::V1 => Some(Version::V1),
            Self::V2 => Some(Version::V2),
        }
    }

    /// The form for datagrams, which have the binary one only.
    pub(super) fn for_datagrams(self) -> Option<Version> {
        match self {
            Self::Absent => None,
            Self::V1 | Self::V2 => Some(Version::V2Datagram),
        }
    }
}
