//! Delays requests or answers them with an artificial failure, to test how callers cope.
//!
//! # Example
//! ```json
//! {
//!   "delay": {"duration": 1.5, "percentage": 50},
//!   "abort": {"http_status": 503, "body": "down", "vars": [[["arg_name", "==", "jack"]]]}
//! }
//! ```
//!
//! # Answers
//! - `abort.http_status` with `abort.body`, or with the gateway's page if `body` is unset
//!
//! # Notes
//! The delay comes first. Delay and abort each have their own conditions and percentage.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tollhouse_model::limits::SECONDS_MAX;
use tollhouse_plugin::{
    Answer, AnswerBody, Category, ConfError, Flow, Phases, Plugin, RefusalKind, RequestContext,
    Scope, Step,
};

use crate::shared::confs::conditions::AnyOf;
use crate::shared::confs::header_fields::{self, HeaderFields};
use crate::shared::confs::status::status_of;
use crate::shared::confs::text::Text;
use crate::shared::messages::body;

/// Configuration of `fault-injection`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Config {
    /// Answer that requests get instead of the node's.
    pub abort: Option<AbortConfig>,
    /// Delay before requests go on.
    pub delay: Option<DelayConfig>,
}

/// Artificial answer.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct AbortConfig {
    /// Status of the answer.
    #[schemars(range(min = 200))]
    pub http_status: i64,
    /// Body of the answer; may contain variables. Unset: the gateway's page.
    #[schemars(length(min = 0))]
    pub body: Option<String>,
    /// Headers of the answer; values may contain variables.
    pub headers: Option<Map<String, Value>>,
    /// Percentage of requests that get this answer. Unset: all requests.
    #[schemars(range(min = 0, max = 100))]
    pub percentage: Option<u64>,
    /// Expressions; a request gets this answer only if at least one of them holds. Unset: every
    /// request does.
    #[schemars(length(max = 20))]
    pub vars: Option<Vec<Value>>,
}

/// Artificial delay.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct DelayConfig {
    /// Length of the delay in seconds.
    #[schemars(range(min = 0))]
    pub duration: f64,
    /// Percentage of requests that are delayed. Unset: all requests.
    #[schemars(range(min = 0, max = 100))]
    pub percentage: Option<u64>,
    /// Expressions; a request is delayed only if at least one of them holds. Unset: every request
    /// is.
    #[schemars(length(max = 20))]
    pub vars: Option<Vec<Value>>,
}

#[derive(Debug)]
pub struct FaultInjection {
    abort: Option<Abort>,
    delay: Option<Delay>,
    reads_body: bool,
}

#[derive(Debug)]
struct Abort {
    chance: Chance,
    status: u16,
    body: Option<Text>,
    headers: HeaderFields,
}

#[derive(Debug)]
struct Delay {
    chance: Chance,
    time: Duration,
}

/// Selection of requests, by percentage and conditions.
#[derive(Debug)]
struct Chance {
    percentage: Option<u64>,
    conditions: Option<AnyOf>,
}

impl Chance {
    fn read(percentage: Option<u64>, vars: Option<Vec<Value>>) -> Result<Self, ConfError> {
        let conditions = vars.as_deref().map(AnyOf::parse).transpose()?;
        Ok(Self { percentage, conditions })
    }

    fn reads_body(&self) -> bool {
        self.conditions.as_ref().is_some_and(AnyOf::reads_body)
    }

    fn hits(&self, cx: &RequestContext<'_>) -> bool {
        self.percentage.is_none_or(|percentage| cx.random() % 100 < percentage)
            && self.conditions.as_ref().is_none_or(|any| any.matches(cx.variables()))
    }
}

