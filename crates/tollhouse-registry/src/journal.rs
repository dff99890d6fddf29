//! The journal: the keys and values that a command must store.
//!
//! Values are JSON, so that a person can read a backup.
//!
//! Where several nodes share the store, each decides from the state that it has read so far. A
//! guarded journal adds conditions to the commit: the store refuses the whole commit if another
//! node has changed an object on which the decision was based.

use std::collections::{HashMap, HashSet};

use serde::Serialize;
use tollhouse_store::limits::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
use tollhouse_store::{Condition, Operation, Revision, Transaction};

use crate::alias::Alias;
use crate::config::{
    ConfigEvent, ConfigFile, ConfigFileKey, ConfigGroup, ConfigRelease, ConfigTemplate,
};
use crate::contract::Contract;
use crate::identity::{IdentityKind, IdentityObject};
use crate::instance::{Instance, StoredInstance};
use crate::key::ServiceRef;
use crate::namespace::Namespace;
use crate::refusal::Refusal;
use crate::rule::{Rule, RuleKind};
use crate::service::Service;

pub(crate) const NAMESPACES: &str = "/namespaces/";
pub(crate) const SERVICES: &str = "/services/";
pub(crate) const ALIASES: &str = "/aliases/";
pub(crate) const INSTANCES: &str = "/instances/";
pub(crate) const RULES: &str = "/rules/";
pub(crate) const CONTRACTS: &str = "/contracts/";
pub(crate) const CONFIG_GROUPS: &str = "/config-groups/";
pub(crate) const CONFIG_FILES: &str = "/config-files/";
pub(crate) const CONFIG_RELEASES: &str = "/config-releases/";
pub(crate) const CONFIG_HISTORY: &str = "/config-history/";
pub(crate) const CONFIG_TEMPLATES: &str = "/config-templates/";
pub(crate) const IDENTITIES: &str = "/identities/";

/// Key prefixes in loading order: an object comes after the objects that it refers to.
pub(crate) const LOADED: [&str; 12] = [
    NAMESPACES,
    SERVICES,
    ALIASES,
    INSTANCES,
    RULES,
    CONTRACTS,
    CONFIG_GROUPS,
    CONFIG_FILES,
    CONFIG_RELEASES,
    CONFIG_HISTORY,
    CONFIG_TEMPLATES,
    IDENTITIES,
];

/// A key and its value. Both are within the store's limits, so that every record can be committed.
#[derive(Debug)]
pub(crate) struct Record {
    key: String,
    value: Vec<u8>,
}

/// Pending writes. Only the last write of each key is kept, because a transaction changes a key
/// once.
#[derive(Debug, Default)]
pub(crate) struct Journal {
    transaction: Transaction,
    /// Index of each key's operation in the transaction.
    places: HashMap<Box<str>, usize>,
    bytes: usize,
    guards: Option<Guards>,
}

/// Conditions on which the commit depends.
#[derive(Debug, Default)]
struct Guards {
    /// Keys that the commit requires to be absent.
    absent: HashSet<Box<str>>,
    /// Keys that the commit requires to exist.
    present: HashSet<Box<str>>,
    /// Keys that must not have changed, because this journal overwrites or deletes them.
    unchanged: Vec<Box<str>>,
    /// Whether no key at all may have been put since.
    is_all: bool,
}

/// Presence of a key before it is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Before {
    Absent,
    Present,
}

impl<T> From<Option<&T>> for Before {
    fn from(known: Option<&T>) -> Self {
        if known.is_some() { Self::Present } else { Self::Absent }
    }
}

impl Record {
    pub(crate) fn instance(instance: &Instance) -> Result<Self, Refusal> {
        Self::new(format!("{INSTANCES}{}", instance.id), &StoredInstance::from_instance(instance))
    }

    /// Returns the record of an instance that is transferred from another registry.
    pub(crate) fn stored_instance(instance: &StoredInstance) -> Result<Self, Refusal> {
        Self::new(format!("{INSTANCES}{}", instance.id), instance)
    }

    pub(crate) fn namespace(namespace: &Namespace) -> Result<Self, Refusal> {
        Self::new(format!("{NAMESPACES}{}", namespace.name), namespace)
    }

    pub(crate) fn service(service: &Service) -> Result<Self, Refusal> {
        Self::new(service_key(SERVICES, service.key.borrowed()), service)
    }

    pub(crate) fn alias(alias: &Alias) -> Result<Self, Refusal> {
        Self::new(service_key(ALIASES, alias.key.borrowed()), alias)
    }

