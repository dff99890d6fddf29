//! The sending side: encodes fields into header blocks (RFC 7541 §6).
//!
//! A field is added to the table when it is sent for the second time: values that differ in every
//! message (an id, a length, a date) would otherwise evict useful entries. Lookups use hash tables
//! with one slot per hash; a collision loses a hit, but never correctness.
//!
//! Entries are only referenced as a whole, never just for their names. Some peers record that they
//! could not read a value, and then treat every field whose name refers to that entry as
//! unreadable; on a shared connection one client could break a name for all others.

use super::dynamic_table::DynamicTable;
use super::{FIELD_OVERHEAD_BYTES, TABLE_BYTES_DEFAULT, huffman, integer, static_table};
use crate::field::{Field, FieldKind};

/// Slots for hashes of whole fields: about twice the number of entries in a 4 KiB table.
const FIELD_PLACES: usize = 128;
/// Slots for fields that were sent once and are not in the table yet.
const SEEN_PLACES: usize = 64;

/// Cookies shorter than this are too easy to guess for someone who can see sizes (RFC 7541 §7.1.3);
/// they are never added to the table.
const SHORT_COOKIE_BYTES: usize = 20;

/// Use of Huffman coding for literals.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HuffmanUse {
    /// Values are never Huffman-encoded. This saves instructions and costs few bytes: a literal is
    /// sent once or twice per connection, since repeated fields are in the table.
    #[default]
    Never,
    /// Values are Huffman-encoded if the result is shorter.
    IfShorter,
}

/// Encodes fields into header blocks; one per connection.
pub struct Encoder {
    table: DynamicTable,
    /// The largest table this side wants, whatever the peer offers.
    own_limit: u32,
    huffman: HuffmanUse,
    /// Sizes to announce at the start of the next block: the smallest since the last block, and the
    /// final one.
    updates: Option<(u32, u32)>,
    lookup: Option<Box<Lookup>>,
    /// Counter that [`Encoder::changes`] returns.
    changes: u64,
}

/// Hash tables, created when the first field is sent.
struct Lookup {
    /// Numbers of table entries, by the hash of name and value.
    fields: [u32; FIELD_PLACES],
    /// Hashes of fields that were sent as literals.
    seen: [u32; SEEN_PLACES],
}

impl Encoder {
    /// Creates an encoder with the 4 KiB table that every peer supports, or a smaller one.
    pub fn new(own_limit: u32, huffman: HuffmanUse) -> Self {
        let mut encoder = Self {
            table: DynamicTable::new(TABLE_BYTES_DEFAULT),
            own_limit: own_limit.min(TABLE_BYTES_DEFAULT),
            huffman,
            updates: None,
            lookup: None,
            changes: 0,
        };
        encoder.set_peer_limit(TABLE_BYTES_DEFAULT);
        encoder
    }

    /// Applies the peer's SETTINGS_HEADER_TABLE_SIZE.
    pub fn set_peer_limit(&mut self, bytes: u32) {
        let size = bytes.min(self.own_limit);
        if size as usize == self.table.size_max() {
            return;
        }
        self.changes += 1;
        let least = self.updates.map_or(size, |(least, _)| least.min(size));
        self.updates = Some((least, size));
        self.table.set_size_max(size);
    }

