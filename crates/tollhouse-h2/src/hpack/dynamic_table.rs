//! The dynamic table (RFC 7541 §2.3.2, §4): names and values in one buffer, places in a ring.
//!
//! Bytes are appended; when the buffer is full, those of live entries move to its start. The buffer
//! is twice as large as the table, so each byte moves at most once on average, and an entry is
//! always contiguous. Both buffers grow on demand: an unused table costs nothing.

use super::FIELD_OVERHEAD_BYTES;
use crate::field::FieldKind;

/// Initial size of the ring; all sizes are powers of two.
const PLACES_MIN: usize = 16;

/// Place of an entry in the ring buffer, with the field kind that its name implies.
#[derive(Clone, Copy)]
struct Place {
    start: u32,
    name_bytes: u16,
    value_bytes: u16,
    kind: FieldKind,
}

const NO_PLACE: Place =
    Place { start: 0, name_bytes: 0, value_bytes: 0, kind: FieldKind::Malformed };

#[derive(Clone, Copy)]
pub(crate) struct Entry<'a> {
    pub(crate) name: &'a [u8],
    pub(crate) value: &'a [u8],
    pub(crate) kind: FieldKind,
}

/// Fields that both sides know.
pub(crate) struct DynamicTable {
    bytes: Vec<u8>,
    /// A ring; entry number `n` is at index `n` modulo the length.
    places: Vec<Place>,
    /// Number of the next entry; the newest has one less.
    next: u32,
    length: u32,
    /// Sum of the sizes of all entries, as defined by the protocol.
    size: usize,
    size_max: usize,
}

impl DynamicTable {
    pub(crate) fn new(size_max: u32) -> Self {
        let size_max = size_max as usize;
        Self { bytes: Vec::new(), places: Vec::new(), next: 0, length: 0, size: 0, size_max }
    }

    pub(crate) fn size_max(&self) -> usize {
        self.size_max
    }

