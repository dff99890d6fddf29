//! Stops sending requests to a failing service: after a number of failures of one host and path,
//! the gateway answers for a while, which doubles with every relapse.
//!
//! # Example
//! ```json
//! {
//!   "break_response_code": 502,
//!   "unhealthy": {"http_statuses": [500, 503], "failures": 3},
//!   "healthy": {"http_statuses": [200], "successes": 1}
//! }
//! ```
//!
//! # Answers
//! - `break_response_code` while the breaker is open; with `break_response_body`, and then with
//!   `break_response_headers`, where the conf gives them
//!
//! # Notes
//! A breaker belongs to a host and path, regardless of the route. When it opens for the n-th time
//! in a row, it stays open for 2ⁿ seconds, at most `max_breaker_sec`. Then requests pass again, and
//! `healthy.successes` good answers reset it. Only answers of nodes count.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tollhouse_model::template::Template;
use tollhouse_model::variable::{Lookup, Variable};
use tollhouse_plugin::{
    Answer, Category, ConfError, LogContext, Moment, Phases, Plugin, RefusalKind, RequestContext,
    Scope, Step,
};

use crate::shared::confs::defaults::defaults;
use crate::shared::limits::table::{After, Entry, Prefix, Table, Tag};

/// Configuration of `api-breaker`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Config {
    /// Status of answers while the breaker is open.
    #[schemars(range(min = 200, max = 599))]
    pub break_response_code: u16,
    /// Body of those answers. Unset: the gateway's page.
    pub break_response_body: Option<String>,
    /// Headers of those answers, with variables in the values. Used only if `break_response_body`
    /// is set.
    pub break_response_headers: Option<Vec<HeaderConfig>>,
    /// Longest time that the breaker stays open, in seconds; 300 by default.
    #[serde(default = "default_max_breaker_sec")]
    #[schemars(range(min = 3))]
    pub max_breaker_sec: u64,
    /// Failures that open the breaker.
    #[serde(default)]
    pub unhealthy: Unhealthy,
    /// Successes that reset the breaker.
    #[serde(default)]
    pub healthy: Healthy,
}

/// A header of the answer.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct HeaderConfig {
    /// Header name.
    #[schemars(length(min = 1))]
    pub key: String,
    /// Header value; may contain variables.
    #[schemars(length(min = 1))]
    pub value: String,
}

/// Failures that open the breaker.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Unhealthy {
    /// Statuses that count as failures; 500 by default.
    #[serde(default = "default_unhealthy_statuses")]
    #[schemars(length(min = 1), inner(range(min = 500, max = 599)))]
    pub http_statuses: Vec<u16>,
    /// Number of failures that open the breaker; 3 by default.
    #[serde(default = "default_count")]
    #[schemars(range(min = 1))]
    pub failures: u64,
}

/// Successes that reset the breaker.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Healthy {
    /// Statuses that count as successes; 200 by default.
    #[serde(default = "default_healthy_statuses")]
    #[schemars(length(min = 1), inner(range(min = 200, max = 499)))]
    pub http_statuses: Vec<u16>,
    /// Number of successes in a row, without a failure between them, that reset the breaker; 3 by
    /// default.
    #[serde(default = "default_count")]
    #[schemars(range(min = 1))]
    pub successes: u64,
}

impl Default for Unhealthy {
    fn default() -> Self {
        Self { http_statuses: default_unhealthy_statuses(), failures: default_count() }
    }
}

impl Default for Healthy {
    fn default() -> Self {
        Self { http_statuses: default_healthy_statuses(), successes: default_count() }
    }
}

defaults! {
    default_max_breaker_sec: u64 = 300;
    default_unhealthy_statuses: Vec<u16> = vec![500];
    default_healthy_statuses: Vec<u16> = vec![200];
    default_count: u64 = 3;
}

#[derive(Debug)]
pub struct ApiBreaker {
    status: u16,
    body: Option<String>,
    headers: Vec<(String, Template)>,
    seconds_max: u64,
    unhealthy: Unhealthy,
    healthy: Healthy,
    table: Arc<Table<Health>>,
    prefix: Prefix,
}

/// Recent results of a host and path. An entry exists from the first failure until the breaker
/// resets.
#[derive(Debug, Clone, Copy)]
struct Health {
    failures: u64,
    successes: u64,
    /// Time of the last opening, in milliseconds since 1970.
    opened_ms: Option<u64>,
    touched_ms: u64,
}

impl Entry for Health {
    fn is_over(&self, _now_ms: u64) -> bool {
        false
    }

    fn rank(&self) -> u64 {
        self.touched_ms
    }
}

impl Plugin for ApiBreaker {
    const NAME: &'static str = "api-breaker";
    const PRIORITY: i32 = 1005;
    const CATEGORY: Category = Category::Traffic;
    const PHASES: Phases = Phases::ACCESS.union(Phases::LOG);
    type Config = Config;

