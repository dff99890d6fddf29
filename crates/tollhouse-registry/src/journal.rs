//! The journal: what a command has to make durable, as keys and values of the store.
//!
//! Values are JSON, so that a person can read a backup.

use bytes::Bytes;
use serde::Serialize;
use tollhouse_store::Transaction;

use crate::alias::Alias;
use crate::contract::Contract;
use crate::instance::{Instance, StoredInstance};
use crate::key::ServiceRef;
use crate::namespace::Namespace;
use crate::rule::{Rule, RuleKind};
use crate::service::Service;

pub(crate) const NAMESPACES: &str = "/namespaces/";
pub(crate) const SERVICES: &str = "/services/";
pub(crate) const ALIASES: &str = "/aliases/";
pub(crate) const INSTANCES: &str = "/instances/";
pub(crate) const RULES: &str = "/rules/";
pub(crate) const CONTRACTS: &str = "/contracts/";

/// Writes in the order in which they were made; a later one of the same key wins.
#[derive(Debug, Default)]
pub(crate) struct Journal {
    transaction: Transaction,
    bytes: usize,
}

impl Journal {
    /// Bytes of keys and values in it.
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

    pub(crate) fn put_instance(&mut self, instance: &Instance) {
        self.put(format!("{INSTANCES}{}", instance.id), &StoredInstance::of(instance));
    }

    pub(crate) fn delete_instance(&mut self, id: &str) {
        self.delete(format!("{INSTANCES}{id}"));
    }

    pub(crate) fn put_namespace(&mut self, namespace: &Namespace) {
        self.put(format!("{NAMESPACES}{}", namespace.name), namespace);
    }

    pub(crate) fn delete_namespace(&mut self, name: &str) {
        self.delete(format!("{NAMESPACES}{name}"));
    }

    pub(crate) fn put_service(&mut self, service: &Service) {
        self.put(service_key(SERVICES, service.key.borrowed()), service);
    }

    pub(crate) fn delete_service(&mut self, key: ServiceRef<'_>) {
        self.delete(service_key(SERVICES, key));
    }

    pub(crate) fn put_alias(&mut self, alias: &Alias) {
        self.put(service_key(ALIASES, alias.key.borrowed()), alias);
    }

    pub(crate) fn delete_alias(&mut self, key: ServiceRef<'_>) {
        self.delete(service_key(ALIASES, key));
    }

    pub(crate) fn put_rule(&mut self, rule: &Rule) {
        self.put(format!("{RULES}{}/{}", rule.kind.name(), rule.id), rule);
    }

    pub(crate) fn delete_rule(&mut self, kind: RuleKind, id: &str) {
        self.delete(format!("{RULES}{}/{id}", kind.name()));
    }

    pub(crate) fn put_contract(&mut self, contract: &Contract) {
        self.put(format!("{CONTRACTS}{}", contract.id), contract);
    }

    pub(crate) fn delete_contract(&mut self, id: &str) {
        self.delete(format!("{CONTRACTS}{id}"));
    }

    fn put<T: Serialize>(&mut self, key: String, value: &T) {
        let value = serde_json::to_vec(value)
            .expect("records are structs, numbers, texts and maps with texts as keys");
        self.bytes += key.len() + value.len();
        self.transaction = std::mem::take(&mut self.transaction).put(key, value);
    }

    fn delete(&mut self, key: String) {
        self.bytes += key.len();
        self.transaction = std::mem::take(&mut self.transaction).delete(key);
    }
}

/// `#` cannot stand in a name, so that no two services share a key.
fn service_key(prefix: &str, ServiceRef { namespace, name }: ServiceRef<'_>) -> String {
    format!("{prefix}{namespace}#{name}")
}

/// Bytes as base64 in JSON.
pub(crate) mod base64_bytes {
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;
    use serde::{Deserialize, Deserializer, Serializer};

    use super::Bytes;

    pub(crate) fn serialize<S: Serializer>(
        bytes: &Bytes,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&STANDARD.encode(bytes))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Bytes, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(from)?;
        STANDARD.decode(&*text).map(Bytes::from).map_err(serde::de::Error::custom)
    }
}
