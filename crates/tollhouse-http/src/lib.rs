//! HTTP/1.1 as bytes: request and response heads, body framing, chunked coding.
//!
//! Sans-IO: callers own sockets and buffers and pass slices. Nothing here reads, writes or waits,
//! and no message allocates once the vectors have grown. Framing is deliberately strict (RFC 9112
//! §2.2, §5, §6, §7): input that two readers could interpret differently is refused.
//!
//! Routes, header policy and error responses belong to the callers.

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
