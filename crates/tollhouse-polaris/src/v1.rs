//! Every message of the protocol as a Rust type, generated from `proto/`.
//!
//! Used where a message is rare; [`crate::wire`] has the frequent ones.

#![expect(missing_docs, reason = "the generator gives fields and helpers no comments")]
#![expect(clippy::doc_markdown, reason = "the comments are those of the schema")]

include!(concat!(env!("OUT_DIR"), "/v1.rs"));
