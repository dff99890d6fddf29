//! The state: everything that is registered, at one version.
//!
//! A value: its clone costs a few reference counts, and [`State::apply`] changes the clone, so that a
//! version is published whole or dropped. Each noun's part is in a file of its own under `state/`.

mod aliases;
mod contracts;
mod instances;
pub(crate) mod load;
mod namespaces;
mod rules;
mod services;
mod transfer;

use std::sync::Arc;

use tollhouse_stdx::CowMap;

use crate::alias::Alias;
use crate::command::{Command, Outcome};
use crate::contract::Contract;
use crate::event::InstanceEvent;
use crate::held_bytes::Held;
use crate::instance::Instance;
use crate::journal::Journal;
use crate::key::{ServiceKey, ServiceRef};
use crate::pulse::Pulse;
use crate::refusal::Refusal;
use crate::revision::Revision;
use crate::rule::{Rule, RuleKind};
use crate::view::{Counts, MassExpiry, NamespaceView, Resolved, ServiceView};

/// See the module.
#[derive(Debug, Clone)]
pub struct State {
    /// Rises with every published version.
    pub(crate) version: u64,
    /// What makes this process' revisions differ from those of others.
    salt: u64,
    /// Revisions given out so far.
    sequence: u64,
    namespaces: CowMap<Arc<str>, Arc<NamespaceView>>,
    services: CowMap<ServiceKey, Arc<ServiceView>>,
    aliases: CowMap<ServiceKey, PlacedAlias>,
    /// How many aliases a service has; none is left out.
    alias_counts: CowMap<ServiceKey, u32>,
    instances: CowMap<Arc<str>, Placed>,
    rules: CowMap<(RuleKind, Arc<str>), Arc<Rule>>,
    targets: CowMap<(RuleKind, ServiceKey), rules::Linked>,
    /// The ids of rules whose names are their own, by namespace and name.
    rule_names: CowMap<(RuleKind, ServiceKey), Arc<str>>,
    contracts: CowMap<Arc<str>, Arc<Contract>>,
    /// Services whose instances are kept although they have fallen silent.
    mass_expiries: CowMap<ServiceKey, MassExpiry>,
    counts: Counts,
    /// The sum of all services' revisions.
    services_revision: Revision,
    /// The sum of all aliases' revisions.
    aliases_revision: Revision,
    /// The sum of all namespaces'.
    namespaces_revision: Revision,
    held: Held,
    /// Pulses of instances that are being read anew, by id.
    pulses: CowMap<Arc<str>, Arc<Pulse>>,
}

/// An instance and where it is in its service's view.
#[derive(Debug, Clone)]
struct Placed {
    instance: Arc<Instance>,
    slot: u32,
}

/// An alias and its place in the list of its namespace.
#[derive(Debug, Clone)]
struct PlacedAlias {
    alias: Arc<Alias>,
    place: u32,
}

/// How much there is of everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Totals {
    /// Namespaces.
    pub namespaces: usize,
    /// Services.
    pub services: usize,
    /// Aliases.
    pub aliases: usize,
    /// Instances.
    pub instances: Counts,
    /// Governance rules.
    pub rules: usize,
    /// Contracts.
    pub contracts: usize,
    /// Services in mass expiry.
    pub mass_expiries: usize,
    /// Bytes of memory that all of it is counted with.
    pub held_bytes: usize,
}

/// What all parts of a command need.
pub(crate) struct Change<'a> {
    /// Milliseconds of Unix time.
    pub(crate) now_ms: u64,
    /// What has to be made durable.
    pub(crate) journal: &'a mut Journal,
    /// What the owner of their health hears when it is.
    pub(crate) events: &'a mut Vec<InstanceEvent>,
}

impl Change<'_> {
    fn now_seconds(&self) -> u64 {
        self.now_ms / 1_000
    }
}

