//! Limits the number of requests in a time window, where each request of GraphQL counts as much as
//! its query costs.
//!
//! # Example
//! ```json
//! {"count": 100, "time_window": 60, "key": "remote_addr", "max_cost": 8, "rejected_code": 429}
//! ```
//!
//! # Answers
//! - 400 with the reason when the body is not a GraphQL request, when its fragments expand to more than
//!   100,000 selections, or when the schema cannot be had
//! - 403 `Invalid graphql request: query cost N exceeds max_cost M`
//! - 405 for methods other than POST
//! - those of `limit-count`
//!
//! # Notes
//! With `depth`, the cost is the largest number of selections within each other. With `complexity`, a
//! field costs the sum of its selections, times `mul_value`, plus `add_value`; without weights, this is
//! the number of fields and one. With `node_quantifier`, only fields cost that have one of their
//! `mul_arguments`, as many times as they are resolved. The two round up from the next hundredth, so
//! that 51 counts as 52. `score_factor` multiplies the cost. Answers have it in
//! `X-Graphql-Query-Cost`. A query above `max_cost` is counted before it is refused.
//!
//! The weights are in `cost_decorations`. The decorations of services, which the Admin API keeps, are
//! not read. Weights need the schema of the service, which the gateway asks for at
//! `introspection_endpoint` with the first request, and keeps until the conf of the plugin changes. A
//! failure is kept for ten seconds. The body is at most as long as `limits.graphql_bytes` of
//! the bootstrap file, 1 MiB by default, in JSON or as `application/graphql`.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tollhouse_plugin::{
    Answer, Category, ConfError, Flow, MetadataSpec, Phases, Plugin, RefusalKind, RequestContext,
    ResponseContext, Scope, Step,
};

use crate::graphql::cost::{Strategy, Terms, TooLarge, Weight, Weights};
use crate::graphql::{NoDepth, Query};
use crate::limit_count::{self, LimitCount};
use crate::shared::confs::defaults::{default_true, defaults};

use self::introspection::SchemaSource;

mod introspection;

const COST_HEADER: &str = "X-Graphql-Query-Cost";

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
    /// Weights of fields, for the strategies `complexity` and `node_quantifier`. Unset: all fields
    /// weigh 1.
    #[serde(default)]
    pub cost_decorations: Vec<Decoration>,
}

/// Weight of the fields at a path of the schema.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
pub struct Decoration {
    /// Type, such as `Product`, for all fields that return it; type and field; or a longer chain of
    /// fields, such as `Query.products.nodes`. The longest path decides.
    #[schemars(regex(pattern = r"^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*$"))]
    pub field_path: String,
    /// Cost of the field itself; 1 by default.
    #[schemars(range(min = 0))]
    pub add_value: Option<f64>,
    /// Arguments whose values are added to the cost of the field.
    pub add_arguments: Option<Vec<String>>,
    /// Factor for the cost of the selections within; 1 by default.
    #[schemars(range(min = 0))]
    pub mul_value: Option<f64>,
    /// Arguments whose values multiply the cost of the selections within.
    pub mul_arguments: Option<Vec<String>>,
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
    costs: Costs,
    /// Longest body of a request, in bytes.
    body_bytes_max: u64,
}

/// Calculation of the cost of queries.
#[derive(Debug)]
enum Costs {
    Depth,
    ByFields { strategy: Strategy, weights: Option<Weighted>, resolves_variables: bool },
}

/// Weights with the source of the schema that they refer to.
#[derive(Debug)]
struct Weighted {
    weights: Arc<Weights>,
    schema: SchemaSource,
}

