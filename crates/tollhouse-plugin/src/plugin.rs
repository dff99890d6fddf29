//! Plugin trait: properties, configuration and phase methods of a plugin.

use std::any::Any;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tollhouse_model::{Id, Upstream};

use crate::answer::Answer;
use crate::catalogue::SchemaOf;
use crate::codings::Codings;
use crate::conf_error::ConfError;
use crate::consumer::ConsumerSpec;
use crate::context::RequestContext;
use crate::exchange::LocalFuture;
use crate::log::LogContext;
use crate::response::ResponseContext;
use crate::scope::{Scope, Services};

/// Configured plugin: built once for each object that names it, and shared by all cores.
///
/// A request passes the phases in the order of the methods below. Within a phase, plugins run by
/// descending priority, and those of global rules before the route's.
pub trait Plugin: Send + Sync + Sized + 'static {
    /// Name in configurations, such as `key-auth`.
    const NAME: &'static str;
    /// Order of execution; higher runs earlier. The numbers are those of APISIX.
    const PRIORITY: i32;
    /// Version of the plugin in the answer of `/plugins?all=true`.
    const VERSION: f32 = 0.1;
    /// Purpose of the plugin. Authentication plugins identify consumers and may be used in
    /// credentials.
    const CATEGORY: Category;
    /// Phases whose methods the plugin implements; other methods are never called.
    const PHASES: Phases;
    /// Behaviour if both a global rule and the route have the plugin; by default both run.
    const RUN_POLICY: RunPolicy = RunPolicy::Both;
    /// Whether the plugin also supports connections below HTTP, in its access and log phases. The
    /// plugin sees only the addresses and first bytes of such a connection.
    const SERVES_CONNECTIONS: bool = false;
    /// Whether the plugin supports HTTP requests. The Admin API refuses plugins without this
    /// support in routes and in objects that routes refer to.
    const SERVES_REQUESTS: bool = true;
    /// Whether the plugin refuses requests by data that clients send, or answers them from a store.
    /// If so, nodes receive exactly the path that the plugin has checked, and paths that servers
    /// read in different ways are refused. By default true for authentication and security plugins.
    const JUDGES_PATH: bool =
        matches!(Self::CATEGORY, Category::Authentication | Category::Security);
    /// Dotted paths of the fields that are encrypted at rest.
    const ENCRYPTED: &'static [&'static str] = &[];
    /// Dotted paths of the fields that decide where the encrypted ones are sent, and how strictly
    /// the peer is verified. A caller who may not read the secrets cannot change these fields
    /// without writing the secrets again.
    const SENT_TO: &'static [&'static str] = &[];

    /// Type of the conf. Doc comments, bounds and defaults of its fields become the JSON Schema.
    type Config: JsonSchema + DeserializeOwned;

    /// Completes the schema with rules that attributes cannot express, such as alternatives of
    /// required fields.
    fn adjust_schema(_schema: &mut Value) {}

    /// Returns the spec of consumer credentials; auth plugins only.
    fn consumer() -> Option<ConsumerSpec> {
        None
    }

    /// Returns the spec of the plugin's metadata, if it has any.
    fn metadata() -> Option<MetadataSpec> {
        None
    }

    /// Returns the endpoints that `public-api` may expose for this plugin.
    fn endpoints() -> &'static [PluginEndpoint] {
        &[]
    }

    /// Starts work that the plugin does without a request, while its metadata exists. The work ends
    /// when the returned value is dropped, which happens when the metadata changes.
    ///
    /// # Errors
    /// If the metadata break a rule that their schema cannot express.
    fn start(
        _metadata: &Value,
        _services: &Arc<Services>,
    ) -> Result<Option<BackgroundWork>, ConfError> {
        Ok(None)
    }

    /// Builds the plugin from a conf that satisfies the schema, with defaults filled in.
    ///
    /// # Errors
    /// If the conf breaks a rule that the schema cannot express. The text is for the author of the
    /// conf.
    fn compile(config: Self::Config, scope: &Scope<'_>) -> Result<Self, ConfError>;

    /// Returns the phases in which the plugin is called with this conf; all of [`Self::PHASES`] by
    /// default.
    fn phases(&self) -> Phases {
        Self::PHASES
    }

    /// Returns the upstreams that the plugin may choose instead of the route's, by index
    /// ([`RequestContext::choose_upstream`]).
    fn upstreams(&self) -> Vec<UpstreamRef<'_>> {
        Vec::new()
    }

    /// Returns the codings in which the plugin can read the bodies of answers; `None` if it need
    /// not read them. Requests to nodes accept no other coding, and
    /// [`ResponseContext::require_readable`] refuses answers in other codings.
    fn answer_codings(&self) -> Option<Codings> {
        None
    }

    /// Dotted paths of the conf's fields that hold expressions; `*` stands for the items of a list.
    /// Warnings about these expressions are reported to the author of the conf.
    const EXPRESSIONS: &'static [&'static str] = &[];

    /// Returns warnings about a conf that satisfies the schema but is probably a mistake.
    fn remarks(_conf: &Value) -> Vec<Remark> {
        Vec::new()
    }

    /// Runs the first phase of a request, in which auth plugins identify the consumer.
    fn rewrite<'a>(&'a self, _cx: &'a mut RequestContext<'_>) -> Step<'a> {
        Step::Continue
    }

    /// Runs the second phase, which decides whether the request continues.
    fn access<'a>(&'a self, _cx: &'a mut RequestContext<'_>) -> Step<'a> {
        Step::Continue
    }

    /// Runs the last phase before the request is sent to a node.
    fn before_proxy<'a>(&'a self, _cx: &'a mut RequestContext<'_>) -> Step<'a> {
        Step::Continue
    }

    /// Runs when a plugin, this one included, has answered a request in a request phase. A returned
    /// answer replaces the given one.
    fn exit(&self, _cx: &mut RequestContext<'_>, _answer: &Answer<'_>) -> Option<Answer<'static>> {
        None
    }

    /// Runs after a node has answered or failed. `cx` has the head of the node's answer, or with
    /// [`Source::Gateway`](crate::response::Source) the status of the failure. A returned answer
    /// replaces the node's, which is dropped; plugins see the new one in their response phase.
    /// Edits and filters have no effect here.
    fn replace(&self, _cx: &mut ResponseContext<'_>) -> Option<Answer<'static>> {
        None
    }

    /// Runs when the head of the answer, of a node or of the gateway itself, is known. Body filters
    /// are installed in this phase.
    fn response(&self, _cx: &mut ResponseContext<'_>) {}

    /// Runs after the end of the exchange.
    fn log(&self, _cx: &mut LogContext<'_>) {}
}

/// Warning about a valid conf that probably does not do what the operator expects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remark {
    /// Dotted path of the field in the conf; empty for the conf itself.
    pub field: &'static str,
    /// Reason for the warning, as part of a sentence.
    pub reason: &'static str,
    /// Advice to the operator on how to change the conf.
    pub hint: &'static str,
}

/// Purpose of a plugin. In the Admin API, `type` only distinguishes `auth`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "each variant says what the plugin is for")]
pub enum Category {
    Authentication,
    Security,
    Traffic,
    Transformation,
    Observability,
    Utility,
}

/// Behaviour of a plugin that both a global rule and the route have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunPolicy {
    /// The plugin runs twice: with the conf of the global rule, and with that of the route.
    Both,
    /// The plugin runs only with the conf of the route.
    PreferRoute,
}

