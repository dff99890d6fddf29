//! Commands: everything that changes the registry, and their outcomes.
//!
//! In a change, `None` leaves the field as it is.

use std::sync::Arc;

use bytes::Bytes;

use crate::alias::Alias;
use crate::config::{ConfigAuthor, ConfigCommand, ConfigOutcome};
use crate::contract::Contract;
use crate::identity::{IdentityCommand, IdentityObject};
use crate::instance::{Instance, Location, Metadata};
use crate::key::ServiceKey;
use crate::namespace::Namespace;
use crate::revision::Revision;
use crate::rule::{Rule, RuleKind};
use crate::service::{Service, ServiceDetails};
use crate::transfer::{Effect, Object};

/// Requested change of the registry.
#[derive(Debug, Clone)]
pub enum Command {
    /// Registers an instance, or replaces an existing instance with this id. Creates namespace and
    /// service if missing.
    Register(Box<NewInstance>),
    /// Removes an instance; an unknown id is not an error.
    Deregister(Arc<str>),
    /// Changes an existing instance.
    UpdateInstance(Arc<str>, Box<InstanceChange>),
    /// Applies one change to many existing instances: to all, or to none if one cannot be changed.
    UpdateInstances(Vec<Arc<str>>, Box<InstanceChange>),
    CreateNamespace(Arc<str>, NamespaceChange),
    UpdateNamespace(Arc<str>, NamespaceChange),
    DeleteNamespace(Arc<str>),
    /// Creates a service, and its namespace if missing.
    CreateService(ServiceKey, Box<ServiceChange>),
    UpdateService(ServiceKey, Box<ServiceChange>),
    /// Deletes a service that has no instances and no aliases.
    DeleteService(ServiceKey),
    /// Creates an alias. The registry sets its id, revision and times.
    CreateAlias(Box<Alias>),
    UpdateAlias(ServiceKey, Box<AliasChange>),
    DeleteAlias(ServiceKey),
    CreateRule(Box<NewRule>),
    /// Replaces the existing rule with this kind and id.
    UpdateRule(Box<NewRule>),
    /// Enables or disables a rule.
    EnableRule(RuleKind, Arc<str>, bool),
    DeleteRule(RuleKind, Arc<str>),
    PutContract(Box<NewContract>),
    DeleteContract(Arc<str>),
    /// Changes the configuration centre.
    Config(ConfigAuthor, Box<ConfigCommand>),
    /// Changes users, groups, roles and policies.
    Identity(Box<IdentityCommand>),
    /// Stores an object of another registry unchanged, in place of an existing object with its
    /// name.
    Put(Object),
}

impl Command {
    /// Whether the command only deletes. Such commands are allowed when memory or disk is full,
    /// because they make room.
    pub(crate) fn removes(&self) -> bool {
        match self {
            Self::Config(_, command) => command.removes(),
            Self::Identity(command) => command.removes(),
            Self::Deregister(_)
            | Self::DeleteNamespace(_)
            | Self::DeleteService(_)
            | Self::DeleteAlias(_)
            | Self::DeleteRule(..)
            | Self::DeleteContract(_) => true,
            Self::Register(_)
            | Self::UpdateInstance(..)
            | Self::UpdateInstances(..)
            | Self::CreateNamespace(..)
            | Self::UpdateNamespace(..)
            | Self::CreateService(..)
            | Self::UpdateService(..)
            | Self::CreateAlias(_)
            | Self::UpdateAlias(..)
            | Self::CreateRule(_)
            | Self::UpdateRule(_)
            | Self::EnableRule(..)
            | Self::PutContract(_)
            | Self::Put(_) => false,
        }
    }
}

#[derive(Debug, Clone)]
pub enum Outcome {
    Instance(Arc<Instance>),
    /// The changed instances after the command.
    Instances(Vec<Arc<Instance>>),
    /// The removed instance; `None` if the id was unknown.
    Deregistered(Option<Arc<Instance>>),
    Namespace(Arc<Namespace>),
    Service(Arc<Service>),
    Alias(Arc<Alias>),
    Rule(Arc<Rule>),
    Contract(Arc<Contract>),
    Config(ConfigOutcome),
    /// The created and changed identity objects.
    Identities(Vec<IdentityObject>),
    Deleted,
    /// An object of another registry was stored, or found equal.
    Put(Effect),
}

/// A registration as its client sent it, unchecked.
#[derive(Debug, Clone, Default)]
pub struct NewInstance {
    pub id: Arc<str>,
    pub service: Box<str>,
    pub namespace: Box<str>,
    /// Host name or address; surrounding blanks are removed.
    pub host: Box<str>,
    /// Port of the instance; `None` is refused.
    pub port: Option<u32>,
    /// Id of the virtual private cloud; may be empty.
    pub vpc_id: Box<str>,
    /// Protocol of the instance; may be empty.
    pub protocol: Box<str>,
    /// Version of the instance; may be empty.
    pub version: Box<str>,
    /// Stored for clients; the registry does not use it.
    pub priority: u32,
    /// Relative share of traffic; default 100.
    pub weight: Option<u32>,
    /// Interval between heartbeats in seconds; a value out of range becomes 5. `None` disables the
    /// health check.
    pub ttl_seconds: Option<u32>,
    /// Health at registration; healthy by default.
    pub healthy: Option<bool>,
    /// Isolation. `None` keeps the current value; a new instance is not isolated.
    pub isolated: Option<bool>,
    pub location: Option<Location>,
    pub metadata: Metadata,
    /// Number of pairs sent, duplicate keys included.
    pub metadata_pairs: usize,
    /// Name of the logic set; may be empty.
    pub logic_set: Box<str>,
    /// Encoded fields of a newer protocol version, stored unchanged.
    pub unknown: Bytes,
}

