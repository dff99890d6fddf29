//! What several plugins have in common; no plugin lives here.

pub(crate) mod credentials;
