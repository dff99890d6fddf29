//! HTTP/2 as bytes: frames, header compression, streams, flow control (RFC 9113, 7541, 8441, 9218).
//!
//! Sans-IO, as `tollhouse-http` is: callers own sockets, clocks and tasks. A [`Connection`] of either
//! role is fed what was read and gives [`Event`]s; what the caller sends piles up in one output, many
//! frames to a write. Routes, gRPC and runtimes are not known here.
//!
//! # One turn of a connection
//!
//! 1. While [`Connection::wants_input`], read into any buffer, and hand its bytes to
//!    [`Connection::receive`] until it gives `None`. All bytes are taken, so that the buffer may be
//!    shared by connections. Fields of heads go to a [`FieldSink`], DATA points into the buffer.
//! 2. Answer with [`Connection::respond`], [`Connection::send_data`], [`Connection::send_trailers`].
//!    DATA that windows or output had no room for stays with the caller, until
//!    [`Connection::next_ready`] names its stream: ask it after each read and each write.
//! 3. Give DATA that was dealt with back by [`Connection::consume`]: not before the next hop took it,
//!    which is what slows a fast client down to a slow node.
//! 4. [`Connection::release`] each stream once, when its exchange is over in whatever way. Its place
//!    counts as taken until then, whatever the peer did.
//! 5. Write [`Connection::output`], and say how much by [`Connection::written`].
//!
//! About once a second call [`Connection::tick`], while [`Connection::has_deadlines`]; to end without loss [`Connection::drain`]. After an
//! error write what is left of the output, and close. Time is an argument in milliseconds and never
//! read. What a peer can make a connection do or hold is bounded by [`Limits`] and counted by
//! [`Counters`].
//!
//! ```
//! use tollhouse_h2::{Connection, Event, Field, FieldSink, HeadKind, Limits, RequestLine, StreamId};
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
//! let request = client.open(&line, [Field::new(b"accept", b"*/*")], true)?;
//!
//! // What a socket would carry to the server.
//! let bytes = client.output().to_vec();
//! client.written(bytes.len());
//! let (mut input, mut fields) = (&bytes[..], Text::default());
//! while let Some(event) = server.receive(&mut input, 1, &mut fields)? {
//!     if let Event::Request { stream, .. } = event {
//!         assert!(fields.0.ends_with(":path=/\naccept=*/*\n"));
//!         server.respond(stream, 200, [Field::new(b"content-length", b"5")], false)?;
//!         assert_eq!(server.send_data(stream, b"hello", true)?, 5);
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
pub use message::HeadKind;
pub use priority::Priority;
pub use settings::Settings;
pub use stream::StreamId;

/// Which side of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Opens streams with odd numbers.
    Client,
    /// Answers them.
    Server,
}
