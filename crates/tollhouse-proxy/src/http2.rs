//! HTTP/2 on both sides: many exchanges over one connection.
//!
//! Streams are presented to the other modules as HTTP/1.1 bytes. Reading from a
//! [`stream::Http2Stream`] yields the peer's message as an HTTP/1.1 head and body; bytes written to
//! it in that form become frames. Pipeline, plugins, bodies and tunnels do not know about frames,
//! and the strict HTTP/1.1 parser checks every request again.
//!
//! - `head` formats decoded fields as a head; `inbound` holds what a stream has received,
//!   `outbound` parses what is written to it, and `request_head` opens a stream to a node;
//! - `session` is the state that the streams of a connection share, beside the codec;
//! - `cancellations` counts cancelled requests by client address;
//! - `connection` is the task of a connection, `server` that of clients and `nodes` that of nodes,
//!   and `liveness` detects peers that are gone;
//! - `websocket` opens a WebSocket to a node that speaks HTTP/1.1.

pub(crate) mod cancellations;
mod connection;
mod head;
mod inbound;
mod limits;
mod liveness;
pub(crate) mod nodes;
mod outbound;
#[cfg(test)]
mod quiet_calls;
mod request_head;
pub(crate) mod server;
mod session;
pub(crate) mod stream;

mod websocket;
