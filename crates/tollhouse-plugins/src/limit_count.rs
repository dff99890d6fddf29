//! Limits the number of requests in a time window, and tells clients how many requests they have
//! left.
//!
//! Requests are counted by a key, such as the client's address, a consumer's name or a header. All
//! cores share one count. With a Redis policy, all gateways share it.
//!
//! # Example
//! ```json
//! {"count": 100, "time_window": 60, "key": "remote_addr", "rejected_code": 429}
//! ```
//!
//! # Answers
//! - `rejected_code` (503 by default), as the gateway's page or as `{"error_msg": …}`
//! - 500 `failed to limit count` when Redis does not answer, unless `allow_degradation` is set;
//!   with `sync_interval`, requests are counted in this gateway until Redis answers again
//! - 500 when `count` or `time_window` does not resolve to a number, or when no rule applies to the
//!   request, unless `allow_degradation` is set; a rule does not apply to requests without the
//!   variables in its `key`, `count` or `time_window`
//!
//! # Notes
//! A fixed window begins with the first request of a key. A sliding window also counts a part of
//! the previous window. A change of this conf starts new counts; other changes of the object do
//! not. Gateways never share counts with policy `local`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use smallvec::SmallVec;
use tollhouse_plugin::response::Source;
use tollhouse_plugin::{
    Answer, Category, ConfError, Flow, MetadataSpec, Phases, Plugin, RefusalKind, RequestContext,
    ResponseContext, Scope, Step,
};

use crate::redis::conf::{self, Policy};
use crate::shared::confs::defaults::{default_true, defaults};
use crate::shared::limits::amount::{Amount, NoAmount};
use crate::shared::limits::key::{KeyType, LimitKey};
use crate::shared::limits::refusal::{Refusal, WhenUnknown, default_rejected_code, step};
use crate::shared::messages::body;

use self::backend::{Backend, Verdict};
use self::group::Group;
use self::quota::{HeaderNames, Quota};

mod backend;
mod delayed;
mod group;
mod local;
mod quota;
mod remote;

#[cfg(test)]
mod redis_tests;
#[cfg(test)]
mod tests;

/// Default of `sync_interval`: Redis is asked for every request.
const NO_SYNC_INTERVAL: f64 = -1.0;

/// Shortest interval between two exchanges with Redis, in seconds.
const SYNC_INTERVAL_MIN: f64 = 0.1;

/// Number that an ordinary request counts as.
const ONE: u64 = 1;

/// Rules per request whose quotas fit without an allocation.
const QUOTAS_INLINE: usize = 2;

/// Configuration of `limit-count`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Config {
    /// Number of requests that pass in a window; a number, or a text with variables.
    pub count: Option<Amount<1>>,
    /// Length of the window in seconds; a number, or a text with variables.
    pub time_window: Option<Amount<1>>,
    /// Several limits instead of one. All limits that apply to a request are counted, in order.
    pub rules: Option<Vec<RuleConfig>>,
    /// Name of a group of confs that share one count. All confs of a group must be identical.
    pub group: Option<String>,
    /// Key by which requests are counted; the client's address by default.
    #[serde(default = "default_key")]
    pub key: String,
    /// Meaning of `key`: one variable, a text with variables, or a constant.
    #[serde(default)]
    pub key_type: KeyType,
    /// Status of refused requests; 503 by default.
    #[serde(default = "default_rejected_code")]
    #[schemars(range(min = 200, max = 599))]
    pub rejected_code: u16,
    /// Message for refused requests. Unset: the gateway's page.
    #[schemars(length(min = 1))]
    pub rejected_msg: Option<String>,
    /// Place of the counts: this gateway, or Redis so that several gateways share them.
    #[serde(default)]
    pub policy: Policy,
    /// Whether requests pass if they cannot be counted, for instance while Redis is down. Off by
    /// default: such requests get 500.
    #[serde(default)]
    pub allow_degradation: bool,
    /// Whether answers carry headers with the remaining quota; on by default.
    #[serde(default = "default_true")]
    pub show_limit_quota_header: bool,
    /// Kind of window: `fixed` (the default) or `sliding`.
    #[serde(default)]
    pub window_type: WindowType,
    /// Seconds between exchanges with Redis; at least 0.1. -1, the default, asks Redis for each
    /// request, which is exact but slower.
    #[serde(default = "default_sync_interval")]
    pub sync_interval: f64,
}