    fn adjust_schema(schema: &mut Value) {
        for part in ["unhealthy", "healthy"] {
            schema["properties"][part]["properties"]["http_statuses"]["uniqueItems"] = json!(true);
        }
    }

    fn compile(config: Config, scope: &Scope<'_>) -> Result<Self, ConfError> {
        let table = scope.keep(Self::NAME, Table::new);
        let prefix = table.prefix("");
        let headers = config.break_response_headers.into_iter().flatten();
        Ok(Self {
            status: config.break_response_code,
            body: config.break_response_body,
            headers: headers.map(|line| (line.key, Template::parse(&line.value))).collect(),
            seconds_max: config.max_breaker_sec,
            unhealthy: config.unhealthy,
            healthy: config.healthy,
            table,
            prefix,
        })
    }

    fn access<'a>(&'a self, cx: &'a mut RequestContext<'_>) -> Step<'a> {
        // Fast path: without failures, no key is built and no lock is taken.
        if self.table.is_empty() {
            return Step::Continue;
        }
        let now = cx.now();
        let tag = self.tag(cx.variables());
        let is_open = self
            .table
            .change(tag, now.monotonic_ms, |health| (self.is_open(health, now), After::Kept));
        match is_open {
            Some(true) => self.answer(cx.variables()).into(),
            _ => Step::Continue,
        }
    }

    fn log(&self, cx: &mut LogContext<'_>) {
        let Some(status) = cx.transfer().upstream_status else { return };
        let now = cx.now();
        if self.unhealthy.http_statuses.contains(&status) {
            self.fail(self.tag(cx.variables()), now);
        } else if !self.table.is_empty() && self.healthy.http_statuses.contains(&status) {
            self.succeed(self.tag(cx.variables()), now);
        }
    }
}

impl ApiBreaker {
    fn tag(&self, request: &dyn Lookup) -> Tag {
        let host = request.variable(&Variable::Host).unwrap_or_default();
        let path = request.variable(&Variable::Uri).unwrap_or_default();
        self.prefix.tag(&[&host, &path])
    }

    fn is_open(&self, health: &Health, now: Moment) -> bool {
        let Some(opened_ms) = health.opened_ms else { return false };
        let is_forgotten =
            now.unix_ms >= opened_ms.saturating_add(self.seconds_max.saturating_mul(1000));
        let times = health.failures.div_ceil(self.unhealthy.failures).max(1);
        let seconds = u32::try_from(times).ok().and_then(|times| 1u64.checked_shl(times));
        let seconds = seconds.unwrap_or(u64::MAX).min(self.seconds_max);
        // Both sides are cut to whole seconds, so that the breaker stays open for at least its
        // time.
        !is_forgotten && (opened_ms / 1000).saturating_add(seconds) >= now.unix_ms / 1000
    }

    fn fail(&self, tag: Tag, now: Moment) {
        let first = || Health { failures: 0, successes: 0, opened_ms: None, touched_ms: 0 };
        self.table.update(tag, now.monotonic_ms, first, |health| {
            health.failures = health.failures.saturating_add(1);
            health.successes = 0;
            health.touched_ms = now.monotonic_ms;
            if health.failures.is_multiple_of(self.unhealthy.failures) {
                health.opened_ms = Some(now.unix_ms);
            }
        });
    }

    fn succeed(&self, tag: Tag, now: Moment) {
        self.table.change(tag, now.monotonic_ms, |health| {
            health.successes += 1;
            health.touched_ms = now.monotonic_ms;
            let is_well = health.successes >= self.healthy.successes;
            ((), if is_well { After::Gone } else { After::Kept })
        });
    }

    fn answer(&self, request: &dyn Lookup) -> Answer<'_> {
        let kind = RefusalKind::CircuitOpen;
        let Some(body) = &self.body else { return Answer::status(self.status).refused(kind) };
        let mut answer = Answer::text(self.status, body.as_bytes()).refused(kind);
        for (name, template) in &self.headers {
            let mut value = Vec::new();
            template.render(request, &mut value);
            answer = answer.with_header(name.as_str(), value);
        }
        answer
    }
}

#[cfg(test)]
mod tests {
    use tollhouse_plugin::Transfer;
    use tollhouse_plugin::testing::{FakeExchange, Harness};

    use super::*;

    /// Sends a request; the node answers with `status`. Returns the plugin's status, or 0 if it
    /// passes.
    fn ask(harness: &mut Harness, path: &str, status: u16) -> u16 {
        let mut exchange = FakeExchange::parse(&format!("GET {path} HTTP/1.1\n\n"), harness.now_ms);
        let outcome = harness.run(&mut exchange);
        let upstream_status = outcome.passes().then_some(status);
        harness.log(&mut exchange, Transfer { upstream_status, ..Transfer::default() });
        outcome.status()
    }

    fn harness(extra: &Value) -> Harness {
        let mut conf = json!({"break_response_code": 599, "unhealthy": {"failures": 2},
            "healthy": {"successes": 2}});
        conf.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        Harness::new::<ApiBreaker>(&conf)
    }

