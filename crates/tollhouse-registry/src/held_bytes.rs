//! Memory accounting of objects and commands, and the bound on all registered objects.
//!
//! The size of a thing is the length of its texts plus a flat amount for the structures around
//! them: an upper estimate, cheap enough to compute at every change. [`objects`] counts registered
//! objects, [`commands`] counts queued commands; [`config`] counts both kinds of the
//! configuration centre, [`identity`] those of users and policies.

mod commands;
mod config;
mod identity;
mod objects;

use crate::instance::Metadata;
use crate::key::ServiceKey;
use crate::refusal::Refusal;

/// Overhead of a metadata pair, or of a name in a list, without its texts.
const PAIR_BYTES: usize = 64;

/// Bytes of an instance's texts, for any of the instance types.
macro_rules! instance_texts_bytes {
    ($instance:expr) => {{
        let texts = [
            $instance.host.len(),
            $instance.vpc_id.len(),
            $instance.protocol.len(),
            $instance.version.len(),
            $instance.logic_set.len(),
            $instance.unknown.len(),
        ];
        texts.iter().sum::<usize>() + metadata_bytes(&$instance.metadata)
    }};
}
use instance_texts_bytes;

pub(crate) trait MemorySize {
    /// Returns the estimated size in bytes.
    fn held_bytes(&self) -> usize;
}

/// Classes of objects with separate bounds, so that registrations of unknown clients cannot use up
/// the memory of rules and contracts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MemoryClass {
    Registrations,
    Rules,
    Contracts,
    Config,
    Identities,
}

/// Bytes in use per share, and the total bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MemoryUse {
    bytes: [usize; 5],
    max: usize,
}

impl MemoryUse {
    /// Creates a count of zero bytes in use; `max` is the total bound in bytes.
    pub(crate) fn at_most(max: usize) -> Self {
        Self { bytes: [0; 5], max }
    }

    /// Returns the bytes of all shares.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.iter().sum()
    }

    /// Refuses a replacement that would exceed the share's bound. A replacement that is not larger
    /// is always accepted.
    pub(crate) fn check(
        &self,
        share: MemoryClass,
        before: usize,
        after: usize,
    ) -> Result<(), Refusal> {
        let (what, max) = match share {
            MemoryClass::Registrations => ("services and instances", self.max / 8 * 5),
            MemoryClass::Rules => ("rules", self.max / 8),
            MemoryClass::Contracts => ("service contracts", self.max / 8),
            MemoryClass::Config => ("configuration files", self.max / 8),
            // On top of the other shares, which add up to the whole.
            MemoryClass::Identities => ("users, groups, roles and policies", self.max / 32),
        };
        let held = self.bytes[share as usize];
        // A smaller object is accepted even if the bound was lowered below the bytes in use.
        if after <= before || held.saturating_sub(before).saturating_add(after) <= max {
            return Ok(());
        }
        Err(Refusal::OutOfMemory { what, max })
    }

    /// Replaces the size of an object in its share.
    pub(crate) fn replace(&mut self, share: MemoryClass, before: usize, after: usize) {
        let held = &mut self.bytes[share as usize];
        debug_assert!(*held >= before, "what goes was counted when it came");
        *held = held.saturating_sub(before).saturating_add(after);
    }
}

fn key_bytes(key: &ServiceKey) -> usize {
    key.namespace.len() + key.name.len()
}

fn metadata_bytes(metadata: &Metadata) -> usize {
    metadata.iter().map(|(key, value)| PAIR_BYTES + key.len() + value.len()).sum()
}

fn list_bytes(names: &[String]) -> usize {
    names.iter().map(|name| PAIR_BYTES + name.len()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_bounded_apart_and_what_shrinks_is_taken() {
        let mut held = MemoryUse::at_most(8_000);
        assert_eq!(held.check(MemoryClass::Contracts, 0, 1_000), Ok(()));
        held.replace(MemoryClass::Contracts, 0, 1_000);
        let refused = held.check(MemoryClass::Contracts, 0, 1);
        assert_eq!(refused, Err(Refusal::OutOfMemory { what: "service contracts", max: 1_000 }));
        assert_eq!(held.check(MemoryClass::Contracts, 1_000, 900), Ok(()));
        assert_eq!(held.check(MemoryClass::Registrations, 0, 5_000), Ok(()));
        assert!(held.check(MemoryClass::Registrations, 0, 5_001).is_err());
        held.replace(MemoryClass::Contracts, 1_000, 0);
        assert_eq!(held.bytes(), 0);
    }
}