/// Limit in `rules`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct RuleConfig {
    /// Number of requests that pass in a window.
    pub count: Amount<1>,
    /// Length of the window in seconds.
    pub time_window: Amount<1>,
    /// Key by which requests are counted, with variables. The rule does not apply to requests
    /// without any of these variables, or for which `count` or `time_window` does not resolve to a
    /// number.
    pub key: String,
    /// Prefix in the names of this rule's headers. Unset: the rule's position, starting at 1.
    pub header_prefix: Option<String>,
}

/// Kind of window.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WindowType {
    /// Begins with the first request after the previous window.
    #[default]
    Fixed,
    /// Counts the previous window in proportion to its overlap.
    Sliding,
}

/// Plugin metadata: header names for all confs.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Metadata {
    /// Header with the limit.
    #[serde(default = "default_limit_header")]
    pub limit_header: String,
    /// Header with the number of remaining requests.
    #[serde(default = "default_remaining_header")]
    pub remaining_header: String,
    /// Header with the seconds until the count restarts.
    #[serde(default = "default_reset_header")]
    pub reset_header: String,
}

defaults! {
    default_key: String = "remote_addr".into();
    default_sync_interval: f64 = NO_SYNC_INTERVAL;
    default_limit_header: String = "X-RateLimit-Limit".into();
    default_remaining_header: String = "X-RateLimit-Remaining".into();
    default_reset_header: String = "X-RateLimit-Reset".into();
}

#[derive(Debug)]
pub struct LimitCount {
    rules: Box<[Rule]>,
    backend: Backend,
    refusal: Refusal,
    when_unknown: WhenUnknown,
    shows_quotas: bool,
    /// Whether a key or limit uses variables from request bodies.
    reads_body: bool,
    /// Reference that keeps the group alive for its other confs.
    _group: Option<std::sync::Arc<Group>>,
}

/// Limit of the conf, with its parsed key.
#[derive(Debug)]
struct Rule {
    count: Amount<1>,
    window_seconds: Amount<1>,
    key: LimitKey,
    names: HeaderNames,
}

/// Limit with numbers for one request, after variables were resolved.
#[derive(Debug, Clone, Copy)]
struct Limit {
    count: u64,
    window_ms: u64,
    /// Number that this request counts as; 1 except for GraphQL.
    cost: u64,
}

/// Quotas that a request used, for the headers of its answer.
#[derive(Debug, Default)]
struct RequestQuotas(SmallVec<[(usize, Quota); QUOTAS_INLINE]>);

