//! All messages of the protocol as Rust types, generated from `proto/` by `tests/it/generated.rs`.
//!
//! For rare messages; [`crate::wire`] handles the frequent ones.

#![expect(clippy::doc_markdown, reason = "the comments are those of the schema")]

include!("../generated/v1.rs");
