//! How much memory objects are counted with, and how much all of them may take.
//!
//! Counted is what an object's texts take, twice where it is kept in its encoded form as well, and a
//! flat sum for what stands around them (tables, pulse, versions in use). It is an estimate from above,
//! cheap enough to be made with every change.

use crate::alias::Alias;
use crate::contract::Contract;
use crate::instance::{Instance, Metadata};
use crate::namespace::Namespace;
use crate::refusal::Refusal;
use crate::rule::Rule;
use crate::service::Service;

/// What an object takes beside its texts.
const OBJECT_BYTES: usize = 768;

/// What a pair of metadata, or a name in a list, takes beside its texts.
const PAIR_BYTES: usize = 64;

/// An object that counts.
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
        if after <= before || held.saturating_sub(before).saturating_add(after) <= max {
            return Ok(());
        }
        Err(Refusal::OutOfMemory { what, max })
    }

    /// Counts an object in place of another.
    pub(crate) fn replace(&mut self, share: Share, before: usize, after: usize) {
        let held = &mut self.bytes[share as usize];
        *held = held.saturating_sub(before).saturating_add(after);
    }
}

impl HeldBytes for Instance {
    fn held_bytes(&self) -> usize {
        let texts = [
            self.host.len(),
            self.vpc_id.len(),
            self.protocol.len(),
            self.version.len(),
            self.logic_set.len(),
            self.unknown.len(),
            metadata_bytes(&self.metadata),
        ];
        // Its own, and those of its encoded form.
        OBJECT_BYTES + self.id.len() + 2 * texts.iter().sum::<usize>()
    }
}

impl HeldBytes for Service {
    fn held_bytes(&self) -> usize {
        let details = &self.details;
        let [first, second, third] = &details.cmdb_mod;
        let texts = [
            &details.ports,
            &details.business,
            &details.department,
            first,
            second,
            third,
            &details.comment,
            &details.owners,
            &details.platform_id,
            &self.token,
        ];
        let texts: usize = texts.iter().map(|text| text.len()).sum();
        let names = self.key.namespace.len() + self.key.name.len();
        let written = texts + names + metadata_bytes(&self.metadata);
        OBJECT_BYTES + 2 * written + list_bytes(&details.export_to)
    }
}

impl HeldBytes for Namespace {
    fn held_bytes(&self) -> usize {
        let texts = self.name.len() + self.comment.len() + self.owners.len() + self.token.len();
        OBJECT_BYTES + texts + metadata_bytes(&self.metadata) + list_bytes(&self.export_to)
    }
}

impl HeldBytes for Alias {
    fn held_bytes(&self) -> usize {
        let names =
            [&self.key.namespace, &self.key.name, &self.target.namespace, &self.target.name];
        let names: usize = names.iter().map(|name| name.len()).sum();
        let texts = names + self.comment.len() + self.owners.len();
        OBJECT_BYTES + texts + metadata_bytes(&self.metadata)
    }
}

impl HeldBytes for Rule {
    fn held_bytes(&self) -> usize {
        let targets = self.targets.iter();
        let targets = targets.map(|key| 2 * PAIR_BYTES + key.namespace.len() + key.name.len());
        let texts = self.id.len() + self.name.len() + self.namespace.len();
        OBJECT_BYTES + texts + targets.sum::<usize>() + 2 * self.body.len()
    }
}

impl HeldBytes for Contract {
    fn held_bytes(&self) -> usize {
        let texts = self.kind.len() + self.protocol.len() + self.version.len();
        let names = self.service.namespace.len() + self.service.name.len();
        OBJECT_BYTES + self.id.len() + texts + names + self.body.len()
    }
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
