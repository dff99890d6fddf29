//! HTTP/1.1 of the control side, over hyper: one server for its listeners, and one client for the
//! services that it calls. Every user gets the same limits on connections, heads and stalled peers.
//!
//! Paths and answers belong to the users. The data plane has a codec of its own, `tollhouse-http`.

#![forbid(unsafe_code)]

pub mod client;
mod connection;
mod patience;
mod server;
mod warning;
mod website;

pub use client::{Client, ClientError, Server, Session};
pub use server::{
    Limits, Listener, Peer, STRANGERS_MAX, Service, answer_here, serve, until_stopped,
};
pub use warning::{WARNING, WARNINGS_MAX, warning_line, warning_value};
pub use website::host_and_origin;
