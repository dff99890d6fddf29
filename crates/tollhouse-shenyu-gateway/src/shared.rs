//! Parts that several plugins use.

pub(crate) mod breaker;
pub(crate) mod breaker_gate;
pub(crate) mod cryptor;
pub(crate) mod digest;
pub(crate) mod edits;
pub(crate) mod fallback;
pub(crate) mod form;
pub(crate) mod forward;
mod json_path;
pub(crate) mod nodes;
pub(crate) mod percentage;
pub(crate) mod record;
pub(crate) mod record_rule;
pub(crate) mod record_store;
pub(crate) mod recorder;
pub(crate) mod rpc;
pub(crate) mod secret;
pub(crate) mod token;
