//! Sends shares of a route's requests to other upstreams, for instance for canary releases.
//!
//! The first rule that matches a request decides. Its upstreams take turns by weight.
//!
//! # Example
//! ```json
//! {
//!   "rules": [
//!     {
//!       "match": [{"vars": [["http_x_preview", "==", "yes"]]}],
//!       "weighted_upstreams": [
//!         {"upstream": {"type": "roundrobin", "nodes": {"127.0.0.1:8081": 1}}, "weight": 1},
//!         {"weight": 9}
//!       ]
//!     }
//!   ]
//! }
//! ```
//!
//! # Answers
//! - 500 `failed to fetch upstream info by upstream id [x]` when the chosen upstream does not exist
//!
//! # Notes
//! An entry without an upstream means the route's own. Shares are exact over all cores: in each
//! cycle of as many requests as the sum of all weights, an upstream gets as many as its weight.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tollhouse_model::expr::Expr;
use tollhouse_model::variable::Lookup;
use tollhouse_model::{Id, Problems, Upstream, schema};
use tollhouse_plugin::{
    Category, ConfError, Flow, Phases, Plugin, RequestContext, Scope, Step, UpstreamRef,
};

use crate::shared::confs::conditions;
use crate::shared::confs::defaults::defaults;
use crate::shared::confs::identity::identity;
use crate::shared::confs::shares::Shares;
use crate::shared::messages::body;

/// Configuration of `traffic-split`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Config {
    /// Rules in the order in which they are tried.
    pub rules: Option<Vec<RuleConfig>>,
}

/// Conditions and upstreams of one rule.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct RuleConfig {
    /// Conditions, at least one of which must hold. Unset: the rule matches all requests.
    #[serde(rename = "match")]
    pub conditions: Option<Vec<MatchConfig>>,
    /// Upstreams that take turns. Default: only the route's own.
    #[serde(default = "default_upstreams")]
    #[schemars(length(min = 1, max = 20))]
    pub weighted_upstreams: Vec<WeightedUpstream>,
}

/// Condition of a rule.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct MatchConfig {
    /// Expression about the request.
    pub vars: Option<Vec<Value>>,
}

/// Upstream with its share.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct WeightedUpstream {
    /// Id of an upstream object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upstream_id: Option<Value>,
    /// Inline upstream.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upstream: Option<Value>,
    /// Weight: share of the requests relative to the other entries; 1 by default, 0 for none.
    #[serde(default = "default_weight")]
    #[schemars(range(min = 0))]
    pub weight: u64,
}

defaults! {
    default_weight: u64 = 1;
    default_upstreams: Vec<WeightedUpstream> = vec![WeightedUpstream { upstream_id: None, upstream: None, weight: default_weight() }];
}

#[derive(Debug)]
pub struct TrafficSplit {
    rules: Box<[Rule]>,
    targets: Vec<Target>,
    /// Whether a condition reads request bodies.
    reads_body: bool,
    /// Counters that survive changes of the object's other fields.
    turns: Arc<MatchCounts>,
}

/// Number of requests that each rule has matched.
#[derive(Debug)]
struct MatchCounts(Box<[AtomicU64]>);

#[derive(Debug)]
struct Rule {
    conditions: Option<Box<[Option<Expr>]>>,
    shares: Shares,
}

/// Destination of requests. Its index identifies the upstream to the data plane.
#[derive(Debug)]
enum Target {
    Inline(Box<Upstream>),
    Id(Id),
    Route,
}

