//! What the registry's part of the Admin API is made of.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use serde_json::Value;
use tokio::sync::{Semaphore, watch};
use tollhouse_registry::{Client, NewRule, Registry, Rule, RuleKind, ServiceRef};

use crate::limits::WATCHES_MAX;

/// What depends on the protocol that clients of the registry speak.
pub trait RegistryDialect: fmt::Debug + Send + Sync {
    /// The id of an instance that is given none: the same that a client's registration would get.
    fn instance_id(&self, service: ServiceRef<'_>, vpc_id: &str, host: &str, port: u32) -> String;

    /// A rule as the dialect writes it in JSON.
    fn show_rule(&self, rule: &Rule) -> Value;

    /// A rule of what somebody wrote in JSON. Its kind may be a neighbour of the one asked for.
    ///
    /// # Errors
    /// What is wrong with it.
    fn read_rule(&self, kind: RuleKind, value: &Value) -> Result<NewRule, String>;

    /// What rules of a kind are made of, as a JSON Schema.
    fn rule_schema(&self, kind: RuleKind) -> Value;

    /// What a client reported about itself, in JSON.
    fn show_client(&self, client: &Client) -> Value;
}

/// Where the registry listens for its own clients.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RegistryListeners {
    /// gRPC.
    pub grpc: Vec<SocketAddr>,
    /// HTTP.
    pub http: Vec<SocketAddr>,
}

/// What the registry's part is made of.
#[derive(Debug, Clone)]
pub struct RegistryPart {
    pub(crate) registry: Registry,
    pub(crate) dialect: Arc<dyn RegistryDialect>,
    pub(crate) listeners: RegistryListeners,
    pub(crate) watches: Watches,
    /// When it was made, in milliseconds of Unix time.
    pub(crate) started_at_ms: u64,
}

impl RegistryPart {
    /// The part of a registry that has just started.
    pub fn new(registry: Registry, dialect: Arc<dyn RegistryDialect>) -> Self {
        let started_at_ms = registry.now_ms();
        let watches = Watches::new(WATCHES_MAX);
        Self { registry, dialect, listeners: RegistryListeners::default(), watches, started_at_ms }
    }

    /// The same, and where the registry listens.
    #[must_use]
    pub fn listening_on(self, listeners: RegistryListeners) -> Self {
        Self { listeners, ..self }
    }

    /// How many watches are open.
    pub fn watches_open(&self) -> usize {
        self.watches.open()
    }

    /// Ends every watch, so that the listener can end.
    pub(crate) fn end_watches(&self) {
        self.watches.end();
    }
}

/// All watches of a registry.
#[derive(Debug, Clone)]
pub(crate) struct Watches {
    pub(super) free: Arc<Semaphore>,
    pub(super) most: usize,
    /// How often all of them were ended.
    pub(super) ended: watch::Sender<u64>,
}

impl Watches {
    /// At most so many at a time.
    fn new(most: usize) -> Self {
        Self { free: Arc::new(Semaphore::new(most)), most, ended: watch::Sender::new(0) }
    }

    /// How many are open.
    pub(super) fn open(&self) -> usize {
        self.most - self.free.available_permits()
    }

    /// Ends all of them.
    fn end(&self) {
        self.ended.send_modify(|times| *times += 1);
    }
}
