//! Transfer of registered objects between registries, with their ids, times, tokens and revisions,
//! as stored in a store, a file or another system's database. `state/transfer.rs` puts them into a
//! state. Source and file format are up to the caller.

use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::alias::Alias;
use crate::check;
use crate::command::{Command, DetailsChange, NewContract, NewInstance, NewRule, ServiceChange};
use crate::config::{ConfigCommand, ConfigObject, ReleaseRef};
use crate::contract::Contract;
use crate::identity::{self, IdentityCommand, IdentityKind, IdentityObject};
use crate::instance::StoredInstance;
use crate::journal::{
    ALIASES, CONFIG_FILES, CONFIG_GROUPS, CONFIG_HISTORY, CONFIG_RELEASES, CONFIG_TEMPLATES,
    CONTRACTS, IDENTITIES, INSTANCES, LOADED, NAMESPACES, RULES, Record, SERVICES,
};
use crate::limits::{BODY_BYTES_MAX, INSTANCE_ID_CHARS_MAX};
use crate::namespace::Namespace;
use crate::refusal::Refusal;
use crate::rule::Rule;
use crate::service::Service;

/// Registered object of any kind.
#[derive(Debug, Clone)]
pub enum Object {
    Namespace(Box<Namespace>),
    Service(Box<Service>),
    Alias(Box<Alias>),
    Instance(Box<StoredInstance>),
    Rule(Box<Rule>),
    Contract(Box<Contract>),
    Config(Box<ConfigObject>),
    Identity(Box<IdentityObject>),
}

/// Effect of storing a transferred object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    Created,
    /// The object existed with other contents.
    Changed,
    Unchanged,
}

/// Reason for which a key and value cannot be decoded as an object.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ForeignEntry {
    /// The key has no known prefix.
    #[error("nothing that is registered has such a key")]
    Key,
    /// The value is not valid for its kind.
    #[error("the value cannot be read: {0}")]
    Value(String),
    /// The value has another name than the key.
    #[error("the value is that of {0}")]
    OtherKey(String),
}

/// Key prefixes in the order in which objects must be stored: an object comes after the objects
/// that it refers to.
pub const KEY_PREFIXES: [&str; 12] = LOADED;

impl Object {
    /// Decodes the key and value of a store or file.
    ///
    /// # Errors
    /// If the key is unknown, or the value is malformed or does not match the key.
    pub fn from_entry(key: &str, value: &[u8]) -> Result<Self, ForeignEntry> {
        let object = if key.starts_with(NAMESPACES) {
            Self::Namespace(read(value)?)
        } else if key.starts_with(SERVICES) {
            Self::Service(read(value)?)
        } else if key.starts_with(ALIASES) {
            Self::Alias(read(value)?)
        } else if key.starts_with(INSTANCES) {
            Self::Instance(read(value)?)
        } else if key.starts_with(RULES) {
            Self::Rule(read(value)?)
        } else if key.starts_with(CONTRACTS) {
            Self::Contract(read(value)?)
        } else if key.starts_with(IDENTITIES) {
            Self::Identity(Box::new(read_identity(key, value)?))
        } else {
            let object = ConfigObject::from_entry(key, value);
            let object = object.map_err(|error| ForeignEntry::Value(error.to_string()))?;
            Self::Config(Box::new(object.ok_or(ForeignEntry::Key)?))
        };
        let own = object.record().map_err(|refusal| ForeignEntry::Value(refusal.to_string()))?;
        if own.key() != key {
            return Err(ForeignEntry::OtherKey(own.key().to_owned()));
        }
        Ok(object)
    }

    /// Encodes the object as key and value of a store or file.
    ///
    /// # Errors
    /// If the object exceeds the store's limit for one object.
    pub fn to_entry(&self) -> Result<(String, Vec<u8>), Refusal> {
        Ok(self.record()?.into_parts())
    }

    /// Returns the command that removes the object.
    pub fn removal(&self) -> Command {
        match self {
            Self::Namespace(namespace) => Command::DeleteNamespace(namespace.name.clone()),
            Self::Service(service) => Command::DeleteService(service.key.clone()),
            Self::Alias(alias) => Command::DeleteAlias(alias.key.clone()),
            Self::Instance(instance) => Command::Deregister(instance.id.clone()),
            Self::Rule(rule) => Command::DeleteRule(rule.kind, rule.id.clone()),
            Self::Contract(contract) => Command::DeleteContract(contract.id.clone()),
            Self::Config(object) => Command::Config(Box::default(), Box::new(object.removal())),
            Self::Identity(object) => {
                let id = object.head().id.clone();
                Command::Identity(Box::new(IdentityCommand::Delete(object.kind(), id)))
            }
        }
    }

