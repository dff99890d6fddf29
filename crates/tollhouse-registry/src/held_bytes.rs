//! How much memory things are counted with, and how much all registered objects may take.
//!
//! Counted is what a thing's texts take, and a flat sum for what stands around them. It is an estimate
//! from above, cheap enough to be made with every change. Objects are in [`objects`], commands that wait
//! for the keeper in [`commands`].

mod commands;
mod objects;

use crate::instance::Metadata;
use crate::key::ServiceKey;
use crate::refusal::Refusal;

/// What a pair of metadata, or a name in a list, takes beside its texts.
const PAIR_BYTES: usize = 64;

/// What the texts of an instance take, in whichever of its forms.
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

/// Something that counts.
pub(crate) trait HeldBytes {
    /// Bytes it is counted with.
    fn held_bytes(&self) -> usize;
}

/// What objects share a bound: what strangers may write leaves room for the rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Share {
    /// Namespaces, services, aliases, instances.
    Registrations,
    /// Governance rules.
    Rules,
    /// Service contracts.
    Contracts,
}

/// What is held, and what may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Held {
    bytes: [usize; 3],
    max: usize,
}

impl Held {
    /// Nothing is held, and so many bytes may be.
    pub(crate) fn at_most(max: usize) -> Self {
        Self { bytes: [0; 3], max }
    }

    /// All bytes that are held.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.iter().sum()
    }

    /// Refuses an object that there is no room for in place of another. One that shrinks has room.
    pub(crate) fn check(&self, share: Share, before: usize, after: usize) -> Result<(), Refusal> {
        let (what, max) = match share {
            Share::Registrations => ("services and instances", self.max / 4 * 3),
            Share::Rules => ("rules", self.max / 8),
            Share::Contracts => ("service contracts", self.max / 8),
        };
        let held = self.bytes[share as usize];
        // What shrinks makes room, even where the bound was lowered below what is held.
        if after <= before || held.saturating_sub(before).saturating_add(after) <= max {
            return Ok(());
        }
        Err(Refusal::OutOfMemory { what, max })
    }

    /// Counts an object in place of another.
    pub(crate) fn replace(&mut self, share: Share, before: usize, after: usize) {
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
        let mut held = Held::at_most(8_000);
        assert_eq!(held.check(Share::Contracts, 0, 1_000), Ok(()));
        held.replace(Share::Contracts, 0, 1_000);
        let refused = held.check(Share::Contracts, 0, 1);
        assert_eq!(refused, Err(Refusal::OutOfMemory { what: "service contracts", max: 1_000 }));
        assert_eq!(held.check(Share::Contracts, 1_000, 900), Ok(()));
        assert_eq!(held.check(Share::Registrations, 0, 6_000), Ok(()));
        assert!(held.check(Share::Registrations, 0, 6_001).is_err());
        held.replace(Share::Contracts, 1_000, 0);
        assert_eq!(held.bytes(), 0);
    }
}
