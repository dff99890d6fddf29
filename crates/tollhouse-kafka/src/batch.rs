//! Record batches in version 2 of the format, which brokers accept since Kafka 0.11: without
//! compression, producer ids and headers.

use crate::wire::{Put, length};

/// Length of a batch without its records.
pub const BATCH_OVERHEAD: usize = 61;

/// Largest length of a record without its key and value.
pub const RECORD_OVERHEAD: usize = 23;

/// Record that is appended to a topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record<'a> {
    /// Key that selects the partition; `None` for any partition.
    pub key: Option<&'a [u8]>,
    pub value: &'a [u8],
}

impl Record<'_> {
    /// Returns the largest possible length of the record in a batch.
    pub fn bytes_max(&self) -> usize {
        RECORD_OVERHEAD + self.key.map_or(0, <[u8]>::len) + self.value.len()
    }
}

/// Encodes a batch of records that share one timestamp.
///
/// # Panics
///
/// If the batch exceeds two gigabytes, which callers prevent by far lower limits.
pub fn encode(records: &[Record<'_>], unix_ms: i64) -> Vec<u8> {
    let bytes: usize = records.iter().map(Record::bytes_max).sum();
    let mut batch = Vec::with_capacity(BATCH_OVERHEAD + bytes);
    // Base offset, which the broker assigns.
    batch.put_i64(0);
    let length_at = batch.len();
    batch.put_i32(0);
    // Partition leader epoch, which the broker sets; then the format version.
    batch.put_i32(-1);
    batch.put_i8(2);
    let sum_at = batch.len();
    batch.put_i32(0);
    let summed_from = batch.len();
    // Attributes: no compression, no transaction, timestamps by the producer.
    batch.put_i16(0);
    batch.put_i32(length(records.len().saturating_sub(1)));
    batch.put_i64(unix_ms);
    batch.put_i64(unix_ms);
    // No producer id, epoch and sequence, so that records sent twice are stored twice.
    batch.put_i64(-1);
    batch.put_i16(-1);
    batch.put_i32(-1);
    batch.put_i32(length(records.len()));
    let mut written = Vec::new();
    for (offset, record) in records.iter().enumerate() {
        written.clear();
        put_record(&mut written, offset, record);
        batch.put_varint(varint(written.len()));
        batch.extend_from_slice(&written);
    }
    let counted = length(batch.len() - length_at - 4);
    batch[length_at..length_at + 4].copy_from_slice(&counted.to_be_bytes());
    let sum = crc32c(&batch[summed_from..]);
    batch[sum_at..sum_at + 4].copy_from_slice(&sum.to_be_bytes());
    batch
}

fn put_record(out: &mut Vec<u8>, offset: usize, record: &Record<'_>) {
    // Attributes, which are unused, and the timestamp relative to the batch.
    out.put_i8(0);
    out.put_varint(0);
    out.put_varint(varint(offset));
    match record.key {
        Some(key) => {
            out.put_varint(varint(key.len()));
            out.extend_from_slice(key);
        }
        None => out.put_varint(-1),
    }
    out.put_varint(varint(record.value.len()));
    out.extend_from_slice(record.value);
    // Number of headers.
    out.put_varint(0);
}

fn varint(count: usize) -> i64 {
    length(count).into()
}

/// Computes CRC-32C (RFC 3720, appendix B.4) byte by byte. Batches are small and sent about once a
/// second.
fn crc32c(bytes: &[u8]) -> u32 {
    const TABLE: [u32; 256] = table();
    let sum = bytes.iter().fold(u32::MAX, |sum, byte| {
        let [low, ..] = sum.to_le_bytes();
        (sum >> 8) ^ TABLE[usize::from(low ^ byte)]
    });
    !sum
}

const fn table() -> [u32; 256] {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut sum = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            sum = if sum & 1 == 1 { (sum >> 1) ^ 0x82f6_3b78 } else { sum >> 1 };
            bit += 1;
        }
        table[byte] = sum;
        byte += 1;
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn checksums_are_those_of_the_standard() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(crc32c(&[0xff; 32]), 0x62a8_ab43);
    }

    /// Reader that takes numbers and bytes from the front.
    struct Rest<'a>(&'a [u8]);

    impl Rest<'_> {
        fn number(&mut self, bytes: usize) -> i64 {
            let (taken, rest) = self.0.split_at(bytes);
            self.0 = rest;
            let sign = if taken[0] & 0x80 == 0 { 0 } else { -1 };
            taken.iter().fold(sign, |number, byte| (number << 8) | i64::from(*byte))
        }

        fn varint(&mut self) -> i64 {
            let (mut number, mut shift) = (0_u64, 0);
            loop {
                let byte = self.0[0];
                self.0 = &self.0[1..];
                number |= u64::from(byte & 0x7f) << shift;
                shift += 7;
                if byte & 0x80 == 0 {
                    return (number >> 1).cast_signed() ^ -(number & 1).cast_signed();
                }
            }
        }

        fn piece(&mut self) -> Option<Vec<u8>> {
            let count = usize::try_from(self.varint()).ok()?;
            let (taken, rest) = self.0.split_at(count);
            self.0 = rest;
            Some(taken.to_vec())
        }
    }

    type Pair = (Option<Vec<u8>>, Vec<u8>);

    /// Reads a batch as the format's description has it, field by field.
    fn decode(batch: &[u8]) -> Vec<Pair> {
        let mut rest = Rest(batch);
        assert_eq!(rest.number(8), 0, "first offset");
        assert_eq!(rest.number(4), i64::try_from(batch.len() - 12).expect("small"), "length");
        assert_eq!((rest.number(4), rest.number(1)), (-1, 2), "epoch and version");
        let sum = u32::try_from(rest.number(4) & 0xffff_ffff).expect("32 bits");
        assert_eq!(sum, crc32c(rest.0));
        assert_eq!(rest.number(2), 0, "attributes");
        let last = rest.number(4);
        assert_eq!((rest.number(8), rest.number(8)), (1_700_000_000_000, 1_700_000_000_000));
        assert_eq!((rest.number(8), rest.number(2), rest.number(4)), (-1, -1, -1));
        let count = rest.number(4);
        assert_eq!(last, (count - 1).max(0));
        let records = (0..count).map(|place| {
            let length = usize::try_from(rest.varint()).expect("a length");
            let (record, after) = rest.0.split_at(length);
            rest.0 = after;
            let mut record = Rest(record);
            assert_eq!((record.number(1), record.varint(), record.varint()), (0, 0, place));
            let pair = (record.piece(), record.piece().expect("every record has a value"));
            assert_eq!(record.varint(), 0, "headers");
            assert_eq!(record.0, b"");
            pair
        });
        let records = records.collect();
        assert_eq!(rest.0, b"");
        records
    }

    proptest! {
        #[test]
        fn a_batch_reads_back(pairs: Vec<Pair>) {
            let record = |(key, value): &'_ Pair| -> (Option<Vec<u8>>, Vec<u8>) {
                (key.clone(), value.clone())
            };
            let kept: Vec<Pair> = pairs.iter().map(record).collect();
            let records: Vec<Record<'_>> =
                kept.iter().map(|(key, value)| Record { key: key.as_deref(), value }).collect();
            let batch = encode(&records, 1_700_000_000_000);
            prop_assert_eq!(decode(&batch), pairs);
            let bytes_max: usize = records.iter().map(Record::bytes_max).sum();
            prop_assert!(batch.len() <= BATCH_OVERHEAD + bytes_max);
        }
    }

    #[test]
    fn long_values_read_back_too() {
        let value = vec![b'x'; 300_000];
        let records = [Record { key: Some(b"k"), value: &value }, Record { key: None, value: b"" }];
        let batch = encode(&records, 1_700_000_000_000);
        assert_eq!(decode(&batch), [(Some(b"k".to_vec()), value), (None, Vec::new())]);
    }
}
