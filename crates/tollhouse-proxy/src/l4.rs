//! TCP connections and UDP datagrams: accepted on `listen.stream` and sent to nodes by stream
//! routes.
//!
//! `tcp.rs` serves a connection, `udp.rs` a session of datagrams. `connection.rs` presents both to
//! plugins, variables and the log. Nothing here knows HTTP requests; plugins, upstreams, balancing
//! and health checks are shared with HTTP.

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
