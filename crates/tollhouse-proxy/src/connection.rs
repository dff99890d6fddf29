//! A client's connection: its bytes and buffers, its deadline, and its requests one after another.

pub(crate) mod after;
pub(crate) mod buffer;
pub(crate) mod carrier;
pub(crate) mod client;
pub(crate) mod departure;
pub(crate) mod handshake;
pub(crate) mod link;
pub(crate) mod serve;
pub(crate) mod silence;