impl Plugin for LimitCount {
    const NAME: &'static str = "limit-count";
    const PRIORITY: i32 = 1002;
    const VERSION: f32 = 0.5;
    const CATEGORY: Category = Category::Traffic;
    const JUDGES_PATH: bool = true;
    const PHASES: Phases = Phases::ACCESS.union(Phases::RESPONSE);
    const ENCRYPTED: &'static [&'static str] = &["redis_password", "sentinel_password"];
    const SENT_TO: &'static [&'static str] = conf::SENT_TO;
    type Config = Config;

    fn adjust_schema(schema: &mut Value) {
        // `rules` beside `count` passes the schema, so that `check` can refuse it with a clearer
        // message.
        schema["oneOf"] = json!([
            {"required": ["count", "time_window"], "not": {"required": ["rules"]}},
            {"required": ["rules"]},
        ]);
        let policies = [Policy::Redis, Policy::RedisCluster, Policy::RedisSentinel];
        conf::adjust_schema(schema, &policies, &json!({}));
    }

    fn metadata() -> Option<MetadataSpec> {
        Some(MetadataSpec::new::<Metadata>())
    }

    fn compile(config: Config, scope: &Scope<'_>) -> Result<Self, ConfError> {
        check(&config)?;
        let group = config.group.as_deref().map(|name| Group::join(name, scope)).transpose()?;
        let metadata: Metadata = match scope.metadata {
            Some(metadata) => serde_json::from_value(metadata.clone()),
            None => serde_json::from_value(json!({})),
        }
        .map_err(|error| error.to_string())?;
        let backend = Backend::open(&config, scope)?;
        let refusal =
            Refusal { status: config.rejected_code, message: config.rejected_msg.clone() };
        let when_unknown = config.allow_degradation.into();
        let shows_quotas = config.show_limit_quota_header;
        let rules = rules(config, &metadata);
        let reads_body = rules.iter().any(Rule::reads_body);
        Ok(Self { rules, backend, refusal, when_unknown, shows_quotas, reads_body, _group: group })
    }

    fn access<'a>(&'a self, cx: &'a mut RequestContext<'_>) -> Step<'a> {
        if self.backend.is_remote() || self.reads_body {
            return Step::wait(self.charge(cx, ONE));
        }
        let mut used = RequestQuotas::default();
        let mut applied = 0;
        for (index, rule) in self.rules.iter().enumerate() {
            let Ok(limit) = rule.limit(cx, ONE) else { return step(self.unknown()) };
            let Some(limit) = limit else { continue };
            let now = cx.now();
            let verdict = rule.key.with(cx.variables(), |key| self.backend.count(key, limit, now));
            let Some(verdict) = verdict else { continue };
            applied += 1;
            used.0.push((index, verdict.quota()));
            if let Verdict::Refused(_) = verdict {
                return step(self.refuse(&used));
            }
        }
        step(self.finish(cx, used, applied))
    }

    fn response(&self, cx: &mut ResponseContext<'_>) {
        let Some(used) = cx.recall::<RequestQuotas>().map(std::mem::take) else { return };
        for (index, quota) in &used.0 {
            let names = &self.rules[*index].names;
            // If a later limiter refused the request, its headers are kept.
            if cx.source() == Source::Gateway && cx.header(names.limit.as_str()).is_some() {
                continue;
            }
            quota.write_headers(names, |name, value| cx.set_prepared(name, value));
        }
    }
}

const BOTH_KINDS: &str = "count/time_window and rules cannot be specified at the same time";

/// Checks rules that the schema cannot express.
fn check(config: &Config) -> Result<(), ConfError> {
    if config.rules.is_some() && (config.count.is_some() || config.time_window.is_some()) {
        return Err(BOTH_KINDS.into());
    }
    if config.rules.is_some() && config.group.is_some() {
        let text = "group and rules cannot be specified at the same time";
        return Err(ConfError::in_field("group", text));
    }
    if config.policy != Policy::Local && config.sync_interval != NO_SYNC_INTERVAL {
        if config.sync_interval < SYNC_INTERVAL_MIN {
            let text = "sync_interval should not be smaller than 0.1";
            return Err(ConfError::in_field("sync_interval", text));
        }
        // A window set by a variable is known only with the request. If exchanges were rarer than
        // windows, every window would restart its count.
        if let Some(Amount::Fixed(window)) = &config.time_window
            && config.sync_interval >= *window as f64
        {
            let text = "sync_interval should be smaller than time_window";
            return Err(ConfError::in_field("sync_interval", text));
        }
    }
    let rules = config.rules.as_deref().unwrap_or_default();
    for (index, rule) in rules.iter().enumerate() {
        if rules[..index].iter().any(|other| other.key == rule.key) {
            let text = format!("duplicate key '{}' in rules", rule.key);
            return Err(ConfError::in_field("rules", text));
        }
    }
    Ok(())
}

