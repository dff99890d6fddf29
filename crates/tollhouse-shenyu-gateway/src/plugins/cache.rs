//! Plugin `cache`: which responses may be stored, and their keys.
//!
//! ShenYu stores every response. Here a response is stored only if HTTP permits a shared cache to
//! serve it to any client (RFC 9111 §3): the answer to a `GET` without credentials, with status 200
//! and no directive against it. Identities found by other plugins are part of the key. A response
//! to a request with cookies is stored only if it is explicitly public.

pub(crate) mod copy;
pub(crate) mod store;

use tollhouse_plugin::identity::KeyParts;
use tollhouse_plugin::{Answer, AnswerBody, RequestContext};

use self::copy::PendingCopy;
use self::store::CacheRule;
use crate::counts::SharedCache;
use crate::plugin::prelude::*;
use crate::turn::Turn;

/// Headers with credentials, whose responses may be meant for one client, and `Range`, whose
/// responses are partial.
const OWN_HEADERS: [&str; 6] =
    ["authorization", "shenyu-authorization", "token", "appKey", "X-API-KEY", "range"];

/// Parts of the key: identities. Requests with `Authorization` are never looked up.
const KEY_PARTS: KeyParts = KeyParts { identities: true, authorization: false, cookie: false };

/// Compiled rule of the plugin.
#[derive(Debug)]
pub(crate) struct CacheAction {
    rule: CacheRule,
    /// Id of the rule.
    id: String,
    cache: SharedCache,
}

impl ShenyuPlugin for CacheAction {
    const ROW: Row = Row::harmless("cache", 10)
        // ShenYu runs it before all protecting plugins, so it would serve any client a response
        // meant for an authorised one.
        .at(Stage::BeforeProxies)
        .with(Seed::new("30", "Cache").config(r#"{"cacheType":"memory"}"#));

    fn compile(place: &Place<'_>, resources: &mut Resources<'_>) -> CompileResult<Self> {
        let rule = CacheRule::read(place.handle(), place.config())?;
        Ok(Self { rule, id: place.id().to_owned(), cache: resources.counts.cache.clone() }.into())
    }

    async fn act<'o>(self: &Arc<Self>, run: &mut Run<'_, '_>) -> Verdict<'o> {
        let (cx, turn) = (&*run.cx, &mut *run.turn);
        if cx.method() != b"GET" || OWN_HEADERS.iter().any(|name| cx.header(name).is_some()) {
            return Verdict::Next;
        }
        let key = key(&self.id, cx, turn);
        if let Some(response) = self.cache.find(&key, cx.now().monotonic_ms) {
            let body = AnswerBody::Shared(response.body);
            let answer = Answer { body, ..Answer::status(200) };
            return Verdict::answered(match response.content_type {
                Some(kind) => answer.with_header("Content-Type", kind),
                None => answer,
            });
        }
        turn.aftermath.copy = Some(PendingCopy {
            cache: self.cache.clone(),
            key,
            lifetime_ms: self.rule.lifetime_ms,
            unexplained: cx.unexplained(KEY_PARTS),
            identities: cx.exchange().edits().identities.len(),
        });
        Verdict::Next
    }
}

/// Builds the key from rule, host, path, query and identities. Each part is preceded by its length,
/// so that different requests never share a key.
fn key(id: &str, cx: &RequestContext<'_>, turn: &Turn) -> Vec<u8> {
    let host = cx.header("host").unwrap_or_default();
    let query = turn.query().unwrap_or_default();
    let path = turn.node_path();
    let mut key = Vec::with_capacity(id.len() + host.len() + path.len() + query.len() + 32);
    for part in [id.as_bytes(), &host, path.as_bytes(), query] {
        key.extend_from_slice(&(part.len() as u64).to_le_bytes());
        key.extend_from_slice(part);
    }
    cx.write_identities(&mut key);
    key
}
