//! Sockets: listeners, byte streams with and without TLS on either side, DNS, and the hand-over of
//! listeners to a successor process.
//!
//! Above TCP and TLS, only the PROXY protocol is parsed here, and nothing depends on routes or
//! upstreams.

#![forbid(unsafe_code)]

pub mod client_hello;
pub mod clock;
pub mod connect;
pub mod departure;
pub mod failed_logins;
pub mod handover;
pub mod listen;
pub mod listener_tls;
pub mod local_name;
pub mod proxy_protocol;
pub mod resolve;
pub mod server_tls;
pub mod slots;
pub mod stream;
pub mod tls;
mod trust;
pub mod unix;

pub use departure::{Departure, HalfClose};
pub use listen::{DatagramSockets, ListenError, Listeners};
pub use stream::Stream;