fn rules(config: Config, metadata: &Metadata) -> Box<[Rule]> {
    if let (Some(count), Some(window_seconds)) = (config.count, config.time_window) {
        let key = LimitKey::parse(config.key_type, &config.key);
        let names = HeaderNames::plain(metadata).beside(&count);
        return Box::new([Rule { count, window_seconds, key, names }]);
    }
    let rules = config.rules.into_iter().flatten().enumerate().map(|(index, rule)| {
        let prefix = rule.header_prefix.unwrap_or_else(|| (index + 1).to_string());
        Rule {
            names: HeaderNames::prefixed(metadata, &prefix).beside(&rule.count),
            count: rule.count,
            window_seconds: rule.time_window,
            key: LimitKey::parse_rule(&rule.key),
        }
    });
    rules.collect()
}

impl Rule {
    fn reads_body(&self) -> bool {
        let limits_do = self.count.reads_body() || self.window_seconds.reads_body();
        limits_do || self.key.reads_body()
    }

    /// Returns the limit for this request. `None` if the rule is one of several and its limits do
    /// not resolve to numbers.
    #[inline]
    fn limit(&self, cx: &RequestContext<'_>, cost: u64) -> Result<Option<Limit>, NoAmount> {
        match self.resolve(cx, cost) {
            Ok(limit) => Ok(Some(limit)),
            Err(NoAmount) if self.key.is_conditional() => Ok(None),
            Err(NoAmount) => Err(NoAmount),
        }
    }

    #[inline]
    fn resolve(&self, cx: &RequestContext<'_>, cost: u64) -> Result<Limit, NoAmount> {
        let request = cx.variables();
        let count = self.count.resolve(request)?;
        let window_ms = self.window_seconds.resolve(request)?.saturating_mul(1000);
        Ok(Limit { count, window_ms, cost })
    }
}

impl LimitCount {
    /// Counts a request as `access` does, as `cost` requests; may wait for Redis or the body.
    pub(crate) async fn charge<'a>(&'a self, cx: &mut RequestContext<'_>, cost: u64) -> Flow<'a> {
        if self.reads_body
            && let Err(answer) = body::read_for_variables(cx).await
        {
            return answer.into();
        }
        let mut used = RequestQuotas::default();
        let mut applied = 0;
        for (index, rule) in self.rules.iter().enumerate() {
            let Ok(limit) = rule.limit(cx, cost) else { return self.unknown() };
            let Some(limit) = limit else { continue };
            let now = cx.now();
            let Some(key) = rule.key.with(cx.variables(), <[u8]>::to_vec) else { continue };
            applied += 1;
            match self.backend.ask(&key, limit, now).await {
                Ok(verdict) => {
                    used.0.push((index, verdict.quota()));
                    if let Verdict::Refused(_) = verdict {
                        return self.refuse(&used);
                    }
                }
                // The remaining rules use the same Redis and would only wait again.
                Err(_) if self.when_unknown == WhenUnknown::Pass => break,
                Err(_) => {
                    return Answer::error_msg(500, "failed to limit count")
                        .refused(RefusalKind::PluginFailed)
                        .into();
                }
            }
        }
        self.finish(cx, used, applied)
    }

    fn finish<'a>(
        &self,
        cx: &mut RequestContext<'_>,
        used: RequestQuotas,
        applied: usize,
    ) -> Flow<'a> {
        if applied == 0 {
            return self.unknown();
        }
        if self.shows_quotas && !used.0.is_empty() {
            cx.remember(used);
        }
        Flow::Continue
    }

    fn refuse<'a>(&'a self, used: &RequestQuotas) -> Flow<'a> {
        let mut answer = self.refusal.answer();
        if self.shows_quotas {
            for (index, quota) in &used.0 {
                quota.write_headers(&self.rules[*index].names, |name, value| {
                    answer.headers.push((name.as_str().to_owned().into(), value.to_vec().into()));
                });
            }
        }
        answer.into()
    }

    /// Returns the outcome for a request that cannot be counted.
    fn unknown<'a>(&self) -> Flow<'a> {
        match self.when_unknown {
            WhenUnknown::Pass => Flow::Continue,
            WhenUnknown::Fail => Answer::status(500).refused(RefusalKind::PluginFailed).into(),
        }
    }
}
