//! Keeps answers of nodes, in memory or on the disk, and answers later requests with them.
//!
//! A request's key is made of variables; answers that differ by request headers (`Vary`) are kept
//! side by side. `PURGE` on a URI drops what is kept for it: 200 if there was something, 404 if not.
//!
//! # Example
//! ```json
//! {
//!   "cache_strategy": "memory",
//!   "cache_zone": "memory_cache",
//!   "cache_key": ["$host", "$request_uri"],
//!   "cache_http_status": [200, 404],
//!   "cache_ttl": 60
//! }
//! ```
//!
//! # Answers
//! - what is kept, with `Apisix-Cache-Status: HIT`; other answers say `MISS`, `BYPASS`, `EXPIRED` or
//!   `STALE`
//! - 504 when a client wants `only-if-cached` and nothing is kept (memory, with `cache_control`)
//! - 200 or 404 to `PURGE`
//!
//! # Notes
//! Zones are in the bootstrap file: `memory_size` bounds what is kept in memory, and the names of
//! files of a zone on the disk; `disk_size` counts whole blocks; files go to `disk_path` in folders
//! as `cache_levels` says. What has not been asked for longest makes room.
//! In memory an answer lives for `cache_ttl`, or with `cache_control` as long as its headers say. On
//! the disk it lives as long as its headers say, 10 seconds where they say nothing; its file goes a
//! minute later. Answers marked `private`, `no-store` or `no-cache`, and those that set cookies, are
//! never kept unless the conf says so for cookies. A GET or HEAD that has a body bypasses the cache.
//! A key separates `cache_key`'s parts, and always contains the path and query that the node is asked for,
//! after plugins that change them: two requests that a node could answer differently share nothing.
//!
//! Answers belong to users. The identity that let a request in (a consumer, `openid-connect`,
//! `forward-auth`, `opa`, a client certificate) is part of its key. Credentials that no plugin has
//! checked, but the node may check, are not: an answer to a request with `Authorization` is then kept
//! only if it says `public`, `must-revalidate` or `s-maxage` (RFC 9111 §3.5), one to a request with
//! `Cookie` only if it says `public` or `s-maxage`. The same holds if a policy of `opa` names no
//! user. An answer that varies by the header, and a key that names it (`$http_authorization`,
//! `$http_cookie`, `$cookie_sid`), keep users apart as well. `consumer_isolation: false` says that all
//! clients of the route get the same answers: identities and cookies do not count then.
//!
//! `$host` in a key stands for host and port as the client names them. Whoever may use the route may
//! `PURGE`: plugins that authenticate come first, and `methods` of the route can leave it out.

use std::sync::Arc;

use bytes::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tollhouse_plugin::{
    Answer, AnswerBody, Category, ConfError, Flow, Phases, Plugin, RequestContext, ResponseContext,
    Scope, Step,
};
use tollhouse_stdx::MemoryBudget;

use self::directives::Directives;
use self::item::{Found, Stored, VaryIndex};
use self::key::Parts;
use self::owner::Isolation;
use self::store::{Headed, Keeper, Saver, Zone};

use crate::shared::confs::defaults::{default_true, defaults};

mod contents;
mod directives;
mod disk;
mod file;
mod item;
mod key;
mod memory;
mod owner;
mod store;
mod zones;

const STATUS_HEADER: &str = "Apisix-Cache-Status";
/// Methods that a cache on the disk takes part in at all.
const DISK_METHODS: [&[u8]; 3] = [b"GET", b"HEAD", b"POST"];
/// A text, or one variable.
const PART_PATTERN: &str = r"(^[^\$].+$|^\$[0-9a-zA-Z_]+$)";

