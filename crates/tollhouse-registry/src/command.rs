//! Commands: everything that changes the registry, and the outcome of each.
//!
//! A change has `None` where a field stays as it is.

use std::sync::Arc;

use bytes::Bytes;

use crate::alias::Alias;
use crate::contract::Contract;
use crate::instance::{Instance, Location, Metadata};
use crate::key::ServiceKey;
use crate::namespace::Namespace;
use crate::revision::Revision;
use crate::rule::{Rule, RuleKind};
use crate::service::{Service, ServiceDetails};
use crate::transfer::{Effect, Object};

/// A change that somebody asks for.
#[derive(Debug, Clone)]
pub enum Command {
    /// Registers an instance, or replaces the one of its id; creates namespace and service as needed.
    Register(Box<NewInstance>),
    /// Removes an instance; one that is not there has been removed already.
    Deregister(Arc<str>),
    /// Changes an instance that is there.
    UpdateInstance(Arc<str>, Box<InstanceChange>),
    /// Changes many instances that are there in the same way, all of them or none.
    UpdateInstances(Vec<Arc<str>>, Box<InstanceChange>),
    /// Creates a namespace.
    CreateNamespace(Arc<str>, NamespaceChange),
    /// Changes a namespace.
    UpdateNamespace(Arc<str>, NamespaceChange),
    /// Deletes an empty namespace.
    DeleteNamespace(Arc<str>),
    /// Creates a service, and its namespace as needed.
    CreateService(ServiceKey, Box<ServiceChange>),
    /// Changes a service.
    UpdateService(ServiceKey, Box<ServiceChange>),
    /// Deletes a service without instances and aliases.
    DeleteService(ServiceKey),
    /// Creates an alias; its id, revision and times are set here.
    CreateAlias(Box<Alias>),
    /// Changes an alias.
    UpdateAlias(ServiceKey, Box<AliasChange>),
    /// Deletes an alias.
    DeleteAlias(ServiceKey),
    /// Creates a rule.
    CreateRule(Box<NewRule>),
    /// Replaces a rule, found by kind and id.
    UpdateRule(Box<NewRule>),
    /// Switches a rule on or off.
    EnableRule(RuleKind, Arc<str>, bool),
    /// Deletes a rule.
    DeleteRule(RuleKind, Arc<str>),
    /// Creates or replaces a contract.
    PutContract(Box<NewContract>),
    /// Deletes a contract.
    DeleteContract(Arc<str>),
    /// Puts an object as another registry has it, in the place of what has its name here.
    Put(Object),
}

