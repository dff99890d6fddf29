//! Listeners of a core for stream routes, with the operator's options.

use std::net::{TcpListener, UdpSocket};

use tollhouse_net::proxy_protocol::Version;

/// A listening socket of a core.
#[derive(Debug)]
pub struct StreamListener {
    /// Listening socket, in non-blocking mode.
    pub socket: StreamSocket,
    pub options: StreamOptions,
}

/// A listening socket by its transport.
#[derive(Debug)]
pub enum StreamSocket {
    Tcp(TcpListener),
    Udp(UdpSocket),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamOptions {
    /// Treatment of TLS: not expected, passed through, or terminated.
    pub tls: StreamTls,
    /// Expectation of a PROXY protocol header at the start of connections.
    pub header_in: HeaderIn,
    /// PROXY protocol header sent to nodes.
    pub header_out: HeaderOut,
}

/// Treatment of TLS on a listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamTls {
    /// Bytes are passed through without looking at TLS.
    Off,
    /// The client's server name (SNI) selects the route; the encrypted bytes are passed through.
    PassThrough,
    /// The gateway terminates TLS with the certificate of the server name; nodes receive the
    /// decrypted bytes.
    Terminated,
}

/// Expectation of a PROXY protocol header on connections. Configured, never guessed from the
/// bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeaderIn {
    Absent,
    /// Connections without a header are refused.
    Required,
}

/// PROXY protocol header sent to nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeaderOut {
    Absent,
    /// Version 1, a line of text.
    V1,
    V2,
}

impl HeaderOut {
    /// Returns the PROXY protocol version for TCP connections.
    pub(super) fn for_stream(self) -> Option<Version> {
        match self {
            Self::Absent => None,
            Self::V1 => Some(Version::V1),
            Self::V2 => Some(Version::V2),
        }
    }

    /// Returns the version for datagrams, which only the binary form supports.
    pub(super) fn for_datagrams(self) -> Option<Version> {
        match self {
            Self::Absent => None,
            Self::V1 | Self::V2 => Some(Version::V2Datagram),
        }
    }
}
