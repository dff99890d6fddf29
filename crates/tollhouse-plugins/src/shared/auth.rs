//! Shared code of authentication plugins: parsing credentials, hiding them, and treating requests
//! without valid ones.

pub(crate) mod base64;
pub(crate) mod credentials;
pub(crate) mod gate;
pub(crate) mod grant;
pub(crate) mod htpasswd;
pub(crate) mod jwt;
pub(crate) mod scheme;
pub(crate) mod secret;
