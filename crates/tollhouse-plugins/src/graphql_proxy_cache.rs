//! Keeps answers to queries of GraphQL, in memory or on the disk, and answers later requests with
//! them. The body of a request is part of its key.
//!
//! # Example
//! ```json
//! {"cache_strategy": "memory", "cache_zone": "memory_cache", "cache_ttl": 60}
//! ```
//!
//! # Answers
//! - stored answers as by `proxy-cache`, with `Apisix-Cache-Status` and `APISIX-Cache-Key`
//! - 400 with the reason when the request has no query of GraphQL
//! - 405 for methods other than GET and POST
//!
//! # Notes
//! Mutations and subscriptions go to the node, with `Apisix-Cache-Status: BYPASS`. A body is at most
//! as long as `limits.graphql_bytes` of the bootstrap file, 1 MiB by default, and the query 64 KiB: in
//! the argument `query`, in JSON without repeated members, or as `application/graphql`.
//! Only answers with status 200 are kept, for whom and how long as `proxy-cache` says. Conf, route,
//! host, path, query string, content type and the user are part of the key, too.
//!
//! `PURGE /apisix/plugin/graphql-proxy-cache/{strategy}/{route_id}/{key}` drops the answer with this
//! `APISIX-Cache-Key`: 200, or 404 if none is kept. A route exposes it with the plugin `public-api`.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tollhouse_model::variable::{Variable, query_argument};
use tollhouse_plugin::{
    Answer, Category, ConfError, Flow, LocalFuture, Phases, Plugin, PluginEndpoint, RefusalKind,
    RequestContext, ResponseContext, Scope, Services, Step,
};

use crate::graphql::Query;
use crate::proxy_cache::{ProxyCache, Strategy};
use crate::shared::auth::grant::digest_of;
use crate::shared::confs::defaults::{default_true, defaults};
use crate::shared::messages::request_document::text;
use crate::shared::messages::unique_members::UniqueMembers;

const STATUS_HEADER: &str = "Apisix-Cache-Status";
const KEY_HEADER: &str = "APISIX-Cache-Key";

/// Path of the endpoint, before the strategy, the route's id and the key.
const PURGE_PATH: &str = "/apisix/plugin/graphql-proxy-cache/";

/// Longest text of a query, in bytes. Its tree takes many times its bytes; variables are not part of it.
const QUERY_BYTES_MAX: usize = 64 << 10;

/// Length of a key: SHA-256 in hexadecimal digits.
const KEY_DIGITS: usize = 64;

/// Configuration of `graphql-proxy-cache`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Config {
    /// The zone to keep answers in.
    #[serde(default = "default_zone")]
    #[schemars(length(min = 1, max = 100))]
    pub cache_zone: String,
    /// Storage of the zone: on the disk or in memory.
    #[serde(default)]
    pub cache_strategy: Strategy,
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
}

defaults! {
    default_zone: String = "disk_cache_one".into();
    default_ttl: u64 = 300;
}

pub struct GraphqlProxyCache {
    cache: Arc<ProxyCache>,
    /// Text that identifies the conf and its object.
    identity: String,
    /// Longest body of a request, in bytes.
    body_bytes_max: u64,
    /// Held so that all instances share it.
    _instances: Arc<Instances>,
}

/// All instances, for requests to drop an answer.
#[derive(Default)]
struct Instances(Mutex<Vec<(Strategy, Weak<ProxyCache>)>>);

/// Header of the answer that tells about the cache.
enum Mark {
    Bypass,
    Key(String),
}

/// Operation of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Query,
    /// Mutation or subscription.
    Other,
}

impl Plugin for GraphqlProxyCache {
    const NAME: &'static str = "graphql-proxy-cache";
    const PRIORITY: i32 = 1009;
    const CATEGORY: Category = Category::Traffic;
    const JUDGES_PATH: bool = true;
    const PHASES: Phases = ProxyCache::PHASES;
    type Config = Config;