impl State {
    /// A state with nothing but the built-in namespaces, which takes objects of so many bytes. Two
    /// processes should not share a salt.
    pub fn new(salt: u64, bytes_max: usize) -> Self {
        let mut state = Self {
            version: 0,
            salt,
            sequence: 0,
            namespaces: CowMap::new(),
            services: CowMap::new(),
            aliases: CowMap::new(),
            alias_counts: CowMap::new(),
            instances: CowMap::new(),
            rules: CowMap::new(),
            targets: CowMap::new(),
            rule_names: CowMap::new(),
            contracts: CowMap::new(),
            mass_expiries: CowMap::new(),
            counts: Counts::default(),
            services_revision: Revision::default(),
            aliases_revision: Revision::default(),
            namespaces_revision: Revision::default(),
            held: Held::at_most(bytes_max),
            pulses: CowMap::new(),
        };
        state.add_built_in();
        state
    }

    /// Does a command, or nothing of it: what can be refused comes before what changes anything.
    pub(crate) fn apply(
        &mut self,
        command: Command,
        change: &mut Change<'_>,
    ) -> Result<Outcome, Refusal> {
        match command {
            Command::Register(new) => self.register(*new, change),
            Command::Deregister(id) => Ok(Outcome::Deregistered(self.deregister(&id, change))),
            Command::UpdateInstance(id, what) => self.update_instance(&id, *what, change),
            Command::UpdateInstances(ids, what) => self.update_instances(&ids, &what, change),
            Command::CreateNamespace(name, what) => self.create_namespace(&name, what, change),
            Command::UpdateNamespace(name, what) => self.update_namespace(&name, what, change),
            Command::DeleteNamespace(name) => self.delete_namespace(&name, change),
            Command::CreateService(key, what) => self.create_service(&key, *what, change),
            Command::UpdateService(key, what) => self.update_service(&key, *what, change),
            Command::DeleteService(key) => self.delete_service(&key, change),
            Command::CreateAlias(alias) => self.create_alias(*alias, change),
            Command::UpdateAlias(key, what) => self.update_alias(&key, *what, change),
            Command::DeleteAlias(key) => self.delete_alias(&key, change),
            Command::CreateRule(rule) => self.create_rule(*rule, change),
            Command::UpdateRule(rule) => self.update_rule(*rule, change),
            Command::EnableRule(kind, id, enabled) => self.enable_rule((kind, id), enabled, change),
            Command::DeleteRule(kind, id) => self.delete_rule(kind, &id, change),
            Command::PutContract(contract) => self.put_contract(*contract, change),
            Command::DeleteContract(id) => self.delete_contract(&id, change),
            Command::Put(object) => self.put_object(object, change),
        }
    }

