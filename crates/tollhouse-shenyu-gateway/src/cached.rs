//! Execution of `cache`: which responses may be stored, their keys, and the copy of the body.
//!
//! ShenYu stores every response. Here a response is stored only if HTTP permits a shared cache to
//! serve it to any client (RFC 9111 §3): the answer to a `GET` without credentials, with status 200
//! and no directive against it. Identities found by other plugins are part of the key. A response
//! to a request with cookies is stored only if it is explicitly public.

use bytes::Bytes;
use tollhouse_plugin::identity::{KeyParts, Unexplained};
use tollhouse_plugin::response::{BodyFilter, Effect, ResponseContext, Source};
use tollhouse_plugin::{Answer, HeldBody, RequestContext};
use tollhouse_shenyu::cache::{ANSWER_BYTES_MAX, CacheRule, Kept};

use crate::counts::SharedCache;
use crate::turn::Turn;

/// Headers with credentials, whose responses may be meant for one client, and `Range`, whose
/// responses are partial.
const OWN_HEADERS: [&str; 6] =
    ["authorization", "shenyu-authorization", "token", "appKey", "X-API-KEY", "range"];

/// Response to be stored when its body is complete.
#[derive(Debug, Clone)]
pub(crate) struct Keep {
    cache: SharedCache,
    key: Vec<u8>,
    lifetime_ms: u64,
    unexplained: Unexplained,
    /// Number of identities when the key was made.
    identities: usize,
}

/// Parts of the key: identities. Requests with `Authorization` are never looked up.
const KEY_PARTS: KeyParts = KeyParts { identities: true, authorization: false, cookie: false };

/// Outcome of looking up a response in the cache.
pub(crate) enum Found<'o> {
    Answer(Box<Answer<'o>>),
    /// Not found; the node's response may be stored.
    Nothing(Keep),
    /// The request must not be answered from the cache.
    NotAsked,
}

/// Looks up the response to a request; `id` is the rule's.
pub(crate) fn find<'o>(
    rule: CacheRule,
    (id, cache): (&str, &SharedCache),
    cx: &RequestContext<'_>,
    turn: &Turn,
) -> Found<'o> {
    if cx.method() != b"GET" || OWN_HEADERS.iter().any(|name| cx.header(name).is_some()) {
        return Found::NotAsked;
    }
    let key = key(id, cx, turn);
    match cache.find(&key, cx.now().monotonic_ms) {
        Some(kept) => {
            let answer = Answer {
                body: tollhouse_plugin::AnswerBody::Shared(kept.body),
                ..Answer::status(200)
            };
            Found::Answer(Box::new(match kept.content_type {
                Some(kind) => answer.with_header("Content-Type", kind),
                None => answer,
            }))
        }
        None => Found::Nothing(Keep {
            cache: cache.clone(),
            key,
            lifetime_ms: rule.lifetime_ms,
            unexplained: cx.unexplained(KEY_PARTS),
            identities: cx.exchange().edits().identities.len(),
        }),
    }
}

/// Builds the key from rule, host, path, query and identities. Each part is preceded by its length,
/// so that different requests never share a key.
fn key(id: &str, cx: &RequestContext<'_>, turn: &Turn) -> Vec<u8> {
    let host = cx.header("host").unwrap_or_default();
    let query = turn.query.as_deref().unwrap_or_default();
    let path = turn.node_path();
    let mut key = Vec::with_capacity(id.len() + host.len() + path.len() + query.len() + 32);
    for part in [id.as_bytes(), &host, path.as_bytes(), query] {
        key.extend_from_slice(&(part.len() as u64).to_le_bytes());
        key.extend_from_slice(part);
    }
    cx.write_identities(&mut key);
    key
}

impl Keep {
    /// Starts copying the body of a response, if it may be stored.
    pub(crate) fn watch(self, cx: &mut ResponseContext<'_>) {
        let is_same_user = cx.request().edits().identities.len() == self.identities;
        if !is_same_user || !may_be_kept(cx, self.unexplained) {
            return;
        }
        let content_type = cx.header("content-type").map(<[u8]>::to_vec);
        let ends_ms = cx.now().monotonic_ms.saturating_add(self.lifetime_ms);
        let watch = Watch { keep: self, content_type, ends_ms, held: Some(cx.hold_body()) };
        cx.filter_body(Effect::Observes, Box::new(watch));
    }
}

fn may_be_kept(cx: &ResponseContext<'_>, unexplained: Unexplained) -> bool {
    let facts = cx.facts();
    let directives = cx.header_list("cache-control").unwrap_or_default().to_ascii_lowercase();
    let says = |name: &str| {
        let mut names = directives.split(|byte| *byte == b',').map(|directive| {
            directive.split(|byte| *byte == b'=').next().unwrap_or_default().trim_ascii()
        });
        names.any(|known| known == name.as_bytes())
    };
    let is_private = ["no-store", "no-cache", "private"].into_iter().any(says);
    unexplained.may_be_shared(says, |_| false)
        && facts.source == Source::Upstream
        && facts.status == 200
        && facts.has_body
        && facts.content_length.is_none_or(|bytes| bytes <= ANSWER_BYTES_MAX as u64)
        && !is_private
        && ["set-cookie", "content-encoding", "vary"].iter().all(|name| cx.header(name).is_none())
}

/// Copies a body as it passes, and stores it once complete.
struct Watch {
    keep: Keep,
    content_type: Option<Vec<u8>>,
    ends_ms: u64,
    /// Copied part of the body; `None` after it became too long. If memory for the copy is
    /// exhausted, nothing is stored either. The response passes in both cases.
    held: Option<HeldBody>,
}

impl BodyFilter for Watch {
    fn filter(&mut self, input: &[u8], is_last: bool, _out: &mut Vec<u8>) {
        let Some(held) = &mut self.held else { return };
        if held.len() + input.len() > ANSWER_BYTES_MAX {
            self.held = None;
            return;
        }
        held.push(input);
        if is_last && !held.has_failed() {
            let body = Bytes::from(held.take());
            let kept = Kept { content_type: self.content_type.take(), body };
            self.keep.cache.keep(&self.keep.key, kept, self.ends_ms);
        }
    }
}