    fn endpoints() -> &'static [PluginEndpoint] {
        &[PluginEndpoint {
            method: "PURGE",
            path: "/apisix/plugin/graphql-proxy-cache/*",
            answer: purge,
        }]
    }

    fn compile(config: Config, scope: &Scope<'_>) -> Result<Self, ConfError> {
        let strategy = config.cache_strategy;
        let conf = json!({
            "cache_zone": config.cache_zone,
            "cache_strategy": strategy,
            "cache_http_status": [200],
            "cache_method": ["GET", "POST"],
            "cache_ttl": config.cache_ttl,
            "consumer_isolation": config.consumer_isolation,
            "cache_set_cookie": config.cache_set_cookie,
        });
        let conf = serde_json::from_value(conf).map_err(|error| error.to_string())?;
        let cache = Arc::new(ProxyCache::compile(conf, scope)?);
        let instances = instances(scope.services);
        instances.add(strategy, &cache);
        let body_bytes_max = scope.services.graphql_bytes;
        let identity = scope.identity(Self::NAME);
        Ok(Self { cache, identity, body_bytes_max, _instances: instances })
    }

    fn access<'a>(&'a self, cx: &'a mut RequestContext<'_>) -> Step<'a> {
        match cx.method() {
            b"GET" => match query_of_arguments(cx.query().unwrap_or_default()) {
                Ok(kind) => self.look_up(cx, kind, b""),
                Err(message) => refused(&message).borrowed().into(),
            },
            b"POST" => Step::wait(async move {
                match read(cx, self.body_bytes_max).await {
                    Ok((kind, digest)) => match self.look_up(cx, kind, &digest) {
                        Step::Continue => Flow::Continue,
                        Step::Answer(answer) => Flow::Answer(answer),
                        Step::Wait(future) => future.await,
                    },
                    Err(message) => refused(&message).borrowed().into(),
                }
            }),
            _ => Answer::status(405).refused(RefusalKind::RequestInvalid).into(),
        }
    }

    fn replace(&self, cx: &mut ResponseContext<'_>) -> Option<Answer<'static>> {
        self.cache.replace(cx)
    }

    fn response(&self, cx: &mut ResponseContext<'_>) {
        self.cache.response(cx);
        let (name, value) = match cx.recall::<Mark>() {
            Some(Mark::Bypass) => (STATUS_HEADER, "BYPASS".to_owned()),
            Some(Mark::Key(key)) => (KEY_HEADER, key.clone()),
            None => return,
        };
        cx.set_header(name, value.as_bytes());
    }
}

impl GraphqlProxyCache {
    fn look_up<'a>(&'a self, cx: &'a mut RequestContext<'_>, kind: Kind, body: &[u8]) -> Step<'a> {
        if kind == Kind::Other {
            cx.remember(Mark::Bypass);
            return Step::Continue;
        }
        let key = self.key(cx, body);
        cx.remember(Mark::Key(key.clone()));
        self.cache.look_up_as(cx, key.into_bytes())
    }

    /// Returns the key of a request: the digest of all that answers may depend on.
    fn key(&self, cx: &RequestContext<'_>, body: &[u8]) -> String {
        let mut owner = Vec::new();
        self.cache.write_owner(cx, &mut owner);
        let named = |name: &str| {
            let value = cx.variables().variable(&Variable::Named(name.into()));
            value.unwrap_or_default().into_owned()
        };
        let (route, service) = (named("route_id"), named("service_id"));
        let host = cx.header("Host").unwrap_or_default();
        let content_type = cx.header("Content-Type").unwrap_or_default();
        let uri = cx.node_uri();
        let parts: [&[u8]; 9] = [
            self.identity.as_bytes(),
            cx.method(),
            &host,
            &route,
            &service,
            &owner,
            &uri,
            &content_type,
            body,
        ];
        digest_of(parts).as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

fn refused(message: &str) -> Answer<'static> {
    Answer::message(400, message).refused(RefusalKind::RequestInvalid)
}

/// Reads a body; returns the kind of its operation and its digest.
async fn read(cx: &mut RequestContext<'_>, body_bytes_max: u64) -> Result<(Kind, Vec<u8>), String> {
    let unread = || "Invalid graphql request: can't get graphql request body".to_owned();
    let content_type = cx.header("Content-Type").unwrap_or_default().into_owned();
    if cx.read_body(body_bytes_max).await.map_err(|_| unread())?.is_empty() {
        return Err(unread());
    }
    let examined = cx.examine_body(move |body| {
        let kind = kind_of_body(body, &content_type)?;
        Ok((kind, digest_of([body]).as_ref().to_vec()))
    });
    examined.await.map_err(|_| unread())?
}

