//! JSON as it was sent: checked once, then accessed in place, without a tree in memory.
//!
//! A tree takes some 70 bytes per element, forty times as much as `[1,1,…]` takes as text. A
//! [`Document`] consists of the text and its outline (`outline.rs`), which has at most an eighth of
//! the text's size. A [`Piece`] is one value in the document. Paths into documents are in
//! `path.rs`; compact output is in `rewrite.rs`.

pub(crate) mod equal;
mod outline;
mod path;
mod piece;
mod rewrite;
mod scan;

pub use self::outline::{Document, Malformed};
pub use self::path::{Path, PathError};
pub use self::piece::{Kind, Piece};
pub use self::rewrite::{Additions, write_compact};

pub const DEPTH_MAX: usize = 1_000;

#[cfg(test)]
mod tests;