    /// Rises with every published version; says nothing across restarts.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// The service of a name, and the alias if the name is one.
    #[inline]
    pub fn resolve(&self, name: ServiceRef<'_>) -> Option<Resolved<'_>> {
        if let Some(view) = self.services.get(&name) {
            return Some(Resolved { view, alias: None });
        }
        let alias = self.alias(name)?;
        let view = self.services.get(&alias.target)?;
        Some(Resolved { view, alias: Some(alias) })
    }

    /// Changes when any service is created, changed or deleted; not with instances.
    pub fn services_revision(&self) -> Revision {
        self.services_revision
    }

    /// Revision of the list of all names of services, aliases included.
    pub fn names_revision(&self) -> Revision {
        self.services_revision.with(self.aliases_revision)
    }

    /// Changes when any namespace is created, changed or deleted; not with what is in it.
    pub fn namespaces_revision(&self) -> Revision {
        self.namespaces_revision
    }

    /// The service of a name that is no alias.
    pub fn service(&self, name: ServiceRef<'_>) -> Option<&Arc<ServiceView>> {
        self.services.get(&name)
    }

    /// Every service, in no defined order.
    pub fn services(&self) -> impl Iterator<Item = &Arc<ServiceView>> {
        self.services.values()
    }

    /// The alias of a name.
    pub fn alias(&self, name: ServiceRef<'_>) -> Option<&Arc<Alias>> {
        self.aliases.get(&name).map(|placed| &placed.alias)
    }

    /// Whether a service has an alias.
    pub(crate) fn has_aliases(&self, key: &ServiceKey) -> bool {
        self.alias_counts.contains_key(key)
    }

    /// Every alias, in no defined order.
    pub fn aliases(&self) -> impl Iterator<Item = &Arc<Alias>> {
        self.aliases.values().map(|placed| &placed.alias)
    }

    /// The instance of an id.
    #[inline]
    pub fn instance(&self, id: &str) -> Option<&Arc<Instance>> {
        self.instances.get(id).map(|placed| &placed.instance)
    }

    /// Every instance, in no defined order.
    pub fn instances(&self) -> impl Iterator<Item = &Arc<Instance>> {
        self.instances.values().map(|placed| &placed.instance)
    }

    /// The namespace of a name.
    pub fn namespace(&self, name: &str) -> Option<&Arc<NamespaceView>> {
        self.namespaces.get(name)
    }

    /// Every namespace, in no defined order.
    pub fn namespaces(&self) -> impl Iterator<Item = &Arc<NamespaceView>> {
        self.namespaces.values()
    }

    /// The contract of an id.
    pub fn contract(&self, id: &str) -> Option<&Arc<Contract>> {
        self.contracts.get(id)
    }

    /// Every contract, in no defined order.
    pub fn contracts(&self) -> impl Iterator<Item = &Arc<Contract>> {
        self.contracts.values()
    }

    /// Services in mass expiry, in no defined order.
    pub fn mass_expiries(&self) -> impl Iterator<Item = (&ServiceKey, &MassExpiry)> {
        self.mass_expiries.iter()
    }

    /// How much there is of everything.
    pub fn totals(&self) -> Totals {
        Totals {
            namespaces: self.namespaces.len(),
            services: self.services.len(),
            aliases: self.aliases.len(),
            instances: self.counts,
            rules: self.rules.len(),
            contracts: self.contracts.len(),
            mass_expiries: self.mass_expiries.len(),
            held_bytes: self.held.bytes(),
        }
    }

    /// A revision, or the digits of an id, that nothing else has.
    fn next_revision(&mut self) -> Revision {
        self.sequence += 1;
        Revision::mixed(self.salt, self.sequence)
    }

    /// Whether another version knows of other mass expiries.
    pub(crate) fn differs_in_mass_expiry(&self, other: &Self) -> bool {
        !self.mass_expiries.is_same_version(&other.mass_expiries)
    }

    /// Whether it differs from another version in anything that readers can see.
    pub(crate) fn is_changed_from(&self, other: &Self) -> bool {
        !(self.namespaces.is_same_version(&other.namespaces)
            && self.services.is_same_version(&other.services)
            && self.aliases.is_same_version(&other.aliases)
            && self.instances.is_same_version(&other.instances)
            && self.rules.is_same_version(&other.rules)
            && self.contracts.is_same_version(&other.contracts)
            && self.mass_expiries.is_same_version(&other.mass_expiries))
    }

    /// Gives the pulses of another state to those of its instances that are read from now on.
    pub(crate) fn keep_pulses(&mut self, other: &Self) {
        for instance in other.instances() {
            self.pulses.insert(Arc::clone(&instance.id), Arc::clone(&instance.pulse));
        }
    }

    /// All is read.
    pub(crate) fn forget_pulses(&mut self) {
        self.pulses = CowMap::new();
    }

    /// Takes over what another version knows of mass expiries.
    pub(crate) fn copy_mass_expiries(&mut self, other: &Self) {
        self.mass_expiries = other.mass_expiries.clone();
    }

    /// Sets what is known of a service's mass expiry.
    pub(crate) fn set_mass_expiry(&mut self, key: &ServiceKey, expiry: Option<MassExpiry>) {
        match expiry {
            Some(expiry) => drop(self.mass_expiries.insert(key.clone(), expiry)),
            None => drop(self.mass_expiries.remove(key)),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
