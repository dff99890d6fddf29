//! The registry as a part of the Admin API.

use std::fmt;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use hyper::header::HeaderValue;
use hyper::{Method, StatusCode};
use serde_json::Value;
use tokio::sync::{Semaphore, watch};
use tollhouse_model::change_row::Way;
use tollhouse_registry::identity::PasswordHash;
use tollhouse_registry::{Client, NewRule, Registry, Rule, RuleKind, ServiceRef};

use super::body_budget::BodyBudget;
use super::change_queue::ChangeQueue;
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

    /// Answers a call of the protocol's own HTTP API, with its own checks of rights.
    fn answer(&self, call: DialectCall) -> DialectFuture<'_>;

    /// Whether a password has a hash; takes as long without one. Takes some ten milliseconds.
    fn is_password(&self, password: &str, hash: Option<&PasswordHash>) -> bool;
}

/// Future answer to a [`DialectCall`].
pub type DialectFuture<'a> = Pin<Box<dyn Future<Output = DialectAnswer> + Send + 'a>>;

/// Call of the protocol's own HTTP API, whose caller the Admin API has identified.
#[derive(Debug, Clone)]
pub struct DialectCall {
    pub method: Method,
    /// Path and query, such as `/core/v1/users?limit=10`.
    pub target: String,
    pub content_type: Option<HeaderValue>,
    pub body: Bytes,
    pub peer: SocketAddr,
    pub caller: DialectCaller,
    /// Interface by which the call came, for change rows.
    pub way: Way,
}

/// Identified caller of a [`DialectCall`].
#[derive(Clone, PartialEq, Eq)]
pub enum DialectCaller {
    /// Holder of a configured key, who may do everything; the name is empty if no key is required.
    Key(String),
    /// User or group with this token, whose policies decide.
    Token(Box<str>),
}

impl fmt::Debug for DialectCaller {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Key(name) => write!(out, "Key({name})"),
            Self::Token(_) => out.write_str("Token(***)"),
        }
    }
}

#[derive(Debug, Clone)]
pub struct DialectAnswer {
    pub status: StatusCode,
    pub content_type: Option<HeaderValue>,
    pub body: Bytes,
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
    pub(crate) changes: ChangeQueue,
    /// Memory for bodies that are passed to the dialect.
    pub(crate) bodies: BodyBudget,
    /// Start of the registry, in milliseconds of Unix time.
    pub(crate) started_at_ms: u64,
}

impl RegistryPart {
    /// Creates the part for a registry that has just started.
    pub fn new(registry: Registry, dialect: Arc<dyn RegistryDialect>) -> Self {
        let started_at_ms = registry.now_ms();
        let watches = Watches::new(WATCHES_MAX);
        let (listeners, changes, bodies) = Default::default();
        Self { registry, dialect, listeners, watches, changes, bodies, started_at_ms }
    }

    /// Sets the queue of change rows from the registry's own doors.
    #[must_use]
    pub fn noting(self, changes: ChangeQueue) -> Self {
        Self { changes, ..self }
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
