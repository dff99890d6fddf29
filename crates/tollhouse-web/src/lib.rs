//! HTTP/1.1 of the control side, over hyper: one server for its listeners. Every user gets the same limits
//! on connections, heads and stalled peers.
//!
//! Paths and answers belong to the users. The data plane has a codec of its own, `tollhouse-http`.

#![forbid(unsafe_code)]

mod connection;
mod patience;
mod server;
mod website;

pub use server::{Limits, Listener, Peer, STRANGERS_MAX, Service, serve, until_stopped};
pub use website::host_and_origin;
