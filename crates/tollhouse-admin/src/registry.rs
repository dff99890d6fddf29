//! The registry behind the Admin API: its objects under `/registry/v1`, with the keys, roles and
//! errors of the rest.
//!
//! Here: what the registry's part is made of, and which path leads where. What instances are to a
//! wire protocol is no matter of this crate: a [`RegistryDialect`] tells the few things that depend on
//! one.

mod aliases;
mod clients;
mod incoming;
mod instances;
mod listing;
mod namespaces;
pub(crate) mod openapi;
mod outgoing;
mod refused;
mod rules;
mod services;
mod status;
mod watch;

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use hyper::body::Body;
use hyper::{Method, StatusCode};
use serde_json::Value;
use tollhouse_registry::{Client, NewRule, Registry, Rule, RuleKind, ServiceRef};

use crate::api::Admin;
use crate::auth;
use crate::body;
use crate::call::Call;
use crate::limits::{BODY_BYTES_MAX, WATCHES_MAX};
use crate::reply::Reply;
use watch::Watches;

/// Where the registry's part begins.
pub(crate) const PREFIX: [&str; 2] = ["registry", "v1"];

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
    /// Of a registry that has just started.
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

/// A call about the registry.
struct Request<'a> {
    part: &'a RegistryPart,
    call: &'a Call,
    body: Bytes,
}

/// Answers a call below [`PREFIX`].
pub(crate) async fn answer<B>(admin: &Admin, call: &Call, body: B) -> Result<Reply, Reply>
where
    B: Body,
    B::Error: std::error::Error + Send + Sync + 'static,
{
    auth::check_key(&admin.parts.options, call)?;
    let part = admin.parts.registry.as_ref().ok_or_else(|| {
        Reply::refusal(StatusCode::NOT_FOUND, "the registry is off; see listen.registry_grpc")
    })?;
    let body = body::read(body, BODY_BYTES_MAX).await?;
    let segments: Vec<&str> = call.whole_segments.iter().skip(2).map(String::as_str).collect();
    Request { part, call, body }.answer(&segments).await
}

impl Request<'_> {
    async fn answer(&self, segments: &[&str]) -> Result<Reply, Reply> {
        match *segments {
            ["status"] => self.only_get(|| Ok(status::read(self.part))),
            ["clients"] => self.only_get(|| clients::list(self)),
            ["namespaces"] => namespaces::collection(self).await,
            ["namespaces", name] => namespaces::one(self, name).await,
            ["services"] => services::collection(self).await,
            ["services", namespace, name] => {
                services::one(self, ServiceRef { namespace, name }).await
            }
            ["services", namespace, name, "instances"] => {
                instances::of_service(self, ServiceRef { namespace, name }).await
            }
            ["instances"] => instances::collection(self).await,
            ["instances", id] => instances::one(self, id).await,
            ["instances", id, "heartbeat"] => instances::heartbeat(self, id),
            ["aliases"] => aliases::collection(self).await,
            ["aliases", namespace, name] => {
                aliases::one(self, ServiceRef { namespace, name }).await
            }
            ["rules"] => self.only_get(|| rules::list(self, &RuleKind::ALL)),
            ["rules", kind] => rules::collection(self, rules::kind_of(kind)?).await,
            ["rules", kind, id] => rules::one(self, rules::kind_of(kind)?, id).await,
            _ => Err(Reply::refusal(StatusCode::NOT_FOUND, "not found")),
        }
    }

    fn only_get(&self, read: impl FnOnce() -> Result<Reply, Reply>) -> Result<Reply, Reply> {
        if self.call.method == Method::GET { read() } else { Err(self.wrong_method("GET")) }
    }

    fn wrong_method(&self, allowed: &str) -> Reply {
        let text = format!("not supported `{}` method here; try {allowed}", self.call.method);
        Reply::refusal(StatusCode::METHOD_NOT_ALLOWED, text)
    }
}
