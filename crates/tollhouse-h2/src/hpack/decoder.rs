//! The receiving side: header blocks to fields (RFC 7541 §3, §6).

use super::dynamic_table::DynamicTable;
use super::{HpackError, TABLE_BYTES_DEFAULT, TABLE_BYTES_MAX, huffman, integer, static_table};
use crate::field::{Field, FieldKind, classify};

/// Updates of the table size that one block may begin with: the least in between, and the last
/// (RFC 7541 §4.2).
const SIZE_UPDATES_MAX: u32 = 2;

/// Bytes of scratch that are kept from block to block; longer strings come rarely.
const SCRATCH_BYTES_KEPT: usize = 4096;

/// Turns header blocks into fields; one a connection.
pub struct Decoder {
    table: DynamicTable,
    /// Largest table that the peer may ask for.
    limit: u32,
    /// Whether the next block must begin with a size update, since the limit was lowered.
    must_shrink: bool,
    scratch: Scratch,
}

/// Room for a name and a value that do not stand in the block as they are.
#[derive(Default)]
struct Scratch {
    name: Vec<u8>,
    value: Vec<u8>,
}

impl Default for Decoder {
    fn default() -> Self {
        Self {
            table: DynamicTable::new(TABLE_BYTES_DEFAULT),
            limit: TABLE_BYTES_DEFAULT,
            must_shrink: false,
            scratch: Scratch::default(),
        }
    }
}

/// A part of a literal, and how many bytes of the block it took.
struct Text<'a> {
    bytes: &'a [u8],
    taken: usize,
}

impl Decoder {
    /// Sets the largest table, as soon as the peer has acknowledged it.
    pub fn set_limit(&mut self, bytes: u32) {
        self.limit = bytes.min(TABLE_BYTES_MAX);
        self.must_shrink = self.table.size_max() > self.limit as usize;
    }

    /// Bytes of memory that it holds.
    pub fn memory_bytes(&self) -> usize {
        self.table.memory_bytes() + self.scratch.name.capacity() + self.scratch.value.capacity()
    }

    /// Hands every field of a whole block to `visit`, malformed ones too. The work is bounded by the
    /// block's bytes; what the fields add up to is for the visitor to count.
    ///
    /// # Errors
    /// The tables no longer agree: the connection must end.
    pub fn decode(
        &mut self,
        block: &[u8],
        visit: &mut impl FnMut(Field<'_>),
    ) -> Result<(), HpackError> {
        let mut rest = self.read_size_updates(block)?;
        while let Some(&first) = rest.first() {
            let taken = if first & 0x80 != 0 {
                self.read_indexed(rest, visit)?
            } else if first & 0x40 != 0 {
                self.read_literal(rest, 6, visit)?
            } else if first & 0x20 != 0 {
                // A size update behind a field.
                return Err(HpackError::BadTableSize);
            } else {
                self.read_literal(rest, 4, visit)?
            };
            rest = &rest[taken..];
        }
        self.scratch.trim();
        Ok(())
    }

    fn read_size_updates<'b>(&mut self, block: &'b [u8]) -> Result<&'b [u8], HpackError> {
        let mut rest = block;
        let mut count = 0;
        while rest.first().is_some_and(|first| first & 0xe0 == 0x20) {
            let (size, taken) = integer::decode(rest, 5)?;
            count += 1;
            if size > self.limit || count > SIZE_UPDATES_MAX {
                return Err(HpackError::BadTableSize);
            }
            self.table.set_size_max(size);
            self.must_shrink = false;
            rest = &rest[taken..];
        }
        if self.must_shrink { Err(HpackError::BadTableSize) } else { Ok(rest) }
    }

    #[inline]
    fn read_indexed(
        &self,
        bytes: &[u8],
        visit: &mut impl FnMut(Field<'_>),
    ) -> Result<usize, HpackError> {
        let (index, taken) = integer::decode(bytes, 7)?;
        let (name, value, kind) = self.entry(index)?;
        visit(Field { name, value, kind, is_sensitive: false });
        Ok(taken)
    }

    #[inline]
    fn entry(&self, index: u32) -> Result<(&[u8], &[u8], FieldKind), HpackError> {
        let position = index.checked_sub(1).ok_or(HpackError::BadIndex)?;
        if let Some(entry) = static_table::ENTRIES.get(position as usize) {
            return Ok((entry.name, entry.value, entry.kind));
        }
        let entry = self.table.get(position - static_table::LENGTH as u32);
        entry.map(|entry| (entry.name, entry.value, entry.kind)).ok_or(HpackError::BadIndex)
    }

    /// A literal whose index of the name has a prefix of `prefix_bits`: six where it is to be
    /// remembered, four where not (RFC 7541 §6.2).
    fn read_literal(
        &mut self,
        bytes: &[u8],
        prefix_bits: u32,
        visit: &mut impl FnMut(Field<'_>),
    ) -> Result<usize, HpackError> {
        let mut scratch = std::mem::take(&mut self.scratch);
        let outcome = self.read_literal_into(&mut scratch, bytes, prefix_bits, visit);
        self.scratch = scratch;
        outcome
    }

    fn read_literal_into(
        &mut self,
        scratch: &mut Scratch,
        bytes: &[u8],
        prefix_bits: u32,
        visit: &mut impl FnMut(Field<'_>),
    ) -> Result<usize, HpackError> {
        let is_remembered = prefix_bits == 6;
        let (index, mut taken) = integer::decode(bytes, prefix_bits)?;
        let name: &[u8] = if index == 0 {
            let text = read_text(&bytes[taken..], &mut scratch.name)?;
            taken += text.taken;
            text.bytes
        } else if let Some(entry) = static_table::ENTRIES.get(index as usize - 1) {
            entry.name
        } else {
            // The entry may be the one that this field pushes out: its name is copied first.
            let (name, ..) = self.entry(index)?;
            scratch.name.clear();
            scratch.name.extend_from_slice(name);
            &scratch.name
        };
        let text = read_text(&bytes[taken..], &mut scratch.value)?;
        taken += text.taken;
        let kind = classify(name, text.bytes);
        let is_sensitive = !is_remembered && bytes[0] & 0x10 != 0;
        visit(Field { name, value: text.bytes, kind, is_sensitive });
        if is_remembered {
            self.table.insert(name, text.bytes, kind);
        }
        Ok(taken)
    }
}

/// Reads a string (RFC 7541 §5.2): in place, or decoded into `scratch`.
#[inline]
fn read_text<'a>(bytes: &'a [u8], scratch: &'a mut Vec<u8>) -> Result<Text<'a>, HpackError> {
    let first = *bytes.first().ok_or(HpackError::Truncated)?;
    let (length, start) = integer::decode(bytes, 7)?;
    let taken = start + length as usize;
    let text = bytes.get(start..taken).ok_or(HpackError::Truncated)?;
    if first & 0x80 == 0 {
        return Ok(Text { bytes: text, taken });
    }
    let room = huffman::decoded_bytes_max(text.len());
    if scratch.len() < room {
        scratch.resize(room, 0);
    }
    let decoded = huffman::decode(text, scratch)?;
    Ok(Text { bytes: &scratch[..decoded], taken })
}

impl Scratch {
    /// Gives back what an unusually long string took.
    fn trim(&mut self) {
        for text in [&mut self.name, &mut self.value] {
            if text.capacity() > SCRATCH_BYTES_KEPT {
                *text = Vec::new();
            }
        }
    }
}
