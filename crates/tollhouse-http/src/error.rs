//! Reasons for refusing a message. The caller maps them to a status.

use std::fmt;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeadError {
    /// The request or status line does not follow the grammar.
    BadLine,
    /// A header line violates the grammar, is folded (RFC 9112 §5.2), or repeats a field that may
    /// occur only once.
    BadHeader,
    /// A line ends in LF without CR (RFC 9112 §2.2).
    BareLineFeed,
    /// `Content-Length` or `Transfer-Encoding` is ambiguous or malformed (RFC 9112 §6).
    BadFraming,
    /// `Host` is missing, repeated or malformed (RFC 9112 §3.2).
    BadHost,
    /// The target's form does not fit the method or is malformed.
    BadTarget,
    /// The request line is longer than the limit.
    LineTooLong,
    /// The head is longer than the limit.
    HeadTooLong,
    /// The head has more header lines than the limit.
    TooManyHeaders,
    /// The method is `TRACE`, which would reveal to clients what the gateway sends to nodes.
    MethodNotAllowed,
    /// The method is `CONNECT`, which a reverse proxy does not support.
    MethodNotImplemented,
    /// The message uses a transfer coding other than `chunked`.
    CodingNotImplemented,
    /// The HTTP version is neither 1.0 nor 1.1.
    VersionNotSupported,
    /// `Expect` asks for something other than `100-continue`.
    ExpectationFailed,
}

impl fmt::Display for HeadError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::BadLine => "malformed first line",
            Self::BadHeader => "malformed header line",
            Self::BareLineFeed => "line ends in a bare line feed",
            Self::BadFraming => "ambiguous or malformed body framing",
            Self::BadHost => "missing, repeated or malformed host",
            Self::BadTarget => "malformed request target",
            Self::LineTooLong => "request line too long",
            Self::HeadTooLong => "head too long",
            Self::TooManyHeaders => "too many header lines",
            Self::MethodNotAllowed => "method not allowed",
            Self::MethodNotImplemented => "method not implemented",
            Self::CodingNotImplemented => "transfer coding not implemented",
            Self::VersionNotSupported => "http version not supported",
            Self::ExpectationFailed => "expectation cannot be met",
        })
    }
}

impl std::error::Error for HeadError {}

/// Why a chunked body was refused (RFC 9112 §7.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChunkError {
    /// The line that opens a chunk is malformed or too long.
    BadSize,
    /// The bytes after a chunk's data are not CRLF.
    BadEnd,
    /// A trailer line is malformed, or the section too long.
    BadTrailer,
}

impl fmt::Display for ChunkError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::BadSize => "malformed chunk size",
            Self::BadEnd => "chunk data not followed by a line end",
            Self::BadTrailer => "malformed trailer section",
        })
    }
}

impl std::error::Error for ChunkError {}