    pub(crate) fn record(&self) -> Result<Record, Refusal> {
        match self {
            Self::Namespace(namespace) => Record::namespace(namespace),
            Self::Service(service) => Record::service(service),
            Self::Alias(alias) => Record::alias(alias),
            Self::Instance(instance) => Record::stored_instance(instance),
            Self::Rule(rule) => Record::rule(rule),
            Self::Contract(contract) => Record::contract(contract),
            Self::Config(object) => object.record(),
            Self::Identity(object) => Record::identity(object),
        }
    }

    /// Returns the kind of the object as a noun, for messages.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Namespace(_) => "namespace",
            Self::Service(_) => "service",
            Self::Alias(_) => "alias",
            Self::Instance(_) => "instance",
            Self::Rule(rule) => rule.kind.name(),
            Self::Contract(_) => "contract",
            Self::Config(object) => object.kind(),
            Self::Identity(object) => object.kind().name(),
        }
    }

    /// Returns the name of the object as operators know it, for messages.
    pub fn name(&self) -> String {
        match self {
            Self::Namespace(namespace) => namespace.name.to_string(),
            Self::Service(service) => service.key.to_string(),
            Self::Alias(alias) => alias.key.to_string(),
            Self::Instance(it) => format!("{} {}:{} ({})", it.service, it.host, it.port, it.id),
            Self::Rule(rule) => format!("{} ({})", rule.name, rule.id),
            Self::Contract(contract) => format!("{} ({})", contract.service, contract.id),
            Self::Config(object) => object.name(),
            Self::Identity(object) => object.head().name.to_string(),
        }
    }

    /// Checks the object as a registration by a client would be checked.
    ///
    /// # Errors
    /// If a client could not have registered it.
    pub(crate) fn check(&self) -> Result<(), Refusal> {
        match self {
            Self::Namespace(namespace) => check_namespace(namespace),
            Self::Service(service) => check_service(service),
            Self::Alias(alias) => check_id(&alias.id),
            Self::Instance(instance) => check::instance(&instance.to_new()),
            Self::Rule(rule) => check_id(&rule.id),
            Self::Contract(contract) => check_contract(contract),
            Self::Config(object) => object.check(),
            Self::Identity(object) => identity::check::object(object),
        }
    }
}

impl ConfigObject {
    /// Decodes the key and value of a store; `None` for the key of another object.
    pub(crate) fn from_entry(key: &str, value: &[u8]) -> serde_json::Result<Option<Self>> {
        let object = if key.starts_with(CONFIG_GROUPS) {
            Self::Group(serde_json::from_slice(value)?)
        } else if key.starts_with(CONFIG_FILES) {
            Self::File(serde_json::from_slice(value)?)
        } else if key.starts_with(CONFIG_RELEASES) {
            Self::Release(serde_json::from_slice(value)?)
        } else if key.starts_with(CONFIG_HISTORY) {
            Self::Event(serde_json::from_slice(value)?)
        } else if key.starts_with(CONFIG_TEMPLATES) {
            Self::Template(serde_json::from_slice(value)?)
        } else {
            return Ok(None);
        };
        Ok(Some(object))
    }

    fn record(&self) -> Result<Record, Refusal> {
        match self {
            Self::Group(group) => Record::config_group(group),
            Self::File(file) => Record::config_file(file),
            Self::Release(release) => Record::config_release(release),
            Self::Event(event) => Record::config_event(event),
            Self::Template(template) => Record::config_template(template),
        }
    }

    /// Returns the command that removes the object; entries of the history and templates go with
    /// the file or stay.
    fn removal(&self) -> ConfigCommand {
        match self {
            Self::Group(group) => ConfigCommand::DeleteGroup(group.key.clone()),
            Self::File(file) => ConfigCommand::DeleteFile(file.key.clone()),
            Self::Release(release) => {
                let (key, name) = (release.key.clone(), release.name.clone());
                ConfigCommand::DeleteRelease(ReleaseRef { key, name })
            }
            Self::Event(_) | Self::Template(_) => ConfigCommand::Import(Vec::new()),
        }
    }