fn kind_of_body(body: &[u8], content_type: &[u8]) -> Result<Kind, String> {
    let invalid = |reason: &str| format!("invalid graphql request, {reason}");
    if content_type.starts_with(b"application/json") {
        // Servers differ in which of two members with one name they read.
        serde_json::from_slice::<UniqueMembers>(body).map_err(|it| invalid(&it.to_string()))?;
        let document: Value =
            serde_json::from_slice(body).map_err(|error| invalid(&error.to_string()))?;
        let query = document.get("query").and_then(Value::as_str);
        return kind_of(query.ok_or_else(|| invalid("json body[query] is nil"))?);
    }
    if content_type.starts_with(b"application/graphql") {
        return kind_of(&text(body));
    }
    Err(invalid(&format!("error content-type: {}", text(content_type))))
}

fn query_of_arguments(arguments: &[u8]) -> Result<Kind, String> {
    if arguments.is_empty() {
        return Err("Invalid graphql request: can't get graphql request body".into());
    }
    let query = query_argument(arguments, "query");
    kind_of(&text(&query.ok_or("invalid graphql request, args[query] is nil")?))
}

fn kind_of(query: &str) -> Result<Kind, String> {
    if query.len() > QUERY_BYTES_MAX {
        let text = "Invalid graphql request: the query is longer than";
        return Err(format!("{text} {QUERY_BYTES_MAX} bytes"));
    }
    let parsed = Query::parse(query)
        .map_err(|_| "Invalid graphql request: failed to parse graphql query".to_owned())?;
    if parsed.definitions() == 0 {
        return Err("Invalid graphql request: empty graphql query".into());
    }
    Ok(if parsed.only_queries() { Kind::Query } else { Kind::Other })
}

fn instances(services: &Services) -> Arc<Instances> {
    services.keep(GraphqlProxyCache::NAME, Instances::default)
}

impl Instances {
    fn add(&self, strategy: Strategy, cache: &Arc<ProxyCache>) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|(_, cache)| cache.strong_count() > 0);
        all.push((strategy, Arc::downgrade(cache)));
    }

    fn with_strategy(&self, strategy: Strategy) -> Vec<Arc<ProxyCache>> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let same = all.iter().filter(|(other, _)| *other == strategy);
        same.filter_map(|(_, cache)| cache.upgrade()).collect()
    }
}

/// Drops the answer that the path names.
fn purge<'a>(
    cx: &'a mut RequestContext<'_>,
    services: &'a Arc<Services>,
) -> LocalFuture<'a, Answer<'static>> {
    let path = text(cx.path()).into_owned();
    let instances = instances(services);
    Box::pin(async move {
        let rest = path.strip_prefix(PURGE_PATH).unwrap_or_default();
        let parts: Vec<&str> = rest.split('/').collect();
        let (strategy, key) = match parts[..] {
            ["memory", route, key] if !route.is_empty() => (Strategy::Memory, key),
            ["disk", route, key] if !route.is_empty() => (Strategy::Disk, key),
            _ => return Answer::status(400).refused(RefusalKind::RequestInvalid),
        };
        // Other keys of the zone belong to other plugins.
        if key.len() != KEY_DIGITS || !key.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Answer::status(400).refused(RefusalKind::RequestInvalid);
        }
        // Keys contain the route, so that no other route's answer has this key.
        let mut is_purged = false;
        for cache in instances.with_strategy(strategy) {
            is_purged |= cache.purge(key.as_bytes()).await;
        }
        match is_purged {
            true => Answer::text(200, &b""[..]),
            false => Answer::status(404).refused(RefusalKind::NotFound),
        }
    })
}

#[cfg(test)]
mod tests {
    use tollhouse_plugin::testing::{FakeExchange, Harness, Reply, configure_among};
    use tollhouse_plugin::{Catalogue, PluginType};

    use super::*;
    use crate::public_api::PublicApi;

    fn harness() -> Harness {
        let conf = json!({"cache_strategy": "memory", "cache_zone": "memory_cache"});
        Harness::new::<GraphqlProxyCache>(&conf)
    }

    fn ask(harness: &mut Harness, request: &str, body: &str) -> Reply {
        let mut request = FakeExchange::parse(request, harness.now_ms);
        let outcome = harness.run(&mut request);
        match outcome.answer {
            // The harness runs no response phase for answers of plugins.
            Some(answer) => answer,
            None => harness.respond(&mut request, "200", &[body]),
        }
    }

    fn post(query: &str, more: &str) -> String {
        let body = json!({"query": query, "variables": more});
        format!("POST /graphql HTTP/1.1\nContent-Type: application/json\n\n{body}")
    }

