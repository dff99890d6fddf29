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
//! - stored answers, with `Age` and `Apisix-Cache-Status: HIT`; other answers say `MISS`, `BYPASS`, `EXPIRED` or `STALE`
//! - `REVALIDATED` for a stored answer that the node has confirmed, `STALE` also for one served in place of a
//!   node's failure
//! - 304 to a client that has the stored version, 206 with a part of it, 416 where a range lies behind its end
//! - 504 when a client wants `only-if-cached` and nothing is kept (with `cache_control`)
//! - 200 or 404 to `PURGE`
//!
//! # Notes
//! Zones are in the bootstrap file: `memory_size` bounds what is kept in memory, and the names of
//! files of a zone on the disk; `disk_size` counts whole blocks; files go to `disk_path` in folders
//! as `cache_levels` says. What has not been asked for longest makes room.
//! A GET or HEAD that has a body bypasses the cache.
//! A key separates `cache_key`'s parts, and always contains the path and query that the node is asked for,
//! after plugins that change them: two requests that a node could answer differently share nothing.
//!
//! **Storing and lifetimes** follow RFC 9111, whatever the conf says. Answers marked `no-store` or `private` are not
//! stored, nor those that set cookies, unless `cache_set_cookie` is on; of `private="…"` and `no-cache="…"`, only the
//! fields named are left out. The lifetime is the first of `X-Accel-Expires`, `s-maxage`, `max-age` and
//! `Expires` less `Date`; an invalid one is 0. `CDN-Cache-Control` (RFC 9213) replaces `Cache-Control` and `Expires`,
//! also their `no-store` and `private`. A received `Age` counts. An answer without a lifetime is kept for `cache_ttl`:
//! in memory the field of the conf, which also bounds longer lifetimes there; on the disk that of the bootstrap file,
//! 10 seconds by default. With `cache_control` such an answer is kept for a tenth of the time since `Last-Modified`,
//! at most for `cache_ttl`, and without `Last-Modified` not at all. 206, 304, 412 and 416 are never stored.
//! `cache_http_status` names all others: list 203, 204, 302, 307, 308 and 410 to have them stored as well.
//!
//! **Revalidation**: a stored 200 with `ETag` or `Last-Modified` stays when its lifetime ends, on the disk for a day.
//! The next GET asks the node if it is still good; a 304 refreshes it. Answers with `no-cache` or `max-age=0` are stored
//! for this, and confirmed by the node each time. `stale-if-error` in an answer lets the cache serve it when a
//! node fails or answers 500, 502, 503 or 504, unless it also has `must-revalidate`, `proxy-revalidate` or `s-maxage`.
//! `stale-while-revalidate` has no effect.
//!
//! **Conditions and ranges** of a GET are answered from the cache. When nothing fresh is stored, the node is asked for the
//! whole answer, which is stored, and the client gets its 304. Requests with credentials of their own, and ranges other
//! than `bytes=0-`, go to the node as they are until the answer is stored. Several ranges that do not adjoin get the
//! whole body.
//!
//! **Requests**: with `cache_control`, `no-cache`, `no-store`, `max-age`, `min-fresh`, `max-stale` and `only-if-cached`
//! of clients count; without it they do not, as in APISIX.
//!
//! **Invalidation**: once a node has answered an unsafe request (POST, PUT, DELETE, unknown methods) with 2xx or 3xx, the
//! stored answers for its URI are dropped, and those for the URIs of the same origin in `Location` and
//! `Content-Location`, unless a plugin changes the path. Of users that are kept apart, only the user who asks
//! loses his own; POST in `cache_method` invalidates nothing.
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
//! `$host` in a key stands for host and port as the client names them. Every client that may use
//! the route may `PURGE`: plugins that authenticate come first, and `methods` of the route can
//! leave it out.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tollhouse_plugin::{
    Answer, Category, ConfError, Phases, Plugin, RequestContext, ResponseContext, Scope, Step,
};
use tollhouse_stdx::MemoryBudget;

use self::freshness::Policy;
use self::key::Parts;
use self::lookup::PendingAnswer;
use self::owner::Isolation;
use self::store::Zone;

use crate::shared::confs::defaults::{default_true, defaults};

mod arrival;
mod conditional;
mod contents;
mod directives;
mod disk;
mod file;
mod freshness;
mod invalidation;
mod item;
mod key;
mod lookup;
mod memory;
mod owner;
mod ranges;
mod reuse;
mod store;
mod zones;

const STATUS_HEADER: &str = "Apisix-Cache-Status";
/// Methods that a cache on the disk takes part in at all.
const DISK_METHODS: [&[u8]; 3] = [b"GET", b"HEAD", b"POST"];
/// Pattern of a part of the key: a text, or one variable.
const PART_PATTERN: &str = r"(^[^\$].+$|^\$[0-9a-zA-Z_]+$)";

