//! Limits requests to a steady rate (leaky bucket). Requests above the rate are delayed; those
//! beyond `burst` are refused.
//!
//! The excess over the rate drains like water from a leaking bucket. A request that would raise the
//! excess above `burst` is refused.
//!
//! # Example
//! ```json
//! {"rate": 10, "burst": 5, "key": "remote_addr", "rejected_code": 429}
//! ```
//!
//! # Answers
//! - `rejected_code` (503 by default), as the gateway's page or as `{"error_msg": …}`
//! - 500 when Redis does not answer, unless `allow_degradation` is set
//!
//! # Notes
//! A delayed request occupies only its connection. A change of this conf empties all buckets.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use redis::Script;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tollhouse_plugin::{
    Answer, Category, ConfError, Flow, Moment, Phases, Plugin, RefusalKind, RequestContext, Scope,
    Step,
};

use crate::redis::conf::{self, PlainPolicy, Policy};
use crate::redis::{Argument, Call, Servers, Unavailable};
use crate::shared::confs::identity::identity;
use crate::shared::limits::key::{LimitKey, VariableKeyType};
use crate::shared::limits::refusal::{Refusal, WhenUnknown, default_rejected_code};
use crate::shared::limits::table::{Entry, Prefix, Table};
use crate::shared::messages::body;

/// Shortest delay; a shorter one is not worth a timer.
const DELAY_MIN: Duration = Duration::from_millis(1);

/// Prefix of all Redis keys.
const KEY_PREFIX: &str = "plugin-limit-req";

/// Adds a request to a bucket. Arguments: the rate per second, the burst, the current time in
/// milliseconds. Returns whether there was room, and the excess.
static POUR: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "local state = redis.call('HMGET', KEYS[1], 'excess', 'last') \
         local rate = tonumber(ARGV[1]) \
         local now = tonumber(ARGV[3]) \
         local excess = 0 \
         if state[1] and state[2] then \
           local run = rate * math.abs(now - tonumber(state[2])) / 1000 \
           excess = math.max(tonumber(state[1]) - run + 1, 0) \
         end \
         if excess > tonumber(ARGV[2]) then return {0, tostring(excess)} end \
         redis.call('HSET', KEYS[1], 'excess', tostring(excess), 'last', ARGV[3]) \
         redis.call('PEXPIRE', KEYS[1], math.ceil((excess + 1) / rate * 1000) + 1000) \
         return {1, tostring(excess)}",
    )
});

/// Configuration of `limit-req`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Config {
    /// Number of requests per second that pass without delay.
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub rate: f64,
    /// Number of requests above the rate that are delayed instead of refused.
    #[schemars(range(min = 0))]
    pub burst: f64,
    /// Key by which requests are counted, such as `remote_addr`.
    pub key: String,
    /// Meaning of `key`: one variable, or a text with variables.
    #[serde(default)]
    pub key_type: VariableKeyType,
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
    /// Whether requests within `burst` pass without delay; off by default.
    #[serde(default)]
    pub nodelay: bool,
    /// Whether requests pass if they cannot be counted, for instance while Redis is down. Off by
    /// default: such requests get 500.
    #[serde(default)]
    pub allow_degradation: bool,
}

#[derive(Debug)]
pub struct LimitReq {
    rate: f64,
    burst: f64,
    key: LimitKey,
    backend: Backend,
    refusal: Refusal,
    when_unknown: WhenUnknown,
    excess: Excess,
}

/// Treatment of requests between the rate and the burst.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Excess {
    Waits,
    Passes,
}

#[derive(Debug)]
enum Backend {
    Local(Arc<Table<Bucket>>, Prefix),
    Remote(Box<Servers>, Box<str>),
}

/// Excess over the rate of one key (leaky bucket).
#[derive(Debug, Clone, Copy)]
struct Bucket {
    excess: f64,
    last_ms: u64,
    /// Time at which the excess is back to zero and the entry may be dropped.
    dry_ms: u64,
}

impl Entry for Bucket {
    fn is_over(&self, now_ms: u64) -> bool {
        self.dry_ms <= now_ms
    }

    fn rank(&self) -> u64 {
        self.dry_ms
    }
}

impl Bucket {
    /// Starts at -1, so that the first request raises the excess to 0.
    fn new(now_ms: u64) -> Self {
        Self { excess: -1.0, last_ms: now_ms, dry_ms: 0 }
    }

    /// Adds a request and returns the new excess; `None` if it exceeds the burst.
    fn pour(&mut self, rate: f64, burst: f64, now_ms: u64) -> Option<f64> {
        let run = rate * now_ms.abs_diff(self.last_ms) as f64 / 1000.0;
        let excess = (self.excess - run + 1.0).max(0.0);
        if excess > burst {
            return None;
        }
        let dry_in_ms = ((excess + 1.0) / rate * 1000.0).ceil() as u64;
        *self = Self { excess, last_ms: now_ms, dry_ms: now_ms.saturating_add(dry_in_ms) };
        Some(excess)
    }
}

