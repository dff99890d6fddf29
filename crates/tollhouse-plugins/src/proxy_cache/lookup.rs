//! Look-up for a request: its key, the stored answer of the key, and the request to the node if the
//! stored answer does not suffice.

use std::sync::Arc;

use tollhouse_plugin::{Answer, Flow, RefusalKind, RequestContext, Step};

use super::conditional::{Conditions, NAMES, Validators};
use super::directives::Directives;
use super::invalidation::{self, Invalidation};
use super::item::{CacheLookup, CachedResponse, VaryIndex};
use super::reuse::{Verdict, View, check};
use super::store::{StorePlan, Zone};
use super::{DISK_METHODS, Progress, ProxyCache, Strategy, for_head, key, ranges};

/// Pending work on the answer of a node.
#[derive(Default)]
pub(super) struct PendingAnswer {
    /// Plan for storing the answer; `None` if it must not be stored.
    pub plan: Option<StorePlan>,
    /// Time of the request, in milliseconds since 1970.
    pub asked_ms: u64,
    /// Conditions of the client that the node did not receive.
    pub conditions: Conditions,
    /// Stored answer that is no longer fresh.
    pub stored: Option<Arc<CachedResponse>>,
    /// Whether the node was asked if `stored` is still valid.
    pub is_revalidation: bool,
    pub invalidation: Option<Invalidation>,
}

/// Reason not to look in the cache.
struct Bypass {
    status: Option<&'static str>,
    /// Whether the answer may be stored nevertheless.
    is_kept: bool,
}

/// Cache key of a request.
struct Key {
    bytes: Vec<u8>,
    /// Length in bytes of the owner, which is the first part of the key.
    owner_bytes: usize,
}

impl ProxyCache {
    /// Answers a request from the store, or prepares it for a node.
    pub(super) fn look_up<'a>(&'a self, cx: &'a mut RequestContext<'_>) -> Step<'a> {
        let key = self.key_of(cx);
        if cx.method() == b"PURGE" {
            return Step::wait(async move {
                let is_kept = self.zone.purge(&key.bytes).await;
                let is_kept_for_head = self.zone.purge(&for_head(&key.bytes)).await;
                if is_kept || is_kept_for_head {
                    Answer::text(200, &b""[..]).into()
                } else {
                    Answer::status(404).into()
                }
            });
        }
        self.look_up_key(cx, key)
    }

    /// Answers a request like [`Self::look_up`], with a key that contains its owner
    /// ([`Self::write_owner`]) and all else on which the answer may depend.
    pub(crate) fn look_up_as<'a>(
        &'a self,
        cx: &'a mut RequestContext<'_>,
        key: Vec<u8>,
    ) -> Step<'a> {
        self.look_up_key(cx, Key { bytes: key, owner_bytes: 0 })
    }

    /// Appends the identities that the conf keeps apart to a key.
    pub(crate) fn write_owner(&self, cx: &RequestContext<'_>, key: &mut Vec<u8>) {
        self.isolation.write_owner(cx, key);
    }

    /// Drops what is stored for a key; returns whether there was something.
    pub(crate) async fn purge(&self, key: &[u8]) -> bool {
        self.zone.purge(key).await
    }

    fn look_up_key<'a>(&'a self, cx: &'a mut RequestContext<'_>, key: Key) -> Step<'a> {
        // What a script has printed is the answer, not what is stored.
        if cx.edits().answer.is_some() {
            return Step::Continue;
        }
        let directives = Directives::parse(cx.header("cache-control"));
        if let Some(bypass) = self.passes_by(cx, &directives) {
            self.go_past(cx, key, &bypass);
            return Step::Continue;
        }
        let key = key.bytes;
        match &self.zone {
            // A zone in memory answers at once, so that the phase does not wait.
            Zone::Memory(zone) => {
                let mut lookup = zone.find(&key, &|names| key::signature(cx, names));
                if cx.method() == b"HEAD" && matches!(lookup, CacheLookup::Miss(_)) {
                    lookup = zone.find(&for_head(&key), &|names| key::signature(cx, names));
                }
                step_of(self.answer_or_forward(cx, key, lookup))
            }
            Zone::Disk(zone) => Step::wait(async move {
                let mut lookup = zone.find(&key, &|names| key::signature(cx, names)).await;
                if cx.method() == b"HEAD" && matches!(lookup, CacheLookup::Miss(_)) {
                    let key = for_head(&key);
                    lookup = zone.find(&key, &|names| key::signature(cx, names)).await;
                }
                self.answer_or_forward(cx, key, lookup)
            }),
        }
    }

    fn key_of(&self, cx: &RequestContext<'_>) -> Key {
        let mut bytes = Vec::new();
        self.isolation.write_owner(cx, &mut bytes);
        let owner_bytes = bytes.len();
        self.key.write(cx.variables(), &mut bytes);
        key::write_part(&cx.node_uri(), &mut bytes);
        Key { bytes, owner_bytes }
    }

    fn passes_by(&self, cx: &RequestContext<'_>, directives: &Directives<'_>) -> Option<Bypass> {
        let is_listed = self.is_listed(cx.method());
        // The node's answer may depend on a body, which is not part of the key.
        if is_listed && cx.method() != b"POST" && has_body(cx) {
            return Some(Bypass { status: Some("BYPASS"), is_kept: false });
        }
        if !is_listed {
            let status = match self.strategy {
                Strategy::Memory => Some("MISS"),
                Strategy::Disk => DISK_METHODS.contains(&cx.method()).then_some("BYPASS"),
            };
            return Some(Bypass { status, is_kept: false });
        }
        if self.config.cache_control && (directives.has("no-store") || directives.has("no-cache")) {
            return Some(Bypass { status: Some("BYPASS"), is_kept: false });
        }
        let is_bypassed = self.bypass.as_ref().is_some_and(|parts| parts.is_set(cx.variables()));
        let is_kept = self.strategy == Strategy::Disk;
        is_bypassed.then_some(Bypass { status: Some("BYPASS"), is_kept })
    }

    fn is_listed(&self, method: &[u8]) -> bool {
        self.config.cache_method.iter().any(|listed| listed.as_bytes() == method)
    }

    /// Prepares a request that bypasses the cache: its answer may still be stored, or invalidate
    /// other answers.
    fn go_past(&self, cx: &mut RequestContext<'_>, key: Key, bypass: &Bypass) {
        let changes = !self.is_listed(cx.method()) && invalidation::is_unsafe(cx.method());
        let invalidation = changes.then(|| Invalidation {
            owner: key.bytes[..key.owner_bytes].to_vec(),
            target: key.bytes[key.owner_bytes..].to_vec(),
            is_path_kept: cx.node_uri() == cx.request_uri(),
        });
        let plan = bypass.is_kept.then(|| self.plan(cx, key.bytes, None));
        let pending = (plan.is_some() || invalidation.is_some()).then(|| {
            let asked_ms = cx.now().unix_ms;
            Box::new(PendingAnswer { plan, asked_ms, invalidation, ..PendingAnswer::default() })
        });
        cx.remember(Progress { status: bypass.status, pending });
    }

    fn plan(&self, cx: &RequestContext<'_>, key: Vec<u8>, index: Option<VaryIndex>) -> StorePlan {
        let generation = cx.random();
        let owner = self.isolation.owner(cx, &self.key);
        match cx.method() {
            // The index may be that of GET, which is useless under another key.
            b"HEAD" => StorePlan { key: for_head(&key), index: None, generation, owner },
            _ => StorePlan { key, index, generation, owner },
        }
    }

    /// Answers from the store if the answer found is fresh; otherwise prepares the request for a
    /// node.
    fn answer_or_forward<'a>(
        &self,
        cx: &mut RequestContext<'_>,
        key: Vec<u8>,
        lookup: CacheLookup,
    ) -> Flow<'a> {
        let now_ms = cx.now().unix_ms;
        let header = if self.config.cache_control { cx.header("cache-control") } else { None };
        let directives = header.map(|header| Directives::parse(Some(header)));
        let conditions = Conditions::from_request(cx);
        let is_head = cx.method() == b"HEAD";
        let (status, stored, index) = match lookup {
            CacheLookup::Miss(index) => ("MISS", None, index),
            CacheLookup::Hit(stored, index) => match check(&stored, now_ms, directives.as_ref()) {
                Verdict::Expired => ("EXPIRED", Some(stored), index),
                Verdict::TooOld => ("STALE", Some(stored), index),
                Verdict::Fresh => {
                    let view = View {
                        conditions: &conditions,
                        is_head,
                        hides_cache_headers: self.config.hide_cache_headers,
                        status: "HIT",
                        now_ms,
                    };
                    return view.answer(&stored).into();
                }
            },
        };
        // This applies only if the cache has no answer: if the stored one is too old, the node is
        // asked.
        if status == "MISS" && directives.is_some_and(|it| it.has("only-if-cached")) {
            cx.remember(Progress { status: Some("MISS"), pending: None });
            return Answer::status(504).refused(RefusalKind::RequestInvalid).into();
        }
        let plan = self.plan(cx, key, index);
        let mut pending =
            PendingAnswer { asked_ms: now_ms, conditions, stored, ..PendingAnswer::default() };
        if cx.method() == b"GET" {
            pending.ask_for_all(cx, &plan);
        } else {
            pending.conditions = Conditions::default();
        }
        pending.plan = Some(plan);
        cx.remember(Progress { status: Some(status), pending: Some(Box::new(pending)) });
        Flow::Continue
    }
}

