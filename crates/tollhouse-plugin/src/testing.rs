//! Test harness for plugins: requests and answers made of text, without sockets, in virtual time.
//! `Harness::new::<KeyAuth>(conf)` configures one plugin. `request` sends a request through the
//! rewrite, access and before_proxy phases; `respond` sends an answer through the response phase.
//! Results are text.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use serde_json::Value;
use tollhouse_transcode::Protos;

use crate::catalogue::{Catalogue, PluginType};
use crate::conf_error::ConfError;
use crate::consumer::{Consumer, ConsumerIndex, Credential};
use crate::context::RequestContext;
use crate::handler::SharedHandler;
use crate::log::{LogContext, Transfer};
use crate::plugin::{Flow, Phases, Plugin, Step};
use crate::response::{FilterFailure, ResponseContext, ResponseFacts, ResponseHead, Source};
use crate::scope::{Scope, Services};

pub use fake::FakeExchange;
pub use outcome::{Outcome, Reply};

mod fake;
mod outcome;

/// Test harness: the plugin under test, with consumers, services and a virtual clock.
pub struct Harness {
    /// Handler of the plugin under test, compiled from its conf.
    pub handler: SharedHandler,
    /// Services that the plugin under test uses.
    pub services: Arc<Services>,
    consumers: TestConsumers,
    /// Virtual time in milliseconds, which `sleep` advances.
    pub now_ms: u64,
}

#[derive(Default)]
struct TestConsumers {
    by_name: HashMap<String, Arc<Consumer>>,
    by_key: HashMap<(String, Vec<u8>), Credential>,
}

impl ConsumerIndex for TestConsumers {
    fn credential(&self, plugin: &str, key: &[u8]) -> Option<&Credential> {
        self.by_key.get(&(plugin.to_owned(), key.to_vec()))
    }

    fn consumer(&self, username: &str) -> Option<&Arc<Consumer>> {
        self.by_name.get(username)
    }
}

/// Compiles plugin `P` with `conf` as in a route, without other plugins and without metadata.
///
/// # Errors
/// If `conf` is invalid; the text is that of the Admin API after `err: `.
pub fn configure<P: Plugin>(
    conf: &Value,
    services: &Arc<Services>,
) -> Result<SharedHandler, ConfError> {
    configure_among::<P>(conf, services, &Catalogue::new([PluginType::new::<P>()]), None)
}

/// Compiles plugin `P` with `conf` as in a route; `catalogue` holds the other plugins, and
/// `metadata` is the plugin's metadata.
///
/// # Errors
/// If `conf` is invalid.
pub fn configure_among<P: Plugin>(
    conf: &Value,
    services: &Arc<Services>,
    catalogue: &Catalogue,
    metadata: Option<&Value>,
) -> Result<SharedHandler, ConfError> {
    let scope = Scope { owner: "routes/1", conf, metadata, protos: None, catalogue, services };
    PluginType::new::<P>().compile(conf, &scope)
}

impl Harness {
    /// Returns a harness for plugin `P` with `conf`, which must be valid.
    pub fn new<P: Plugin>(conf: &Value) -> Self {
        let services = Arc::new(Services::new("APISIX/3.18.0"));
        let handler = configure::<P>(conf, &services).expect("the conf is good");
        Self::with(handler, services)
    }

    /// Returns the error text for `conf`; empty if the conf is valid.
    pub fn refusal<P: Plugin>(conf: &Value) -> String {
        let services = Arc::new(Services::new("APISIX/3.18.0"));
        configure::<P>(conf, &services).err().map(String::from).unwrap_or_default()
    }

    /// Returns a harness for plugin `P` with `conf`, which must be valid, and with definitions of
    /// gRPC services.
    pub fn among_protos<P: Plugin>(conf: &Value, protos: &Protos) -> Self {
        let services = Arc::new(Services::new("APISIX/3.18.0"));
        let catalogue = Catalogue::new([PluginType::new::<P>()]);
        let scope = Scope {
            owner: "routes/1",
            conf,
            metadata: None,
            protos: Some(protos),
            catalogue: &catalogue,
            services: &services,
        };
        let handler = PluginType::new::<P>().compile(conf, &scope).expect("the conf is good");
        Self::with(handler, services)
    }