impl Plugin for LimitReq {
    const NAME: &'static str = "limit-req";
    const PRIORITY: i32 = 1001;
    const CATEGORY: Category = Category::Traffic;
    const JUDGES_PATH: bool = true;
    const PHASES: Phases = Phases::ACCESS;
    const ENCRYPTED: &'static [&'static str] = &["redis_password"];
    const SENT_TO: &'static [&'static str] = conf::SENT_TO;
    type Config = Config;

    fn adjust_schema(schema: &mut Value) {
        conf::adjust_schema(schema, &[Policy::Redis, Policy::RedisCluster], &json!({}));
    }

    fn compile(config: Config, scope: &Scope<'_>) -> Result<Self, ConfError> {
        let owner = identity(scope);
        let backend = match Servers::parse(config.policy.into(), scope.conf)? {
            Some(servers) => {
                Backend::Remote(servers.into(), format!("{KEY_PREFIX}:{owner}:").into())
            }
            None => {
                let table = scope.keep(Self::NAME, Table::new);
                let prefix = table.prefix(&owner);
                Backend::Local(table, prefix)
            }
        };
        Ok(Self {
            rate: config.rate,
            burst: config.burst,
            key: LimitKey::parse(config.key_type.into(), &config.key),
            backend,
            refusal: Refusal { status: config.rejected_code, message: config.rejected_msg },
            when_unknown: config.allow_degradation.into(),
            excess: if config.nodelay { Excess::Passes } else { Excess::Waits },
        })
    }

    fn access<'a>(&'a self, cx: &'a mut RequestContext<'_>) -> Step<'a> {
        let Backend::Local(table, prefix) = &self.backend else {
            return Step::wait(self.wait(cx));
        };
        if self.key.reads_body() {
            return Step::wait(self.wait(cx));
        }
        let poured = self.pour(cx, table, prefix);
        match self.delay(poured) {
            Some(Duration::ZERO) => Step::Continue,
            None => self.refusal.answer().into(),
            Some(_) => Step::wait(self.decide(cx, poured)),
        }
    }
}

impl LimitReq {
    /// Admits a request as `access` does, but may wait for Redis or the body.
    async fn wait<'a>(&'a self, cx: &mut RequestContext<'_>) -> Flow<'a> {
        if self.key.reads_body()
            && let Err(answer) = body::read_for_variables(cx).await
        {
            return answer.into();
        }
        match &self.backend {
            Backend::Local(table, prefix) => {
                let poured = self.pour(cx, table, prefix);
                self.decide(cx, poured).await
            }
            Backend::Remote(servers, prefix) => {
                let now = cx.now();
                let key = self.key.with(cx.variables(), |key| [prefix.as_bytes(), key].concat());
                match self.ask(servers, &key.unwrap_or_default(), now).await {
                    Ok(poured) => self.decide(cx, poured).await,
                    Err(Unavailable) if self.when_unknown == WhenUnknown::Pass => Flow::Continue,
                    Err(Unavailable) => {
                        Answer::status(500).refused(RefusalKind::PluginFailed).into()
                    }
                }
            }
        }
    }

    /// Adds a request to its local bucket; `None` if it exceeds the burst.
    fn pour(&self, cx: &RequestContext<'_>, table: &Table<Bucket>, prefix: &Prefix) -> Option<f64> {
        let now_ms = cx.now().monotonic_ms;
        let pour = |bucket: &mut Bucket| bucket.pour(self.rate, self.burst, now_ms);
        let poured = self.key.with(cx.variables(), |key| {
            table.update(prefix.tag(&[key]), now_ms, || Bucket::new(now_ms), pour)
        });
        poured.flatten()
    }

    async fn ask(
        &self,
        servers: &Servers,
        key: &[u8],
        now: Moment,
    ) -> Result<Option<f64>, Unavailable> {
        let arguments = [
            Argument::Number(self.rate),
            Argument::Number(self.burst),
            Argument::Whole(now.unix_ms),
        ];
        let call = Call { script: &POUR, key, further_key: None, arguments: &arguments };
        let (has_room, excess): (bool, f64) = servers.call(&call).await?;
        Ok(has_room.then_some(excess))
    }

