//! Connections below HTTP, and datagrams: taken on `listen.stream`, sent where a stream route says.
//!
//! `tcp.rs` is the life of a connection, `udp.rs` that of a session of datagrams. What both are to
//! plugins, variables and the log is `connection.rs`. Nothing here knows requests; plugins, upstreams,
//! balancing and health are those of HTTP.

mod connection;
mod finish;
pub mod listener;
mod node;
pub mod open_ports;
pub(crate) mod pipes;
mod plugins;
pub(crate) mod ports;
mod preamble;
pub(crate) mod proxy_header;
mod relay;
pub mod table;
pub(crate) mod tcp;
pub(crate) mod udp;
mod variables;

pub use pipes::PIPES_MAX;

pub use listener::{HeaderIn, HeaderOut, StreamListener, StreamOptions, StreamSocket, StreamTls};