/// What a route says.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Config {
    /// The zone to keep answers in.
    #[serde(default = "default_zone")]
    #[schemars(length(min = 1, max = 100))]
    pub cache_zone: String,
    /// Where the zone keeps them.
    #[serde(default)]
    pub cache_strategy: Strategy,
    /// What tells requests apart: texts and variables, put together.
    #[serde(default = "default_key")]
    #[schemars(length(min = 1), inner(regex(pattern = PART_PATTERN)))]
    pub cache_key: Vec<String>,
    /// Statuses of answers that are kept.
    #[serde(default = "default_statuses")]
    #[schemars(length(min = 1), inner(range(min = 200, max = 599)))]
    pub cache_http_status: Vec<u16>,
    /// Methods of requests that are answered from the cache.
    #[serde(default = "default_methods")]
    #[schemars(length(min = 1))]
    pub cache_method: Vec<Method>,
    /// Whether clients are not shown `Cache-Control` and `Expires`.
    #[serde(default)]
    pub hide_cache_headers: bool,
    /// Whether `Cache-Control` of requests and answers decides; zones in memory only.
    #[serde(default)]
    pub cache_control: bool,
    /// Where these together are neither empty nor `0`, the cache is not asked.
    #[schemars(length(min = 1), inner(regex(pattern = PART_PATTERN)))]
    pub cache_bypass: Option<Vec<String>>,
    /// Where these together are neither empty nor `0`, the answer is not kept.
    #[schemars(length(min = 1), inner(regex(pattern = PART_PATTERN)))]
    pub no_cache: Option<Vec<String>>,
    /// Seconds that an answer is kept; zones in memory only.
    #[serde(default = "default_ttl")]
    #[schemars(range(min = 1))]
    pub cache_ttl: u64,
    /// Whether consumers, and other users that plugins know, see only what was kept for themselves.
    #[serde(default = "default_true")]
    pub consumer_isolation: bool,
    /// Whether answers that set cookies are kept.
    #[serde(default)]
    pub cache_set_cookie: bool,
    /// Longest body that is kept, in bytes.
    #[serde(default = "default_max_resp_body_size")]
    #[schemars(range(min = 1))]
    pub max_resp_body_size: u64,
}

/// Where answers are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Strategy {
    #[default]
    Disk,
    Memory,
}

/// A method whose answers may be kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum Method {
    Get,
    Post,
    Head,
}

impl Method {
    fn as_bytes(self) -> &'static [u8] {
        match self {
            Method::Get => b"GET",
            Method::Post => b"POST",
            Method::Head => b"HEAD",
        }
    }
}

defaults! {
    default_zone: String = zones::DISK_ZONE.into();
    default_key: Vec<String> = vec!["$host".into(), "$request_uri".into()];
    default_statuses: Vec<u16> = vec![200, 301, 404];
    default_methods: Vec<Method> = vec![Method::Get, Method::Head];
    default_ttl: u64 = 300;
    default_max_resp_body_size: u64 = 64 << 20;
}

/// The plugin.
pub struct ProxyCache {
    zone: Zone,
    /// What answers that are kept take memory of.
    memory: Arc<MemoryBudget>,
    strategy: Strategy,
    key: Parts,
    isolation: Isolation,
    bypass: Option<Parts>,
    no_cache: Option<Parts>,
    config: Config,
}

/// What the request has come to, for when the answer is there.
struct Progress {
    status: Option<&'static str>,
    /// Under which key the answer may be kept.
    keeper: Option<Keeper>,
}

impl Plugin for ProxyCache {
    const NAME: &'static str = "proxy-cache";
    const PRIORITY: i32 = 1085;
    const VERSION: f32 = 0.2;
    const CATEGORY: Category = Category::Traffic;
    const JUDGES_PATH: bool = true;
    const PHASES: Phases = Phases::ACCESS.union(Phases::RESPONSE);
    type Config = Config;

    fn adjust_schema(schema: &mut Value) {
        for list in ["cache_http_status", "cache_method"] {
            schema["properties"][list]["uniqueItems"] = json!(true);
        }
    }

