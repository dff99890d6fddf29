//! Answers of nodes: storing of new answers, refreshing of a stored answer, and use of a stored
//! answer in place of a failure.

use std::sync::Arc;

use bytes::Bytes;
use tollhouse_plugin::response::Source;
use tollhouse_plugin::{Answer, BodyFilter, Effect, Piece, ResponseContext};

use super::conditional::{Conditions, Validators, is_weakly_equal};
use super::freshness::{Fields, Life, Times};
use super::item::{self, CachedResponse};
use super::lookup::PendingAnswer;
use super::ranges::Selection;
use super::reuse::{View, serves_on_error};
use super::store::{PendingEntry, Saver, StorePlan};
use super::{Progress, ProxyCache, key};

/// Maximum length in bytes of a body that is read and dropped so that the node's connection can be
/// used again.
const DRAINED_BYTES_MAX: u64 = 64 << 10;
/// Statuses of nodes that `stale-if-error` covers (RFC 5861 §4).
const ERRORS: [u16; 4] = [500, 502, 503, 504];

impl ProxyCache {
    /// Returns a stored answer to be used instead of the node's: refreshed by a 304, or in place of
    /// a failure.
    pub(super) fn stored_instead(&self, cx: &mut ResponseContext<'_>) -> Option<Answer<'static>> {
        let now_ms = cx.now().unix_ms;
        let (status, source) = (cx.status(), cx.source());
        let progress = cx.recall::<Progress>()?;
        let pending = progress.pending.as_mut()?;
        let stored = pending.stored.as_ref()?;
        let is_good = pending.is_revalidation && source == Source::Upstream && status == 304;
        let has_failed = source == Source::Gateway || ERRORS.contains(&status);
        if !is_good && !(has_failed && serves_on_error(stored, now_ms)) {
            return None;
        }
        let stored = Arc::clone(stored);
        let pending = *progress.pending.take()?;
        // The answer contains the status already.
        progress.status = None;
        let (stored, status) = match is_good {
            true => (self.refresh(cx, &pending, &stored), "REVALIDATED"),
            false => (stored, "STALE"),
        };
        let view = View {
            conditions: &pending.conditions,
            is_head: cx.request().method() == b"HEAD",
            hides_cache_headers: self.config.hide_cache_headers,
            status,
            now_ms,
        };
        Some(view.answer(&stored))
    }

    /// Returns the stored answer as updated by a 304 (RFC 9111 §4.3.4), and stores it if all
    /// clients may get it.
    fn refresh(
        &self,
        cx: &ResponseContext<'_>,
        pending: &PendingAnswer,
        stored: &Arc<CachedResponse>,
    ) -> Arc<CachedResponse> {
        let tags = cx.header("etag").zip(stored.header("etag"));
        if tags.is_some_and(|(one, other)| !is_weakly_equal(one, other)) {
            // The 304 is about another version and does not apply to the stored answer, which is
            // used for the last time.
            if let Some(plan) = &pending.plan {
                self.zone.forget(&plan.key);
            }
            return Arc::clone(stored);
        }
        let of_304 = Fields::read(304, |visit| cx.each_header(visit));
        let update = item::kept_headers(cx, &of_304.directives());
        let lines = item::updated_headers(&stored.headers, update);
        let fields = Fields::read(stored.status, |visit| {
            lines.iter().for_each(|(name, value)| visit(name.as_bytes(), value));
            cx.each_header(&mut |name, value| {
                if name.eq_ignore_ascii_case(b"age") {
                    visit(name, value);
                }
            });
        });
        let times = Times { asked_ms: pending.asked_ms, answered_ms: cx.now().unix_ms };
        let life = fields.life(times, self.lifetimes);
        let is_kept = life.is_some() && self.may_set_cookie(cx);
        let names = item::vary_names(&lines).filter(|_| is_kept);
        let refreshed = CachedResponse {
            headers: lines.into(),
            stored_unix_ms: times.answered_ms,
            life: life.unwrap_or(Life { ttl_ms: 0, age_ms: 0 }),
            stale_use: fields.stale_use(),
            ..CachedResponse::clone(stored)
        };
        if let (Some(plan), Some(names)) = (&pending.plan, names)
            && plan.owner.shares(cx, &fields.directives(), &names)
        {
            let signature = key::signature_of_response(cx, &names);
            self.zone.keep(plan, names, &signature, refreshed.clone());
        }
        Arc::new(refreshed)
    }

    /// Processes the answer that the client gets: stores it, drops answers that it makes obsolete,
    /// and answers conditions that the node did not receive.
    pub(super) fn take_in(&self, cx: &mut ResponseContext<'_>, pending: PendingAnswer) {
        if cx.source() != Source::Upstream {
            return;
        }
        if let Some(invalidation) = &pending.invalidation {
            self.invalidate(cx, invalidation);
        }
        let Some(plan) = pending.plan else { return };
        let is_kept = self.keep(cx, plan, pending.asked_ms);
        if cx.status() == 200 && !pending.conditions.is_empty() {
            answer_conditions(cx, &pending.conditions);
            let is_short =
                cx.facts().content_length.is_some_and(|bytes| bytes <= DRAINED_BYTES_MAX);
            if !is_kept && cx.status() == 304 && is_short {
                cx.filter_body(Effect::Observes, Box::new(Drain));
            }
        }
    }

    /// Installs the filter that stores the answer, if it may be stored. Returns whether it will be
    /// stored.
    fn keep(&self, cx: &mut ResponseContext<'_>, plan: StorePlan, asked_ms: u64) -> bool {
        let is_kept = self.config.cache_http_status.contains(&cx.status())
            && !self.no_cache.as_ref().is_some_and(|parts| parts.is_set(&cx.variables()));
        if !is_kept || !self.may_set_cookie(cx) {
            return false;
        }
        let fields = Fields::read(cx.status(), |visit| cx.each_header(visit));
        let directives = fields.directives();
        let times = Times { asked_ms, answered_ms: cx.now().unix_ms };
        let Some(life) = fields.life(times, self.lifetimes) else { return false };
        let headers = item::kept_headers(cx, &directives);
        let Some(names) = item::vary_names(&headers) else { return false };
        if !plan.owner.shares(cx, &directives, &names) {
            return false;
        }
        let facts = cx.facts();
        let stored = CachedResponse {
            status: facts.status,
            headers: headers.into(),
            body: Bytes::new(),
            left_out_bytes: facts.content_length,
            stored_unix_ms: times.answered_ms,
            life,
            stale_use: fields.stale_use(),
        };
        let bytes_max = self.config.max_resp_body_size.min(self.zone.bytes_max());
        if facts.content_length.is_some_and(|bytes| bytes > bytes_max) {
            return false;
        }
        // The request's values are read now, because the request is not accessible while the body
        // passes.
        let signature = key::signature_of_response(cx, &names);
        // The reservation grows as the body arrives, because a length that a node announces takes
        // no memory yet.
        let Some(reservation) = self.memory.take(0) else { return false };
        let headed = PendingEntry { plan, names, signature, stored };
        let saver = Saver::new(self.zone.clone(), headed, reservation);
        if facts.has_body {
            let saver = saver.expecting(facts.content_length, bytes_max);
            cx.filter_body(Effect::Observes, Box::new(saver));
        } else {
            saver.save();
        }
        true
    }

    /// Whether cookies of the answer, if any, may be stored. A cookie that a plugin has set, such
    /// as a session, is for one client.
    fn may_set_cookie(&self, cx: &ResponseContext<'_>) -> bool {
        !cx.is_edited("set-cookie")
            && (self.config.cache_set_cookie || cx.header("set-cookie").is_none())
    }
}

/// Reads a body that neither the client nor the cache needs.
struct Drain;

impl BodyFilter for Drain {
    fn filter(&mut self, _input: &[u8], _piece: Piece, _out: &mut Vec<u8>) {}

    fn reads_unsent_body(&self) -> bool {
        true
    }
}

/// Gives the client a 304 or 206 instead of a whole answer, according to conditions that the node
/// did not receive. A body that will be stored is read in any case.
fn answer_conditions(cx: &mut ResponseContext<'_>, conditions: &Conditions) {
    let validators = Validators {
        etag: cx.header("etag"),
        last_modified: cx.header("last-modified"),
        date: cx.header("date"),
    };
    if conditions.is_not_modified(validators) {
        return cx.set_status(304);
    }
    let facts = cx.facts();
    let Some(length) = facts.content_length.filter(|_| facts.has_body) else { return };
    // Another part would have to be cut out of the body as it passes. The client gets the whole
    // body instead, which is permitted.
    if conditions.selection(validators, length) == Selection::Part(0..length) {
        cx.set_status(206);
        cx.set_header("Content-Range", format!("bytes 0-{}/{length}", length - 1).as_bytes());
    }
}
