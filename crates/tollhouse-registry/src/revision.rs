//! Revisions: opaque values of 32 hex digits that clients compare to detect changes.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Version of an object or of a set of objects.
///
/// Each change gives an object a unique number. The revision of a set is the sum of its members',
/// so that it costs one addition to keep and differs whenever a member differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Revision(pub u128);

/// Number of hex digits of a revision.
pub const REVISION_DIGITS: usize = 32;

impl Revision {
    /// Returns the revision of a sequence number, mixed with the process' salt; every bit depends
    /// on both.
    pub(crate) fn mixed(salt: u64, sequence: u64) -> Self {
        let high = mix(sequence ^ salt);
        let low = mix(high.wrapping_add(salt.rotate_left(32)).wrapping_add(sequence));
        Self(u128::from(high) << 64 | u128::from(low))
    }

    /// Returns the revision of a set after a member has joined.
    #[must_use]
    pub fn with(self, member: Self) -> Self {
        Self(self.0.wrapping_add(member.0))
    }

    /// Returns the revision of a set after a member has left.
    #[must_use]
    pub fn without(self, member: Self) -> Self {
        Self(self.0.wrapping_sub(member.0))
    }

    /// Returns the hex digits, without allocation.
    pub fn digits(self) -> [u8; REVISION_DIGITS] {
        const HEX: &[u8; 16] = b"0123456789abcdef";
        std::array::from_fn(|place| {
            let shift = 4 * (REVISION_DIGITS - 1 - place);
            HEX[(self.0 >> shift) as usize & 0xf]
        })
    }
}

/// Returns a permutation of 64 bits in which every input bit flips half of the output bits on
/// average (finalizer of `SplitMix64`).
pub(crate) fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

impl fmt::Display for Revision {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:032x}", self.0)
    }
}

impl FromStr for Revision {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        u128::from_str_radix(text, 16).map(Self)
    }
}

impl Serialize for Revision {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Revision {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_those_of_the_text_and_read_back() {
        for revision in [Revision(0), Revision(0xab), Revision::mixed(1, 2), Revision(u128::MAX)] {
            let text = revision.to_string();
            assert_eq!(text.as_bytes(), revision.digits());
            assert_eq!(text.parse(), Ok(revision));
        }
    }

    #[test]
    fn a_set_whose_members_come_and_go_is_at_its_revision_again() {
        let (first, second) = (Revision::mixed(9, 1), Revision::mixed(9, 2));
        let set = Revision::default().with(first).with(second);
        assert_ne!(set, Revision::default().with(first));
        assert_eq!(set.without(first).without(second), Revision::default());
    }

    #[test]
    fn numbers_differ_by_salt_and_by_sequence() {
        let all: std::collections::HashSet<_> =
            (0..50).flat_map(|salt| (0..50).map(move |n| Revision::mixed(salt, n))).collect();
        assert_eq!(all.len(), 2_500);
    }
}
