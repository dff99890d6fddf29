//! Use of stored answers: the check whether a request may get one, and the answer to the client.

use tollhouse_plugin::{Answer, AnswerBody};

use super::STATUS_HEADER;
use super::conditional::{Conditions, Validators};
use super::directives::Directives;
use super::item::CachedResponse;
use super::ranges::Selection;

/// Header lines that describe a body, of which a 304 has none (RFC 9110 §15.4.5).
const OF_BODIES: [&str; 4] =
    ["content-encoding", "content-language", "content-range", "content-type"];

/// Verdict on a stored answer for one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Fresh,
    /// The answer is older than its lifetime.
    Expired,
    /// The answer is fresh, but older than the client accepts.
    TooOld,
}

/// Checks a stored answer. `directives` are those of the request; `None` if they do not count.
pub(super) fn check(
    stored: &CachedResponse,
    now_ms: u64,
    directives: Option<&Directives<'_>>,
) -> Verdict {
    let age_ms = stored.age_ms(now_ms);
    let wants = |name: &str| {
        let seconds = directives.and_then(|directives| directives.seconds(name));
        seconds.map(|seconds| seconds.saturating_mul(1_000))
    };
    if stored.is_expired(now_ms) {
        let stale_ms = age_ms - stored.life.ttl_ms;
        let takes_any = directives.is_some_and(|directives| directives.is_bare("max-stale"));
        let takes = takes_any || wants("max-stale").is_some_and(|most_ms| stale_ms <= most_ms);
        if !takes || stored.stale_use.is_prohibited {
            return Verdict::Expired;
        }
    }
    let left_ms = stored.life.ttl_ms.saturating_sub(age_ms);
    let is_too_old = wants("max-age").is_some_and(|most_ms| age_ms > most_ms)
        || wants("min-fresh").is_some_and(|least_ms| left_ms < least_ms);
    if is_too_old { Verdict::TooOld } else { Verdict::Fresh }
}

/// Whether a stored answer may be served in place of a node's failure (RFC 5861 §4).
pub(super) fn serves_on_error(stored: &CachedResponse, now_ms: u64) -> bool {
    let stale_ms = stored.age_ms(now_ms).saturating_sub(stored.life.ttl_ms);
    stale_ms <= stored.stale_use.if_error_s.saturating_mul(1_000) && stored.stale_use.if_error_s > 0
}

/// Properties of a request that decide how a stored answer is shown to its client.
#[derive(Debug, Clone, Copy)]
pub(super) struct View<'a> {
    pub conditions: &'a Conditions,
    pub is_head: bool,
    pub hides_cache_headers: bool,
    /// Value of the header `Apisix-Cache-Status`.
    pub status: &'static str,
    pub now_ms: u64,
}

