//! Header compression (RFC 7541): integers, Huffman code, tables, and a coder for each direction.
//!
//! Neither coder allocates once its buffers have grown, and neither knows what a message is.

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

/// Bytes that an entry counts beside its name and value (RFC 7541 §4.1); the size of a list of fields
/// is counted alike (RFC 9113 §6.5.2).
pub const FIELD_OVERHEAD_BYTES: usize = 32;

/// Bytes of a dynamic table until a setting says otherwise (RFC 9113 §6.5.2).
pub const TABLE_BYTES_DEFAULT: u32 = 4096;

/// Largest dynamic table of either direction, in bytes: lengths of names and values within it stay
/// within 16 bits. Settings beyond it count as this one.
pub const TABLE_BYTES_MAX: u32 = 65_535;

/// What is wrong with a header block; each ends the connection, since the tables of both sides no
/// longer agree (RFC 9113 §4.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HpackError {
    /// The block ends inside of a field.
    Truncated,
    /// An integer that is too long or too large.
    IntegerOverflow,
    /// An index of 0, or beyond both tables.
    BadIndex,
    /// Bits that are no Huffman code, or a wrong padding.
    Huffman,
    /// A table size beyond the limit, in the wrong place, or missing.
    BadTableSize,
}

impl HpackError {
    /// A fragment that says it.
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Truncated => "a header block ends inside of a field",
            Self::IntegerOverflow => "an integer in a header block is too large",
            Self::BadIndex => "an index in a header block leads nowhere",
            Self::Huffman => "a string in a header block is no Huffman code",
            Self::BadTableSize => "a table size in a header block is too large or out of place",
        }
    }
}

impl fmt::Display for HpackError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.reason())
    }
}

impl std::error::Error for HpackError {}
