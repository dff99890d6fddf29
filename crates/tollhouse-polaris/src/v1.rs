//! Every message of the protocol as a Rust type, generated from `proto/`; `tests/it/generated.rs` writes it anew.
//!
//! Used where a message is rare; [`crate::wire`] has the frequent ones.

#![expect(clippy::doc_markdown, reason = "the comments are those of the schema")]

include!("../generated/v1.rs");