    fn kind(&self) -> &'static str {
        match self {
            Self::Group(_) => "configuration group",
            Self::File(_) => "configuration file",
            Self::Release(_) => "configuration release",
            Self::Event(_) => "configuration history entry",
            Self::Template(_) => "configuration template",
        }
    }

    fn name(&self) -> String {
        match self {
            Self::Group(group) => group.key.to_string(),
            Self::File(file) => file.key.to_string(),
            Self::Release(release) => format!("{} ({})", release.key, release.name),
            Self::Event(event) => format!("{} ({})", event.key, event.id),
            Self::Template(template) => template.name.to_string(),
        }
    }
}

fn read_identity(key: &str, value: &[u8]) -> Result<IdentityObject, ForeignEntry> {
    let kind = IdentityKind::ALL.into_iter().find(|kind| {
        let rest = key.strip_prefix(IDENTITIES).and_then(|rest| rest.strip_prefix(kind.name()));
        rest.is_some_and(|rest| rest.starts_with('/'))
    });
    let object = IdentityObject::from_value(kind.ok_or(ForeignEntry::Key)?, value);
    object.map_err(|error| ForeignEntry::Value(error.to_string()))
}

fn read<T: DeserializeOwned>(value: &[u8]) -> Result<Box<T>, ForeignEntry> {
    let read = serde_json::from_slice(value);
    read.map(Box::new).map_err(|error| ForeignEntry::Value(error.to_string()))
}

fn check_namespace(namespace: &Namespace) -> Result<(), Refusal> {
    check::namespace_name(&namespace.name)?;
    check::text(&namespace.comment, "comment")?;
    check::text(&namespace.owners, "owners")?;
    check::exports(&namespace.export_to)?;
    check::token(Some(&namespace.token))?;
    check::metadata(&namespace.metadata, 0)
}

fn check_service(service: &Service) -> Result<(), Refusal> {
    check_id(&service.id)?;
    check::service_name(&service.key.name)?;
    check::namespace_name(&service.key.namespace)?;
    check::service(&ServiceChange {
        metadata: Some(service.metadata.clone()),
        details: DetailsChange::from(service.details.clone()),
        token: Some(service.token.clone()),
    })
}

fn check_contract(contract: &Contract) -> Result<(), Refusal> {
    check_id(&contract.id)?;
    if contract.body.len() > BODY_BYTES_MAX {
        return Err(Refusal::Parameter("the contract is too large"));
    }
    check::contract(&NewContract {
        id: contract.id.clone(),
        service: contract.service.clone(),
        kind: contract.kind.clone(),
        protocol: contract.protocol.clone(),
        version: contract.version.clone(),
        over: None,
        body: Bytes::new(),
    })
}

/// Checks an id, which a transferred object must have.
fn check_id(id: &str) -> Result<(), Refusal> {
    if id.is_empty() || check::is_longer(id, INSTANCE_ID_CHARS_MAX) {
        return Err(Refusal::Parameter("id"));
    }
    Ok(())
}

impl StoredInstance {
    /// Converts the instance to the registration that a client would send.
    fn to_new(&self) -> NewInstance {
        NewInstance {
            id: self.id.clone(),
            service: (&*self.service.name).into(),
            namespace: (&*self.service.namespace).into(),
            host: self.host.clone(),
            port: Some(u32::from(self.port)),
            vpc_id: self.vpc_id.clone(),
            protocol: self.protocol.clone(),
            version: self.version.clone(),
            priority: self.priority,
            weight: Some(u32::from(self.weight)),
            ttl_seconds: self.ttl_seconds.map(u32::from),
            healthy: Some(self.healthy),
            isolated: Some(self.isolated),
            location: self.location.clone(),
            metadata: self.metadata.clone(),
            metadata_pairs: self.metadata.len(),
            logic_set: self.logic_set.clone(),
            unknown: self.unknown.clone(),
        }
    }
}

/// Converts a stored rule to the rule that a client would send.
pub(crate) fn to_new_rule(rule: &Rule) -> NewRule {
    NewRule {
        kind: rule.kind,
        id: rule.id.clone(),
        name: rule.name.clone(),
        namespace: rule.namespace.clone(),
        targets: rule.targets.clone(),
        priority: rule.priority,
        enabled: rule.enabled,
        body: rule.body.clone(),
    }
}

/// Whether the stored forms of two objects are equal.
pub(crate) fn is_alike<T: Serialize>(first: &T, second: &T) -> bool {
    // Serialization never fails: these types consist of texts, numbers, lists and maps with text
    // keys.
    serde_json::to_vec(first).ok() == serde_json::to_vec(second).ok()
}
