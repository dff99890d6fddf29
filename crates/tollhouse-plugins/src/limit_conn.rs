//! Limits the number of concurrent requests. A few more are delayed; the rest are refused.
//!
//! A request counts from its arrival to its last byte, however it ends. Requests between `conn` and
//! `conn + burst` are delayed by about the usual duration of a request.
//!
//! # Example
//! ```json
//! {"conn": 10, "burst": 5, "default_conn_delay": 0.1, "key": "remote_addr"}
//! ```
//!
//! # Answers
//! - `rejected_code` (503 by default), as the gateway's page or as `{"error_msg": …}`
//! - 500 when Redis does not answer, when `conn` or `burst` does not resolve to a number, or when
//!   no rule applies to the request, unless `allow_degradation` is set
//!
//! # Notes
//! All cores share one count. In Redis, a request whose gateway died counts for `key_ttl` seconds.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use smallvec::SmallVec;
use tollhouse_plugin::{
    Answer, Category, ConfError, Flow, LogContext, Phases, Plugin, RefusalKind, RequestContext,
    Scope, Step,
};

use crate::redis::conf::{self, PlainPolicy, Policy};
use crate::shared::limits::amount::Amount;
use crate::shared::limits::key::{LimitKey, VariableKeyType};
use crate::shared::limits::refusal::{Refusal, WhenUnknown, default_rejected_code, step};
use crate::shared::messages::body;

use self::holds::{Admission, Hold, HoldStore};

mod holds;

#[cfg(test)]
mod tests;

/// Shortest delay; a shorter one is not worth a timer.
const DELAY_MIN: Duration = Duration::from_millis(1);

/// Rules per request whose holds fit without an allocation.
const HOLDS_INLINE: usize = 2;

/// Configuration of `limit-conn`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Config {
    /// Number of concurrent requests that pass without delay; a number, or a text with variables.
    pub conn: Option<Amount<1>>,
    /// Number of further requests that are delayed; a number, or a text with variables.
    pub burst: Option<Amount<0>>,
    /// Assumed duration of a request in seconds, until the real one is learned.
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub default_conn_delay: f64,
    /// Whether delays always use `default_conn_delay` and nothing is learned; off by default.
    #[serde(default)]
    pub only_use_default_delay: bool,
    /// Key by which requests are counted, such as `remote_addr`.
    pub key: Option<String>,
    /// Meaning of `key`: one variable, or a text with variables.
    #[serde(default)]
    pub key_type: VariableKeyType,
    /// Several limits instead of one. All limits that apply to a request are counted, in order.
    pub rules: Option<Vec<RuleConfig>>,
    /// Place of the counts: this gateway, or Redis so that several gateways share them.
    #[serde(default)]
    pub policy: PlainPolicy,
    /// Status of refused requests; 503 by default.
    #[serde(default = "default_rejected_code")]
    #[schemars(range(min = 200, max = 599))]
    pub rejected_code: u16,
    /// Message for refused requests. Unset: the gateway's page.
    #[schemars(length(min = 1))]
    pub rejected_msg: Option<String>,
    /// Whether requests pass if they cannot be counted, for instance while Redis is down. Off by
    /// default: such requests get 500.
    #[serde(default)]
    pub allow_degradation: bool,
}

/// Limit in `rules`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct RuleConfig {
    /// Number of concurrent requests that pass without delay.
    pub conn: Amount<1>,
    /// Number of further requests that are delayed.
    pub burst: Amount<0>,
    /// Key by which requests are counted, with variables. The rule does not apply to requests
    /// without any of these variables.
    pub key: String,
}

#[derive(Debug)]
pub struct LimitConn {
    rules: Box<[Rule]>,
    places: HoldStore,
    refusal: Refusal,
    when_unknown: WhenUnknown,
    learning: Learning,
    /// Whether a key or limit uses variables from request bodies.
    reads_body: bool,
}

/// Learning of the usual duration of requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Learning {
    On,
    Off,
}

/// Limit of the conf, with its parsed key.
#[derive(Debug)]
struct Rule {
    conn: Amount<1>,
    burst: Amount<0>,
    key: LimitKey,
    time: UsualTime,
}

/// Learned duration of a request in seconds; shared by all cores.
#[derive(Debug)]
struct UsualTime(AtomicU64);

impl UsualTime {
    fn new(seconds: f64) -> Self {
        Self(AtomicU64::new(seconds.to_bits()))
    }

