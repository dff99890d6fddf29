//! What a plugin is: its facts, its configuration, and the phase methods it uses.

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
use crate::scope::Scope;

/// A plugin, configured: built once for each object that names it, shared by all cores.
///
/// The life of a request calls the phases in the order of the methods below; within a phase,
/// plugins run by descending priority, those of global rules before the route's.
pub trait Plugin: Send + Sync + Sized + 'static {
    /// Its name in configurations, such as `key-auth`.
    const NAME: &'static str;
    /// Higher runs earlier; APISIX's numbers.
    const PRIORITY: i32;
    /// The version that `/plugins?all=true` reports.
    const VERSION: f32 = 0.1;
    /// What it is for; `auth` plugins find consumers, and may stand in credentials.
    const CATEGORY: Category;
    /// The phases whose methods it has; others are never called.
    const PHASES: Phases;
    /// What happens when both a global rule and the route have it.
    const RUN_POLICY: RunPolicy = RunPolicy::Both;
    /// Whether it also works for connections below HTTP, of which it sees addresses and first bytes: in
    /// its access and log phases.
    const SERVES_CONNECTIONS: bool = false;
    /// Whether it works for requests of HTTP: the Admin API takes no others for routes and what they share.
    const SERVES_REQUESTS: bool = true;
    /// Whether its decisions protect nodes: it can refuse requests by what clients send, or
    /// answers them from a store. Where it runs, the node gets the path that was judged, and paths that
    /// servers read in several ways are refused.
    const JUDGES_PATH: bool =
        matches!(Self::CATEGORY, Category::Authentication | Category::Security);
    /// Dotted paths of the fields that are encrypted at rest.
    const ENCRYPTED: &'static [&'static str] = &[];
    /// Dotted paths of the fields that decide where those are sent, and how well the peer is checked. A caller that may
    /// not read the secrets may not change these without writing the secrets again.
    const SENT_TO: &'static [&'static str] = &[];

    /// What its conf says. Doc comments, bounds and defaults of the fields are the schema's.
    type Config: JsonSchema + DeserializeOwned;

    /// Completes the schema with what attributes cannot say, such as alternatives of required
    /// fields.
    fn adjust_schema(_schema: &mut Value) {}

    /// What a consumer or credential says for it; auth plugins only.
    fn consumer() -> Option<ConsumerSpec> {
        None
    }

    /// What plugin metadata may say for it.
    fn metadata() -> Option<MetadataSpec> {
        None
    }

    /// Builds it of a conf that satisfies the schema, with defaults filled in.
    ///
    /// # Errors
    /// What the schema cannot say; the text reaches whoever wrote the conf.
    fn compile(config: Self::Config, scope: &Scope<'_>) -> Result<Self, ConfError>;

    /// Upstreams that it may send requests to instead of the route's, by index
    /// ([`RequestContext::choose_upstream`]).
    fn upstreams(&self) -> Vec<UpstreamRef<'_>> {
        Vec::new()
    }

    /// Codings in which it reads bodies of answers, where it has to read them: nodes are asked for no other
    /// ([`ResponseContext::require_readable`] refuses the rest).
    fn answer_codings(&self) -> Option<Codings> {
        None
    }

    /// Fields of its conf that hold expressions: dotted paths, `*` for the items of a list. What an expression warns
    /// of is told to the writer of the conf.
    const EXPRESSIONS: &'static [&'static str] = &[];

    /// Warnings about a conf that satisfies the schema and is seldom meant so.
    fn remarks(_conf: &Value) -> Vec<Remark> {
        Vec::new()
    }

    /// First sight of the request; auth plugins find out who asks.
    fn rewrite<'a>(&'a self, _cx: &'a mut RequestContext<'_>) -> Step<'a> {
        Step::Continue
    }

    /// Decides whether the request goes on.
    fn access<'a>(&'a self, _cx: &'a mut RequestContext<'_>) -> Step<'a> {
        Step::Continue
    }

    /// The request is about to leave for a node.
    fn before_proxy<'a>(&'a self, _cx: &'a mut RequestContext<'_>) -> Step<'a> {
        Step::Continue
    }

    /// A node has answered, or has failed to: `cx` has its head, or with [`Source::Gateway`](crate::response::Source)
    /// the status of the failure. Returns an answer to give in the place of it, which plugins then see in their
    /// response phase; the node's is dropped. Edits and filters have no effect here.
    fn replace(&self, _cx: &mut ResponseContext<'_>) -> Option<Answer<'static>> {
        None
    }

    /// The head of the answer is known, a node's or the gateway's own; bodies are filtered by what
    /// is installed here.
    fn response(&self, _cx: &mut ResponseContext<'_>) {}

    /// The exchange is over.
    fn log(&self, _cx: &mut LogContext<'_>) {}
}

/// A warning about a conf.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remark {
    /// The field, dotted.
    pub field: &'static str,
    /// The reason for it.
    pub reason: &'static str,
    /// Advice to the operator.
    pub hint: &'static str,
}

/// What a plugin is for; `type` in the Admin API, which knows `auth` alone.
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

/// Whether a plugin of a global rule runs where the route has it too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunPolicy {
    /// Both run.
    Both,
    /// Only the route's.
    PreferRoute,
}

