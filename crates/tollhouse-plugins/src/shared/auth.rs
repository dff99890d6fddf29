//! What plugins that find out who asks have in common: reading credentials, keeping them secret, and
//! what becomes of requests without good ones.

pub(crate) mod base64;
pub(crate) mod credentials;
pub(crate) mod gate;
pub(crate) mod grant;
pub(crate) mod jwt;
pub(crate) mod scheme;
pub(crate) mod secret;