    fn seconds(&self) -> f64 {
        f64::from_bits(self.0.load(Ordering::Relaxed))
    }

    /// Moves the average halfway to the new value.
    fn learn(&self, seconds: f64) {
        let halved = |bits| Some(((f64::from_bits(bits) + seconds) / 2.0).to_bits());
        // The closure always returns a value, so the update cannot fail.
        let _ = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, halved);
    }
}

/// Holds of a request until it ends, and the time for which it was delayed.
#[derive(Default)]
struct RequestHolds(SmallVec<[(usize, Hold); HOLDS_INLINE]>, Duration);

impl Plugin for LimitConn {
    const NAME: &'static str = "limit-conn";
    const PRIORITY: i32 = 1003;
    const CATEGORY: Category = Category::Traffic;
    const JUDGES_PATH: bool = true;
    const PHASES: Phases = Phases::ACCESS.union(Phases::LOG);
    const SERVES_CONNECTIONS: bool = true;
    const ENCRYPTED: &'static [&'static str] = &["redis_password"];
    const SENT_TO: &'static [&'static str] = conf::SENT_TO;
    type Config = Config;

    fn adjust_schema(schema: &mut Value) {
        schema["oneOf"] = json!([
            {"required": ["conn", "burst", "default_conn_delay", "key"]},
            {"required": ["default_conn_delay", "rules"]},
        ]);
        // Removed, because the branches of `oneOf` list the required fields, and an error should
        // name the branches first.
        if let Some(fields) = schema.as_object_mut() {
            fields.shift_remove("required");
        }
        let key_ttl = json!({"key_ttl": {
            "description": "Seconds that a request counts if its gateway dies before reporting its end.",
            "type": "integer",
            "default": holds::DEFAULT_KEY_TTL_SECONDS,
        }});
        conf::adjust_schema(schema, &[Policy::Redis, Policy::RedisCluster], &key_ttl);
    }

    fn compile(config: Config, scope: &Scope<'_>) -> Result<Self, ConfError> {
        let places = HoldStore::open(config.policy.into(), scope)?;
        let refusal =
            Refusal { status: config.rejected_code, message: config.rejected_msg.clone() };
        let when_unknown = config.allow_degradation.into();
        let learning = if config.only_use_default_delay { Learning::Off } else { Learning::On };
        let rules = rules(config);
        let reads_body = rules.iter().any(Rule::reads_body);
        Ok(Self { rules, places, refusal, when_unknown, learning, reads_body })
    }

    fn access<'a>(&'a self, cx: &'a mut RequestContext<'_>) -> Step<'a> {
        if self.places.is_remote() || self.reads_body {
            return Step::wait(async move {
                if self.reads_body
                    && let Err(answer) = body::read_for_variables(cx).await
                {
                    return answer.into();
                }
                self.enter_waiting(cx, 0, 0).await
            });
        }
        let mut applied = 0;
        for index in 0..self.rules.len() {
            let entered = match self.limits(cx, index) {
                Err(flow) => return step(flow),
                Ok(None) => continue,
                Ok(Some((conn, burst))) => {
                    applied += 1;
                    let key = &self.rules[index].key;
                    key.with(cx.variables(), |key| {
                        self.places.enter(key, conn.saturating_add(burst))
                    })
                    .map(|entered| (entered, conn))
                }
            };
            let Some((entered, conn)) = entered else { continue };
            match self.admit(cx, index, entered, conn) {
                Err(flow) => return step(flow),
                Ok(Duration::ZERO) => {}
                Ok(delay) => {
                    // The places entered so far stay taken during the delay, because other requests
                    // are delayed by them.
                    return Step::wait(async move {
                        cx.sleep(delay).await;
                        self.enter_waiting(cx, index + 1, applied).await
                    });
                }
            }
        }
        step(self.finish(applied))
    }

    fn log(&self, cx: &mut LogContext<'_>) {
        let transfer = *cx.transfer();
        let Some(request_holds) = cx.recall::<RequestHolds>().map(std::mem::take) else { return };
        if self.learning == Learning::On {
            let own_ms = u64::try_from(request_holds.1.as_millis()).unwrap_or(u64::MAX);
            let time_ms = match transfer.upstream_ms {
                Some(time_ms) if transfer.is_upstream_answer => time_ms,
                _ => transfer.request_ms.saturating_sub(own_ms),
            };
            for (index, _) in &request_holds.0 {
                self.rules[*index].time.learn(time_ms as f64 / 1000.0);
            }
        }
    }
}

