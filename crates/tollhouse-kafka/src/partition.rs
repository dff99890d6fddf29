//! Assignment of keys to partitions as in Kafka's own clients, so that all producers choose one
//! partition for a key.

/// Returns the partition, of `partitions`, for records with this key.
///
/// # Panics
///
/// If `partitions` is 0.
pub fn for_key(key: &[u8], partitions: u32) -> u32 {
    // The sign bit is cleared, as in Kafka; the absolute value would differ.
    (murmur2(key) & 0x7fff_ffff) % partitions
}

fn murmur2(bytes: &[u8]) -> u32 {
    const SEED: u32 = 0x9747_b28c;
    const FACTOR: u32 = 0x5bd1_e995;
    let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    let mut hash = SEED ^ length;
    let (words, rest) = bytes.as_chunks::<4>();
    for word in words {
        let mut word = u32::from_le_bytes(*word).wrapping_mul(FACTOR);
        word = (word ^ (word >> 24)).wrapping_mul(FACTOR);
        hash = hash.wrapping_mul(FACTOR) ^ word;
    }
    if !rest.is_empty() {
        for (place, byte) in rest.iter().enumerate() {
            hash ^= u32::from(*byte) << (8 * place);
        }
        hash = hash.wrapping_mul(FACTOR);
    }
    hash = (hash ^ (hash >> 13)).wrapping_mul(FACTOR);
    hash ^ (hash >> 15)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_of_kafkas_clients() {
        for (key, expected) in [
            ("21", -973_932_308),
            ("foobar", -790_332_482),
            ("a-little-bit-long-string", -985_981_536),
            ("a-little-bit-longer-string", -1_486_304_829),
            ("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58_897_971),
            ("abc", 479_470_107),
        ] {
            assert_eq!(murmur2(key.as_bytes()).cast_signed(), expected, "{key}");
        }
    }

    #[test]
    fn every_key_has_a_partition() {
        for key in 0..1_000_u32 {
            assert!(for_key(&key.to_be_bytes(), 7) < 7);
        }
        assert_eq!(for_key(b"", 1), 0);
    }
}
