//! JSON as it was sent: checked once, then looked into where it stands, without a tree in memory.
//!
//! A tree costs some 70 bytes an element, forty times what `[1,1,…]` costs as text. Here a
//! [`Document`] is the text and an outline of it (`outline.rs`), an eighth of its size at most;
//! a [`Piece`] is a place in it. Paths into documents are in `path.rs`, what is written anew in
//! `rewrite.rs`.

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

/// Deepest nesting of lists and objects.
pub const DEPTH_MAX: usize = 1_000;

#[cfg(test)]
mod tests;
