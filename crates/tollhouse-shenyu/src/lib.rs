//! ShenYu's dialect: the objects that its admin and gateways exchange, their keys in a store, and
//! the choice of the objects that apply to a request ([`matching`]). Performs no IO and needs no
//! runtime.
//!
//! An object is stored as its original text ([`Document`]); [`model`] is the typed view of it.
//! Members that this build does not know stay in the text, byte for byte. Plugins and the handles of
//! their rules are in `tollhouse-shenyu-gateway`, one file each.

#![forbid(unsafe_code)]

pub mod answer;
mod document;
pub mod expression;
pub mod filters;
mod key;
pub mod lenient;
pub mod matching;
pub mod model;
pub mod pattern;
pub mod sealing;
pub mod weight;

pub use document::{Document, DocumentError, Fields};
pub use key::{KEY_PREFIX, Kind, key, parse_key};