impl Plugin for FaultInjection {
    const NAME: &'static str = "fault-injection";
    const PRIORITY: i32 = 11000;
    const CATEGORY: Category = Category::Transformation;
    const JUDGES_PATH: bool = true;
    const PHASES: Phases = Phases::REWRITE;
    const EXPRESSIONS: &'static [&'static str] = &["abort.vars.*", "delay.vars.*"];
    type Config = Config;

    fn adjust_schema(schema: &mut Value) {
        schema["minProperties"] = json!(1);
        header_fields::rules(&mut schema["properties"]["abort"]["properties"]["headers"]);
        for part in ["abort", "delay"] {
            let vars = &mut schema["properties"][part]["properties"]["vars"];
            vars["items"] = json!({"type": "array"});
        }
    }

    fn compile(config: Config, _scope: &Scope<'_>) -> Result<Self, ConfError> {
        let abort = |abort: AbortConfig| -> Result<Abort, ConfError> {
            Ok(Abort {
                chance: Chance::read(abort.percentage, abort.vars)?,
                status: status_of(abort.http_status),
                body: abort.body.as_deref().map(Text::parse),
                headers: HeaderFields::read(abort.headers.as_ref()),
            })
        };
        let delay = |delay: DelayConfig| -> Result<Delay, ConfError> {
            Ok(Delay {
                chance: Chance::read(delay.percentage, delay.vars)?,
                time: Duration::from_secs_f64(delay.duration.clamp(0.0, SECONDS_MAX)),
            })
        };
        let abort = config.abort.map(abort).transpose()?;
        let delay = config.delay.map(delay).transpose()?;
        let reads_body = abort.as_ref().is_some_and(Abort::reads_body)
            || delay.as_ref().is_some_and(|delay| delay.chance.reads_body());
        Ok(Self { abort, delay, reads_body })
    }

    fn rewrite<'a>(&'a self, cx: &'a mut RequestContext<'_>) -> Step<'a> {
        if self.reads_body {
            return Step::wait(async move {
                if let Err(answer) = body::read_for_variables(cx).await {
                    return Flow::from(answer);
                }
                let fault = self.decide(cx);
                fault.happen(cx).await
            });
        }
        match self.decide(cx) {
            Fault { time: Duration::ZERO, answer: None } => Step::Continue,
            Fault { time: Duration::ZERO, answer: Some(answer) } => answer.into(),
            fault => Step::wait(fault.happen(cx)),
        }
    }
}

/// Delay and answer of one request.
struct Fault<'a> {
    time: Duration,
    answer: Option<Answer<'a>>,
}

impl<'a> Fault<'a> {
    async fn happen(self, cx: &mut RequestContext<'_>) -> Flow<'a> {
        cx.sleep(self.time).await;
        self.answer.map_or(Flow::Continue, Flow::from)
    }
}

impl FaultInjection {
    /// Decides on delay and answer together, before any wait.
    fn decide<'a>(&'a self, cx: &RequestContext<'_>) -> Fault<'a> {
        let delay = self.delay.as_ref().filter(|delay| delay.chance.hits(cx));
        let abort = self.abort.as_ref().filter(|abort| abort.chance.hits(cx));
        Fault {
            time: delay.map_or(Duration::ZERO, |delay| delay.time),
            answer: abort.map(|abort| abort.answer(cx)),
        }
    }
}

impl Abort {
    fn reads_body(&self) -> bool {
        let of_text = self.body.as_ref().is_some_and(Text::reads_body);
        of_text || self.headers.reads_body() || self.chance.reads_body()
    }

    fn answer<'a>(&'a self, cx: &RequestContext<'_>) -> Answer<'a> {
        let mut answer = Answer::status(self.status).refused(RefusalKind::FaultInjected);
        if let Some(body) = &self.body {
            answer.body = AnswerBody::Text(body.for_request(cx.variables()));
        }
        self.headers.add_to(&mut answer, cx.variables());
        answer
    }
}

#[cfg(test)]
mod tests {
    use tollhouse_plugin::testing::{FakeExchange, Harness};

    use super::*;

    fn run(conf: &Value, request: &str) -> tollhouse_plugin::testing::Outcome {
        Harness::new::<FaultInjection>(conf).request(request)
    }

    #[test]
    fn requests_are_answered_with_what_the_conf_says() {
        let conf = json!({"abort": {
            "http_status": 200,
            "body": "Fault Injection! $remote_addr\n",
            "headers": {"x-fixed": "a", "x-number": 7, "x-varying": "$arg_name"},
        }});
        let outcome = run(&conf, "GET /hello?name=jack HTTP/1.1\n\n");
        assert_eq!((outcome.status(), outcome.body()), (200, "Fault Injection! 127.0.0.1\n"));
        assert_eq!(outcome.header("x-fixed"), Some("a"));
        assert_eq!(outcome.header("x-number"), Some("7"));
        assert_eq!(outcome.header("x-varying"), Some("jack"));
        let page = run(&json!({"abort": {"http_status": 500}}), "GET / HTTP/1.1\n\n");
        assert_eq!((page.status(), page.body()), (500, ""));
    }