    /// Returns the heap memory in use, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.bytes.capacity() + self.places.capacity() * size_of::<Place>()
    }

    /// Sets the maximum size, and evicts entries to fit.
    pub(crate) fn set_size_max(&mut self, size_max: u32) {
        self.size_max = size_max as usize;
        self.evict(0);
    }

    pub(crate) fn next_number(&self) -> u32 {
        self.next
    }

    /// Returns the age of entry `number`, 0 for the newest; `None` if it was evicted.
    #[inline]
    pub(crate) fn age(&self, number: u32) -> Option<u32> {
        let age = self.next.wrapping_sub(number).wrapping_sub(1);
        (age < self.length).then_some(age)
    }

    /// Returns the entry with this age, 0 for the newest; `None` if the table has fewer entries.
    #[inline]
    pub(crate) fn get(&self, age: u32) -> Option<Entry<'_>> {
        if age >= self.length {
            return None;
        }
        let number = self.next.wrapping_sub(age).wrapping_sub(1);
        let place = self.places[number as usize & (self.places.len() - 1)];
        let start = place.start as usize;
        let name_end = start + usize::from(place.name_bytes);
        let value_end = name_end + usize::from(place.value_bytes);
        Some(Entry {
            name: &self.bytes[start..name_end],
            value: &self.bytes[name_end..value_end],
            kind: place.kind,
        })
    }

    /// Adds a field and evicts the oldest ones to make room; a field larger than the table empties
    /// it (RFC 7541 §4.4).
    pub(crate) fn insert(&mut self, name: &[u8], value: &[u8], kind: FieldKind) {
        let size = name.len() + value.len() + FIELD_OVERHEAD_BYTES;
        if size > self.size_max {
            (self.length, self.size) = (0, 0);
            self.bytes.clear();
            return;
        }
        self.evict(size);
        if self.bytes.len() + name.len() + value.len() > 2 * self.size_max {
            self.compact();
        }
        let start = self.bytes.len() as u32;
        self.bytes.extend_from_slice(name);
        self.bytes.extend_from_slice(value);
        if self.length as usize == self.places.len() {
            self.grow();
        }
        let mask = self.places.len() - 1;
        let (name_bytes, value_bytes) = (name.len() as u16, value.len() as u16);
        self.places[self.next as usize & mask] = Place { start, name_bytes, value_bytes, kind };
        self.next = self.next.wrapping_add(1);
        self.length += 1;
        self.size += size;
    }

    /// Evicts the oldest entries until `size` more bytes fit.
    fn evict(&mut self, size: usize) {
        while self.length > 0 && self.size + size > self.size_max {
            let oldest = self.next.wrapping_sub(self.length);
            let place = self.places[oldest as usize & (self.places.len() - 1)];
            self.size -= usize::from(place.name_bytes)
                + usize::from(place.value_bytes)
                + FIELD_OVERHEAD_BYTES;
            self.length -= 1;
        }
        if self.length == 0 {
            self.bytes.clear();
        }
    }

    /// Moves the bytes of live entries, which are contiguous and in order, to the start of the
    /// buffer.
    fn compact(&mut self) {
        let Some(oldest) = self.length.checked_sub(1) else { return };
        let mask = self.places.len() - 1;
        let first = self.next.wrapping_sub(oldest).wrapping_sub(1);
        let gap = self.places[first as usize & mask].start;
        self.bytes.copy_within(gap as usize.., 0);
        self.bytes.truncate(self.bytes.len() - gap as usize);
        for age in 0..self.length {
            let number = self.next.wrapping_sub(age).wrapping_sub(1);
            self.places[number as usize & mask].start -= gap;
        }
    }

    fn grow(&mut self) {
        let mut places = vec![NO_PLACE; (self.places.len() * 2).max(PLACES_MIN)];
        let (old_mask, mask) = (self.places.len().wrapping_sub(1), places.len() - 1);
        for age in 0..self.length {
            let number = self.next.wrapping_sub(age).wrapping_sub(1) as usize;
            places[number & mask] = self.places[number & old_mask];
        }
        self.places = places;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contents(table: &DynamicTable) -> Vec<(String, String)> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let entries = (0..).map_while(|age| table.get(age));
        entries.map(|entry| (text(entry.name), text(entry.value))).collect()
    }

    #[test]
    fn the_table_agrees_with_a_plain_list() {
        let mut table = DynamicTable::new(300);
        let mut list: Vec<(String, String)> = Vec::new();
        for round in 0..2000_usize {
            let (name, value) = (format!("n{round}"), "v".repeat(round * 7 % 90));
            table.insert(name.as_bytes(), value.as_bytes(), FieldKind::Regular);
            list.insert(0, (name, value));
            let size = |list: &[(String, String)]| -> usize {
                list.iter().map(|(n, v)| n.len() + v.len() + FIELD_OVERHEAD_BYTES).sum()
            };
            while size(&list) > table.size_max() {
                list.pop();
            }
            assert_eq!(contents(&table), list);
            assert!(table.bytes.len() <= 600);
            if round % 500 == 499 {
                let size_max = 100 + round as u32 / 5;
                table.set_size_max(size_max);
                while size(&list) > size_max as usize {
                    list.pop();
                }
                assert_eq!(contents(&table), list);
                table.set_size_max(300);
            }
        }
    }

    #[test]
    fn an_entry_larger_than_the_table_empties_it() {
        let mut table = DynamicTable::new(100);
        table.insert(b"a", b"b", FieldKind::Regular);
        table.insert(b"a", &[b'b'; 68], FieldKind::Regular);
        assert_eq!(contents(&table), []);
        table.insert(b"a", &[b'b'; 67], FieldKind::Regular);
        assert_eq!(contents(&table).len(), 1);
    }

    #[test]
    fn numbers_name_entries_until_they_are_dropped() {
        let mut table = DynamicTable::new(70);
        let first = table.next_number();
        table.insert(b"a", b"", FieldKind::Regular);
        table.insert(b"b", b"", FieldKind::Regular);
        assert_eq!((table.age(first), table.age(first + 1)), (Some(1), Some(0)));
        table.insert(b"c", b"", FieldKind::Regular);
        assert_eq!((table.age(first), table.age(first + 1)), (None, Some(1)));
        assert_eq!(table.age(table.next_number()), None);
    }
}
