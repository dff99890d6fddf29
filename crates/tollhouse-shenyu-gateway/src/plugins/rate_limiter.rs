//! Plugin `rateLimiter`: limits the rate or the concurrency of requests, with counts in memory or
//! in Redis.

pub(crate) mod limiter;

use std::sync::atomic::{AtomicU64, Ordering};

use self::limiter::redis::RedisServers;
use self::limiter::{Limiter, LimiterRule};
use crate::counts::{Permit, Shared};
use crate::engines::Scripts;
use crate::plugin::prelude::*;
use crate::view::text_header;

/// Limit of a rule, by the place of its counts.
#[derive(Debug)]
pub(crate) enum RateLimiter {
    Memory(Shared<Limiter>),
    Redis(SharedLimit),
}

impl ShenyuPlugin for RateLimiter {
    const ROW: Row = Row::protecting("rateLimiter", 60).with(
        Seed::new("4", "FaultTolerance")
            .config(r#"{"master":"mymaster","mode":"standalone","url":"","password":""}"#),
    );

    fn compile(place: &Place<'_>, resources: &mut Resources<'_>) -> CompileResult<Self> {
        let rule = LimiterRule::read(place.handle())?;
        let Some(servers) = RedisServers::read(place.config())? else {
            return Ok(Self::Memory(resources.limiter(place, rule)).into());
        };
        let scripts = resources.engines("Redis")?.redis(&servers)?;
        Ok(Self::Redis(SharedLimit::new(rule, place.id(), scripts)).into())
    }

    fn check_handle(handle: &str) -> Result<(), BuildError> {
        Ok(LimiterRule::read(Some(handle)).map(drop)?)
    }

    async fn act<'o>(self: &Arc<Self>, run: &mut Run<'_, '_>) -> Verdict<'o> {
        let admitted = match &**self {
            Self::Memory(limiter) => admit(limiter, run),
            Self::Redis(limit) => limit.admit(run).await,
        };
        let Some(permit) = admitted else {
            run.cx.edits().refused_by = Some("rateLimiter");
            return Verdict::Refused(Answer::TooManyRequests);
        };
        run.turn.aftermath.permits.extend(permit);
        Verdict::Next
    }
}

/// Admits a request by the counts in memory. `None` is a refusal.
fn admit(limiter: &Shared<Limiter>, run: &Run<'_, '_>) -> Option<Option<Permit>> {
    let header = |name: &str| text_header(run.cx, name);
    let (peer, now_s) = (run.cx.remote_address(), run.cx.now().unix_ms / 1000);
    limiter.admit(|rule| rule.key(peer, header), now_s)
}

/// Shortest time between two warnings that Redis does not answer, in seconds.
const SILENCE_LOG_S: u64 = 10;

/// Rate limit with counts in Redis.
#[derive(Debug)]
pub(crate) struct SharedLimit {
    rule: LimiterRule,
    /// Id of the rule.
    id: String,
    scripts: Arc<dyn Scripts>,
    /// Time of the last warning that Redis does not answer, in seconds since 1970.
    logged_s: AtomicU64,
}

impl SharedLimit {
    pub(crate) fn new(rule: LimiterRule, id: &str, scripts: Arc<dyn Scripts>) -> Self {
        Self { rule, id: id.to_owned(), scripts, logged_s: AtomicU64::new(0) }
    }

    /// Asks Redis to admit a request. `None` is a refusal. Without an answer the request passes, as
    /// in ShenYu, whose gateways would let it pass too.
    async fn admit(&self, run: &Run<'_, '_>) -> Option<Option<Permit>> {
        let cx = &*run.cx;
        let now_ms = cx.now().unix_ms;
        let key = self.rule.key(cx.remote_address(), |name| text_header(cx, name));
        // Unique among concurrent requests.
        let request = format!("{:016x}{now_ms:x}", cx.random());
        let call = self.rule.ask(&self.id, &key, &request, now_ms / 1000);
        match self.scripts.run(&call).await {
            Some(0) => None,
            Some(_) => {
                let left = self.rule.leave(&call);
                Some(left.map(|it| Permit::Remote(Arc::clone(&self.scripts), Some(it))))
            }
            None => {
                self.log_silence(now_ms / 1000);
                Some(None)
            }
        }
    }

    fn log_silence(&self, now_s: u64) {
        let logged_s = self.logged_s.load(Ordering::Relaxed);
        let is_due = now_s >= logged_s.saturating_add(SILENCE_LOG_S);
        let is_first = is_due
            && self
                .logged_s
                .compare_exchange(logged_s, now_s, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok();
        if is_first {
            tracing::warn!(rule = self.id, "redis does not answer: rateLimiter lets requests pass");
        }
    }
}
