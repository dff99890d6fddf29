//! Size of queued commands: all of their parts that a client can make long.

use crate::alias::Alias;
use crate::command::{
    AliasChange, Command, DetailsChange, InstanceChange, NamespaceChange, NewContract, NewInstance,
    NewRule, ServiceChange,
};
use crate::instance::{Location, Metadata};
use crate::key::ServiceKey;

use super::{MemorySize, instance_texts_bytes, key_bytes, list_bytes, metadata_bytes};

impl MemorySize for Command {
    fn held_bytes(&self) -> usize {
        // The match has no wildcard arm, because a new command that is not counted here would evade
        // the bound on queued commands.
        let long = match self {
            Self::Register(new) => new.held_bytes(),
            Self::UpdateInstance(id, what) => id.len() + what.held_bytes(),
            Self::UpdateInstances(ids, what) => {
                let names: usize = ids.iter().map(|id| size_of_val(id) + id.len()).sum();
                names + what.held_bytes()
            }
            Self::CreateNamespace(name, what) | Self::UpdateNamespace(name, what) => {
                name.len() + what.held_bytes()
            }
            Self::CreateService(key, what) | Self::UpdateService(key, what) => {
                key_bytes(key) + what.held_bytes()
            }
            Self::CreateAlias(alias) => {
                let texts = alias.comment.len() + alias.owners.len();
                size_of::<Alias>() + key_bytes(&alias.key) + texts + metadata_bytes(&alias.metadata)
            }
            Self::UpdateAlias(key, what) => {
                let texts = texts([&what.comment, &what.owners]);
                size_of::<AliasChange>()
                    + key_bytes(key)
                    + texts
                    + optional_metadata(what.metadata.as_ref())
            }
            Self::CreateRule(rule) | Self::UpdateRule(rule) => rule.held_bytes(),
            Self::PutContract(contract) => contract.held_bytes(),
            Self::Deregister(id)
            | Self::DeleteNamespace(id)
            | Self::DeleteContract(id)
            | Self::DeleteRule(_, id)
            | Self::EnableRule(_, id, _) => id.len(),
            Self::DeleteService(key) | Self::DeleteAlias(key) => key_bytes(key),
            Self::Config(author, command) => author.len() + command.held_bytes(),
            Self::Identity(command) => command.held_bytes(),
            Self::Put(object) => object.held_bytes(),
        };
        size_of::<Self>() + long
    }
}

impl MemorySize for NewInstance {
    fn held_bytes(&self) -> usize {
        let names = self.id.len() + self.service.len() + self.namespace.len();
        size_of::<Self>()
            + names
            + instance_texts_bytes!(self)
            + location_bytes(self.location.as_ref())
    }
}

impl MemorySize for InstanceChange {
    fn held_bytes(&self) -> usize {
        let texts = [&self.protocol, &self.version, &self.logic_set];
        let texts: usize =
            texts.iter().map(|text| text.as_ref().map_or(0, |text| text.len())).sum();
        size_of::<Self>()
            + texts
            + location_bytes(self.location.as_ref())
            + optional_metadata(self.metadata.as_ref())
    }
}

impl MemorySize for NamespaceChange {
    fn held_bytes(&self) -> usize {
        let texts = texts([&self.comment, &self.owners, &self.token]);
        size_of::<Self>()
            + texts
            + list_bytes(self.export_to.as_deref().unwrap_or_default())
            + optional_metadata(self.metadata.as_ref())
    }
}

impl MemorySize for ServiceChange {
    fn held_bytes(&self) -> usize {
        let token = texts([&self.token]);
        size_of::<Self>()
            + self.details.held_bytes()
            + token
            + optional_metadata(self.metadata.as_ref())
    }
}

impl MemorySize for DetailsChange {
    fn held_bytes(&self) -> usize {
        let [first, second, third] = &self.cmdb_mod;
        let written = texts([
            &self.ports,
            &self.business,
            &self.department,
            first,
            second,
            third,
            &self.comment,
            &self.owners,
            &self.platform_id,
        ]);
        written + list_bytes(self.export_to.as_deref().unwrap_or_default())
    }
}

impl MemorySize for NewRule {
    fn held_bytes(&self) -> usize {
        let targets: usize =
            self.targets.iter().map(|key| size_of::<ServiceKey>() + key_bytes(key)).sum();
        let texts = self.id.len() + self.name.len() + self.namespace.len() + self.body.len();
        size_of::<Self>() + texts + targets
    }
}

impl MemorySize for NewContract {
    fn held_bytes(&self) -> usize {
        let Self { id, service, kind, protocol, version, over: _, body } = self;
        let texts = [id.len(), kind.len(), protocol.len(), version.len(), body.len()];
        size_of::<Self>() + key_bytes(service) + texts.iter().sum::<usize>()
    }
}

fn location_bytes(location: Option<&Location>) -> usize {
    location.map_or(0, |place| place.region.len() + place.zone.len() + place.campus.len())
}

fn optional_metadata(metadata: Option<&Metadata>) -> usize {
    metadata.map_or(0, metadata_bytes)
}

fn texts<const N: usize>(texts: [&Option<String>; N]) -> usize {
    texts.iter().map(|text| text.as_ref().map_or(0, String::len)).sum()
}