impl Plugin for TrafficSplit {
    const NAME: &'static str = "traffic-split";
    const PRIORITY: i32 = 966;
    const CATEGORY: Category = Category::Traffic;
    const PHASES: Phases = Phases::ACCESS;
    const SERVES_CONNECTIONS: bool = true;
    const ENCRYPTED: &'static [&'static str] =
        &["rules.weighted_upstreams.upstream.tls.client_key"];
    const EXPRESSIONS: &'static [&'static str] = &["rules.*.match.*.vars"];
    type Config = Config;

    fn adjust_schema(document: &mut Value) {
        let rule = &mut document["properties"]["rules"]["items"]["properties"];
        let target = &mut rule["weighted_upstreams"]["items"]["properties"];
        if let Some(core) = schema::core("upstream") {
            target["upstream_id"] = core.document()["properties"]["id"].clone();
            target["upstream"] = core.document().clone();
        }
        target["weight"]["description"] =
            json!("Weight relative to the other entries; 1 by default, 0 for no requests.");
    }

    fn compile(config: Config, scope: &Scope<'_>) -> Result<Self, ConfError> {
        let mut targets = Vec::new();
        let rules = config.rules.into_iter().flatten();
        let rules: Result<Box<[Rule]>, ConfError> =
            rules.map(|rule| Rule::compile(rule, &mut targets)).collect();
        let rules = rules?;
        let make = || MatchCounts(rules.iter().map(|_| AtomicU64::new(0)).collect());
        let turns = scope.keep(&format!("traffic-split {}", identity(scope)), make);
        let reads_body = rules.iter().any(Rule::reads_body);
        Ok(Self { rules, targets, reads_body, turns })
    }

    fn upstreams(&self) -> Vec<UpstreamRef<'_>> {
        let named = self.targets.iter().map(|target| match target {
            Target::Inline(upstream) => UpstreamRef::Inline(upstream),
            Target::Id(id) => UpstreamRef::Id(id),
            Target::Route => UpstreamRef::Route,
        });
        named.collect()
    }

    fn access<'a>(&'a self, cx: &'a mut RequestContext<'_>) -> Step<'a> {
        if !self.reads_body {
            self.choose(cx);
            return Step::Continue;
        }
        Step::wait(async move {
            if let Err(answer) = body::read_for_variables(cx).await {
                return answer.into();
            }
            self.choose(cx);
            Flow::Continue
        })
    }
}

impl TrafficSplit {
    fn choose(&self, cx: &mut RequestContext<'_>) {
        let matching = self.rules.iter().position(|rule| rule.matches(cx.variables()));
        let Some(index) = matching else { return };
        let turn = || self.turns.0[index].fetch_add(1, Ordering::Relaxed);
        if let Some(target) = self.rules[index].shares.pick(turn) {
            cx.choose_upstream(target);
        }
    }
}

impl Rule {
    fn compile(config: RuleConfig, targets: &mut Vec<Target>) -> Result<Self, ConfError> {
        let conditions = config.conditions.map(|conditions| {
            let parsed = conditions.into_iter().map(|condition| {
                let vars = condition.vars.map(Value::Array);
                vars.as_ref().map(conditions::parse).transpose()
            });
            parsed.collect::<Result<Box<[_]>, ConfError>>()
        });
        let conditions = conditions
            .transpose()
            .map_err(|error| format!("failed to validate the 'vars' expression: {error}"))?;
        let mut weights = Vec::with_capacity(config.weighted_upstreams.len());
        for entry in config.weighted_upstreams {
            weights.push((entry.weight, targets.len()));
            targets.push(Target::parse(entry)?);
        }
        Ok(Self { conditions, shares: Shares::new(&weights) })
    }

    fn reads_body(&self) -> bool {
        self.conditions.iter().flatten().flatten().any(Expr::reads_body)
    }

    fn matches(&self, request: &dyn Lookup) -> bool {
        let Some(conditions) = &self.conditions else { return true };
        let holds = |condition: &Option<Expr>| {
            condition.as_ref().is_none_or(|condition| condition.matches(request))
        };
        conditions.is_empty() || conditions.iter().any(holds)
    }
}

impl Target {
    fn parse(entry: WeightedUpstream) -> Result<Self, ConfError> {
        let reason = |problems: &Problems| {
            let first = problems.iter().next();
            ConfError::from(first.map_or("", |problem| &*problem.reason))
        };
        if let Some(id) = entry.upstream_id {
            let mut problems = Problems::new();
            let id = Id::parse(&id, "upstream_id", &mut problems);
            return id.map(Target::Id).ok_or_else(|| reason(&problems));
        }
        let Some(conf) = entry.upstream else { return Ok(Target::Route) };
        let (upstream, problems) = Upstream::parse(None, &conf, "upstream");
        upstream.map(|upstream| Target::Inline(Box::new(upstream))).ok_or_else(|| reason(&problems))
    }
}

#[cfg(test)]
mod tests {
    use tollhouse_plugin::testing::Harness;

    use super::*;

    fn upstream(port: u16) -> Value {
        json!({"type": "roundrobin", "nodes": {format!("127.0.0.1:{port}"): 1}})
    }

    /// Returns the chosen upstream for each of `times` requests; `-` if none was chosen.
    fn spread(conf: &Value, request: &str, times: usize) -> String {
        let mut harness = Harness::new::<TrafficSplit>(conf);
        let outcomes = (0..times).map(|_| {
            let outcome = harness.request(request);
            assert!(outcome.passes());
            outcome.edits.strip_prefix("upstream ").map_or("-".into(), |n| n.trim().to_owned())
        });
        outcomes.collect()
    }

    const GET: &str = "GET /?name=jack&age=20 HTTP/1.1\n\n";