    /// Returns a harness for an existing handler.
    pub fn with(handler: SharedHandler, services: Arc<Services>) -> Self {
        Self { handler, services, consumers: TestConsumers::default(), now_ms: 1_700_000_000_000 }
    }

    /// Adds a consumer with a credential for the auth plugin `P`.
    #[must_use]
    pub fn consumer<P: Plugin>(mut self, username: &str, conf: &Value) -> Self {
        let identified = PluginType::new::<P>().identify(conf).expect("the consumer is good");
        let consumer = Arc::new(Consumer {
            username: username.into(),
            group_id: None,
            custom_id: None,
            labels: Default::default(),
            has_plugins: false,
            number: 0,
        });
        let credential = Credential {
            consumer: Arc::clone(&consumer),
            credential_id: None,
            identity: identified.identity,
        };
        self.consumers.by_name.insert(username.to_owned(), consumer);
        let key = (P::NAME.to_owned(), identified.key.into_bytes());
        self.consumers.by_key.insert(key, credential);
        self
    }

    /// Adds a consumer without a credential.
    #[must_use]
    pub fn plain_consumer(mut self, consumer: Consumer) -> Self {
        self.consumers.by_name.insert(consumer.username.to_string(), Arc::new(consumer));
        self
    }

    /// Sends `text`, such as `GET /a?b=c HTTP/1.1\nHost: x\n\nbody`, through the request phases.
    pub fn request(&mut self, text: &str) -> Outcome {
        let mut exchange = FakeExchange::parse(text, self.now_ms);
        self.run(&mut exchange)
    }

    /// Sends the request `exchange` through the request phases.
    pub fn run(&mut self, exchange: &mut FakeExchange) -> Outcome {
        exchange.now_ms = exchange.now_ms.max(self.now_ms);
        self.run_as(exchange, None)
    }

    /// Sends the request `exchange` through the request phases, as if an auth plugin had identified
    /// the consumer `username` before.
    pub fn run_as(&mut self, exchange: &mut FakeExchange, username: Option<&str>) -> Outcome {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build_local(Default::default())
            .expect("a runtime");
        let mut memory = std::mem::take(&mut exchange.memory);
        let mut answer = None;
        let consumer = {
            let mut cx = RequestContext::new(exchange, &self.consumers, &mut memory);
            if let Some(consumer) = username.and_then(|name| cx.find_consumer(name)) {
                cx.authenticate_as(consumer);
            }
            cx.enter(1);
            for phase in [Phases::REWRITE, Phases::ACCESS, Phases::BEFORE_PROXY] {
                if !self.handler.phases().intersects(phase) || answer.is_some() {
                    continue;
                }
                let step = match phase {
                    Phases::REWRITE => self.handler.rewrite(&mut cx),
                    Phases::ACCESS => self.handler.access(&mut cx),
                    _ => self.handler.before_proxy(&mut cx),
                };
                let flow = match step {
                    Step::Continue => Flow::Continue,
                    Step::Answer(answer) => Flow::Answer(answer),
                    Step::Wait(future) => runtime.block_on(future),
                };
                if let Flow::Answer(given) = flow {
                    answer = Some(Reply::from_answer(&given));
                }
            }
            if let (None, Some(given)) = (&answer, cx.edits().answer.take()) {
                answer = Some(Reply::from_answer(&given));
            }
            cx.consumer().map(|consumer| consumer.username.to_string())
        };
        exchange.memory = memory;
        self.now_ms = exchange.now_ms;
        Outcome {
            answer,
            consumer,
            edits: outcome::describe_edits(&exchange.edits),
            slept: exchange.slept,
        }
    }

