//! State that outlives a compiled chain: counts of `rateLimiter` and breakers, as long as their
//! rule is unchanged, and responses stored by `cache`. Also the permits of requests in progress.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tollhouse_shenyu::answer::Answer;

use crate::engines::Scripts;
use crate::plugins::cache::store::{Cache, CachedResponse};
use crate::plugins::rate_limiter::limiter::redis::ScriptCall;
use crate::plugins::rate_limiter::limiter::{Limiter, LimiterRule};
use crate::shared::breaker::{Admission, Breaker, BreakerRule, End};

/// State of one rule, shared by all cores.
#[derive(Debug)]
pub(crate) struct Shared<S>(Arc<Mutex<S>>);

impl<S> Clone for Shared<S> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<S> Shared<S> {
    fn lock(&self) -> MutexGuard<'_, S> {
        // No panic can leave the state inconsistent, so poisoning is ignored.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Counters of rules, by rule id, kept across compilations.
#[derive(Debug)]
pub(crate) struct StateTable<R, S>(BTreeMap<String, (R, Shared<S>)>);

impl<R, S> Default for StateTable<R, S> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<R: PartialEq + Clone, S> StateTable<R, S> {
    /// Returns the state of a rule: the previous one if the rule is equal, otherwise a new one.
    pub(crate) fn get(&mut self, before: &Self, id: &str, rule: R, make: fn(R) -> S) -> Shared<S> {
        let state = before.0.get(id).filter(|(known, _)| *known == rule).map(|(_, it)| it.clone());
        let shared = state.unwrap_or_else(|| Shared(Arc::new(Mutex::new(make(rule.clone())))));
        self.0.insert(id.to_owned(), (rule, shared.clone()));
        shared
    }
}

impl<R: Clone, S> StateTable<R, S> {
    /// Keeps the previous state of an unchanged rule.
    fn take_over(&mut self, before: &Self, id: &str) {
        if let Some((rule, shared)) = before.0.get(id) {
            self.0.insert(id.to_owned(), (rule.clone(), shared.clone()));
        }
    }
}

impl Counts {
    /// Keeps the counts of an unchanged rule.
    pub(crate) fn take_over(&mut self, before: &Self, id: &str) {
        self.limiters.take_over(&before.limiters, id);
        self.breakers.take_over(&before.breakers, id);
    }
}

#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) limiters: StateTable<LimiterRule, Limiter>,
    pub(crate) breakers: StateTable<BreakerRule, Breaker>,
    pub(crate) cache: SharedCache,
}

/// Responses stored by `cache`, for all cores and rules.
pub(crate) type SharedCache = Shared<Cache<Bytes>>;

impl Default for SharedCache {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl SharedCache {
    /// Returns the response for a key, unless it has expired.
    pub(crate) fn find(&self, key: &[u8], now_ms: u64) -> Option<CachedResponse<Bytes>> {
        self.lock().find(key, now_ms)
    }

    /// Stores a response until `ends_ms`.
    pub(crate) fn keep(&self, key: &[u8], response: CachedResponse<Bytes>, ends_ms: u64) {
        self.lock().keep(key, response, ends_ms);
    }
}

/// Place of a request at a limiter of concurrent requests, released when dropped.
#[derive(Debug)]
pub(crate) enum Permit {
    /// The request is counted in memory under this key.
    Local(Shared<Limiter>, String),
    /// The request is counted in Redis, which is told when the request ends.
    Remote(Arc<dyn Scripts>, Option<ScriptCall>),
}

impl Shared<Limiter> {
    /// Admits or refuses a request. `None` is a refusal. An admitted request gets a permit if the
    /// limiter counts concurrent requests.
    pub(crate) fn admit(
        &self,
        key: impl FnOnce(&LimiterRule) -> String,
        now_s: u64,
    ) -> Option<Option<Permit>> {
        let mut limiter = self.lock();
        let key = key(limiter.rule());
        let key = limiter.admit(&key, now_s)?;
        let is_held = limiter.rule().counts_open_requests();
        Some(is_held.then(|| Permit::Local(self.clone(), key)))
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        match self {
            Self::Local(limiter, key) => limiter.lock().release(key),
            Self::Remote(scripts, left) => {
                if let Some(left) = left.take() {
                    scripts.send(left);
                }
            }
        }
    }
}

/// Call that a breaker admitted. Dropping it records an unknown outcome.
#[derive(Debug)]
pub(crate) struct Call {
    breaker: Shared<Breaker>,
    passed: Option<Admission>,
    began_ms: u64,
}

impl Shared<Breaker> {
    /// Begins a call, and returns it with the milliseconds to wait before it.
    pub(crate) fn begin(&self, now_ms: u64) -> Result<(Call, u64), Answer> {
        let passed = self.lock().begin(now_ms)?;
        let call = Call { breaker: self.clone(), passed: Some(passed), began_ms: now_ms };
        Ok((call, passed.wait_ms))
    }

    /// Reads the rule of the breaker.
    pub(crate) fn rule<T>(&self, look: impl FnOnce(&BreakerRule) -> T) -> T {
        look(self.lock().rule())
    }
}

impl Call {
    /// Records the end of the call with the node's status; `None` without a response.
    pub(crate) fn end(mut self, status: Option<u16>, now_ms: u64) {
        let Some(passed) = self.passed.take() else { return };
        let mut breaker = self.breaker.lock();
        let failed = breaker.rule().is_failure(status);
        let took_ms = now_ms.saturating_sub(self.began_ms);
        breaker.end(passed, End::Done { failed, took_ms }, now_ms);
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        if let Some(passed) = self.passed.take() {
            self.breaker.lock().end(passed, End::Unknown, self.began_ms);
        }
    }
}
