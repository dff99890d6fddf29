//! What is registered on its way from one registry into another: objects with their ids, times, tokens and revisions,
//! as a store, a file or another system's database has them. Putting them into a state is in `state/transfer.rs`;
//! where they come from and how they are written is the business of whoever moves them.

use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tollhouse_store::Entry;

use crate::alias::Alias;
use crate::check;
use crate::command::{Command, DetailsChange, NewContract, NewInstance, NewRule, ServiceChange};
use crate::contract::Contract;
use crate::instance::StoredInstance;
use crate::journal::{ALIASES, CONTRACTS, INSTANCES, NAMESPACES, RULES, Record, SERVICES};
use crate::limits::{BODY_BYTES_MAX, INSTANCE_ID_CHARS_MAX};
use crate::namespace::Namespace;
use crate::refusal::Refusal;
use crate::rule::Rule;
use crate::service::Service;
use crate::state::State;
use crate::state::load::LOADED;

/// See the module.
#[derive(Debug, Clone)]
pub enum Object {
    /// A namespace.
    Namespace(Box<Namespace>),
    /// A service.
    Service(Box<Service>),
    /// A further name of one.
    Alias(Box<Alias>),
    /// An instance. Its heartbeats stay behind.
    Instance(Box<StoredInstance>),
    /// A governance rule.
    Rule(Box<Rule>),
    /// A service contract.
    Contract(Box<Contract>),
}

/// What putting an object changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// There was none of it.
    Created,
    /// It was another.
    Changed,
    /// It is there as it is.
    Unchanged,
}

/// A key and a value that are no object of this version.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ForeignEntry {
    /// Nothing that is registered stands under such a key.
    #[error("nothing that is registered has such a key")]
    Key,
    /// The value is not that of its kind.
    #[error("the value cannot be read: {0}")]
    Value(String),
    /// The value says another name than the key.
    #[error("the value is that of {0}")]
    OtherKey(String),
}

/// What the keys of registered objects begin with, in the order in which they are put: names before what stands
/// under them.
pub const KEY_PREFIXES: [&str; 6] = LOADED;

impl Object {
    /// The object that a store or a file has under a key.
    ///
    /// # Errors
    /// It is none.
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
        } else {
            return Err(ForeignEntry::Key);
        };
        let own = object.record().map_err(|refusal| ForeignEntry::Value(refusal.to_string()))?;
        if own.key() != key {
            return Err(ForeignEntry::OtherKey(own.key().to_owned()));
        }
        Ok(object)
    }

    /// The key and the value that stores and files have of it.
    ///
    /// # Errors
    /// It is larger than what is kept of one object.
    pub fn to_entry(&self) -> Result<(String, Vec<u8>), Refusal> {
        Ok(self.record()?.into_parts())
    }

    /// The command that removes it.
    pub fn removal(&self) -> Command {
        match self {
            Self::Namespace(namespace) => Command::DeleteNamespace(namespace.name.clone()),
            Self::Service(service) => Command::DeleteService(service.key.clone()),
            Self::Alias(alias) => Command::DeleteAlias(alias.key.clone()),
            Self::Instance(instance) => Command::Deregister(instance.id.clone()),
            Self::Rule(rule) => Command::DeleteRule(rule.kind, rule.id.clone()),
            Self::Contract(contract) => Command::DeleteContract(contract.id.clone()),
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
        }
    }

    /// What people call its kind.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Namespace(_) => "namespace",
            Self::Service(_) => "service",
            Self::Alias(_) => "alias",
            Self::Instance(_) => "instance",
            Self::Rule(rule) => rule.kind.name(),
            Self::Contract(_) => "contract",
        }
    }

    /// What people call it.
    pub fn name(&self) -> String {
        match self {
            Self::Namespace(namespace) => namespace.name.to_string(),
            Self::Service(service) => service.key.to_string(),
            Self::Alias(alias) => alias.key.to_string(),
            Self::Instance(it) => format!("{} {}:{} ({})", it.service, it.host, it.port, it.id),
            Self::Rule(rule) => format!("{} ({})", rule.name, rule.id),
            Self::Contract(contract) => format!("{} ({})", contract.service, contract.id),
        }
    }

    /// Refuses what a client could not have registered either.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn check(&self) -> Result<(), Refusal> {
        match self {
            Self::Namespace(namespace) => check_namespace(namespace),
            Self::Service(service) => check_service(service),
            Self::Alias(alias) => check_id(&alias.id),
            Self::Instance(instance) => check::instance(&instance.to_new()),
            Self::Rule(rule) => check_id(&rule.id),
            Self::Contract(contract) => check_contract(contract),
        }
    }
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

/// Ids are given by whoever moves objects; none may be without.
fn check_id(id: &str) -> Result<(), Refusal> {
    if id.is_empty() || check::is_longer(id, INSTANCE_ID_CHARS_MAX) {
        return Err(Refusal::Parameter("id"));
    }
    Ok(())
}

impl StoredInstance {
    /// It as a client would register it.
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

/// The rule as somebody would write it.
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

/// Whether two are the same in what is kept of them.
pub(crate) fn is_alike<T: Serialize>(first: &T, second: &T) -> bool {
    // Texts, numbers, lists and maps with texts as keys: they can always be written.
    serde_json::to_vec(first).ok() == serde_json::to_vec(second).ok()
}

/// A registry in memory that objects are put into to learn what would come of it.
#[derive(Debug)]
pub struct Rehearsal {
    pub(crate) state: State,
}

impl Rehearsal {
    /// One that begins as a registry stands.
    pub fn from_state(state: &State) -> Self {
        Self { state: state.clone() }
    }

    /// One that begins with what a store holds; what this version cannot read is passed over.
    pub fn from_entries(entries: &[Entry], bytes_max: usize) -> Self {
        let mut state = State::new(0, bytes_max);
        for prefix in LOADED {
            let part: Vec<Entry> =
                entries.iter().filter(|entry| entry.key.starts_with(prefix)).cloned().collect();
            state.load(&part, 0);
        }
        Self { state }
    }
}