fn rules(config: Config) -> Box<[Rule]> {
    let delay = config.default_conn_delay;
    if let (Some(conn), Some(burst), Some(key)) = (config.conn, config.burst, &config.key) {
        let key = LimitKey::parse(config.key_type.into(), key);
        return Box::new([Rule { conn, burst, key, time: UsualTime::new(delay) }]);
    }
    let rules = config.rules.into_iter().flatten().map(|rule| Rule {
        conn: rule.conn,
        burst: rule.burst,
        key: LimitKey::parse_rule(&rule.key),
        time: UsualTime::new(delay),
    });
    rules.collect()
}

impl Rule {
    fn reads_body(&self) -> bool {
        self.conn.reads_body() || self.burst.reads_body() || self.key.reads_body()
    }
}

impl LimitConn {
    /// Returns `conn` and `burst` of a rule for this request, or `None` if the rule does not apply.
    fn limits<'a>(
        &self,
        cx: &RequestContext<'_>,
        index: usize,
    ) -> Result<Option<(u64, u64)>, Flow<'a>> {
        let (rule, request) = (&self.rules[index], cx.variables());
        if rule.key.with(request, |_| ()).is_none() {
            return Ok(None);
        }
        match (rule.conn.resolve(request), rule.burst.resolve(request)) {
            (Ok(conn), Ok(burst)) => Ok(Some((conn, burst))),
            // One of several rules does not apply if its limits do not resolve to numbers.
            _ if rule.key.is_conditional() => Ok(None),
            _ => Err(self.unknown()),
        }
    }

    /// Stores the hold of an entered request and returns its delay.
    fn admit<'a>(
        &self,
        cx: &mut RequestContext<'_>,
        index: usize,
        entered: Admission,
        conn: u64,
    ) -> Result<Duration, Flow<'a>> {
        let Admission::Holds(hold, under_way) = entered else {
            return Err(self.refusal.answer().into());
        };
        let mut delay = Duration::ZERO;
        if under_way > conn {
            // `conn` requests form one turn. A later request waits for the turns before it, each of
            // which takes the usual duration of a request.
            let turns = ((under_way - 1) / conn) as f64;
            let seconds = turns * self.rules[index].time.seconds();
            delay = Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX);
            if delay < DELAY_MIN {
                delay = Duration::ZERO;
            }
        }
        if cx.recall::<RequestHolds>().is_none() {
            cx.remember(RequestHolds::default());
        }
        if let Some(request_holds) = cx.recall::<RequestHolds>() {
            request_holds.0.push((index, hold));
            request_holds.1 = request_holds.1.saturating_add(delay);
        }
        Ok(delay)
    }

    /// Applies the rules from `first` on, waiting for Redis or for delays where necessary.
    async fn enter_waiting<'a>(
        &'a self,
        cx: &mut RequestContext<'_>,
        first: usize,
        mut applied: usize,
    ) -> Flow<'a> {
        for index in first..self.rules.len() {
            let (conn, burst) = match self.limits(cx, index) {
                Err(flow) => return flow,
                Ok(None) => continue,
                Ok(Some(limits)) => limits,
            };
            applied += 1;
            let key = self.rules[index].key.with(cx.variables(), <[u8]>::to_vec);
            let (now, random) = (cx.now(), cx.random());
            let answer = self
                .places
                .ask(&key.unwrap_or_default(), conn.saturating_add(burst), now, random)
                .await;
            let Ok(entered) = answer else { return self.unknown() };
            match self.admit(cx, index, entered, conn) {
                Err(flow) => return flow,
                Ok(Duration::ZERO) => {}
                Ok(delay) => cx.sleep(delay).await,
            }
        }
        self.finish(applied)
    }

    fn finish<'a>(&self, applied: usize) -> Flow<'a> {
        if applied == 0 { self.unknown() } else { Flow::Continue }
    }

    /// Returns the outcome for a request that cannot be counted.
    fn unknown<'a>(&self) -> Flow<'a> {
        match self.when_unknown {
            WhenUnknown::Pass => Flow::Continue,
            WhenUnknown::Fail => Answer::status(500).refused(RefusalKind::PluginFailed).into(),
        }
    }
}