    pub(crate) fn rule(rule: &Rule) -> Result<Self, Refusal> {
        Self::new(format!("{RULES}{}/{}", rule.kind.name(), rule.id), rule)
    }

    pub(crate) fn identity(object: &IdentityObject) -> Result<Self, Refusal> {
        let key = Self::identity_key(object.kind(), &object.head().id);
        match object {
            IdentityObject::User(user) => Self::new(key, &**user),
            IdentityObject::Group(group) => Self::new(key, &**group),
            IdentityObject::Role(role) => Self::new(key, &**role),
            IdentityObject::Policy(policy) => Self::new(key, &**policy),
        }
    }

    /// Returns the key of a user, group, role or policy.
    pub(crate) fn identity_key(kind: IdentityKind, id: &str) -> String {
        format!("{IDENTITIES}{}/{id}", kind.name())
    }

    pub(crate) fn contract(contract: &Contract) -> Result<Self, Refusal> {
        Self::new(format!("{CONTRACTS}{}", contract.id), contract)
    }

    pub(crate) fn config_group(group: &ConfigGroup) -> Result<Self, Refusal> {
        Self::new(Self::config_group_key(group.key.borrowed()), group)
    }

    pub(crate) fn config_file(file: &ConfigFile) -> Result<Self, Refusal> {
        Self::new(Self::config_file_key(&file.key), file)
    }

    pub(crate) fn config_release(release: &ConfigRelease) -> Result<Self, Refusal> {
        Self::new(Self::config_release_key(release), release)
    }

    pub(crate) fn config_event(event: &ConfigEvent) -> Result<Self, Refusal> {
        Self::new(Self::config_event_key(event), event)
    }

    pub(crate) fn config_template(template: &ConfigTemplate) -> Result<Self, Refusal> {
        Self::new(format!("{CONFIG_TEMPLATES}{}", template.name), template)
    }

    pub(crate) fn config_group_key(key: ServiceRef<'_>) -> String {
        service_key(CONFIG_GROUPS, key)
    }

    pub(crate) fn config_file_key(key: &ConfigFileKey) -> String {
        let ConfigFileKey { namespace, group, name } = key;
        format!("{CONFIG_FILES}{namespace}#{group}#{name}")
    }

    pub(crate) fn config_release_key(release: &ConfigRelease) -> String {
        part_key(CONFIG_RELEASES, &release.key, release.id)
    }

    pub(crate) fn config_event_key(event: &ConfigEvent) -> String {
        part_key(CONFIG_HISTORY, &event.key, event.id)
    }

    fn new<T: Serialize>(key: String, value: &T) -> Result<Self, Refusal> {
        let value = serde_json::to_vec(value)
            .expect("records are structs, numbers, texts and maps with texts as keys");
        if key.len() > KEY_BYTES_MAX || value.len() > VALUE_BYTES_MAX {
            return Err(Refusal::TooLarge);
        }
        Ok(Self { key, value })
    }

    pub(crate) fn key(&self) -> &str {
        &self.key
    }

    pub(crate) fn into_parts(self) -> (String, Vec<u8>) {
        (self.key, self.value)
    }
}

impl Journal {
    /// Returns a journal for a store that other nodes also write.
    pub(crate) fn guarded() -> Self {
        Self { guards: Some(Guards::default()), ..Self::default() }
    }

    /// Returns the bytes of all keys and values noted, overwritten ones included.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether the journal holds no write.
    pub(crate) fn is_empty(&self) -> bool {
        self.transaction.operations.is_empty()
    }

    /// Returns the transaction; `since` is the revision up to which this node has read the store.
    pub(crate) fn into_transaction(self, since: Revision) -> Transaction {
        let mut transaction = self.transaction;
        if let Some(guards) = self.guards {
            transaction.conditions = guards.into_conditions(since);
        }
        transaction
    }

    /// Makes the commit depend on the existence of a service.
    pub(crate) fn require_service(&mut self, key: ServiceRef<'_>) {
        self.require(|| service_key(SERVICES, key), Before::Present);
    }

    /// Makes the commit depend on the absence of a service of this name.
    pub(crate) fn require_no_service(&mut self, key: ServiceRef<'_>) {
        self.require(|| service_key(SERVICES, key), Before::Absent);
    }

    /// Makes the commit depend on the absence of an alias of this name.
    pub(crate) fn require_no_alias(&mut self, key: ServiceRef<'_>) {
        self.require(|| service_key(ALIASES, key), Before::Absent);
    }

