//! State: all registered objects at one version.
//!
//! A plain value. A clone costs a few reference counts, and [`State::apply`] changes the clone, so
//! that a version is published whole or dropped. Each kind of object has a separate file under
//! `state/`.

mod aliases;
mod config;
mod contracts;
mod decision;
mod identity;
mod instances;
pub(crate) mod load;
mod namespaces;
mod rules;
mod services;
mod transfer;

use std::sync::Arc;

use tollhouse_stdx::CowMap;

pub use transfer::Rehearsal;

use crate::alias::Alias;
use crate::command::{Command, Outcome};
use crate::config::ConfigTotals;
use crate::contract::Contract;
use crate::event::InstanceEvent;
use crate::held_bytes::MemoryUse;
use crate::instance::Instance;
use crate::journal::Journal;
use crate::key::{ServiceKey, ServiceRef};
use crate::pulse::Pulse;
use crate::refusal::Refusal;
use crate::revision::Revision;
use crate::rule::{Rule, RuleKind};
use crate::view::{Counts, MassExpiry, NamespaceView, Resolved, ServiceView};

/// A version of the registry; see the module.
#[derive(Debug, Clone)]
pub struct State {
    /// Number that increases with every published version.
    pub(crate) version: u64,
    /// Salt that makes the revisions of this process differ from those of other processes.
    salt: u64,
    /// Number of revisions given out so far.
    sequence: u64,
    namespaces: CowMap<Arc<str>, Arc<NamespaceView>>,
    services: CowMap<ServiceKey, Arc<ServiceView>>,
    aliases: CowMap<ServiceKey, AliasSlot>,
    /// Number of aliases per service; services without aliases are left out.
    alias_counts: CowMap<ServiceKey, u32>,
    instances: CowMap<Arc<str>, InstanceSlot>,
    rules: CowMap<(RuleKind, Arc<str>), Arc<Rule>>,
    targets: CowMap<(RuleKind, ServiceKey), rules::TargetRules>,
    /// Ids of rules with unique names, by namespace and name.
    rule_names: CowMap<(RuleKind, ServiceKey), Arc<str>>,
    contracts: CowMap<Arc<str>, Arc<Contract>>,
    config: config::ConfigState,
    identity: identity::IdentityState,
    /// Services whose silent instances are kept.
    mass_expiries: CowMap<ServiceKey, MassExpiry>,
    counts: Counts,
    /// Sum of the revisions of all services, which changes with any service.
    services_revision: Revision,
    /// Sum of the revisions of all aliases, which changes with any alias.
    aliases_revision: Revision,
    /// Sum of the revisions of all namespaces, which changes with any namespace.
    namespaces_revision: Revision,
    held: MemoryUse,
    /// Pulses to reuse for instances while the state is read again, by id.
    pulses: CowMap<Arc<str>, Arc<Pulse>>,
}

/// Instance with its slot in its service's view.
#[derive(Debug, Clone)]
struct InstanceSlot {
    instance: Arc<Instance>,
    slot: u32,
}

/// Alias with its slot in the list of its namespace.
#[derive(Debug, Clone)]
struct AliasSlot {
    alias: Arc<Alias>,
    place: u32,
}

/// Number of objects by kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Totals {
    pub namespaces: usize,
    pub services: usize,
    pub aliases: usize,
    pub instances: Counts,
    pub rules: usize,
    pub contracts: usize,
    pub config: ConfigTotals,
    pub mass_expiries: usize,
    /// Estimated memory of all objects, in bytes.
    pub held_bytes: usize,
}

/// Context of a command: time, and collectors of its effects.
pub(crate) struct Change<'a> {
    /// Time of the command, in milliseconds of Unix time.
    pub(crate) now_ms: u64,
    /// Writes that must be made durable.
    pub(crate) journal: &'a mut Journal,
    /// Effects on instances, for the owner of health once they are durable.
    pub(crate) events: &'a mut Vec<InstanceEvent>,
}

impl Change<'_> {
    fn now_seconds(&self) -> u64 {
        self.now_ms / 1_000
    }
}

