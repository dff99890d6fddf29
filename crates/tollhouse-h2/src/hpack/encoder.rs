//! The sending side: fields to header blocks (RFC 7541 §6).
//!
//! A field is remembered when it comes the second time: what differs in every message (an id, a
//! length, a date) would push out what is worth remembering. Look-ups are tables that a hash points
//! into, one place each: who collides with another loses a hit and never correctness.
//!
//! What is remembered is referred to as a whole, and never for its name alone: some peers remember of a
//! value that they could not read that they could not, and take every field for unreadable whose name is
//! referred to there. On a connection that many share, one could spoil a name for all others.

use super::dynamic_table::DynamicTable;
use super::{FIELD_OVERHEAD_BYTES, TABLE_BYTES_DEFAULT, huffman, integer, static_table};
use crate::field::FieldKind;

/// Places that hashes of whole fields point to: about twice the entries that a table of 4 KiB has.
const FIELD_PLACES: usize = 128;
/// Fields that were seen and not yet remembered.
const SEEN_PLACES: usize = 64;

/// Cookies shorter than this are guessed too easily by whoever sees sizes (RFC 7541 §7.1.3): they are
/// never remembered.
const SHORT_COOKIE_BYTES: usize = 20;

/// Whether literals are Huffman-coded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HuffmanUse {
    /// Never: some instructions a byte less, for bytes that are sent once or twice a connection,
    /// since whatever repeats is remembered.
    #[default]
    Never,
    /// Where it is shorter.
    IfShorter,
}

/// Turns fields into header blocks; one a connection.
pub struct Encoder {
    table: DynamicTable,
    /// The largest table that this side wants, whatever the peer offers.
    own_limit: u32,
    huffman: HuffmanUse,
    /// Sizes to announce at the start of the next block: the least since the last one, and the last.
    updates: Option<(u32, u32)>,
    lookup: Option<Box<Lookup>>,
    /// See [`Encoder::changes`].
    changes: u64,
}

/// Where hashes lead; made when the first field is sent.
struct Lookup {
    /// Numbers of entries.
    fields: [u32; FIELD_PLACES],
    /// Hashes of fields that were sent as literals.
    seen: [u32; SEEN_PLACES],
}

impl Encoder {
    /// With the table of 4 KiB that every peer has, or a smaller one.
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

    /// Takes over SETTINGS_HEADER_TABLE_SIZE of the peer.
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

    /// Bytes of memory that it holds.
    pub fn memory_bytes(&self) -> usize {
        self.table.memory_bytes() + self.lookup.as_ref().map_or(0, |_| size_of::<Lookup>())
    }

    /// Forgets all fields, since a block that was begun will not be sent: the next one tells the peer
    /// to empty its table (RFC 7541 §4.2).
    pub fn forget(&mut self) {
        let size = self.table.size_max() as u32;
        self.table.set_size_max(0);
        self.table.set_size_max(size);
        self.updates = Some((0, size));
        self.changes += 1;
    }

    /// Goes up whenever the same fields may be encoded differently from then on: a field is remembered,
    /// or will be when it comes again, or the table has changed its size, or that was announced.
    #[inline]
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// What every block begins with.
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

    /// Appends a field whose name is in lower case. `check` is asked before it is sent as a literal,
    /// so that a field that is remembered is not checked again.
    ///
    /// # Errors
    /// That of `check`; nothing was appended then.
    #[inline]
    pub fn field<E>(
        &mut self,
        name: &[u8],
        value: &[u8],
        is_sensitive: bool,
        out: &mut Vec<u8>,
        check: impl FnOnce(&[u8], &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
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
        self.literal(name, value, is_sensitive, field_hash, out);
        Ok(())
    }

    fn literal(
        &mut self,
        name: &[u8],
        value: &[u8],
        is_sensitive: bool,
        field_hash: u32,
        out: &mut Vec<u8>,
    ) {
        let Some(lookup) = &mut self.lookup else { return };
        let name_index = static_table::name_index(name);
        let index = name_index.unwrap_or(0);
        let seen = &mut lookup.seen[field_hash as usize % SEEN_PLACES];
        // Never indexed, here or further on: in a shared table, guesses could be told from hits by
        // their length.
        if is_sensitive || is_secret(name, value) {
            integer::encode(out, 4, 0x10, index);
        // Kept on its second appearance: most fields that come once, come once only, and would push
        // out what is worth its place. A false hit of the hash costs a place, nothing else.
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
        // Numbers count from 0, so that these are of entries that are long gone.
        let none = u32::MAX;
        Box::new(Self { fields: [none; FIELD_PLACES], seen: [0; SEEN_PLACES] })
    }
}

/// Whether a field is no more than three quarters of the table: a larger one would push out too much.
fn fits(table: &DynamicTable, name: &[u8], value: &[u8]) -> bool {
    (name.len() + value.len() + FIELD_OVERHEAD_BYTES) * 4 <= table.size_max() * 3
}

/// Credentials, which no table remembers even where nobody said that they are sensitive.
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

/// A hash of eight bytes at a time: quick, and without a secret, since colliding on purpose gains
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
        // The last eight bytes, those of the chunk before it again where there are any.
        let last = match text.last_chunk::<8>() {
            Some(last) => u64::from_le_bytes(*last),
            None => rest.iter().fold(0, |sum, &byte| sum << 8 | u64::from(byte)),
        };
        sum = (sum.rotate_left(5) ^ last).wrapping_mul(FACTOR);
    }
    (sum >> 32) as u32
}
