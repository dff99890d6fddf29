//! HTTP/2 on both sides: many exchanges over one connection.
//!
//! The seam to the rest carries bytes in the shape of HTTP/1.1. A stream of HTTP/2 is a
//! [`stream::Http2Stream`]: what the peer sends is read from it as a head and a body of HTTP/1.1, and
//! what is written to it so becomes frames. Pipeline, plugins, bodies and tunnels know nothing of
//! frames, and our own strict parser looks at every request once more.
//!
//! - `head` lays out decoded fields as a head; `inbound` is what a stream has received, `outbound`
//!   takes apart what is written to it, and `request_head` opens a stream towards a node;
//! - `session` is a connection as its streams share it: codec, streams, and who is to be woken;
//! - `cancellations` counts what clients take back, by address;
//! - `connection` moves bytes between a session and its socket; `server` is the clients' side, `nodes`
//!   the nodes', and `liveness` says when a silent peer is gone;
//! - `websocket` opens a WebSocket towards a node that speaks HTTP/1.1.

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