    fn compile(config: Config, scope: &Scope<'_>) -> Result<Self, ConfError> {
        if config.cache_key.iter().any(|part| part == "$request_method") {
            let text = "cache_key variable $request_method unsupported";
            return Err(ConfError::in_field("cache_key", text));
        }
        let zone = Zone::open(&config.cache_zone, config.cache_strategy, scope)
            .map_err(|error| error.at("cache_zone"))?;
        Ok(Self {
            zone,
            memory: Arc::clone(&scope.services.memory),
            strategy: config.cache_strategy,
            key: Parts::parse(&config.cache_key),
            isolation: match config.consumer_isolation {
                true => Isolation::ByIdentity,
                false => Isolation::None,
            },
            bypass: config.cache_bypass.as_deref().map(Parts::parse),
            no_cache: config.no_cache.as_deref().map(Parts::parse),
            config,
        })
    }

    fn access<'a>(&'a self, cx: &'a mut RequestContext<'_>) -> Step<'a> {
        let key = self.key_of(cx);
        if cx.method() == b"PURGE" {
            return Step::wait(async move {
                let is_kept = self.zone.purge(&key).await;
                let is_kept_for_head = self.zone.purge(&for_head(&key)).await;
                if is_kept || is_kept_for_head {
                    Answer::text(200, &b""[..]).into()
                } else {
                    Answer::status(404).into()
                }
            });
        }
        let directives = Directives::parse(cx.header("cache-control").as_deref());
        match self.passes_by(cx, &directives) {
            Some(Bypass { status, is_kept }) => {
                let keeper = is_kept.then(|| self.keeper(cx, key, None));
                cx.remember(Progress { status, keeper });
                Step::Continue
            }
            None => match &self.zone {
                // Memory answers at once, so nothing has to wait.
                Zone::Memory(zone) => {
                    let mut found = zone.find(&key, &|names| key::signature(cx, names));
                    if cx.method() == b"HEAD" && matches!(found, Found::Nothing(_)) {
                        found = zone.find(&for_head(&key), &|names| key::signature(cx, names));
                    }
                    step_of(self.answer_or_forward(cx, key, found, &directives))
                }
                Zone::Disk(zone) => Step::wait(async move {
                    let mut found = zone.find(&key, &|names| key::signature(cx, names)).await;
                    if cx.method() == b"HEAD" && matches!(found, Found::Nothing(_)) {
                        let key = for_head(&key);
                        found = zone.find(&key, &|names| key::signature(cx, names)).await;
                    }
                    self.answer_or_forward(cx, key, found, &directives)
                }),
            },
        }
    }

    fn response(&self, cx: &mut ResponseContext<'_>) {
        let Some(progress) = cx.recall::<Progress>() else { return };
        let (status, keeper) = (progress.status, progress.keeper.take());
        if let Some(status) = status {
            cx.set_header(STATUS_HEADER, status.as_bytes());
        }
        if status == Some("HIT") {
            return;
        }
        if let Some(keeper) = keeper {
            self.keep(cx, keeper);
        }
        if self.config.hide_cache_headers {
            cx.remove_header("Cache-Control");
            cx.remove_header("Expires");
        }
    }
}

/// Where what is kept for HEAD alone stands: it has no body that a GET could be answered with.
fn for_head(key: &[u8]) -> Vec<u8> {
    [key, b"\0HEAD"].concat()
}

/// Why the cache is not asked.
struct Bypass {
    status: Option<&'static str>,
    /// Whether the answer may be kept nevertheless.
    is_kept: bool,
}

impl ProxyCache {
    fn key_of(&self, cx: &RequestContext<'_>) -> Vec<u8> {
        let mut key = Vec::new();
        self.isolation.write_owner(cx, &mut key);
        self.key.write(cx.variables(), &mut key);
        key::write_part(&cx.node_uri(), &mut key);
        key
    }