    #[test]
    fn requests_wait_before_they_go_on_or_are_answered() {
        let outcome = run(&json!({"delay": {"duration": 0.1}}), "GET / HTTP/1.1\n\n");
        assert!(outcome.passes());
        assert_eq!(outcome.slept, Duration::from_millis(100));
        let conf = json!({"delay": {"duration": 2}, "abort": {"http_status": 405, "body": "x"}});
        let outcome = run(&conf, "GET / HTTP/1.1\n\n");
        assert_eq!((outcome.status(), outcome.slept), (405, Duration::from_secs(2)));
    }

    #[test]
    fn conditions_decide_who_is_hit() {
        let conf = json!({
            "abort": {
                "http_status": 403,
                "vars": [[["arg_name", "==", "jack"], ["arg_age", "!", "<", 18]],
                         [["http_apikey", "==", "x"]]],
            },
            "delay": {"duration": 1, "vars": [[["arg_slow", "==", "1"]]]},
        });
        for (request, status, slept) in [
            ("GET /?name=jack&age=23 HTTP/1.1\n\n", 403, 0),
            ("GET /?name=jack&age=17 HTTP/1.1\n\n", 0, 0),
            ("GET / HTTP/1.1\napikey: x\n\n", 403, 0),
            ("GET /?slow=1 HTTP/1.1\n\n", 0, 1),
        ] {
            let outcome = run(&conf, request);
            assert_eq!((outcome.status(), outcome.slept.as_secs()), (status, slept), "{request}");
        }
        let nobody = json!({"abort": {"http_status": 403, "vars": []}});
        assert!(run(&nobody, "GET / HTTP/1.1\n\n").passes());
    }

    #[test]
    fn the_body_is_read_only_where_it_is_asked_for() {
        let form = "POST / HTTP/1.1\n\nname=jack";
        for (conf, body, was_read) in [
            (json!({"abort": {"http_status": 200, "body": "$post_arg_name"}}), "jack", true),
            (json!({"abort": {"http_status": 200, "body": "x"}}), "x", false),
            (
                json!({"abort": {
                    "http_status": 200, "body": "x", "vars": [[["post_arg_name", "==", "a"]]],
                }}),
                "",
                true,
            ),
        ] {
            let mut exchange = FakeExchange::parse(form, 0);
            let outcome = Harness::new::<FaultInjection>(&conf).run(&mut exchange);
            assert_eq!((outcome.body(), exchange.body_was_read), (body, was_read), "{conf}");
        }
    }

    #[test]
    fn chance_decides_who_is_hit() {
        for (percentage, random, status) in
            [(0, 0, 0), (100, 99, 500), (30, 29, 500), (30, 30, 0), (30, 129, 500)]
        {
            let conf = json!({"abort": {"http_status": 500, "percentage": percentage}});
            let mut exchange = FakeExchange::parse("GET / HTTP/1.1\n\n", 0);
            exchange.random = random;
            let outcome = Harness::new::<FaultInjection>(&conf).run(&mut exchange);
            assert_eq!(outcome.status(), status, "{percentage} {random}");
        }
    }

    #[test]
    fn bad_confs_are_refused() {
        let cases = [
            (json!({}), "expect object to have at least 1 properties"),
            (
                json!({"abort": {"body": "a"}}),
                "property \"abort\" validation failed: property \"http_status\" is required",
            ),
            (
                json!({"abort": {"http_status": 100}}),
                "property \"abort\" validation failed: property \"http_status\" validation \
                 failed: expected 100 to be at least 200",
            ),
            (
                json!({"delay": {"duration": -1}}),
                "property \"delay\" validation failed: property \"duration\" validation \
                 failed: expected -1 to be at least 0",
            ),
            (
                json!({"abort": {"http_status": 200, "percentage": 101}}),
                "property \"abort\" validation failed: property \"percentage\" validation \
                 failed: expected 101 to be at most 100",
            ),
            (
                json!({"abort": {"http_status": 200, "vars": [1]}}),
                "property \"abort\" validation failed: property \"vars\" validation failed: \
                 failed to validate item 1: wrong type: expected array, got number",
            ),
            (
                json!({"abort": {"http_status": 200, "vars": [[["a", "not", "b"]]]}}),
                "invalid operator 'not'",
            ),
        ];
        for (conf, expected) in cases {
            assert_eq!(Harness::refusal::<FaultInjection>(&conf), expected, "{conf}");
        }
    }
}
