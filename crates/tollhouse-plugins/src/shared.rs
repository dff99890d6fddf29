//! Code that several plugins share, by purpose. No plugin lives here.

pub(crate) mod auth;
pub(crate) mod confs;
pub(crate) mod dial;
pub(crate) mod grpc;
pub(crate) mod limits;
pub(crate) mod messages;

#[cfg(test)]
pub(crate) mod test_server;