/// A set of phases.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Phases(u8);

impl Phases {
    /// None: the plugin works outside of requests.
    pub const NONE: Phases = Phases(0);
    /// [`Plugin::rewrite`].
    pub const REWRITE: Phases = Phases(1);
    /// [`Plugin::access`].
    pub const ACCESS: Phases = Phases(2);
    /// [`Plugin::before_proxy`].
    pub const BEFORE_PROXY: Phases = Phases(4);
    /// [`Plugin::response`].
    pub const RESPONSE: Phases = Phases(8);
    /// [`Plugin::log`].
    pub const LOG: Phases = Phases(16);
    /// [`Plugin::replace`].
    pub const REPLACE: Phases = Phases(32);

    /// The phases of either set.
    #[must_use]
    pub const fn union(self, other: Phases) -> Phases {
        Phases(self.0 | other.0)
    }

    /// Whether they have a phase in common.
    #[inline]
    pub const fn intersects(self, other: Phases) -> bool {
        self.0 & other.0 != 0
    }

    /// The names of the phases, as the documentation and `explain` show them.
    pub fn names(self) -> Vec<&'static str> {
        let all = [
            (Phases::REWRITE, "rewrite"),
            (Phases::ACCESS, "access"),
            (Phases::BEFORE_PROXY, "before_proxy"),
            (Phases::REPLACE, "replace"),
            (Phases::RESPONSE, "response"),
            (Phases::LOG, "log"),
        ];
        all.into_iter().filter(|(phase, _)| self.intersects(*phase)).map(|(_, name)| name).collect()
    }
}

/// What a phase came to.
pub enum Flow<'a> {
    /// The request goes on.
    Continue,
    /// The plugin answers; nothing further runs but response and log phases.
    Answer(Box<Answer<'a>>),
}

/// What a phase method says. Synchronous ones cost the call and nothing more.
pub enum Step<'a> {
    /// The request goes on.
    Continue,
    /// The plugin answers.
    Answer(Box<Answer<'a>>),
    /// It must wait before it can say.
    Wait(LocalFuture<'a, Flow<'a>>),
}

impl<'a> Step<'a> {
    /// Waits for `future`.
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

/// An upstream that a plugin may choose.
#[derive(Debug, Clone, Copy)]
pub enum UpstreamRef<'a> {
    /// One that stands in the plugin's conf.
    Inline(&'a Upstream),
    /// An upstream object.
    Id(&'a Id),
    /// The route's own.
    Route,
}

/// The schema of a plugin's metadata.
#[derive(Debug, Clone, Copy)]
pub struct MetadataSpec {
    /// Makes the schema.
    pub schema: fn() -> Value,
}

impl MetadataSpec {
    /// Metadata described by `T`.
    pub fn new<T: JsonSchema>() -> Self {
        Self { schema: SchemaOf::<T>::value }
    }
}
