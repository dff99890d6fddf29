//! Generators of ids, from random numbers and the time.

type Random<'a> = &'a dyn Fn() -> u64;

/// Length of a nanoid in characters.
const NANOID_CHARS: usize = 21;

/// Length of a KSUID: 20 bytes in base 62.
const KSUID_CHARS: usize = 27;

/// Start of KSUID time, in Unix seconds.
const KSUID_EPOCH_SECONDS: u64 = 1_400_000_000;

const BASE_62: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

const URL_SAFE: &[u8; 64] = b"_-0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";

/// Returns a random UUID (RFC 9562, version 4).
pub(super) fn uuid_v4(random: Random<'_>) -> String {
    hyphenated(wide(random), 4)
}

/// Returns a UUID that begins with the time (RFC 9562, version 7).
pub(super) fn uuid_v7(random: Random<'_>, unix_ms: u64) -> String {
    const TIME_BITS: u32 = 48;
    let time = u128::from(unix_ms) << (u128::BITS - TIME_BITS);
    hyphenated(time | wide(random) >> TIME_BITS, 7)
}

fn wide(random: Random<'_>) -> u128 {
    u128::from(random()) << u64::BITS | u128::from(random())
}

fn hyphenated(bits: u128, version: u128) -> String {
    let versioned = bits & !(0xf << 76) | version << 76;
    let number = versioned & !(0b11 << 62) | 0b10 << 62;
    let digits = format!("{number:032x}");
    let (a, b, c) = (&digits[..8], &digits[8..12], &digits[12..16]);
    format!("{a}-{b}-{c}-{}-{}", &digits[16..20], &digits[20..])
}

/// Returns random characters that need no escaping in URLs.
pub(super) fn nanoid(random: Random<'_>) -> String {
    (0..NANOID_CHARS).map(|_| char::from(URL_SAFE[random() as usize % URL_SAFE.len()])).collect()
}

/// Returns random characters of a set.
pub(super) fn random_text(random: Random<'_>, characters: &[char], length: usize) -> String {
    (0..length).filter_map(|_| characters.get(below(random, characters.len()))).collect()
}

/// Returns a uniformly distributed number below `bound`.
fn below(random: Random<'_>, bound: usize) -> usize {
    ((u128::from(random()) * bound as u128) >> u64::BITS) as usize
}

/// Returns a KSUID: 32 bits of seconds, then 128 random bits. Sorts by time.
pub(super) fn ksuid(random: Random<'_>, unix_ms: u64) -> String {
    let seconds = (unix_ms / 1000).saturating_sub(KSUID_EPOCH_SECONDS) as u32;
    let mut bytes = [0; 20];
    bytes[..4].copy_from_slice(&seconds.to_be_bytes());
    bytes[4..].copy_from_slice(&wide(random).to_be_bytes());
    base_62(bytes)
}

/// Writes a big-endian 160-bit number in base 62.
fn base_62(mut number: [u8; 20]) -> String {
    let mut digits = [0; KSUID_CHARS];
    for digit in digits.iter_mut().rev() {
        let mut remainder = 0_usize;
        for byte in &mut number {
            let value = remainder << 8 | usize::from(*byte);
            // The remainder is below 62, so the quotient is below 256.
            *byte = (value / BASE_62.len()) as u8;
            remainder = value % BASE_62.len();
        }
        *digit = BASE_62[remainder];
    }
    digits.into_iter().map(char::from).collect()
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use tollhouse_stdx::random::Random as Generator;

    use super::*;

    #[test]
    fn uuids_have_their_version_and_variant() {
        assert_eq!(uuid_v4(&|| 0), "00000000-0000-4000-8000-000000000000");
        assert_eq!(uuid_v4(&|| u64::MAX), "ffffffff-ffff-4fff-bfff-ffffffffffff");
        assert_eq!(uuid_v7(&|| 0, 0x0123_4567_89ab), "01234567-89ab-7000-8000-000000000000");
        assert_eq!(uuid_v7(&|| u64::MAX, 1), "00000000-0001-7fff-bfff-ffffffffffff");
    }

    #[test]
    fn ksuids_sort_by_time() {
        assert_eq!(ksuid(&|| 0, 0), "0".repeat(27));
        assert_eq!(base_62([u8::MAX; 20]), "aWgEPTl1tmebfsQzFP4bxwgy80V");
        let of = |seconds: u64| ksuid(&|| 7, (KSUID_EPOCH_SECONDS + seconds) * 1000);
        assert!(of(1) < of(2) && of(2) < of(1 << 31));
    }

    #[test]
    fn ids_differ() {
        let generator = RefCell::new(Generator::seeded(1));
        let random = || generator.borrow_mut().next_u64();
        let letters: Vec<char> = "abcdef".chars().collect();
        let make: [&dyn Fn() -> String; 4] =
            [&|| uuid_v4(&random), &|| nanoid(&random), &|| ksuid(&random, 0), &|| {
                random_text(&random, &letters, 64)
            }];
        for make in make {
            let ids: std::collections::HashSet<String> = (0..1000).map(|_| make()).collect();
            assert_eq!(ids.len(), 1000);
        }
    }
}