    /// Returns the heap memory in use, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.table.memory_bytes() + self.lookup.as_ref().map_or(0, |_| size_of::<Lookup>())
    }

    /// Clears the table, because a partly encoded block will not be sent. The next block tells the
    /// peer to clear its table as well (RFC 7541 §4.2).
    pub fn forget(&mut self) {
        let size = self.table.size_max() as u32;
        self.table.set_size_max(0);
        self.table.set_size_max(size);
        self.updates = Some((0, size));
        self.changes += 1;
    }

    /// Returns a counter that increases whenever equal fields may be encoded differently from then
    /// on: a field was added or will be when it is repeated, or a table size changed or was
    /// announced.
    #[inline]
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// Starts a block by writing pending table size updates.
    #[inline]
    pub fn begin(&mut self, out: &mut Vec<u8>) {
        if let Some((least, last)) = self.updates.take() {
            self.changes += 1;
            if least < last {
                integer::encode(out, 5, 0x20, least);
            }
            integer::encode(out, 5, 0x20, last);
        }
    }

    /// Appends a field whose name is in lower case. `check` is called only before a field is sent
    /// as a literal, so fields in the table are not checked again.
    ///
    /// # Errors
    /// The error of `check`; nothing was appended.
    #[inline]
    pub fn field<E>(
        &mut self,
        field: Field<'_>,
        out: &mut Vec<u8>,
        check: impl FnOnce(&[u8], &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let Field { name, value, is_sensitive, .. } = field;
        if name.first() == Some(&b':')
            && let Some(index) = static_table::pseudo_index(name, value)
        {
            integer::encode(out, 7, 0x80, index);
            return Ok(());
        }
        let lookup = self.lookup.get_or_insert_with(Lookup::boxed);
        let name_hash = hash(0, name);
        let field_hash = hash(name_hash, value);
        if !is_sensitive {
            let number = lookup.fields[field_hash as usize % FIELD_PLACES];
            if let Some(age) = self.table.age(number)
                && let Some(entry) = self.table.get(age)
                && entry.name == name
                && entry.value == value
            {
                integer::encode(out, 7, 0x80, age + static_table::LENGTH as u32 + 1);
                return Ok(());
            }
        }
        check(name, value)?;
        self.literal(field, field_hash, out);
        Ok(())
    }

    fn literal(&mut self, field: Field<'_>, field_hash: u32, out: &mut Vec<u8>) {
        let Field { name, value, is_sensitive, .. } = field;
        let Some(lookup) = &mut self.lookup else { return };
        let name_index = static_table::name_index(name);
        let index = name_index.unwrap_or(0);
        let seen = &mut lookup.seen[field_hash as usize % SEEN_PLACES];
        // Never indexed, here or at later hops: in a shared table, the length of a block would
        // reveal whether a guessed value is correct.
        if is_sensitive || is_secret(name, value) {
            integer::encode(out, 4, 0x10, index);
        // Added when sent for the second time: most fields that are sent once never come again, and
        // would evict useful entries. A hash collision only wastes a slot.
        } else if *seen == field_hash && fits(&self.table, name, value) {
            self.changes += 1;
            integer::encode(out, 6, 0x40, index);
            lookup.fields[field_hash as usize % FIELD_PLACES] = self.table.next_number();
            self.table.insert(name, value, FieldKind::Regular);
        } else {
            self.changes += 1;
            *seen = field_hash;
            integer::encode(out, 4, 0x00, index);
        }
        if name_index.is_none() {
            write_text(self.huffman, name, out);
        }
        write_text(self.huffman, value, out);
    }
}

impl Lookup {
    fn boxed() -> Box<Self> {
        // Entry numbers start at 0, so this number refers to no entry.
        let none = u32::MAX;
        Box::new(Self { fields: [none; FIELD_PLACES], seen: [0; SEEN_PLACES] })
    }
}

/// Whether a field takes up at most three quarters of the table; a larger one would evict too much.
fn fits(table: &DynamicTable, name: &[u8], value: &[u8]) -> bool {
    (name.len() + value.len() + FIELD_OVERHEAD_BYTES) * 4 <= table.size_max() * 3
}

/// Whether a field is a credential. Those are never added to a table, even if not marked as
/// sensitive.
fn is_secret(name: &[u8], value: &[u8]) -> bool {
    match name {
        b"authorization" | b"proxy-authorization" => true,
        b"cookie" => value.len() < SHORT_COOKIE_BYTES,
        _ => false,
    }
}

fn write_text(huffman: HuffmanUse, text: &[u8], out: &mut Vec<u8>) {
    if huffman == HuffmanUse::IfShorter {
        let encoded_bytes = huffman::encoded_bytes(text);
        if encoded_bytes < text.len() {
            integer::encode(out, 7, 0x80, encoded_bytes as u32);
            huffman::encode(text, out);
            return;
        }
    }
    integer::encode(out, 7, 0x00, text.len() as u32);
    out.extend_from_slice(text);
}

/// Hashes eight bytes at a time. It is fast and uses no secret, since a deliberate collision gains
/// nothing but longer blocks.
#[inline]
fn hash(seed: u32, text: &[u8]) -> u32 {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut sum = u64::from(seed) ^ text.len() as u64;
    let (chunks, rest) = text.as_chunks::<8>();
    for chunk in chunks {
        sum = (sum.rotate_left(5) ^ u64::from_le_bytes(*chunk)).wrapping_mul(FACTOR);
    }
    if !rest.is_empty() {
        // The last eight bytes, overlapping the previous chunk if there is one.
        let last = match text.last_chunk::<8>() {
            Some(last) => u64::from_le_bytes(*last),
            None => rest.iter().fold(0, |sum, &byte| sum << 8 | u64::from(byte)),
        };
        sum = (sum.rotate_left(5) ^ last).wrapping_mul(FACTOR);
    }
    (sum >> 32) as u32
}