    /// Makes the commit depend on the existence of a namespace.
    pub(crate) fn require_namespace(&mut self, name: &str) {
        self.require(|| format!("{NAMESPACES}{name}"), Before::Present);
    }

    /// Makes the commit depend on the existence of a group of configuration files.
    pub(crate) fn require_config_group(&mut self, key: ServiceRef<'_>) {
        self.require(|| Record::config_group_key(key), Before::Present);
    }

    /// Makes the commit depend on the existence of a user, group or role.
    pub(crate) fn require_identity(&mut self, kind: IdentityKind, id: &str) {
        self.require(|| Record::identity_key(kind, id), Before::Present);
    }

    /// Makes the commit depend on no key having been put since the state was read.
    pub(crate) fn require_nothing_new(&mut self) {
        if let Some(guards) = &mut self.guards {
            guards.is_all = true;
        }
    }

    fn require(&mut self, key: impl FnOnce() -> String, before: Before) {
        let Some(guards) = &mut self.guards else { return };
        let key: Box<str> = key().into();
        // A key that this journal writes already has a condition on its previous state.
        if self.places.contains_key(&key) {
            return;
        }
        match before {
            Before::Absent => guards.absent.insert(key),
            Before::Present => guards.present.insert(key),
        };
    }

    pub(crate) fn put(&mut self, Record { key, value }: Record, before: Before) {
        self.bytes += key.len() + value.len();
        let key: Box<str> = key.into();
        self.note(key.clone(), Operation::put(key, value), before);
    }

    pub(crate) fn delete_instance(&mut self, id: &str) {
        self.delete(format!("{INSTANCES}{id}"));
    }

    pub(crate) fn delete_namespace(&mut self, name: &str) {
        self.delete(format!("{NAMESPACES}{name}"));
    }

    pub(crate) fn delete_service(&mut self, key: ServiceRef<'_>) {
        self.delete(service_key(SERVICES, key));
    }

    pub(crate) fn delete_alias(&mut self, key: ServiceRef<'_>) {
        self.delete(service_key(ALIASES, key));
    }

    pub(crate) fn delete_rule(&mut self, kind: RuleKind, id: &str) {
        self.delete(format!("{RULES}{}/{id}", kind.name()));
    }

    pub(crate) fn delete_contract(&mut self, id: &str) {
        self.delete(format!("{CONTRACTS}{id}"));
    }

    /// Deletes an object of the configuration centre.
    pub(crate) fn delete_key(&mut self, key: String) {
        self.delete(key);
    }

    fn delete(&mut self, key: String) {
        self.bytes += key.len();
        let key: Box<str> = key.into();
        self.note(key.clone(), Operation::delete(key), Before::Present);
    }

    fn note(&mut self, key: Box<str>, operation: Operation, before: Before) {
        let operations = &mut self.transaction.operations;
        match self.places.get(&key) {
            Some(place) => operations[*place] = operation,
            None => {
                if let Some(guards) = &mut self.guards {
                    guards.note(&key, before);
                }
                self.places.insert(key, operations.len());
                operations.push(operation);
            }
        }
    }
}

impl Guards {
    fn note(&mut self, key: &str, before: Before) {
        match before {
            Before::Absent => drop(self.absent.insert(key.into())),
            Before::Present => {
                self.present.insert(key.into());
                self.unchanged.push(key.into());
            }
        }
    }

    fn into_conditions(self, since: Revision) -> Vec<Condition> {
        let Self { absent, present, unchanged, is_all } = self;
        let all = is_all.then_some(Condition::NothingPutSince { revision: since });
        let absent = absent.into_iter().map(|key| Condition::Absent { key });
        let present = present.into_iter().map(|key| Condition::Exists { key });
        let unchanged =
            unchanged.into_iter().map(|key| Condition::UnchangedSince { key, revision: since });
        all.into_iter().chain(absent).chain(present).chain(unchanged).collect()
    }
}

/// Returns the key of a release, or of an entry of the history. The file's name is last, because it
/// may contain any character.
fn part_key(prefix: &str, key: &ConfigFileKey, id: u64) -> String {
    let ConfigFileKey { namespace, group, name } = key;
    format!("{prefix}{namespace}#{group}#{id:016x}#{name}")
}

/// Returns the key of a service or alias. `#` is not allowed in names, so that no two services
/// share a key.
fn service_key(prefix: &str, ServiceRef { namespace, name }: ServiceRef<'_>) -> String {
    format!("{prefix}{namespace}#{name}")
}
