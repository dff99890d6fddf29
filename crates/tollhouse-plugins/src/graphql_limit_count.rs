//! Limits the number of requests in a time window, where each request of GraphQL counts as much as
//! its query is deep.
//!
//! # Example
//! ```json
//! {"count": 100, "time_window": 60, "key": "remote_addr", "max_cost": 8, "rejected_code": 429}
//! ```
//!
//! # Answers
//! - 400 with the reason when the body is not a GraphQL request
//! - 403 `Invalid graphql request: query cost N exceeds max_cost M`
//! - 405 for methods other than POST
//! - those of `limit-count`
//!
//! # Notes
//! The cost is the largest number of selections within each other, times `score_factor`, rounded up.
//! Answers have it in `X-Graphql-Query-Cost`. A query above `max_cost` is counted before it is refused.
//! The body is at most 1 MiB long, in JSON or as `application/graphql`. The strategies `complexity`
//! and `node_quantifier`, which ask nodes for their schema, are refused.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tollhouse_plugin::{
    Answer, Category, ConfError, Flow, MetadataSpec, Phases, Plugin, RefusalKind, RequestContext,
    ResponseContext, Scope, Step,
};

use crate::graphql::{NoDepth, Query};
use crate::limit_count::{self, LimitCount};
use crate::shared::confs::defaults::{default_true, defaults};

const COST_HEADER: &str = "X-Graphql-Query-Cost";

/// Longest body of a request, in bytes.
const BODY_BYTES_MAX: u64 = 1 << 20;

/// Configuration of `graphql-limit-count`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Config {
    /// Limits, as in `limit-count`.
    #[serde(flatten)]
    pub limits: limit_count::Config,
    /// Calculation of the cost of a query; `depth` by default.
    #[serde(default)]
    pub cost_strategy: CostStrategy,
    /// Cost above which a query is refused; 0, the default, refuses none.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub max_cost: f64,
    /// Factor of the cost; 1 by default.
    #[serde(default = "default_score_factor")]
    pub score_factor: f64,
    /// Whether variables take part in the cost, except with `depth`; on by default.
    #[serde(default = "default_true")]
    pub resolve_variables: bool,
    /// Address of the schema, for strategies that need it.
    #[schemars(regex(pattern = "^https?://"))]
    pub introspection_endpoint: Option<String>,
    /// Headers of requests for the schema.
    pub introspection_headers: Option<Map<String, Value>>,
}

/// Calculation of the cost of a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CostStrategy {
    #[default]
    Depth,
    Complexity,
    NodeQuantifier,
}

defaults! {
    default_score_factor: f64 = 1.0;
}

#[derive(Debug)]
pub struct GraphqlLimitCount {
    limiter: LimitCount,
    rejected_code: u16,
    max_cost: f64,
    factor: f64,
    shows_cost: bool,
}

/// Cost of a request, for the header of its answer.
struct Cost(u64);

/// Reason to refuse a body as a GraphQL request.
type Refusal = String;