/// Request of GraphQL, read from a body.
struct Request {
    query: String,
    operation_name: Option<String>,
    variables: Option<Map<String, Value>>,
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
        let costs = Costs::compile(&config)?;
        let (rejected_code, shows_cost) =
            (config.limits.rejected_code, config.limits.show_limit_quota_header);
        let limiter = LimitCount::compile(config.limits, scope)?;
        let (max_cost, factor) = (config.max_cost, config.score_factor);
        let body_bytes_max = scope.services.graphql_bytes;
        Ok(Self { limiter, rejected_code, max_cost, factor, shows_cost, costs, body_bytes_max })
    }

    fn access<'a>(&'a self, cx: &'a mut RequestContext<'_>) -> Step<'a> {
        if cx.method() != b"POST" {
            return Answer::status(405).refused(RefusalKind::RequestInvalid).into();
        }
        Step::wait(async move {
            match self.costs.cost(cx, self.body_bytes_max).await {
                Ok(cost) => self.charge(cx, cost).await,
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
    async fn charge<'a>(&'a self, cx: &mut RequestContext<'_>, cost: f64) -> Flow<'a> {
        let cost = ((cost * self.factor).ceil() as u64).max(1);
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

impl Costs {
    fn compile(config: &Config) -> Result<Self, ConfError> {
        let strategy = match config.cost_strategy {
            CostStrategy::Depth => return Ok(Self::Depth),
            CostStrategy::Complexity => Strategy::Complexity,
            CostStrategy::NodeQuantifier => Strategy::NodeQuantifier,
        };
        let weights = match (&config.cost_decorations[..], &config.introspection_endpoint) {
            ([], _) => None,
            (_, None) => {
                let text = "cost_decorations need the address of the schema";
                return Err(ConfError::in_field("introspection_endpoint", text));
            }
            (decorations, Some(endpoint)) => {
                let weights = decorations.iter().map(|it| (&*it.field_path, it.weight()));
                let headers = config.introspection_headers.as_ref();
                let schema = SchemaSource::new(endpoint, headers)?;
                Some(Weighted { weights: Arc::new(Weights::new(weights)), schema })
            }
        };
        Ok(Self::ByFields { strategy, weights, resolves_variables: config.resolve_variables })
    }

    /// Returns the cost of the request's query, without `score_factor`.
    async fn cost(&self, cx: &mut RequestContext<'_>, body_bytes_max: u64) -> Result<f64, Refusal> {
        let content_type = cx.header("Content-Type").unwrap_or_default().into_owned();
        let unread = || "Invalid graphql request: can't get graphql request body".to_owned();
        if cx.read_body(body_bytes_max).await.map_err(|_| unread())?.is_empty() {
            return Err(unread());
        }
        let Self::ByFields { strategy, weights, resolves_variables } = self else {
            let examined = cx.examine_body(move |body| depth_of(body, &content_type)).await;
            return examined.map_err(|_| unread())?;
        };
        let schema = match weights {
            Some(weighted) => Some(weighted.schema.get(cx.now().unix_ms).await.map_err(
                |_| "Invalid graphql request: failed to introspect the upstream graphql schema",
            )?),
            None => None,
        };
        let weights = weights.as_ref().map(|weighted| Arc::clone(&weighted.weights));
        let (strategy, resolves_variables) = (*strategy, *resolves_variables);
        let examined = cx.examine_body(move |body| {
            let request = Request::read(body, &content_type)?;
            let variables = request.variables.as_ref().filter(|_| resolves_variables);
            let terms = Terms {
                strategy,
                weights: weights.as_deref(),
                schema: schema.as_deref(),
                variables,
                has_defaults: resolves_variables,
            };
            request.cost(terms)
        });
        examined.await.map_err(|_| unread())?
    }
}

impl Decoration {
    fn weight(&self) -> Weight {
        Weight {
            add: self.add_value,
            mul: self.mul_value,
            add_arguments: self.add_arguments.clone(),
            mul_arguments: self.mul_arguments.clone(),
        }
    }
}

impl Request {
    fn read(body: &[u8], content_type: &[u8]) -> Result<Self, Refusal> {
        if content_type.starts_with(b"application/json") {
            let document: Value = serde_json::from_slice(body)
                .map_err(|error| format!("invalid graphql request, {error}"))?;
            let text = |name: &str| document.get(name).and_then(Value::as_str).map(str::to_owned);
            let query = text("query");
            let query = query
                .ok_or_else(|| "invalid graphql request, json body[query] is nil".to_owned())?;
            let variables = document.get("variables").and_then(Value::as_object).cloned();
            return Ok(Self { query, operation_name: text("operationName"), variables });
        }
        if content_type.starts_with(b"application/graphql") {
            let query = String::from_utf8_lossy(body).into_owned();
            return Ok(Self { query, operation_name: None, variables: None });
        }
        let content_type = String::from_utf8_lossy(content_type);
        Err(format!("invalid graphql request, error content-type: {content_type}"))
    }

    fn parsed(&self) -> Result<Query<'_>, Refusal> {
        Query::parse(&self.query)
            .map_err(|_| "Invalid graphql request: failed to parse graphql query".to_owned())
    }

    /// Returns the cost by fields, with the hundredth that rounds it up.
    fn cost(&self, terms: Terms<'_>) -> Result<f64, Refusal> {
        match self.parsed()?.cost(self.operation_name.as_deref(), terms) {
            Ok(Some(cost)) => Ok(cost + 0.01),
            Ok(None) => Err(EMPTY.to_owned()),
            Err(TooLarge) => {
                Err("Invalid graphql request: the query expands too many selections".to_owned())
            }
        }
    }
}

const EMPTY: &str = "Invalid graphql request: empty graphql query";

fn depth_of(body: &[u8], content_type: &[u8]) -> Result<f64, Refusal> {
    let request = Request::read(body, content_type)?;
    let depth = request.parsed()?.depth(request.operation_name.as_deref());
    depth.map(|depth| depth as f64).map_err(|reason| {
        match reason {
            NoDepth::Empty => EMPTY,
            NoDepth::Cycle => "Invalid graphql request: fragment spreads must not form cycles",
        }
        .to_owned()
    })
}

#[cfg(test)]
mod tests {
    use tollhouse_plugin::testing::{FakeExchange, Harness};

    use super::*;
    use crate::shared::test_server::{TestServer, header, reply};

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
    fn without_weights_every_field_and_the_operation_count_one_and_round_up() {
        for (strategy, query, expected) in [
            ("complexity", "{a{b c}}", "5"),
            ("complexity", "query A {a} query B {a b c}", "5"),
            ("node_quantifier", "{a(first: 10){b}}", "1"),
        ] {
            let conf = json!({"count": 100, "time_window": 60, "cost_strategy": strategy});
            let mut harness = Harness::new::<GraphqlLimitCount>(&conf);
            let mut exchange = FakeExchange::parse(&post(query), harness.now_ms);
            assert!(harness.run(&mut exchange).passes());
            let answer = harness.respond(&mut exchange, "200", &[]);
            assert_eq!(answer.header(COST_HEADER), Some(expected), "{strategy} {query}");
        }
    }

    #[test]
    fn weights_refer_to_the_schema_of_the_service_which_is_asked_once() {
        let schema = json!({"data": {"__schema": {"types": [
            {"name": "Query", "fields": [{"name": "items", "type": {"name": "Item"}}]},
            {"name": "Item", "fields": [{"name": "id", "type": {"name": "ID"}}]},
        ]}}});
        let server = TestServer::start(move |_| reply(200, "", &schema.to_string()));
        let conf = json!({
            "count": 100, "time_window": 60, "cost_strategy": "complexity",
            "introspection_endpoint": server.url("/graphql"),
            "introspection_headers": {"Authorization": "Bearer x"},
            "cost_decorations": [{"field_path": "Query.items", "mul_arguments": ["first"]}],
        });
        let mut harness = Harness::new::<GraphqlLimitCount>(&conf);
        for (query, expected) in [("{items(first: 10){id}}", "13"), ("{items{id}}", "4")] {
            let mut exchange = FakeExchange::parse(&post(query), harness.now_ms);
            assert!(harness.run(&mut exchange).passes());
            let answer = harness.respond(&mut exchange, "200", &[]);
            assert_eq!(answer.header(COST_HEADER), Some(expected), "{query}");
        }
        assert_eq!(header(&server.next_request(), "authorization"), Some("Bearer x"));
        assert_eq!(server.connections(), 1);
    }

    #[test]
    fn a_service_without_schema_refuses_and_is_not_asked_again_at_once() {
        let server = TestServer::start(|_| reply(500, "", ""));
        let conf = json!({
            "count": 100, "time_window": 60, "cost_strategy": "complexity",
            "introspection_endpoint": server.url("/graphql"),
            "cost_decorations": [{"field_path": "Query.items"}],
        });
        let mut harness = Harness::new::<GraphqlLimitCount>(&conf);
        for (after_ms, connections) in [(0, 1), (9_000, 1), (2_000, 2)] {
            harness.now_ms += after_ms;
            let outcome = harness.request(&post("{a}"));
            assert_eq!(outcome.status(), 400);
            assert!(outcome.body().contains("failed to introspect"), "{}", outcome.body());
            assert_eq!(server.connections(), connections);
        }
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
            (
                with(
                    json!({"cost_strategy": "complexity", "cost_decorations": [{"field_path": "A.b"}]}),
                ),
                "need the address of the schema",
            ),
            (
                with(json!({"cost_decorations": [{"field_path": "A..b"}]})),
                "failed to match pattern",
            ),
            (with(json!({"introspection_endpoint": "x"})), "failed to match pattern"),
        ] {
            let refusal = Harness::refusal::<GraphqlLimitCount>(&conf);
            assert!(refusal.contains(text), "{refusal}");
        }
    }
}