    fn passes_by(&self, cx: &RequestContext<'_>, directives: &Directives) -> Option<Bypass> {
        let is_listed = self.is_listed(cx.method());
        // A node may answer by a body that the key says nothing of.
        if is_listed && cx.method() != b"POST" && has_body(cx) {
            return Some(Bypass { status: Some("BYPASS"), is_kept: false });
        }
        let is_bypassed = self.bypass.as_ref().is_some_and(|parts| parts.is_set(cx.variables()));
        match self.strategy {
            Strategy::Memory if !is_listed => Some(Bypass { status: Some("MISS"), is_kept: false }),
            Strategy::Memory => {
                let is_refused = self.config.cache_control
                    && (directives.has("no-store") || directives.has("no-cache"));
                let is_passed = is_bypassed || is_refused;
                is_passed.then_some(Bypass { status: Some("BYPASS"), is_kept: false })
            }
            Strategy::Disk if !DISK_METHODS.contains(&cx.method()) => {
                Some(Bypass { status: None, is_kept: false })
            }
            Strategy::Disk => (is_bypassed || !is_listed)
                .then_some(Bypass { status: Some("BYPASS"), is_kept: is_listed }),
        }
    }

    fn is_listed(&self, method: &[u8]) -> bool {
        self.config.cache_method.iter().any(|listed| listed.as_bytes() == method)
    }

    fn keeper(&self, cx: &RequestContext<'_>, key: Vec<u8>, index: Option<VaryIndex>) -> Keeper {
        let generation = cx.random();
        let owner = self.isolation.owner(cx, &self.key);
        match cx.method() {
            // The index may be that of GET, which is of no use under another key.
            b"HEAD" => Keeper { key: for_head(&key), index: None, generation, owner },
            _ => Keeper { key, index, generation, owner },
        }
    }

