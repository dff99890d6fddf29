//! The registry as a part of the Admin API.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use serde_json::Value;
use tokio::sync::{Semaphore, watch};
use tollhouse_registry::identity::PasswordHash;
use tollhouse_registry::{Client, NewRule, Registry, Rule, RuleKind, ServiceRef};

use crate::limits::WATCHES_MAX;

/// Functions that depend on the wire protocol of the registry's clients.
pub trait RegistryDialect: fmt::Debug + Send + Sync {
    /// Returns the id for an instance that is registered without one. It equals the id that a
    /// client's registration would get.
    fn instance_id(&self, service: ServiceRef<'_>, vpc_id: &str, host: &str, port: u32) -> String;

    /// Converts a rule to JSON in the protocol's format.
    fn show_rule(&self, rule: &Rule) -> Value;

    /// Parses a rule from JSON. The result may have another kind than `kind`, if the two share a
    /// format.
    ///
    /// # Errors
    /// Returns the reason if the rule is invalid.
    fn read_rule(&self, kind: RuleKind, value: &Value) -> Result<NewRule, String>;

    /// Returns the JSON schema of rules of a kind.
    fn rule_schema(&self, kind: RuleKind) -> Value;

    /// Converts a client's report about itself to JSON.
    fn show_client(&self, client: &Client) -> Value;

    /// Whether a password has a hash; takes as long without one. Takes some ten milliseconds.
    fn is_password(&self, password: &str, hash: Option<&PasswordHash>) -> bool;
}

/// Addresses on which the registry accepts clients.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RegistryListeners {
    pub grpc: Vec<SocketAddr>,
    pub http: Vec<SocketAddr>,
}

/// The registry, with its listeners and the state of its watches.
#[derive(Debug, Clone)]
pub struct RegistryPart {
    pub(crate) registry: Registry,
    pub(crate) dialect: Arc<dyn RegistryDialect>,
    pub(crate) listeners: RegistryListeners,
    pub(crate) watches: Watches,
    /// Start of the registry, in milliseconds of Unix time.
    pub(crate) started_at_ms: u64,
}

impl RegistryPart {
    /// Creates the part for a registry that has just started.
    pub fn new(registry: Registry, dialect: Arc<dyn RegistryDialect>) -> Self {
        let started_at_ms = registry.now_ms();
        let watches = Watches::new(WATCHES_MAX);
        Self { registry, dialect, listeners: RegistryListeners::default(), watches, started_at_ms }
    }

    /// Sets the addresses of the registry's listeners.
    #[must_use]
    pub fn listening_on(self, listeners: RegistryListeners) -> Self {
        Self { listeners, ..self }
    }

    pub fn watches_open(&self) -> usize {
        self.watches.open()
    }

    /// Ends all watches, so that the listener can stop.
    pub(crate) fn end_watches(&self) {
        self.watches.end();
    }
}

/// Limit of the open watches of the registry, and the signal that ends them.
#[derive(Debug, Clone)]
pub(crate) struct Watches {
    pub(super) free: Arc<Semaphore>,
    pub(super) most: usize,
    /// Incremented to end all open watches.
    pub(super) ended: watch::Sender<u64>,
}

impl Watches {
    /// Allows at most `most` open watches at a time.
    fn new(most: usize) -> Self {
        Self { free: Arc::new(Semaphore::new(most)), most, ended: watch::Sender::new(0) }
    }

    pub(super) fn open(&self) -> usize {
        self.most - self.free.available_permits()
    }

    fn end(&self) {
        self.ended.send_modify(|times| *times += 1);
    }
}