    #[test]
    fn failures_open_it_for_a_time_that_doubles() {
        let mut harness = harness(&json!({}));
        assert_eq!([ask(&mut harness, "/a", 500), ask(&mut harness, "/a", 500)], [0, 0]);
        assert_eq!(ask(&mut harness, "/a", 200), 599);
        // Other paths have separate breakers; the query does not matter.
        assert_eq!(ask(&mut harness, "/b", 200), 0);
        assert_eq!(ask(&mut harness, "/a?x=1", 200), 599);
        harness.now_ms += 2_000;
        assert_eq!(ask(&mut harness, "/a", 500), 599);
        harness.now_ms += 1_000;
        // Two further failures open it again, for four seconds.
        assert_eq!(ask(&mut harness, "/a", 500), 0);
        harness.now_ms += 5_000;
        assert_eq!(ask(&mut harness, "/a", 500), 0);
        harness.now_ms += 4_000;
        assert_eq!(ask(&mut harness, "/a", 500), 599);
        harness.now_ms += 1_000;
        assert_eq!(ask(&mut harness, "/a", 200), 0);
    }

    #[test]
    fn it_is_never_open_for_longer_than_the_conf_says() {
        let mut harness = harness(&json!({"max_breaker_sec": 3, "unhealthy": {"failures": 1}}));
        for _ in 0..5 {
            assert_eq!(ask(&mut harness, "/a", 500), 0);
            assert_eq!(ask(&mut harness, "/a", 500), 599);
            harness.now_ms += 3_000;
        }
    }

    #[test]
    fn successes_in_a_row_forget_all_that_was() {
        let mut harness = harness(&json!({}));
        let answers = [500, 200, 500];
        assert_eq!(answers.map(|status| ask(&mut harness, "/a", status)), [0; 3]);
        assert_eq!(ask(&mut harness, "/a", 200), 599);
        harness.now_ms += 3_000;
        // 404 counts as neither, and the third success is not needed.
        let answers = [200, 404, 200, 200, 500];
        assert_eq!(answers.map(|status| ask(&mut harness, "/a", status)), [0; 5]);
        assert_eq!(ask(&mut harness, "/a", 200), 0);
    }

    #[test]
    fn the_answer_is_as_the_conf_says() {
        let headers = json!([{"key": "X-From", "value": "$remote_addr"},
            {"key": "Content-Type", "value": "text/html"}]);
        let cases = [
            (json!({}), "", None),
            (json!({"break_response_headers": headers}), "", None),
            (json!({"break_response_body": "down"}), "down", None),
            (
                json!({"break_response_body": "down", "break_response_headers": headers}),
                "down",
                Some("127.0.0.1"),
            ),
        ];
        for (extra, body, from) in cases {
            let mut harness = harness(&extra);
            let _ = [500, 500].map(|status| ask(&mut harness, "/a", status));
            let outcome = harness.request("GET /a HTTP/1.1\n\n");
            assert_eq!((outcome.status(), outcome.body()), (599, body), "{extra}");
            assert_eq!(outcome.header("X-From"), from, "{extra}");
        }
    }

    #[test]
    fn answers_of_the_gateway_do_not_count() {
        let mut harness = harness(&json!({}));
        for _ in 0..3 {
            let mut exchange = FakeExchange::parse("GET /a HTTP/1.1\n\n", harness.now_ms);
            assert!(harness.run(&mut exchange).passes());
            harness.log(&mut exchange, Transfer { status: 500, ..Transfer::default() });
        }
    }

    #[test]
    fn bad_confs_are_refused() {
        let property =
            |name: &str, inner: &str| format!("property \"{name}\" validation failed: {inner}");
        let cases = [
            (json!({}), "property \"break_response_code\" is required".to_owned()),
            (
                json!({"break_response_code": 199}),
                property("break_response_code", "expected 199 to be at least 200"),
            ),
            (
                json!({"break_response_code": 500, "max_breaker_sec": -1}),
                property("max_breaker_sec", "expected -1 to be at least 3"),
            ),
            (
                json!({"break_response_code": 500, "unhealthy": {"http_statuses": [500, 603]}}),
                property(
                    "unhealthy",
                    &property(
                        "http_statuses",
                        "failed to validate item 2: expected 603 to be at most 599",
                    ),
                ),
            ),
            (
                json!({"break_response_code": 500, "healthy": {"http_statuses": [206, 206]}}),
                property(
                    "healthy",
                    &property("http_statuses", "expected unique items but items 1 and 2 are equal"),
                ),
            ),
            (
                json!({"break_response_code": 500, "break_response_headers": [{"key": "a"}]}),
                property(
                    "break_response_headers",
                    "failed to validate item 1: property \"value\" is required",
                ),
            ),
        ];
        for (conf, expected) in cases {
            assert_eq!(Harness::refusal::<ApiBreaker>(&conf), expected, "{conf}");
        }
    }
}
