//! The receiving side: decodes header blocks into fields (RFC 7541 §3, §6).

use super::dynamic_table::DynamicTable;
use super::{HpackError, TABLE_BYTES_DEFAULT, TABLE_BYTES_MAX, huffman, integer, static_table};
use crate::field::{Field, FieldKind, classify};

/// Maximum number of table size updates at the start of a block: the smallest size in between and
/// the final one (RFC 7541 §4.2).
const SIZE_UPDATES_MAX: u32 = 2;

/// Largest scratch buffers kept between blocks; longer strings are rare.
const SCRATCH_BYTES_KEPT: usize = 4096;

/// Decodes header blocks into fields; one per connection.
pub struct Decoder {
    table: DynamicTable,
    /// Largest table the peer may request.
    limit: u32,
    /// Whether the next block must begin with a size update, because the limit was lowered.
    must_shrink: bool,
    scratch: Scratch,
}

/// Buffers for names and values that cannot be read from the block directly.
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

/// Part of a literal, and the number of block bytes it used.
struct Text<'a> {
    bytes: &'a [u8],
    taken: usize,
}

impl Decoder {
    /// Sets the maximum table size; call this when the peer acknowledges the setting.
    pub fn set_limit(&mut self, bytes: u32) {
        self.limit = bytes.min(TABLE_BYTES_MAX);
        self.must_shrink = self.table.size_max() > self.limit as usize;
    }

    /// Returns the heap memory in use, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.table.memory_bytes() + self.scratch.name.capacity() + self.scratch.value.capacity()
    }

    /// Passes every field of a complete block to `visit`, including malformed ones. The work is
    /// bounded by the block's length; the visitor must limit the total size of the fields.
    ///
    /// # Errors
    /// The tables are no longer in sync: the connection must end.
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
                // A size update after a field.
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

    /// Reads a literal whose name index has a prefix of `prefix_bits`: six if the field is added to
    /// the table, otherwise four (RFC 7541 §6.2).
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
            // Inserting this field may evict the entry, so its name is copied first.
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

/// Reads a string (RFC 7541 §5.2), in place or decoded into `scratch`.
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
    /// Frees buffers that an unusually long string enlarged.
    fn trim(&mut self) {
        for text in [&mut self.name, &mut self.value] {
            if text.capacity() > SCRATCH_BYTES_KEPT {
                *text = Vec::new();
            }
        }
    }
}
