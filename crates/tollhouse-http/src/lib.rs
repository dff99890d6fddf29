//! HTTP/1.1 as bytes: request and response heads, body framing, chunked coding.
//!
//! Sans-IO: callers own sockets and buffers and hand in slices; nothing here reads, writes, waits
//! or allocates per message once its vectors have grown. Framing is strict on purpose (RFC 9112
//! §2.2, §5, §6, §7): what two readers could take differently is refused, never guessed.
//!
//! Routes, header policy and error answers are not known here.

#![forbid(unsafe_code)]

pub mod authority;
pub mod chunked;
pub mod element;
pub mod error;
pub mod field;
pub mod framing;
mod grammar;
pub mod grpc_status;
pub mod grpc_timeout;
pub mod limits;
#[cfg(test)]
mod properties;
pub mod request;
pub mod response;
mod scan;
mod span;
pub mod target;
#[cfg(test)]
mod testing;
pub mod trailers;
pub mod writer;

pub use chunked::ChunkedDecoder;
pub use error::{ChunkError, HeadError};
pub use field::{Field, Fields, Known};
pub use framing::BodyLength;
pub use limits::HeadLimits;
pub use request::{Expectation, RequestHead, Version};
pub use response::ResponseHead;
pub use span::Span;
pub use writer::{Framing, HeadWriter};