    #[test]
    fn upstreams_take_turns_by_weight() {
        let conf = |weights: &[u64]| {
            let entries = weights.iter().map(|weight| json!({"weight": weight}));
            json!({"rules": [{"weighted_upstreams": entries.collect::<Vec<_>>()}]})
        };
        for (weights, expected) in [
            (&[1, 1][..], "0101"),
            (&[5, 5], "0101"),
            (&[1], "0000"),
            (&[0, 3], "1111"),
            (&[0, 0], "----"),
        ] {
            assert_eq!(spread(&conf(weights), GET, 4), expected, "{weights:?}");
        }
        for weights in [&[2, 1][..], &[3, 2, 1], &[60, 40], &[97, 2, 1], &[9, 1], &[7, 7, 7]] {
            let total = weights.iter().sum::<u64>() as usize;
            let shown = spread(&conf(weights), GET, total);
            for (index, weight) in weights.iter().enumerate() {
                let name = char::from(b'0' + index as u8);
                let count = shown.chars().filter(|other| *other == name).count();
                assert_eq!(count as u64, *weight, "{weights:?}: {shown}");
            }
        }
    }

    #[test]
    fn the_first_rule_that_matches_decides() {
        let conf = json!({"rules": [
            {"match": [{"vars": [["arg_name", "==", "rose"]]},
                       {"vars": [["arg_age", "<", "10"]]}],
             "weighted_upstreams": [{"upstream": upstream(1)}]},
            {"match": [{"vars": [["arg_name", "==", "jack"]]}],
             "weighted_upstreams": [{"upstream_id": 2}]},
            {"match": [{"vars": [["arg_name", "==", "all"]]}]},
        ]});
        for (target, expected) in [
            ("/?name=rose", "0"),
            ("/?name=jack&age=9", "0"),
            ("/?name=jack", "1"),
            ("/?name=all", "2"),
            ("/", "-"),
        ] {
            assert_eq!(
                spread(&conf, &format!("GET {target} HTTP/1.1\n\n"), 1),
                expected,
                "{target}"
            );
        }
        for conf in [json!({}), json!({"rules": []})] {
            assert_eq!(spread(&conf, GET, 1), "-");
        }
        for matches in [json!([]), json!([{}])] {
            let conf = json!({"rules": [{"match": matches, "weighted_upstreams": [{}]}]});
            assert_eq!(spread(&conf, GET, 1), "0");
        }
    }

    #[test]
    fn its_upstreams_are_known_by_place() {
        let conf = json!({"rules": [{"weighted_upstreams": [
            {"upstream": upstream(1), "weight": 2}, {"upstream_id": "b"}, {"weight": 1}]}]});
        let harness = Harness::new::<TrafficSplit>(&conf);
        let upstreams = harness.handler.upstreams();
        assert!(
            matches!(upstreams[0], UpstreamRef::Inline(upstream) if upstream.nodes[0].port == 1)
        );
        assert!(matches!(upstreams[1], UpstreamRef::Id(id) if id.as_str() == "b"));
        assert!(matches!(upstreams[2], UpstreamRef::Route));
    }

    #[test]
    fn bad_confs_are_refused() {
        let item = "property \"rules\" validation failed: failed to validate item 1: ";
        let targets = "property \"weighted_upstreams\" validation failed: ";
        let vars = "failed to validate the 'vars' expression: ";
        let cases = [
            (
                json!({"rules": [{"weighted_upstreams": []}]}),
                format!("{item}{targets}expect array to have at least 1 items"),
            ),
            (
                json!({"rules": [{"weighted_upstreams": [{"weight": -1}]}]}),
                format!(
                    "{item}{targets}failed to validate item 1: property \"weight\" validation \
                     failed: expected -1 to be at least 0"
                ),
            ),
            (
                json!({"rules": [{"match": [{"vars": [["arg_name", 123, "jack"]]}]}]}),
                format!("{vars}invalid operator '123'"),
            ),
        ];
        for (conf, expected) in cases {
            assert_eq!(Harness::refusal::<TrafficSplit>(&conf), expected, "{conf}");
        }
        let bad = json!({"type": "roundrobin", "nodes": {"127.0.0.1:1": -1}});
        let conf = json!({"rules": [{"weighted_upstreams": [{"upstream": bad}]}]});
        let refusal = Harness::refusal::<TrafficSplit>(&conf);
        assert!(
            refusal.starts_with(&format!(
                "{item}{targets}failed to validate item 1: property \
            \"upstream\" validation failed: "
            )),
            "{refusal}"
        );
    }
}