impl Plugin for GraphqlLimitCount {
    const NAME: &'static str = "graphql-limit-count";
    const PRIORITY: i32 = 1004;
    const CATEGORY: Category = Category::Traffic;
    const JUDGES_PATH: bool = true;
    const PHASES: Phases = Phases::ACCESS.union(Phases::RESPONSE);
    const ENCRYPTED: &'static [&'static str] =
        &["redis_password", "sentinel_password", "introspection_headers"];
    const SENT_TO: &'static [&'static str] = LimitCount::SENT_TO;
    type Config = Config;

    fn adjust_schema(schema: &mut Value) {
        LimitCount::adjust_schema(schema);
        let fields = &mut schema["properties"];
        fields["score_factor"]["exclusiveMinimum"] = json!(0);
        fields["introspection_headers"]["patternProperties"] =
            json!({"^[^:]+$": {"type": "string"}});
    }

    fn metadata() -> Option<MetadataSpec> {
        LimitCount::metadata()
    }

    fn compile(config: Config, scope: &Scope<'_>) -> Result<Self, ConfError> {
        if config.cost_strategy != CostStrategy::Depth {
            let text = "only the cost_strategy \"depth\" is supported";
            return Err(ConfError::in_field("cost_strategy", text));
        }
        let (rejected_code, shows_cost) =
            (config.limits.rejected_code, config.limits.show_limit_quota_header);
        let limiter = LimitCount::compile(config.limits, scope)?;
        let (max_cost, factor) = (config.max_cost, config.score_factor);
        Ok(Self { limiter, rejected_code, max_cost, factor, shows_cost })
    }

    fn access<'a>(&'a self, cx: &'a mut RequestContext<'_>) -> Step<'a> {
        if cx.method() != b"POST" {
            return Answer::status(405).refused(RefusalKind::RequestInvalid).into();
        }
        Step::wait(async move {
            match depth(cx).await {
                Ok(depth) => self.charge(cx, depth).await,
                Err(message) => {
                    Answer::message(400, &message).refused(RefusalKind::RequestInvalid).into()
                }
            }
        })
    }

    fn response(&self, cx: &mut ResponseContext<'_>) {
        if let Some(Cost(cost)) = cx.recall::<Cost>() {
            let cost = cost.to_string();
            cx.set_header(COST_HEADER, cost.as_bytes());
        }
        self.limiter.response(cx);
    }
}

impl GraphqlLimitCount {
    async fn charge<'a>(&'a self, cx: &mut RequestContext<'_>, depth: u64) -> Flow<'a> {
        let cost = ((depth as f64 * self.factor).ceil() as u64).max(1);
        if self.shows_cost {
            cx.remember(Cost(cost));
        }
        let flow = self.limiter.charge(cx, cost).await;
        // A failure to count is told as such; otherwise the cost is judged first.
        if let Flow::Answer(answer) = &flow
            && answer.status == 500
            && self.rejected_code != 500
        {
            return flow;
        }
        if self.max_cost > 0.0 && cost as f64 > self.max_cost {
            let text = format!(
                "Invalid graphql request: query cost {cost} exceeds max_cost {}",
                self.max_cost
            );
            return Answer::message(403, &text).refused(RefusalKind::LimitExceeded).into();
        }
        flow
    }
}

/// Returns the depth of the request's query.
async fn depth(cx: &mut RequestContext<'_>) -> Result<u64, Refusal> {
    let content_type = cx.header("Content-Type").unwrap_or_default().into_owned();
    let unread = || "Invalid graphql request: can't get graphql request body".to_owned();
    if cx.read_body(BODY_BYTES_MAX).await.map_err(|_| unread())?.is_empty() {
        return Err(unread());
    }
    let examined = cx.examine_body(move |body| depth_of(body, &content_type)).await;
    examined.map_err(|_| unread())?
}

fn depth_of(body: &[u8], content_type: &[u8]) -> Result<u64, Refusal> {
    let (query, operation_name) = if content_type.starts_with(b"application/json") {
        let document: Value = serde_json::from_slice(body)
            .map_err(|error| format!("invalid graphql request, {error}"))?;
        let query = document.get("query").and_then(Value::as_str).map(str::to_owned);
        let query =
            query.ok_or_else(|| "invalid graphql request, json body[query] is nil".to_owned())?;
        (query, document.get("operationName").and_then(Value::as_str).map(str::to_owned))
    } else if content_type.starts_with(b"application/graphql") {
        (String::from_utf8_lossy(body).into_owned(), None)
    } else {
        let content_type = String::from_utf8_lossy(content_type);
        return Err(format!("invalid graphql request, error content-type: {content_type}"));
    };
    let parsed = Query::parse(&query)
        .map_err(|_| "Invalid graphql request: failed to parse graphql query".to_owned())?;
    parsed.depth(operation_name.as_deref()).map_err(|reason| {
        match reason {
            NoDepth::Empty => "Invalid graphql request: empty graphql query",
            NoDepth::Cycle => "Invalid graphql request: fragment spreads must not form cycles",
        }
        .to_owned()
    })
}

#[cfg(test)]
mod tests {
    use tollhouse_plugin::testing::{FakeExchange, Harness};