impl PendingAnswer {
    /// Changes the request so that the node sends an answer that can be stored, or confirms that
    /// the stored one is valid.
    fn ask_for_all(&mut self, cx: &mut RequestContext<'_>, plan: &StorePlan) {
        let validators = self.stored.as_deref().map(Validators::from_stored).unwrap_or_default();
        let status = self.stored.as_ref().map(|stored| stored.status);
        self.is_revalidation = status == Some(200) && validators.are_usable();
        // An answer for one client is rarely stored, and the node sends parts as long as the whole
        // answer is not stored.
        let is_left = plan.owner.is_personal()
            || self.conditions.range.as_deref().is_some_and(|range| !ranges::is_from_start(range));
        if !self.is_revalidation && is_left {
            self.conditions = Conditions::default();
            return;
        }
        if !self.conditions.is_empty() {
            NAMES.iter().for_each(|name| cx.remove_header(name));
        }
        if self.is_revalidation {
            let lines = [
                ("If-None-Match", validators.etag),
                ("If-Modified-Since", validators.last_modified),
            ];
            for (name, value) in lines {
                if let Some(value) = value {
                    cx.set_header(name, value);
                }
            }
        }
    }
}

/// Whether a request has a body, or may have one; plugins may have written it.
fn has_body(cx: &RequestContext<'_>) -> bool {
    let is_written = cx.exchange().edits().body.is_some();
    let has_length = cx.header("content-length").is_some_and(|length| *length != *b"0");
    is_written || has_length || cx.header("transfer-encoding").is_some()
}

/// Converts the outcome of a phase that did not have to wait.
fn step_of(flow: Flow<'_>) -> Step<'_> {
    match flow {
        Flow::Continue => Step::Continue,
        Flow::Answer(answer) => Step::Answer(answer),
    }
}