/// Configuration on a route.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Config {
    /// The zone to keep answers in.
    #[serde(default = "default_zone")]
    #[schemars(length(min = 1, max = 100))]
    pub cache_zone: String,
    /// Storage of the zone: on the disk or in memory.
    #[serde(default)]
    pub cache_strategy: Strategy,
    /// Texts and variables whose joined values are the key of an answer.
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
    /// Whether `Cache-Control` of requests counts, and lifetimes are only those that answers name, or that
    /// `Last-Modified` allows to guess. Switch it on to follow RFC 9111 strictly.
    #[serde(default)]
    pub cache_control: bool,
    /// Texts and variables: unless their joined values are empty or `0`, the cache is not asked.
    #[schemars(length(min = 1), inner(regex(pattern = PART_PATTERN)))]
    pub cache_bypass: Option<Vec<String>>,
    /// Texts and variables: unless their joined values are empty or `0`, the answer is not kept.
    #[schemars(length(min = 1), inner(regex(pattern = PART_PATTERN)))]
    pub no_cache: Option<Vec<String>>,
    /// Seconds that an answer is kept at most, and that one without a lifetime is kept; zones in memory only.
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

pub struct ProxyCache {
    zone: Zone,
    /// Budget of the process from which stored answers take their memory.
    memory: Arc<MemoryBudget>,
    strategy: Strategy,
    key: Parts,
    isolation: Isolation,
    bypass: Option<Parts>,
    no_cache: Option<Parts>,
    lifetimes: Policy,
    config: Config,
}

/// State of a request between its phases.
struct Progress {
    /// Value of `Apisix-Cache-Status`, for an answer that does not have it yet.
    status: Option<&'static str>,
    /// Lookup and storage in progress for this request.
    pending: Option<Box<PendingAnswer>>,
}

impl Plugin for ProxyCache {
    const NAME: &'static str = "proxy-cache";
    const PRIORITY: i32 = 1085;
    const VERSION: f32 = 0.2;
    const CATEGORY: Category = Category::Traffic;
    const JUDGES_PATH: bool = true;
    const PHASES: Phases = Phases::ACCESS.union(Phases::REPLACE).union(Phases::RESPONSE);
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
            memory: Arc::clone(&scope.services.memory),
            strategy: config.cache_strategy,
            key: Parts::parse(&config.cache_key),
            isolation: match config.consumer_isolation {
                true => Isolation::ByIdentity,
                false => Isolation::None,
            },
            bypass: config.cache_bypass.as_deref().map(Parts::parse),
            no_cache: config.no_cache.as_deref().map(Parts::parse),
            lifetimes: lifetimes(&config, &zone),
            zone,
            config,
        })
    }

    fn access<'a>(&'a self, cx: &'a mut RequestContext<'_>) -> Step<'a> {
        self.look_up(cx)
    }

    fn replace(&self, cx: &mut ResponseContext<'_>) -> Option<Answer<'static>> {
        self.stored_instead(cx)
    }

    fn response(&self, cx: &mut ResponseContext<'_>) {
        let Some(progress) = cx.recall::<Progress>() else { return };
        let (status, pending) = (progress.status, progress.pending.take());
        if let Some(status) = status {
            cx.set_header(STATUS_HEADER, status.as_bytes());
        }
        if let Some(pending) = pending {
            self.take_in(cx, *pending);
        }
        if self.config.hide_cache_headers {
            cx.remove_header("Cache-Control");
            cx.remove_header("Expires");
        }
    }
}

/// Returns the lifetimes of the conf and its zone. With `cache_control`, the answer alone decides,
/// and the configured time bounds estimates.
fn lifetimes(config: &Config, zone: &Zone) -> Policy {
    let ttl_ms = config.cache_ttl.saturating_mul(1_000);
    match (config.cache_strategy, config.cache_control) {
        (Strategy::Memory, false) => {
            Policy { silent_ms: Some(ttl_ms), most_ms: Some(ttl_ms), guess_most_ms: 0 }
        }
        (Strategy::Memory, true) => {
            Policy { silent_ms: None, most_ms: None, guess_most_ms: ttl_ms }
        }
        (Strategy::Disk, false) => {
            Policy { silent_ms: Some(zone.default_ttl_ms()), most_ms: None, guess_most_ms: 0 }
        }
        (Strategy::Disk, true) => {
            Policy { silent_ms: None, most_ms: None, guess_most_ms: zone.default_ttl_ms() }
        }
    }
}

/// Returns the key of answers to HEAD, which have no body and therefore cannot answer a GET.
fn for_head(key: &[u8]) -> Vec<u8> {
    [key, b"\0HEAD"].concat()
}

#[cfg(test)]
mod tests;