    /// Sends an answer of a node through the response phase: `head` such as `200\nContent-Type:
    /// text/html`, and the pieces of the body.
    pub fn respond(&mut self, exchange: &mut FakeExchange, head: &str, body: &[&str]) -> Reply {
        self.respond_with_trailers(exchange, head, body, "")
    }

    /// Sends an answer through the plugin as [`Self::respond`] does, with trailers such as
    /// `grpc-status: 0`.
    pub fn respond_with_trailers(
        &mut self,
        exchange: &mut FakeExchange,
        head: &str,
        body: &[&str],
        trailers: &str,
    ) -> Reply {
        let head = fake::FakeHead::parse(head);
        let has_body = exchange.method != "HEAD" && !matches!(head.status, 204 | 304);
        let facts = ResponseFacts {
            status: head.status,
            source: Source::Upstream,
            has_body,
            content_length: head.find(b"content-length").and_then(fake::number),
            client_is_http11: exchange.is_http11,
        };
        if let Some(replaced) = self.replace(exchange, &head, facts) {
            return replaced;
        }
        let mut edits = crate::edits::HeaderEdits::default();
        let mut filters = Vec::new();
        let mut memory = std::mem::take(&mut exchange.memory);
        let (facts, is_refused) = {
            let mut cx =
                ResponseContext::new(exchange, &head, &mut edits, &mut filters, &mut memory, facts);
            cx.enter(1);
            self.handler.response(&mut cx);
            (cx.facts(), cx.is_refused())
        };
        exchange.memory = memory;
        if is_refused {
            return Reply::refused(FilterFailure::Unreadable);
        }
        // Filters also run if one of them needs a body that the client does not get.
        let is_read = facts.has_body || filters.iter().any(|(_, it)| it.reads_unsent_body());
        let pieces = if has_body && is_read { body } else { &[] };
        match outcome::filtered(&mut filters, pieces, trailers, &mut edits) {
            Ok(_) if !facts.has_body => Reply::from_head(facts.status, &head, &edits, Vec::new()),
            Ok(body) => Reply::from_head(facts.status, &head, &edits, body),
            Err(failure) => Reply::refused(failure),
        }
    }

    /// Simulates a node's failure with this status of the gateway. Returns the answer of
    /// [`Plugin::replace`](crate::plugin::Plugin::replace), if the plugin gives one.
    pub fn fail(&mut self, exchange: &mut FakeExchange, status: u16) -> Option<Reply> {
        let head = fake::FakeHead::parse(&status.to_string());
        let facts = ResponseFacts {
            status,
            source: Source::Gateway,
            has_body: false,
            content_length: None,
            client_is_http11: exchange.is_http11,
        };
        self.replace(exchange, &head, facts)
    }

    fn replace(
        &mut self,
        exchange: &mut FakeExchange,
        head: &fake::FakeHead,
        facts: ResponseFacts,
    ) -> Option<Reply> {
        if !self.handler.phases().intersects(Phases::REPLACE) {
            return None;
        }
        let (mut edits, mut filters) = (crate::edits::HeaderEdits::default(), Vec::new());
        let mut memory = std::mem::take(&mut exchange.memory);
        let answer = {
            let mut cx =
                ResponseContext::new(exchange, head, &mut edits, &mut filters, &mut memory, facts);
            cx.enter(1);
            self.handler.replace(&mut cx)
        };
        exchange.memory = memory;
        answer.map(|answer| Reply::from_answer(&answer))
    }

    /// Ends the exchange by running the log phase.
    pub fn log(&mut self, exchange: &mut FakeExchange, transfer: Transfer<'_>) {
        let mut memory = std::mem::take(&mut exchange.memory);
        {
            let mut cx = LogContext::new(exchange, &mut memory, transfer);
            cx.enter(1);
            self.handler.log(&mut cx);
        }
        memory.clear();
        exchange.memory = memory;
    }
}

/// Peer address of all fake requests: the loopback address.
pub const PEER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);
