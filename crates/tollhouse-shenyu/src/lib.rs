//! ShenYu's dialect: the objects that its admin and gateways exchange, their keys in a store, and
//! the choice of the objects that apply to a request ([`matching`]). Performs no IO and needs no
//! runtime.
//!
//! An object is stored as its original text ([`Document`]); [`model`] is the typed view of the
//! object. Members that this build does not know stay in the text, byte for byte.

#![forbid(unsafe_code)]

pub mod access;
pub mod answer;
pub mod breaker;
pub mod cache;
pub mod casdoor;
pub mod cryptor;
mod digest;
pub mod divide;
mod document;
pub mod expression;
pub mod filters;
pub mod forms;
pub mod handle;
mod json_path;
pub mod jwt;
mod key;
mod lenient;
pub mod limiter;
pub mod logging;
pub mod matching;
pub mod mock;
pub mod model;
pub mod oauth2;
pub mod paths;
pub mod pattern;
pub mod record_store;
pub mod rpc;
pub mod rules;
pub mod sealing;
pub mod shaping;
pub mod sign;
pub mod weight;

pub use document::{Document, DocumentError, Fields};
pub use key::{KEY_PREFIX, Kind, key, parse_key};