/// Bit set of the phases in which a plugin is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Phases(u8);

impl Phases {
    /// Empty set, for plugins that take no part in requests.
    pub const NONE: Phases = Phases(0);
    /// Phase in which [`Plugin::rewrite`] is called.
    pub const REWRITE: Phases = Phases(1);
    /// Phase in which [`Plugin::access`] is called.
    pub const ACCESS: Phases = Phases(2);
    /// Phase in which [`Plugin::before_proxy`] is called.
    pub const BEFORE_PROXY: Phases = Phases(4);
    /// Phase in which [`Plugin::response`] is called.
    pub const RESPONSE: Phases = Phases(8);
    /// Phase in which [`Plugin::log`] is called.
    pub const LOG: Phases = Phases(16);
    /// Phase in which [`Plugin::replace`] is called.
    pub const REPLACE: Phases = Phases(32);
    /// Phase in which [`Plugin::exit`] is called.
    pub const EXIT: Phases = Phases(64);

    /// Returns the phases of either set.
    #[must_use]
    pub const fn union(self, other: Phases) -> Phases {
        Phases(self.0 | other.0)
    }

    /// Whether the sets have a phase in common.
    #[inline]
    pub const fn intersects(self, other: Phases) -> bool {
        self.0 & other.0 != 0
    }

