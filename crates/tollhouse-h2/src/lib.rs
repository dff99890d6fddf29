//! HTTP/2 as bytes: frames, header compression, streams, flow control (RFC 9113, 7541, 8441, 9218).
//!
//! Sans-IO, like `tollhouse-http`: callers own sockets, clocks and tasks. A [`Connection`] in
//! either role is fed the bytes that were read and returns [`Event`]s; everything the caller sends
//! is collected in one output buffer, so one write can carry many frames. This crate knows nothing
//! about routes or gRPC, and only `driver`, behind the feature `tokio`, knows a runtime: the loop
//! around a connection that all programs share.
//!
//! # One turn of a connection
//!
//! 1. While [`Connection::wants_input`], read into any buffer and pass its bytes to
//!    [`Connection::receive`] until it returns `None`. It consumes every byte, so connections can
//!    share one buffer. Header fields go to a [`FieldSink`]; DATA points into the buffer.
//! 2. Respond with [`Connection::respond`], [`Connection::send_data`] and
//!    [`Connection::send_trailers`]. The caller keeps DATA that did not fit into the windows or the
//!    output until [`Connection::next_ready`] names its stream; call it after each read and each
//!    write.
//! 3. Report processed DATA with [`Connection::consume`], but only once the next hop has taken it:
//!    this is what slows a fast client down to the speed of a slow node.
//! 4. Call [`Connection::release`] once per stream when its exchange is over, however it ended.
//!    Until then the stream counts as open, whatever the peer did.
//! 5. Write [`Connection::output`], and report how much was written with [`Connection::written`].
//!
//! Call [`Connection::tick`] about once a second while [`Connection::has_deadlines`]; call
//! [`Connection::drain`] to end the connection without losing requests. After an error, write the
//! remaining output and close. Times are arguments in milliseconds; the crate never reads a clock.
//! [`Limits`] bounds what a peer can make a connection do or hold, and [`Counters`] counts it.
//!
//! ```
//! use tollhouse_h2::{
//!     Connection, EndStream, Event, Field, FieldSink, HeadKind, Limits, RequestLine, StreamId,
//! };
//! use tollhouse_stdx::MemoryBudget;
//!
//! /// Keeps fields as text.
//! #[derive(Default)]
//! struct Text(String);
//!
//! impl FieldSink for Text {
//!     fn begin(&mut self, _: StreamId, _: HeadKind) {
//!         self.0.clear();
//!     }
//!     fn field(&mut self, field: Field<'_>) {
//!         self.0 += &String::from_utf8_lossy(field.name);
//!         self.0 += "=";
//!         self.0 += &String::from_utf8_lossy(field.value);
//!         self.0 += "\n";
//!     }
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let budget = MemoryBudget::new(64 << 20);
//! let mut client = Connection::client(Limits::default(), &budget, 0);
//! let mut server = Connection::server(Limits::default(), &budget, 0);
//!
//! let line = RequestLine {
//!     method: b"GET",
//!     scheme: b"https",
//!     authority: b"example.com",
//!     path: b"/",
//!     protocol: b"",
//! };
//! let request = client.open(&line, [Field::new(b"accept", b"*/*")], EndStream::Yes)?;
//!
//! // The bytes that a socket would carry to the server.
//! let bytes = client.output().to_vec();
//! client.written(bytes.len());
//! let (mut input, mut fields) = (&bytes[..], Text::default());
//! while let Some(event) = server.receive(&mut input, 1, &mut fields)? {
//!     if let Event::Request { stream, .. } = event {
//!         assert!(fields.0.ends_with(":path=/\naccept=*/*\n"));
//!         let length = Field::new(b"content-length", b"5");
//!         server.respond(stream, 200, [length], EndStream::No)?;
//!         assert_eq!(server.send_data(stream, b"hello", EndStream::Yes)?, 5);
//!         server.release(stream);
//!     }
//! }
//!
//! // And back.
//! let bytes = server.output().to_vec();
//! server.written(bytes.len());
//! let (mut input, mut body) = (&bytes[..], Vec::new());
//! while let Some(event) = client.receive(&mut input, 2, &mut fields)? {
//!     if let Event::Data { stream, data, ends } = event {
//!         body.extend_from_slice(data);
//!         client.consume(stream, data.len());
//!         if ends {
//!             client.release(request);
//!         }
//!     }
//! }
//! assert_eq!(body, b"hello");
//! # Ok(())
//! # }
//! ```

#![warn(missing_docs)]
#![forbid(unsafe_code)]

mod connection;
mod counters;
#[cfg(feature = "tokio")]
pub mod driver;
pub mod error;
mod event;
pub mod field;
pub mod frame;
pub mod hpack;
pub mod limits;
mod message;
mod priority;
pub mod settings;
mod stream;

pub use connection::{Connection, RequestLine, SendError};
pub use counters::Counters;
pub use error::{ConnectionError, ErrorCode};
pub use event::{Event, FieldSink, ResetCause};
pub use field::{Field, FieldKind, Malformed};
pub use limits::{Bucket, FaultScope, Limits, Rate};
pub use message::{EndStream, HeadKind};
pub use priority::Priority;
pub use settings::Settings;
pub use stream::StreamId;

/// Side of the connection that this program is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Client: opens streams with odd numbers.
    Client,
    /// Server: responds to the client's streams.
    Server,
}
