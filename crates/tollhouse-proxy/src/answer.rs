//! Responses: their heads, the framing of their bodies, whether the client's connection is kept,
//! and the responses that the gateway generates itself. Each of these is decided in one file.

pub(crate) mod call;
pub(crate) mod delivery;
pub(crate) mod error;
pub(crate) mod head;
pub(crate) mod keep_alive;
pub(crate) mod own;
mod page;
pub(crate) mod server_options;
mod trace_line;
