//! Header compression (RFC 7541): integers, Huffman code, tables, an encoder and a decoder.
//!
//! Neither coder allocates once its buffers have grown, and neither knows about messages.

mod decoder;
mod dynamic_table;
mod encoder;
mod huffman;
mod integer;
mod static_table;
#[cfg(test)]
mod tests;

use std::fmt;

pub use decoder::Decoder;
pub use encoder::{Encoder, HuffmanUse};

/// Size in bytes of a table entry beyond its name and value (RFC 7541 §4.1); field lists are
/// counted in the same way (RFC 9113 §6.5.2).
pub const FIELD_OVERHEAD_BYTES: usize = 32;

/// Default size of a dynamic table in bytes (RFC 9113 §6.5.2).
pub const TABLE_BYTES_DEFAULT: u32 = 4096;

/// Maximum size of either dynamic table in bytes, so that lengths of names and values in it fit
/// into 16 bits. Larger settings are treated as this value.
pub const TABLE_BYTES_MAX: u32 = 65_535;

/// An error in a header block. Every error ends the connection, because the two sides' tables are
/// no longer in sync (RFC 9113 §4.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HpackError {
    /// The block ends within a field.
    Truncated,
    /// An integer that is too long or too large.
    IntegerOverflow,
    /// An index of 0, or one beyond both tables.
    BadIndex,
    /// An invalid Huffman code, or incorrect padding.
    Huffman,
    /// A table size that is above the limit, in the wrong place, or missing.
    BadTableSize,
}

impl HpackError {
    /// The reason as a sentence fragment.
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Truncated => "a header block ends within a field",
            Self::IntegerOverflow => "an integer in a header block is too large",
            Self::BadIndex => "an index in a header block is invalid",
            Self::Huffman => "a string in a header block has an invalid Huffman code",
            Self::BadTableSize => "a table size in a header block is invalid or misplaced",
        }
    }
}

impl fmt::Display for HpackError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.reason())
    }
}

impl std::error::Error for HpackError {}