impl State {
    /// Creates a state with the built-in namespaces only. `bytes_max` bounds the memory of its
    /// objects. Every process should use a different salt.
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
            config: config::ConfigState::default(),
            identity: identity::IdentityState::default(),
            mass_expiries: CowMap::new(),
            counts: Counts::default(),
            services_revision: Revision::default(),
            aliases_revision: Revision::default(),
            namespaces_revision: Revision::default(),
            held: MemoryUse::at_most(bytes_max),
            pulses: CowMap::new(),
        };
        state.add_built_in();
        state
    }

    /// Executes a command completely or not at all: all checks come before the first change.
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
            Command::EnableRule(kind, id, enabled) => {
                self.set_rule_enabled(kind, id, enabled, change)
            }
            Command::DeleteRule(kind, id) => self.delete_rule(kind, &id, change),
            Command::PutContract(contract) => self.put_contract(*contract, change),
            Command::DeleteContract(id) => self.delete_contract(&id, change),
            Command::Config(author, command) => self.apply_config(*command, &author, change),
            Command::Identity(command) => self.apply_identity(*command, change),
            Command::Put(object) => self.put_object(object, change),
        }
    }

    /// Returns the version's number, which increases with every published version; it starts again
    /// with the process.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Returns the service of a name, and the alias if the name is an alias.
    #[inline]
    pub fn resolve(&self, name: ServiceRef<'_>) -> Option<Resolved<'_>> {
        if let Some(view) = self.services.get(&name) {
            return Some(Resolved { view, alias: None });
        }
        let alias = self.alias(name)?;
        let view = self.services.get(&alias.target)?;
        Some(Resolved { view, alias: Some(alias) })
    }

    /// Returns a revision that differs after any service was created, changed or deleted; changes
    /// of instances do not affect it.
    pub fn services_revision(&self) -> Revision {
        self.services_revision
    }

    /// Returns the revision of the list of all names of services, aliases included.
    pub fn names_revision(&self) -> Revision {
        self.services_revision.with(self.aliases_revision)
    }

    /// Returns a revision that differs after any namespace was created, changed or deleted; changes
    /// of its contents do not affect it.
    pub fn namespaces_revision(&self) -> Revision {
        self.namespaces_revision
    }

    /// Returns the service of a name; aliases are not followed.
    pub fn service(&self, name: ServiceRef<'_>) -> Option<&Arc<ServiceView>> {
        self.services.get(&name)
    }

    /// Iterates over all services, in no defined order.
    pub fn services(&self) -> impl Iterator<Item = &Arc<ServiceView>> {
        self.services.values()
    }

    pub fn alias(&self, name: ServiceRef<'_>) -> Option<&Arc<Alias>> {
        self.aliases.get(&name).map(|placed| &placed.alias)
    }

    pub(crate) fn has_aliases(&self, key: &ServiceKey) -> bool {
        self.alias_counts.contains_key(key)
    }

    /// Iterates over all aliases, in no defined order.
    pub fn aliases(&self) -> impl Iterator<Item = &Arc<Alias>> {
        self.aliases.values().map(|placed| &placed.alias)
    }

    #[inline]
    pub fn instance(&self, id: &str) -> Option<&Arc<Instance>> {
        self.instances.get(id).map(|placed| &placed.instance)
    }

    /// Iterates over all instances, in no defined order.
    pub fn instances(&self) -> impl Iterator<Item = &Arc<Instance>> {
        self.instances.values().map(|placed| &placed.instance)
    }

    pub fn namespace(&self, name: &str) -> Option<&Arc<NamespaceView>> {
        self.namespaces.get(name)
    }

    /// Iterates over all namespaces, in no defined order.
    pub fn namespaces(&self) -> impl Iterator<Item = &Arc<NamespaceView>> {
        self.namespaces.values()
    }

    pub fn contract(&self, id: &str) -> Option<&Arc<Contract>> {
        self.contracts.get(id)
    }

    /// Iterates over all contracts, in no defined order.
    pub fn contracts(&self) -> impl Iterator<Item = &Arc<Contract>> {
        self.contracts.values()
    }

    /// Iterates over the services in mass expiry, in no defined order.
    pub fn mass_expiries(&self) -> impl Iterator<Item = (&ServiceKey, &MassExpiry)> {
        self.mass_expiries.iter()
    }

    pub fn totals(&self) -> Totals {
        Totals {
            namespaces: self.namespaces.len(),
            services: self.services.len(),
            aliases: self.aliases.len(),
            instances: self.counts,
            rules: self.rules.len(),
            contracts: self.contracts.len(),
            config: self.config_totals(),
            mass_expiries: self.mass_expiries.len(),
            held_bytes: self.held.bytes(),
        }
    }

    /// Returns a new unique revision, which also serves as the digits of an id.
    fn next_revision(&mut self) -> Revision {
        self.sequence += 1;
        Revision::mixed(self.salt, self.sequence)
    }

    /// Whether the mass expiries of two versions differ.
    pub(crate) fn differs_in_mass_expiry(&self, other: &Self) -> bool {
        !self.mass_expiries.is_same_version(&other.mass_expiries)
    }

    /// Whether two versions differ in anything that readers can see.
    pub(crate) fn is_changed_from(&self, other: &Self) -> bool {
        !(self.namespaces.is_same_version(&other.namespaces)
            && self.services.is_same_version(&other.services)
            && self.aliases.is_same_version(&other.aliases)
            && self.instances.is_same_version(&other.instances)
            && self.rules.is_same_version(&other.rules)
            && self.contracts.is_same_version(&other.contracts)
            && !self.differs_in_templates(other)
            && !self.differs_in_identities(other)
            && self.mass_expiries.is_same_version(&other.mass_expiries))
    }

    /// Keeps the pulses of another state, for the instances that are loaded from now on.
    pub(crate) fn keep_pulses(&mut self, other: &Self) {
        for instance in other.instances() {
            self.pulses.insert(Arc::clone(&instance.id), Arc::clone(&instance.pulse));
        }
    }

    /// Drops the kept pulses, after everything was loaded.
    pub(crate) fn forget_pulses(&mut self) {
        self.pulses = CowMap::new();
    }

    /// Copies the mass expiries of another version.
    pub(crate) fn copy_mass_expiries(&mut self, other: &Self) {
        self.mass_expiries = other.mass_expiries.clone();
    }

    /// Sets or clears the mass expiry of a service.
    pub(crate) fn set_mass_expiry(&mut self, key: &ServiceKey, expiry: Option<MassExpiry>) {
        match expiry {
            Some(expiry) => drop(self.mass_expiries.insert(key.clone(), expiry)),
            None => drop(self.mass_expiries.remove(key)),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