    /// Answers with what was found where it is fresh; else notes what may be kept of the node's answer.
    fn answer_or_forward<'a>(
        &self,
        cx: &mut RequestContext<'_>,
        key: Vec<u8>,
        found: Found,
        directives: &Directives,
    ) -> Flow<'a> {
        let now_ms = cx.now().unix_ms;
        let controls = self.config.cache_control && self.strategy == Strategy::Memory;
        let (status, index) = match found {
            Found::Stored(stored, index) if stored.is_expired(now_ms) => ("EXPIRED", index),
            Found::Stored(stored, index) if controls && is_too_old(&stored, now_ms, directives) => {
                ("STALE", index)
            }
            Found::Stored(stored, _) => {
                let is_head = cx.method() == b"HEAD";
                cx.remember(Progress { status: Some("HIT"), keeper: None });
                return self.hit(&stored, now_ms, is_head).into();
            }
            Found::Nothing(index) => ("MISS", index),
        };
        // Only where nothing is kept: for what is kept and too old the node is asked.
        if status == "MISS" && controls && directives.has("only-if-cached") {
            cx.remember(Progress { status: Some("MISS"), keeper: None });
            return Answer::status(504).into();
        }
        let keeper = Some(self.keeper(cx, key, index));
        cx.remember(Progress { status: Some(status), keeper });
        Flow::Continue
    }

    fn hit<'a>(&self, stored: &Stored, now_ms: u64, is_head: bool) -> Answer<'a> {
        let mut answer = Answer::status(stored.status);
        // What was kept for HEAD has no body, and what was kept for GET has all of it.
        answer.body = match (is_head, stored.body.is_empty()) {
            (true, true) => AnswerBody::LeftOut(stored.left_out_bytes),
            _ => AnswerBody::Shared(stored.body.clone()),
        };
        for (name, value) in &stored.headers {
            let is_hidden = self.config.hide_cache_headers && item::is_cache_header(name);
            if !is_hidden {
                answer = answer.with_header(name.to_string(), value.to_vec());
            }
        }
        if self.strategy == Strategy::Memory {
            let age = stored.age_ms(now_ms) / 1_000;
            answer = answer.with_header("Age", age.to_string().into_bytes());
        }
        answer.with_header(STATUS_HEADER, &b"HIT"[..])
    }

    /// Sees to it that the answer is kept, where it may be.
    fn keep(&self, cx: &mut ResponseContext<'_>, keeper: Keeper) {
        let is_kept = self.config.cache_http_status.contains(&cx.status())
            && cx.source() == tollhouse_plugin::response::Source::Upstream
            && !self.no_cache.as_ref().is_some_and(|parts| parts.is_set(&cx.variables()));
        let directives = Directives::parse(cx.header_list("cache-control").as_deref());
        let ttl_ms = if is_kept { self.ttl_ms(cx, &directives) } else { None };
        let (Some(ttl_ms), Some(names)) = (ttl_ms, item::vary_names(cx)) else { return };
        if !keeper.owner.shares(cx, &directives, &names) {
            return;
        }
        // What a plugin has put there is for one client, whatever the node's cookies are: a session, for example.
        let is_for_one = cx.is_edited("set-cookie");
        if is_for_one || (!self.config.cache_set_cookie && cx.header("set-cookie").is_some()) {
            return;
        }
        let stored = Stored {
            status: cx.status(),
            headers: item::kept_headers(cx),
            body: Bytes::new(),
            left_out_bytes: cx.facts().content_length,
            stored_unix_ms: cx.now().unix_ms,
            ttl_ms,
        };
        let facts = cx.facts();
        let bytes_max = self.config.max_resp_body_size.min(self.zone.bytes_max());
        if facts.content_length.is_some_and(|bytes| bytes > bytes_max) {
            return;
        }
        // What the request sent is taken now: while the body passes, the request is out of reach.
        let signature = key::signature_of_response(cx, &names);
        // Grown as the body comes: a length that a node announces is not yet memory that it takes.
        let Some(reservation) = self.memory.take(0) else { return };
        let headed = Headed { keeper, names, signature, stored };
        let saver = Saver::new(self.zone.clone(), headed, reservation);
        if facts.has_body {
            let saver = saver.expecting(facts.content_length, bytes_max);
            cx.filter_body(tollhouse_plugin::Effect::Observes, Box::new(saver));
        } else {
            saver.save();
        }
    }

    /// How long the answer may be kept; `None` when not at all.
    fn ttl_ms(&self, cx: &ResponseContext<'_>, directives: &Directives) -> Option<u64> {
        if ["private", "no-store", "no-cache"].iter().any(|name| directives.has(name)) {
            return None;
        }
        let lifetime_ms = || directives::lifetime_ms(cx, directives);
        let ttl_ms = match (self.strategy, self.config.cache_control) {
            (Strategy::Memory, false) => self.config.cache_ttl.saturating_mul(1_000),
            (Strategy::Memory, true) => lifetime_ms().unwrap_or(0),
            (Strategy::Disk, _) => lifetime_ms().unwrap_or(self.zone.default_ttl_ms()),
        };
        (ttl_ms > 0).then_some(ttl_ms)
    }
}

/// Whether a request has a body, or may have one.
fn has_body(cx: &RequestContext<'_>) -> bool {
    let has_length = cx.header("content-length").is_some_and(|length| *length != *b"0");
    has_length || cx.header("transfer-encoding").is_some()
}

/// Whether a client wants something younger.
fn is_too_old(stored: &Stored, now_ms: u64, directives: &Directives) -> bool {
    let age_ms = stored.age_ms(now_ms);
    let left_ms = stored.ttl_ms.saturating_sub(age_ms);
    let wants = |name: &str| directives.seconds(name).map(|seconds| seconds.saturating_mul(1_000));
    wants("max-age").is_some_and(|max| age_ms > max)
        || wants("min-fresh").is_some_and(|min| left_ms < min)
}

/// The same, for a phase that did not have to wait.
fn step_of(flow: Flow<'_>) -> Step<'_> {
    match flow {
        Flow::Continue => Step::Continue,
        Flow::Answer(answer) => Step::Answer(answer),
    }
}

#[cfg(test)]
mod tests;