/// Fields of an instance to change; `None` keeps the current value.
#[derive(Debug, Clone, Default)]
pub struct InstanceChange {
    pub protocol: Option<Box<str>>,
    pub version: Option<Box<str>>,
    /// Stored for clients; the registry does not use it.
    pub priority: Option<u32>,
    /// Share of traffic, relative to other instances.
    pub weight: Option<u32>,
    /// Health check: `Some(seconds)` enables it with this interval between heartbeats, `Some(None)`
    /// disables it.
    pub ttl_seconds: Option<Option<u32>>,
    pub healthy: Option<bool>,
    /// Whether the instance gets no traffic.
    pub isolated: Option<bool>,
    pub location: Option<Location>,
    /// Metadata that replaces all existing pairs.
    pub metadata: Option<Metadata>,
    pub logic_set: Option<Box<str>>,
}

/// Fields of a namespace to change; `None` keeps the current value.
#[derive(Debug, Clone, Default)]
pub struct NamespaceChange {
    pub comment: Option<String>,
    pub owners: Option<String>,
    /// Metadata that replaces all existing pairs.
    pub metadata: Option<Metadata>,
    /// Namespaces that see the services of this one.
    pub export_to: Option<Vec<String>>,
    /// Access token, 32 hex digits.
    pub token: Option<String>,
}

/// Fields of a service to change; `None` keeps the current value.
#[derive(Debug, Clone, Default)]
pub struct ServiceChange {
    /// Metadata that replaces all existing pairs.
    pub metadata: Option<Metadata>,
    pub details: DetailsChange,
    /// Access token, 32 hex digits.
    pub token: Option<String>,
}

/// Changed descriptive fields of a service.
#[derive(Debug, Clone, Default)]
pub struct DetailsChange {
    /// Ports of the service, any text.
    pub ports: Option<String>,
    /// Business unit that the service belongs to.
    pub business: Option<String>,
    pub department: Option<String>,
    /// Place of the service in the operator's inventory (CMDB), on three levels: Polaris' fields
    /// `cmdb_mod1` to `cmdb_mod3`.
    pub cmdb_mod: [Option<String>; 3],
    pub comment: Option<String>,
    pub owners: Option<String>,
    /// Id of the platform that created the service.
    pub platform_id: Option<String>,
    /// Namespaces whose clients may see the service.
    pub export_to: Option<Vec<String>>,
}

impl From<ServiceDetails> for DetailsChange {
    /// Returns a change that sets every field.
    fn from(details: ServiceDetails) -> Self {
        Self {
            ports: Some(details.ports),
            business: Some(details.business),
            department: Some(details.department),
            cmdb_mod: details.cmdb_mod.map(Some),
            comment: Some(details.comment),
            owners: Some(details.owners),
            platform_id: Some(details.platform_id),
            export_to: Some(details.export_to),
        }
    }
}

/// Fields of an alias to change; `None` keeps the current value.
#[derive(Debug, Clone, Default)]
pub struct AliasChange {
    /// Service that the alias resolves to.
    pub target: Option<ServiceKey>,
    pub comment: Option<String>,
    pub owners: Option<String>,
    /// Metadata that replaces all existing pairs.
    pub metadata: Option<Metadata>,
}

/// A rule as its client sent it.
#[derive(Debug, Clone)]
pub struct NewRule {
    pub kind: RuleKind,
    /// Id; if empty, the registry creates one of 32 hex digits.
    pub id: Arc<str>,
    /// Name of the rule, for operators.
    pub name: Box<str>,
    /// Namespace under which the rule is listed.
    pub namespace: Box<str>,
    /// Services whose clients get the rule.
    pub targets: Vec<ServiceKey>,
    /// Rules of lower numbers apply first.
    pub priority: u32,
    /// Whether clients should apply the rule.
    pub enabled: bool,
    /// The rule, encoded by the dialect.
    pub body: Bytes,
}

/// A contract as a client reported it.
#[derive(Debug, Clone)]
pub struct NewContract {
    pub id: Arc<str>,
    pub service: ServiceKey,
    /// Type of contract, as Polaris calls it.
    pub kind: Box<str>,
    /// Protocol of the contract's interfaces.
    pub protocol: Box<str>,
    /// Version of the contract's service.
    pub version: Box<str>,
    /// Revision of the stored contract that this one is based on. The contract is refused if the
    /// stored one has another revision. `None` replaces any.
    pub over: Option<Revision>,
    /// The contract, encoded by the dialect.
    pub body: Bytes,
}