    #[test]
    fn a_query_is_answered_from_the_cache_and_a_mutation_is_not() {
        let mut harness = harness();
        let first = ask(&mut harness, &post("{a}", "1"), "one");
        assert_eq!(first.header(STATUS_HEADER), Some("MISS"));
        assert_eq!(first.header(KEY_HEADER).map(str::len), Some(64));
        let second = ask(&mut harness, &post("{a}", "1"), "two");
        assert_eq!((second.header(STATUS_HEADER), &*second.body), (Some("HIT"), "one"));
        for other in [
            post("{b}", "1"),
            post("{a}", "2"),
            post("{a}", "1").replace("/graphql", "/other"),
            post("{a}", "1").replace("HTTP/1.1", "HTTP/1.1\nHost: other.com"),
            post("{a}", "1").replace("json\n", "json; charset=utf-8\n"),
            "GET /graphql?query=%7Ba%7D HTTP/1.1\n\n".to_owned(),
            "POST /graphql HTTP/1.1\nContent-Type: application/graphql\n\n{a}".to_owned(),
        ] {
            assert_eq!(
                ask(&mut harness, &other, "x").header(STATUS_HEADER),
                Some("MISS"),
                "{other}"
            );
        }
        for query in ["mutation {a}", "subscription {a}", "query a {a} mutation b {b}"] {
            for _ in 0..2 {
                let reply = ask(&mut harness, &post(query, "1"), "new");
                assert_eq!((reply.header(STATUS_HEADER), &*reply.body), (Some("BYPASS"), "new"));
                assert_eq!(reply.header(KEY_HEADER), None);
            }
        }
        harness.now_ms += 301_000;
        assert_eq!(
            ask(&mut harness, &post("{a}", "1"), "x").header(STATUS_HEADER),
            Some("EXPIRED")
        );
    }

    #[test]
    fn an_answer_is_purged_by_its_key() {
        let mut harness = harness();
        let key =
            ask(&mut harness, &post("{a}", "1"), "one").header(KEY_HEADER).unwrap().to_owned();
        let catalogue = Catalogue::new([PluginType::new::<GraphqlProxyCache>()]);
        let services = Arc::clone(&harness.services);
        let handler = configure_among::<PublicApi>(&json!({}), &services, &catalogue, None);
        let mut public = Harness::with(handler.unwrap(), services);
        for (path, status) in [
            ("memory/1".to_owned(), 400),
            ("other/1/x".to_owned(), 400),
            ("memory//x".to_owned(), 400),
            ("memory/1/".to_owned(), 400),
            ("memory/1/unknown".to_owned(), 400),
            (format!("memory/1/{}", "x".repeat(64)), 400),
            (format!("memory/1/{}", "0".repeat(64)), 404),
            (format!("disk/1/{key}"), 404),
            (format!("memory/1/{key}"), 200),
            (format!("memory/1/{key}"), 404),
        ] {
            let request = format!("PURGE {PURGE_PATH}{path} HTTP/1.1\n\n");
            assert_eq!(public.request(&request).status(), status, "{path}");
        }
        assert_eq!(ask(&mut harness, &post("{a}", "1"), "x").header(STATUS_HEADER), Some("MISS"));
    }

    #[test]
    fn other_requests_are_refused() {
        let json = "POST / HTTP/1.1\nContent-Type: application/json\n\n";
        for (request, status, text) in [
            ("PUT / HTTP/1.1\n\n{}".to_owned(), 405, ""),
            ("GET / HTTP/1.1\n\n".to_owned(), 400, "can't get graphql request body"),
            ("GET /?a=b HTTP/1.1\n\n".to_owned(), 400, "args[query] is nil"),
            ("POST / HTTP/1.1\n\n".to_owned(), 400, "can't get graphql request body"),
            ("POST / HTTP/1.1\n\n{a}".to_owned(), 400, "error content-type: "),
            (format!("{json}{{}}"), 400, "json body[query] is nil"),
            (format!("{json}{{\"query\":\"{{a}}\",\"query\":\"{{b}}\"}}"), 400, "is repeated"),
            (post("{a", "1"), 400, "failed to parse graphql query"),
            (post(&format!("{{a}}{}", " ".repeat(64 << 10)), "1"), 400, "longer than 65536 bytes"),
            (post(&" ".repeat(1 << 20), "1"), 400, "can't get graphql request body"),
        ] {
            let outcome = harness().request(&request);
            assert_eq!(outcome.status(), status, "{text}");
            assert!(outcome.body().contains(text), "{}", outcome.body());
        }
        let refusal = Harness::refusal::<GraphqlProxyCache>(&json!({"cache_zone": "none"}));
        assert!(refusal.contains("none"), "{refusal}");
    }
}