impl Command {
    /// Whether it only takes away: what makes room must be possible where there is none.
    pub(crate) fn removes(&self) -> bool {
        match self {
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

/// What a command did.
#[derive(Debug, Clone)]
pub enum Outcome {
    /// An instance, as it now stands.
    Instance(Arc<Instance>),
    /// The instances that changed, as they now stand.
    Instances(Vec<Arc<Instance>>),
    /// An instance is gone; `None` when there was none.
    Deregistered(Option<Arc<Instance>>),
    /// A namespace, as it now stands.
    Namespace(Arc<Namespace>),
    /// A service, as it now stands.
    Service(Arc<Service>),
    /// An alias, as it now stands.
    Alias(Arc<Alias>),
    /// A rule, as it now stands.
    Rule(Arc<Rule>),
    /// A contract, as it now stands.
    Contract(Arc<Contract>),
    /// Something was deleted.
    Deleted,
    /// An object was put.
    Put(Effect),
}

/// An instance as its owner describes it; not checked yet.
#[derive(Debug, Clone, Default)]
pub struct NewInstance {
    /// Its id.
    pub id: Arc<str>,
    /// The service's name.
    pub service: Box<str>,
    /// The namespace's name.
    pub namespace: Box<str>,
    /// Name or address; blanks around it go.
    pub host: Box<str>,
    /// The port; `None` is refused.
    pub port: Option<u32>,
    /// The virtual private cloud, or empty.
    pub vpc_id: Box<str>,
    /// What it speaks, or empty.
    pub protocol: Box<str>,
    /// Its version, or empty.
    pub version: Box<str>,
    /// Kept for clients.
    pub priority: u32,
    /// Share of the traffic; `None` is 100.
    pub weight: Option<u32>,
    /// Seconds between heartbeats where health is checked; out of range is 5.
    pub ttl_seconds: Option<u32>,
    /// `None` is healthy.
    pub healthy: Option<bool>,
    /// `None` leaves it as it is, at first not isolated.
    pub isolated: Option<bool>,
    /// Where it stands.
    pub location: Option<Location>,
    /// Pairs that its owner gives.
    pub metadata: Metadata,
    /// Pairs as they were counted, keys that came twice included.
    pub metadata_pairs: usize,
    /// The logic set, or empty.
    pub logic_set: Box<str>,
    /// Fields of a newer protocol, as they came.
    pub unknown: Bytes,
}

/// What changes of an instance.
#[derive(Debug, Clone, Default)]
pub struct InstanceChange {
    /// What it speaks.
    pub protocol: Option<Box<str>>,
    /// Its version.
    pub version: Option<Box<str>>,
    /// Kept for clients.
    pub priority: Option<u32>,
    /// Share of the traffic.
    pub weight: Option<u32>,
    /// Health checks: on with these seconds, or off.
    pub ttl_seconds: Option<Option<u32>>,
    /// Whether it counts as healthy.
    pub healthy: Option<bool>,
    /// Whether traffic is kept from it.
    pub isolated: Option<bool>,
    /// Where it stands.
    pub location: Option<Location>,
    /// All of its pairs.
    pub metadata: Option<Metadata>,
    /// The logic set.
    pub logic_set: Option<Box<str>>,
}

/// What changes of a namespace.
#[derive(Debug, Clone, Default)]
pub struct NamespaceChange {
    /// For people.
    pub comment: Option<String>,
    /// For people.
    pub owners: Option<String>,
    /// All of its pairs.
    pub metadata: Option<Metadata>,
    /// Namespaces that see its services.
    pub export_to: Option<Vec<String>>,
    /// Its token, 32 hex digits.
    pub token: Option<String>,
}

/// What changes of a service.
#[derive(Debug, Clone, Default)]
pub struct ServiceChange {
    /// All of its pairs.
    pub metadata: Option<Metadata>,
    /// What people write about it.
    pub details: DetailsChange,
    /// Its token, 32 hex digits.
    pub token: Option<String>,
}

/// What changes of what people write about a service.
#[derive(Debug, Clone, Default)]
pub struct DetailsChange {
    /// Its ports, in words.
    pub ports: Option<String>,
    /// The business it belongs to.
    pub business: Option<String>,
    /// The department that runs it.
    pub department: Option<String>,
    /// Three levels of an inventory.
    pub cmdb_mod: [Option<String>; 3],
    /// For people.
    pub comment: Option<String>,
    /// Its owners.
    pub owners: Option<String>,
    /// The platform that made it.
    pub platform_id: Option<String>,
    /// Namespaces that see it.
    pub export_to: Option<Vec<String>>,
}

impl From<ServiceDetails> for DetailsChange {
    /// All of it.
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

/// What changes of an alias.
#[derive(Debug, Clone, Default)]
pub struct AliasChange {
    /// The service.
    pub target: Option<ServiceKey>,
    /// For people.
    pub comment: Option<String>,
    /// Its owners.
    pub owners: Option<String>,
    /// All of its pairs.
    pub metadata: Option<Metadata>,
}

/// A rule as somebody writes it.
#[derive(Debug, Clone)]
pub struct NewRule {
    /// What it governs.
    pub kind: RuleKind,
    /// Its id; empty for one of 32 hex digits.
    pub id: Arc<str>,
    /// For people.
    pub name: Box<str>,
    /// The namespace it is listed under.
    pub namespace: Box<str>,
    /// The services whose clients get it.
    pub targets: Vec<ServiceKey>,
    /// Lower goes first.
    pub priority: u32,
    /// Whether clients should obey it.
    pub enabled: bool,
    /// The rule as the dialect writes it.
    pub body: Bytes,
}

/// A contract as a client reports it.
#[derive(Debug, Clone)]
pub struct NewContract {
    /// Its id.
    pub id: Arc<str>,
    /// The service.
    pub service: ServiceKey,
    /// What kind of contract.
    pub kind: Box<str>,
    /// The protocol of the interfaces.
    pub protocol: Box<str>,
    /// The version of the service.
    pub version: Box<str>,
    /// Revision of the contract that this one was made from; it replaces no other. `None` replaces any.
    pub over: Option<Revision>,
    /// The contract as the dialect writes it.
    pub body: Bytes,
}