impl View<'_> {
    /// Returns the answer to the client: the whole stored one, a part of the body, or 304 if the
    /// client has it already.
    ///
    /// One allocation, the age: lines and body are shared with the store. Parts and 304 copy lines.
    pub fn answer<'a>(self, stored: &CachedResponse) -> Answer<'a> {
        let mut answer = match self.selected(stored) {
            Some(answer) => answer,
            None => self.whole(stored),
        };
        let age_s = stored.age_ms(self.now_ms) / 1_000;
        answer = answer.with_header("Age", age_s.to_string().into_bytes());
        answer.with_header(STATUS_HEADER, self.status.as_bytes())
    }

    fn whole<'a>(self, stored: &CachedResponse) -> Answer<'a> {
        let mut answer = Answer::status(stored.status);
        // An answer stored for HEAD has no body; an answer stored for GET has the whole body.
        answer.body = match (self.is_head, stored.body.is_empty()) {
            (true, true) => AnswerBody::LeftOut(stored.left_out_bytes),
            _ => AnswerBody::Shared(stored.body.clone()),
        };
        if self.hides_cache_headers {
            return self.copy_lines(answer, stored, &[]);
        }
        answer.shared_headers = Some(stored.headers.clone());
        answer
    }

    /// Returns a 304, 206 or 416 if the conditions or the range ask for it. They count only if the
    /// answer without them would be a success.
    fn selected<'a>(self, stored: &CachedResponse) -> Option<Answer<'a>> {
        if self.conditions.is_empty() || !(200..300).contains(&stored.status) {
            return None;
        }
        let validators = Validators::from_stored(stored);
        if self.conditions.is_not_modified(validators) {
            return Some(self.copy_lines(Answer::status(304), stored, &OF_BODIES));
        }
        if self.is_head || stored.status != 200 {
            return None;
        }
        let length = stored.body.len() as u64;
        match self.conditions.selection(validators, length) {
            Selection::Whole => None,
            Selection::Unsatisfiable => {
                let range = format!("bytes */{length}").into_bytes();
                Some(Answer::status(416).with_header("Content-Range", range))
            }
            Selection::Part(part) => {
                let range = format!("bytes {}-{}/{length}", part.start, part.end - 1).into_bytes();
                // The part is within the body, whose length fits in memory.
                let bytes = stored.body.slice(part.start as usize..part.end as usize);
                let answer = Answer { body: AnswerBody::Shared(bytes), ..Answer::status(206) };
                let answer = self.copy_lines(answer, stored, &["content-range"]);
                Some(answer.with_header("Content-Range", range))
            }
        }
    }

    fn copy_lines<'a>(
        self,
        answer: Answer<'a>,
        stored: &CachedResponse,
        without: &[&str],
    ) -> Answer<'a> {
        let is_hidden = |name: &str| {
            let is = |other: &&str| name.eq_ignore_ascii_case(other);
            without.iter().any(is)
                || (self.hides_cache_headers && ["cache-control", "expires"].iter().any(is))
        };
        let lines = stored.headers.iter().filter(|(name, _)| !is_hidden(name));
        lines.fold(answer, |answer, (name, value)| {
            answer.with_header(name.to_string(), value.to_vec())
        })
    }
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use super::*;
    use crate::proxy_cache::freshness::{Life, StaleUse};

    fn stored(stale_use: StaleUse) -> CachedResponse {
        CachedResponse {
            status: 200,
            headers: [("ETag".into(), b"\"a\"".as_slice().into())].into(),
            body: b"0123456789".as_slice().into(),
            left_out_bytes: None,
            stored_unix_ms: 1_000_000,
            life: Life { ttl_ms: 60_000, age_ms: 10_000 },
            stale_use,
        }
    }

    #[test]
    fn a_client_decides_how_old_an_answer_may_be() {
        use Verdict::{Expired, Fresh, TooOld};
        let strict = StaleUse { is_prohibited: true, if_error_s: 0 };
        for (after_s, directives, stale_use, expected) in [
            (0, "", StaleUse::default(), Fresh),
            (49, "", StaleUse::default(), Fresh),
            (50, "", StaleUse::default(), Expired),
            (0, "max-age=10", StaleUse::default(), Fresh),
            (1, "max-age=10", StaleUse::default(), TooOld),
            (1, "max-age=x", StaleUse::default(), Fresh),
            (0, "min-fresh=50", StaleUse::default(), Fresh),
            (0, "min-fresh=51", StaleUse::default(), TooOld),
            (60, "max-stale", StaleUse::default(), Fresh),
            (60, "max-stale=10", StaleUse::default(), Fresh),
            (61, "max-stale=10", StaleUse::default(), Expired),
            (61, "max-stale=x", StaleUse::default(), Expired),
            (60, "max-stale, max-age=20", StaleUse::default(), TooOld),
            (60, "max-stale", strict, Expired),
        ] {
            let asked = Directives::parse(Some(Cow::Borrowed(directives.as_bytes())));
            let found = check(&stored(stale_use), 1_000_000 + after_s * 1_000, Some(&asked));
            assert_eq!(found, expected, "{after_s} {directives} {stale_use:?}");
        }
    }

    #[test]
    fn an_answer_is_served_for_a_failed_node_within_its_window() {
        let lenient = StaleUse { is_prohibited: false, if_error_s: 10 };
        for (after_s, stale_use, expected) in [
            (50, lenient, true),
            (60, lenient, true),
            (61, lenient, false),
            (51, StaleUse::default(), false),
        ] {
            let found = serves_on_error(&stored(stale_use), 1_000_000 + after_s * 1_000);
            assert_eq!(found, expected, "{after_s}");
        }
    }
}
