//! Code that several plugins share, by purpose. No plugin lives here.

pub(crate) mod auth;
pub(crate) mod confs;
pub(crate) mod dial;
pub(crate) mod grpc;
pub(crate) mod http_client;
pub(crate) mod kafka;
pub(crate) mod limits;
pub(crate) mod logging;
pub(crate) mod messages;
pub(crate) mod oidc;
pub(crate) mod redis;

#[cfg(test)]
pub(crate) mod test_server;