    use super::*;

    fn post(query: &str) -> String {
        let body = json!({"query": query});
        format!("POST / HTTP/1.1\nContent-Type: application/json\n\n{body}")
    }

    #[test]
    fn a_query_counts_as_much_as_it_is_deep() {
        let conf = json!({"count": 5, "time_window": 60, "rejected_code": 429});
        let mut harness = Harness::new::<GraphqlLimitCount>(&conf);
        for (query, status, cost, remaining) in
            [("{a{b}}", 0, "2", "3"), ("{a{b}}", 0, "2", "1"), ("{a{b{c}}}", 429, "3", "0")]
        {
            let mut exchange = FakeExchange::parse(&post(query), harness.now_ms);
            let outcome = harness.run(&mut exchange);
            assert_eq!(outcome.status(), status, "{query}");
            let answer = harness.respond(&mut exchange, "200", &[]);
            assert_eq!(answer.header(COST_HEADER), Some(cost), "{query}");
            let left = answer.header("x-ratelimit-remaining");
            let left = left.or(outcome.header("x-ratelimit-remaining"));
            assert_eq!(left, Some(remaining), "{query}");
        }
    }

    #[test]
    fn a_costly_query_is_counted_and_refused() {
        let conf = json!({"count": 100, "time_window": 60, "max_cost": 3, "score_factor": 1.5});
        let mut harness = Harness::new::<GraphqlLimitCount>(&conf);
        assert!(harness.request(&post("{a{b}}")).passes());
        let outcome = harness.request(&post("{a{b{c}}}"));
        assert_eq!(outcome.status(), 403);
        let text = "Invalid graphql request: query cost 5 exceeds max_cost 3";
        assert_eq!(outcome.body(), format!("{{\"message\":\"{text}\"}}\n"));
    }

    #[test]
    fn other_requests_are_refused() {
        let conf = json!({"count": 100, "time_window": 60});
        let mut harness = Harness::new::<GraphqlLimitCount>(&conf);
        for (request, status, text) in [
            ("GET /?query={a} HTTP/1.1\n\n".to_owned(), 405, ""),
            ("POST / HTTP/1.1\n\n".to_owned(), 400, "can't get graphql request body"),
            ("POST / HTTP/1.1\n\n{a}".to_owned(), 400, "error content-type: "),
            (post("{a"), 400, "failed to parse graphql query"),
            (post("fragment f on T {a}"), 400, "empty graphql query"),
            (post("{...f} fragment f on T {...f}"), 400, "must not form cycles"),
            (
                "POST / HTTP/1.1\nContent-Type: application/json\n\n{}".to_owned(),
                400,
                "json body[query] is nil",
            ),
            (
                "POST / HTTP/1.1\nContent-Type: application/json\n\n{".to_owned(),
                400,
                "invalid graphql request, ",
            ),
        ] {
            let outcome = harness.request(&request);
            assert_eq!(outcome.status(), status, "{request}");
            assert!(outcome.body().contains(text), "{}", outcome.body());
        }
        let graphql = "POST / HTTP/1.1\nContent-Type: application/graphql\n\n{a}";
        assert!(harness.request(graphql).passes());
    }

    #[test]
    fn bad_confs_are_refused() {
        let with = |more: Value| {
            let mut conf = json!({"count": 1, "time_window": 60});
            conf.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            conf
        };
        for (conf, text) in [
            (json!({}), "value should match only one schema, but matches none"),
            (with(json!({"score_factor": 0})), "expected 0 to be greater than 0"),
            (with(json!({"max_cost": -1})), "expected -1 to be at least 0"),
            (with(json!({"cost_strategy": "width"})), "matches none of the enum values"),
            (with(json!({"cost_strategy": "complexity"})), "only the cost_strategy \"depth\""),
            (with(json!({"introspection_endpoint": "x"})), "failed to match pattern"),
        ] {
            let refusal = Harness::refusal::<GraphqlLimitCount>(&conf);
            assert!(refusal.contains(text), "{refusal}");
        }
    }
}