    /// Returns the delay of a request that left this excess; `None` if it is refused.
    fn delay(&self, excess: Option<f64>) -> Option<Duration> {
        let seconds = excess? / self.rate;
        let delay = Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX);
        let waits = self.excess == Excess::Waits && delay >= DELAY_MIN;
        Some(if waits { delay } else { Duration::ZERO })
    }

    async fn decide<'a>(&self, cx: &mut RequestContext<'_>, excess: Option<f64>) -> Flow<'a> {
        let Some(delay) = self.delay(excess) else { return self.refusal.answer().into() };
        if !delay.is_zero() {
            cx.sleep(delay).await;
        }
        Flow::Continue
    }
}

#[cfg(test)]
mod tests {
    use tollhouse_plugin::testing::Harness;

    use super::*;
    use tollhouse_testkit::{ClosedPort, RedisServer};

    const GET: &str = "GET / HTTP/1.1\n\n";

    fn conf(extra: &Value) -> Value {
        let mut conf = json!({"rate": 2, "burst": 1, "key": "remote_addr"});
        conf.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        conf
    }

    /// Returns the statuses of three simultaneous requests, one a second later, and one much later,
    /// with the delays in milliseconds of those that pass.
    fn run(conf: &Value) -> Vec<String> {
        let mut harness = Harness::new::<LimitReq>(conf);
        let began = harness.now_ms;
        let times_ms = [0, 0, 0, 1000, 1000, 60_000];
        let outcomes = times_ms.map(|time_ms| {
            harness.now_ms = began + time_ms;
            let outcome = harness.request(GET);
            match outcome.status() {
                0 => format!("+{}", outcome.slept.as_millis()),
                status => status.to_string(),
            }
        });
        outcomes.into()
    }

    #[test]
    fn what_exceeds_the_rate_waits_and_what_exceeds_the_burst_is_turned_away() {
        let cases = [
            (json!({}), ["+0", "+500", "503", "+0", "+500", "+0"]),
            (json!({"burst": 0, "rate": 1}), ["+0", "503", "503", "+0", "503", "+0"]),
            (json!({"nodelay": true}), ["+0", "+0", "503", "+0", "+0", "+0"]),
            (json!({"rejected_code": 429}), ["+0", "+500", "429", "+0", "+500", "+0"]),
            (json!({"burst": 0.5}), ["+0", "503", "503", "+0", "503", "+0"]),
        ];
        for (extra, expected) in cases {
            assert_eq!(run(&conf(&extra)), expected, "{extra}");
        }
    }

    #[test]
    fn redis_counts_the_same() {
        let Some(server) = RedisServer::start(&[]) else { return };
        let conf = conf(&json!({"policy": "redis", "redis_host": "127.0.0.1",
            "redis_port": server.port}));
        assert_eq!(run(&conf), ["+0", "+500", "503", "+0", "+500", "+0"]);
        let keys = server.ask(&["keys", "*"]);
        assert!(keys.starts_with("plugin-limit-req:routes/1:"), "{keys}");
    }

    #[test]
    fn when_redis_is_down_the_conf_decides() {
        let closed = ClosedPort::new();
        let port = closed.address().port();
        let down = json!({"policy": "redis", "redis_host": "127.0.0.1", "redis_port": port});
        let mut conf = conf(&down);
        let outcome = Harness::new::<LimitReq>(&conf).request(GET);
        assert_eq!((outcome.status(), outcome.body()), (500, ""));
        conf["allow_degradation"] = json!(true);
        assert!(Harness::new::<LimitReq>(&conf).request(GET).passes());
    }

    #[test]
    fn each_key_has_a_bucket_of_its_own() {
        let conf = conf(&json!({"burst": 0, "key": "$http_x_a $remote_addr",
            "key_type": "var_combination", "rejected_msg": "slowly"}));
        let mut harness = Harness::new::<LimitReq>(&conf);
        for key in ["a", "b"] {
            let request = format!("GET / HTTP/1.1\nX-A: {key}\n\n");
            assert!(harness.request(&request).passes());
            assert_eq!(harness.request(&request).body(), "{\"error_msg\":\"slowly\"}\n");
        }
    }

    #[test]
    fn bad_confs_are_refused() {
        let cases = [
            (json!({"rate": 1, "burst": 0}), "property \"key\" is required"),
            (
                conf(&json!({"rate": 0})),
                "property \"rate\" validation failed: expected 0 to be greater than 0",
            ),
            (
                conf(&json!({"burst": -1})),
                "property \"burst\" validation failed: expected -1 to be at least 0",
            ),
            (
                conf(&json!({"key_type": "constant"})),
                "property \"key_type\" validation failed: matches none of the enum values",
            ),
            (conf(&json!({"policy": "redis"})), "then clause did not match"),
            (conf(&json!({"policy": "redis-cluster"})), "else clause did not match"),
        ];
        for (conf, expected) in cases {
            assert_eq!(Harness::refusal::<LimitReq>(&conf), expected, "{conf}");
        }
    }
}
