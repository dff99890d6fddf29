//! Answers: how their heads are written and their bodies framed, what becomes of the client's
//! connection, and those that the gateway gives itself. Each of these is decided in one file.

pub(crate) mod call;
pub(crate) mod delivery;
pub(crate) mod error;
pub(crate) mod head;
pub(crate) mod keep_alive;
pub(crate) mod own;
mod page;
pub(crate) mod server_options;
