//! ShenYu's dialect: its objects as they travel between admin and gateway, the keys under which they lie in
//! a store, and which of them take a request ([`matching`]). Does no IO and knows no runtime.
//!
//! An object is kept as the text in which it came ([`Document`]); [`model`] is the view of it that a reader
//! needs. Members that this build does not know stay in the text, byte for byte.

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
