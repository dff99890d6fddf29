//! HTTP/2 as bytes: frames, header compression, streams, flow control (RFC 9113, 7541, 8441, 9218).
//!
//! Sans-IO, as `tollhouse-http` is: callers own sockets and clocks. Routes, gRPC and runtimes are not
//! known here.

#![forbid(unsafe_code)]

pub mod error;
pub mod field;
pub mod frame;
pub mod hpack;
pub mod settings;

pub use error::{ConnectionError, ErrorCode};
pub use field::{Field, FieldKind, Malformed};
pub use settings::Settings;

/// Which side of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Opens streams with odd numbers.
    Client,
    /// Answers them.
    Server,
}
