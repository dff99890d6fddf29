//! How many bytes a command takes while it waits for the keeper: whatever of it a stranger can make long.

use super::{
    AliasChange, Command, DetailsChange, InstanceChange, NamespaceChange, NewContract, NewInstance,
    NewRule, ServiceChange,
};
use crate::alias::Alias;
use crate::instance::{Location, Metadata};
use crate::key::ServiceKey;

impl Command {
    /// Bytes it takes, about.
    pub(crate) fn bytes(&self) -> usize {
        let long = match self {
            Self::Register(new) => new.bytes(),
            Self::UpdateInstance(id, what) => id.len() + what.bytes(),
            Self::CreateNamespace(name, what) | Self::UpdateNamespace(name, what) => {
                name.len() + what.bytes()
            }
            Self::CreateService(key, what) | Self::UpdateService(key, what) => {
                key_bytes(key) + what.bytes()
            }
            Self::CreateAlias(alias) => {
                let texts = alias.comment.len() + alias.owners.len();
                size_of::<Alias>() + key_bytes(&alias.key) + texts + metadata(&alias.metadata)
            }
            Self::UpdateAlias(key, what) => {
                let texts = texts([&what.comment, &what.owners]);
                size_of::<AliasChange>() + key_bytes(key) + texts + given_metadata(&what.metadata)
            }
            Self::CreateRule(rule) | Self::UpdateRule(rule) => rule.bytes(),
            Self::PutContract(contract) => contract.bytes(),
            Self::Deregister(id)
            | Self::DeleteNamespace(id)
            | Self::DeleteContract(id)
            | Self::DeleteRule(_, id)
            | Self::EnableRule(_, id, _) => id.len(),
            Self::DeleteService(key) | Self::DeleteAlias(key) => key_bytes(key),
        };
        size_of::<Self>() + long
    }
}

impl NewInstance {
    fn bytes(&self) -> usize {
        let texts = [
            self.id.len(),
            self.service.len(),
            self.namespace.len(),
            self.host.len(),
            self.vpc_id.len(),
            self.protocol.len(),
            self.version.len(),
            self.logic_set.len(),
            self.unknown.len(),
        ];
        let texts: usize = texts.iter().sum();
        size_of::<Self>() + texts + place(self.location.as_ref()) + metadata(&self.metadata)
    }
}

impl InstanceChange {
    fn bytes(&self) -> usize {
        let texts = [&self.protocol, &self.version, &self.logic_set];
        let texts: usize =
            texts.iter().map(|text| text.as_ref().map_or(0, |text| text.len())).sum();
        size_of::<Self>() + texts + place(self.location.as_ref()) + given_metadata(&self.metadata)
    }
}

impl NamespaceChange {
    fn bytes(&self) -> usize {
        let texts = texts([&self.comment, &self.owners, &self.token]);
        size_of::<Self>() + texts + names(&self.export_to) + given_metadata(&self.metadata)
    }
}

impl ServiceChange {
    fn bytes(&self) -> usize {
        let token = texts([&self.token]);
        size_of::<Self>() + self.details.bytes() + token + given_metadata(&self.metadata)
    }
}

impl DetailsChange {
    fn bytes(&self) -> usize {
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
        written + names(&self.export_to)
    }
}

impl NewRule {
    fn bytes(&self) -> usize {
        let targets: usize = self.targets.iter().map(key_bytes).sum();
        let texts = self.id.len() + self.name.len() + self.namespace.len() + self.body.len();
        size_of::<Self>() + texts + targets
    }
}

impl NewContract {
    fn bytes(&self) -> usize {
        let Self { id, service, kind, protocol, version, body } = self;
        let texts = [id.len(), kind.len(), protocol.len(), version.len(), body.len()];
        size_of::<Self>() + key_bytes(service) + texts.iter().sum::<usize>()
    }
}

fn key_bytes(key: &ServiceKey) -> usize {
    size_of::<ServiceKey>() + key.namespace.len() + key.name.len()
}

fn place(location: Option<&Location>) -> usize {
    location.map_or(0, |place| place.region.len() + place.zone.len() + place.campus.len())
}

fn given_metadata(given: &Option<Metadata>) -> usize {
    given.as_ref().map_or(0, metadata)
}

fn metadata(pairs: &Metadata) -> usize {
    let texts = pairs.iter().map(|(key, value)| key.len() + value.len());
    texts.sum::<usize>() + pairs.len() * 2 * size_of::<Box<str>>()
}

fn texts<const N: usize>(texts: [&Option<String>; N]) -> usize {
    texts.iter().map(|text| text.as_ref().map_or(0, String::len)).sum()
}

fn names(given: &Option<Vec<String>>) -> usize {
    given.iter().flatten().map(|name| size_of::<String>() + name.len()).sum()
}
