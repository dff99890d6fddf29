//! Size of registered objects: their texts, counted twice if their encoded form is cached too.

use crate::alias::Alias;
use crate::contract::Contract;
use crate::instance::{Instance, StoredInstance};
use crate::namespace::Namespace;
use crate::rule::Rule;
use crate::service::Service;
use crate::transfer::Object;

use super::{MemorySize, PAIR_BYTES, instance_texts_bytes, key_bytes, list_bytes, metadata_bytes};

/// Overhead of an object without its texts: tables, pulse, versions in use.
const OBJECT_BYTES: usize = 768;

impl MemorySize for Instance {
    fn held_bytes(&self) -> usize {
        // Twice: the instance itself and its cached encoding.
        OBJECT_BYTES + self.id.len() + 2 * instance_texts_bytes!(self)
    }
}

impl MemorySize for Service {
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
        let written = texts + key_bytes(&self.key) + metadata_bytes(&self.metadata);
        OBJECT_BYTES + 2 * written + list_bytes(&details.export_to)
    }
}

impl MemorySize for Namespace {
    fn held_bytes(&self) -> usize {
        let texts = self.name.len() + self.comment.len() + self.owners.len() + self.token.len();
        OBJECT_BYTES + texts + metadata_bytes(&self.metadata) + list_bytes(&self.export_to)
    }
}

impl MemorySize for Alias {
    fn held_bytes(&self) -> usize {
        let names = key_bytes(&self.key) + key_bytes(&self.target);
        let texts = names + self.comment.len() + self.owners.len();
        OBJECT_BYTES + texts + metadata_bytes(&self.metadata)
    }
}

impl MemorySize for Rule {
    fn held_bytes(&self) -> usize {
        let targets = self.targets.iter().map(|key| 2 * PAIR_BYTES + key_bytes(key));
        // Names are counted twice because an index holds them too.
        let texts = self.id.len() + 2 * (self.name.len() + self.namespace.len());
        OBJECT_BYTES + texts + targets.sum::<usize>() + 2 * self.body.len()
    }
}

impl MemorySize for Contract {
    fn held_bytes(&self) -> usize {
        let texts = self.kind.len() + self.protocol.len() + self.version.len();
        OBJECT_BYTES + self.id.len() + texts + key_bytes(&self.service) + self.body.len()
    }
}

impl MemorySize for Object {
    fn held_bytes(&self) -> usize {
        match self {
            Self::Namespace(namespace) => namespace.held_bytes(),
            Self::Service(service) => service.held_bytes(),
            Self::Alias(alias) => alias.held_bytes(),
            Self::Instance(instance) => instance.held_bytes(),
            Self::Rule(rule) => rule.held_bytes(),
            Self::Contract(contract) => contract.held_bytes(),
            Self::Config(object) => object.held_bytes(),
            Self::Identity(object) => object.held_bytes(),
        }
    }
}

impl MemorySize for StoredInstance {
    fn held_bytes(&self) -> usize {
        let names = self.id.len() + key_bytes(&self.service);
        OBJECT_BYTES + names + instance_texts_bytes!(self)
    }
}
