//! The control side of a running gateway: the watched file, signals, introspection, hand-over.
//!
//! One runtime on the main thread; nothing here is on the path of a request.

pub mod banner;
pub mod echo;
pub mod handover;
pub mod resources;
pub mod server;
pub mod signals;
pub mod watch;
