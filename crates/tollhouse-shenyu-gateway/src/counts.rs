//! Counts of `rateLimiter` and of breakers, which outlive the compiled chain as long as their rule stays as it
//! is, what a request holds of them while it is under way, and the answers that `cache` keeps.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tollhouse_shenyu::answer::Answer;
use tollhouse_shenyu::breaker::{Breaker, BreakerRule, End, Passed};
use tollhouse_shenyu::cache::{Cache, Kept as KeptAnswer};
use tollhouse_shenyu::limiter::redis::ScriptCall;
use tollhouse_shenyu::limiter::{Limiter, LimiterRule};

use crate::engines::Scripts;

/// Counts of one rule, for all cores.
#[derive(Debug)]
pub(crate) struct Shared<S>(Arc<Mutex<S>>);

impl<S> Clone for Shared<S> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<S> Shared<S> {
    fn lock(&self) -> MutexGuard<'_, S> {
        // Each call leaves them whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Counts by the ids of their rules.
#[derive(Debug)]
pub(crate) struct Kept<R, S>(BTreeMap<String, (R, Shared<S>)>);

impl<R, S> Default for Kept<R, S> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<R: PartialEq + Clone, S> Kept<R, S> {
    /// Those of a rule: the ones of before where it says the same, or new ones.
    pub(crate) fn get(&mut self, before: &Self, id: &str, rule: R, make: fn(R) -> S) -> Shared<S> {
        let kept = before.0.get(id).filter(|(known, _)| *known == rule).map(|(_, it)| it.clone());
        let shared = kept.unwrap_or_else(|| Shared(Arc::new(Mutex::new(make(rule.clone())))));
        self.0.insert(id.to_owned(), (rule, shared.clone()));
        shared
    }
}

impl<R: Clone, S> Kept<R, S> {
    /// Takes those of a rule over that is the same.
    fn take_over(&mut self, before: &Self, id: &str) {
        if let Some((rule, shared)) = before.0.get(id) {
            self.0.insert(id.to_owned(), (rule.clone(), shared.clone()));
        }
    }
}

impl Counts {
    /// Takes the counts of a rule over that has not changed.
    pub(crate) fn take_over(&mut self, before: &Self, id: &str) {
        self.limiters.take_over(&before.limiters, id);
        self.breakers.take_over(&before.breakers, id);
    }
}

/// All counts of a chain.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) limiters: Kept<LimiterRule, Limiter>,
    pub(crate) breakers: Kept<BreakerRule, Breaker>,
    pub(crate) cache: SharedCache,
}

/// The answers that `cache` keeps, for all cores and rules.
pub(crate) type SharedCache = Shared<Cache<Bytes>>;

impl Default for SharedCache {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl SharedCache {
    /// What is kept under a key and not too old.
    pub(crate) fn find(&self, key: &[u8], now_ms: u64) -> Option<KeptAnswer<Bytes>> {
        self.lock().find(key, now_ms)
    }

    /// Keeps an answer until `ends_ms`.
    pub(crate) fn keep(&self, key: &[u8], kept: KeptAnswer<Bytes>, ends_ms: u64) {
        self.lock().keep(key, kept, ends_ms);
    }
}

/// A request that a limiter counts while it is under way.
#[derive(Debug)]
pub(crate) enum Permit {
    /// Here, under this key.
    Local(Shared<Limiter>, String),
    /// Elsewhere, where it is said once it has ended.
    Remote(Arc<dyn Scripts>, Option<ScriptCall>),
}

impl Shared<Limiter> {
    /// Whether a request may pass, and what it holds while it is under way.
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

/// A request that a breaker let through. One that is dropped has ended nobody knows how.
#[derive(Debug)]
pub(crate) struct Call {
    breaker: Shared<Breaker>,
    passed: Option<Passed>,
    began_ms: u64,
}

impl Shared<Breaker> {
    /// Lets a call through, and says how long it has to wait before.
    ///
    /// # Errors
    /// The answer to one that may not pass.
    pub(crate) fn begin(&self, now_ms: u64) -> Result<(Call, u64), Answer> {
        let passed = self.lock().begin(now_ms)?;
        let call = Call { breaker: self.clone(), passed: Some(passed), began_ms: now_ms };
        Ok((call, passed.wait_ms))
    }

    /// What the rule says.
    pub(crate) fn rule<T>(&self, look: impl FnOnce(&BreakerRule) -> T) -> T {
        look(self.lock().rule())
    }
}

impl Call {
    /// It has ended at `now_ms` with this status of a node, if any.
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
