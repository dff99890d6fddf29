//! The journal: what a command has to make durable, as keys and values of the store.
//!
//! Values are JSON, so that a person can read a backup.

use std::collections::HashMap;

use serde::Serialize;
use tollhouse_store::limits::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
use tollhouse_store::{Operation, Transaction};

use crate::alias::Alias;
use crate::contract::Contract;
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

/// A key with its value, small enough for the store: whatever becomes a record can be committed.
#[derive(Debug)]
pub(crate) struct Record {
    key: String,
    value: Vec<u8>,
}

/// What is to be written: of each key the last that was, since a store takes one change of a key at a time.
#[derive(Debug, Default)]
pub(crate) struct Journal {
    transaction: Transaction,
    /// Where in the transaction a key stands.
    places: HashMap<Box<str>, usize>,
    bytes: usize,
}

impl Record {
    pub(crate) fn instance(instance: &Instance) -> Result<Self, Refusal> {
        Self::new(format!("{INSTANCES}{}", instance.id), &StoredInstance::from_instance(instance))
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

    pub(crate) fn contract(contract: &Contract) -> Result<Self, Refusal> {
        Self::new(format!("{CONTRACTS}{}", contract.id), contract)
    }

    fn new<T: Serialize>(key: String, value: &T) -> Result<Self, Refusal> {
        let value = serde_json::to_vec(value)
            .expect("records are structs, numbers, texts and maps with texts as keys");
        if key.len() > KEY_BYTES_MAX || value.len() > VALUE_BYTES_MAX {
            return Err(Refusal::TooLarge);
        }
        Ok(Self { key, value })
    }
}

impl Journal {
    /// Bytes of keys and values in it, those that others have replaced included.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether nothing has to be made durable.
    pub(crate) fn is_empty(&self) -> bool {
        self.transaction.operations.is_empty()
    }

    /// The writes, to be committed.
    pub(crate) fn into_transaction(self) -> Transaction {
        self.transaction
    }

    pub(crate) fn put(&mut self, Record { key, value }: Record) {
        self.bytes += key.len() + value.len();
        let key: Box<str> = key.into();
        self.note(key.clone(), Operation::put(key, value));
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

    fn delete(&mut self, key: String) {
        self.bytes += key.len();
        let key: Box<str> = key.into();
        self.note(key.clone(), Operation::delete(key));
    }

    fn note(&mut self, key: Box<str>, operation: Operation) {
        let operations = &mut self.transaction.operations;
        match self.places.get(&key) {
            Some(place) => operations[*place] = operation,
            None => {
                self.places.insert(key, operations.len());
                operations.push(operation);
            }
        }
    }
}

/// `#` cannot stand in a name, so that no two services share a key.
fn service_key(prefix: &str, ServiceRef { namespace, name }: ServiceRef<'_>) -> String {
    format!("{prefix}{namespace}#{name}")
}