    /// Returns the names of the phases, for the documentation and `explain`.
    pub fn names(self) -> Vec<&'static str> {
        let all = [
            (Phases::REWRITE, "rewrite"),
            (Phases::ACCESS, "access"),
            (Phases::BEFORE_PROXY, "before_proxy"),
            (Phases::EXIT, "exit"),
            (Phases::REPLACE, "replace"),
            (Phases::RESPONSE, "response"),
            (Phases::LOG, "log"),
        ];
        all.into_iter().filter(|(phase, _)| self.intersects(*phase)).map(|(_, name)| name).collect()
    }
}

/// Outcome of a phase: continue, or answer the request.
pub enum Flow<'a> {
    /// The request continues with the next plugin or phase.
    Continue,
    /// The plugin answers; after that only response and log phases run.
    Answer(Box<Answer<'a>>),
}

/// Return value of a phase method. The synchronous variants need no allocation for a future.
pub enum Step<'a> {
    /// The request continues with the next plugin or phase.
    Continue,
    /// The plugin answers; after that only response and log phases run.
    Answer(Box<Answer<'a>>),
    /// The outcome is not known yet; the future returns it.
    Wait(LocalFuture<'a, Flow<'a>>),
}

impl<'a> Step<'a> {
    /// Returns a step that waits for `future`.
    pub fn wait(future: impl Future<Output = Flow<'a>> + 'a) -> Self {
        Step::Wait(Box::pin(future))
    }
}

impl<'a> From<Answer<'a>> for Step<'a> {
    fn from(answer: Answer<'a>) -> Self {
        Step::Answer(Box::new(answer))
    }
}

impl<'a> From<Answer<'a>> for Flow<'a> {
    fn from(answer: Answer<'a>) -> Self {
        Flow::Answer(Box::new(answer))
    }
}

/// Upstream that a plugin may choose.
#[derive(Debug, Clone, Copy)]
pub enum UpstreamRef<'a> {
    /// Upstream defined within the plugin's conf.
    Inline(&'a Upstream),
    /// Id of an object in the collection `upstreams`.
    Id(&'a Id),
    /// Upstream of the matched route.
    Route,
}

/// Endpoint of a plugin that does not belong to a node, such as a login. A route exposes it with
/// `public-api`.
#[derive(Debug, Clone, Copy)]
pub struct PluginEndpoint {
    /// Method of requests; other methods get 404.
    pub method: &'static str,
    /// Path of the endpoint, if `plugin_attr.<plugin>.uri` does not name another. A `*` at the end
    /// stands for any rest.
    pub path: &'static str,
    /// Function that answers a request.
    pub answer: AnswerRequest,
}

/// Function that answers a request to an endpoint of a plugin.
pub type AnswerRequest =
    for<'a> fn(&'a mut RequestContext<'_>, &'a Arc<Services>) -> LocalFuture<'a, Answer<'static>>;

/// Work of a plugin without requests; it ends when this is dropped.
pub type BackgroundWork = Box<dyn Any + Send + Sync>;

/// JSON Schema and secret fields of a plugin's metadata. The metadata is one object that applies to
/// all uses of the plugin.
#[derive(Debug, Clone, Copy)]
pub struct MetadataSpec {
    /// Function that returns the JSON Schema of the metadata.
    pub schema: fn() -> Value,
    /// Dotted paths of the fields that are encrypted at rest.
    pub encrypted: &'static [&'static str],
    /// Dotted paths of the fields that decide where the encrypted ones are sent.
    pub sent_to: &'static [&'static str],
}

impl MetadataSpec {
    /// Returns the spec of metadata of type `T` without secrets.
    pub fn new<T: JsonSchema>() -> Self {
        Self::with_schema(SchemaOf::<T>::value)
    }

    /// Returns the spec of metadata without secrets, with this function for their schema.
    pub fn with_schema(schema: fn() -> Value) -> Self {
        Self { schema, encrypted: &[], sent_to: &[] }
    }
}
