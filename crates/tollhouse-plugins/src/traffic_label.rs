//! Marks requests with headers for nodes and for later plugins, by conditions and in shares.
//!
//! The first rule that matches a request decides. Its actions take turns by weight.
//!
//! # Example
//! ```json
//! {
//!   "rules": [
//!     {
//!       "match": [["uri", "==", "/headers"]],
//!       "actions": [
//!         {"set_headers": {"X-Server-Id": "100"}, "weight": 3},
//!         {"set_headers": {"X-API-Version": "v2"}, "weight": 2},
//!         {"weight": 5}
//!       ]
//!     }
//!   ]
//! }
//! ```
//!
//! # Answers
//! - none of its own
//!
//! # Notes
//! An action without `set_headers` leaves the request unchanged. Values may contain variables such
//! as `$remote_addr`; an empty value removes the header. Shares are exact over all cores, as in
//! `traffic-split`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tollhouse_model::expr::Expr;
use tollhouse_plugin::{Category, ConfError, Flow, Phases, Plugin, RequestContext, Scope, Step};

use crate::shared::confs::defaults::defaults;
use crate::shared::confs::identity::identity;
use crate::shared::confs::shares::Shares;
use crate::shared::confs::text::Text;
use crate::shared::confs::{conditions, headers};
use crate::shared::messages::body;

/// Configuration of `traffic-label`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Config {
    /// Rules in the order in which they are tried.
    #[schemars(length(min = 1))]
    pub rules: Vec<RuleConfig>,
}

/// Condition and actions of one rule.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct RuleConfig {
    /// Expression about the request. Unset: the rule matches all requests.
    #[serde(rename = "match")]
    #[schemars(length(min = 1))]
    pub condition: Option<Vec<Value>>,
    /// Actions that take turns.
    #[schemars(length(min = 1))]
    pub actions: Vec<ActionConfig>,
}

/// Action with its share.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct ActionConfig {
    /// Headers to set in the request. Unset: the request stays unchanged.
    pub set_headers: Option<Map<String, Value>>,
    /// Weight: share of the requests relative to the other actions; 1 by default.
    #[serde(default = "default_weight")]
    #[schemars(range(min = 1))]
    pub weight: u64,
}

defaults! {
    default_weight: u64 = 1;
}

#[derive(Debug)]
pub struct TrafficLabel {
    rules: Box<[Rule]>,
    /// Whether a condition or a value reads request bodies.
    reads_body: bool,
    /// Counters that survive changes of the object's other fields.
    turns: Arc<MatchCounts>,
}

/// Number of requests that each rule has matched.
#[derive(Debug)]
struct MatchCounts(Box<[AtomicU64]>);

#[derive(Debug)]
struct Rule {
    condition: Option<Expr>,
    shares: Shares,
    actions: Box<[Box<[(String, Text)]>]>,
}

impl Plugin for TrafficLabel {
    const NAME: &'static str = "traffic-label";
    const PRIORITY: i32 = 967;
    const CATEGORY: Category = Category::Traffic;
    const PHASES: Phases = Phases::ACCESS;
    const EXPRESSIONS: &'static [&'static str] = &["rules.*.match"];
    type Config = Config;

    fn adjust_schema(schema: &mut Value) {
        let rule = &mut schema["properties"]["rules"]["items"]["properties"];
        rule["match"]["items"] = json!({"anyOf": [{"type": "array"}, {"type": "string"}]});
        let action = &mut rule["actions"]["items"]["properties"];
        action["set_headers"]["minProperties"] = json!(1);
    }

    fn compile(config: Config, scope: &Scope<'_>) -> Result<Self, ConfError> {
        check_actions(scope.conf)?;
        let rules: Result<Box<[Rule]>, ConfError> =
            config.rules.into_iter().map(Rule::compile).collect();
        let rules = rules?;
        let make = || MatchCounts(rules.iter().map(|_| AtomicU64::new(0)).collect());
        let turns = scope.keep(&format!("traffic-label {}", identity(scope)), make);
        let reads_body = rules.iter().any(Rule::reads_body);
        Ok(Self { rules, reads_body, turns })
    }

    fn access<'a>(&'a self, cx: &'a mut RequestContext<'_>) -> Step<'a> {
        if !self.reads_body {
            self.label(cx);
            return Step::Continue;
        }
        Step::wait(async move {
            if let Err(answer) = body::read_for_variables(cx).await {
                return answer.into();
            }
            self.label(cx);
            Flow::Continue
        })
    }
}

/// Refuses actions of an unknown kind, which the schema lets pass.
fn check_actions(conf: &Value) -> Result<(), ConfError> {
    let rules = conf["rules"].as_array().into_iter().flatten();
    let actions = rules.flat_map(|rule| rule["actions"].as_array().into_iter().flatten());
    for name in actions.flat_map(|action| action.as_object().into_iter().flat_map(Map::keys)) {
        if name != "set_headers" && name != "weight" {
            return Err(format!("not supported action: {name}").into());
        }
    }
    Ok(())
}

impl TrafficLabel {
    fn label(&self, cx: &mut RequestContext<'_>) {
        let variables = cx.variables();
        let matching = self.rules.iter().position(|rule| {
            rule.condition.as_ref().is_none_or(|condition| condition.matches(variables))
        });
        let Some(index) = matching else { return };
        let rule = &self.rules[index];
        let turn = || self.turns.0[index].fetch_add(1, Ordering::Relaxed);
        let action = rule.shares.pick(turn).and_then(|action| rule.actions.get(action));
        for (name, value) in action.into_iter().flatten() {
            let value = value.for_request(cx.variables()).into_owned();
            cx.set_header(name, &value);
        }
    }
}

impl Rule {
    fn compile(config: RuleConfig) -> Result<Self, ConfError> {
        let condition = config.condition.map(Value::Array);
        let parsed = condition.as_ref().map(|condition| {
            conditions::parse(condition).map_err(|error| {
                format!("failed to validate the 'match' expression: {condition} err: {error}")
            })
        });
        let condition = parsed.transpose()?;
        let weights = config.actions.iter().enumerate();
        let weights: Vec<(u64, usize)> =
            weights.map(|(index, action)| (action.weight, index)).collect();
        let actions = config.actions.into_iter().map(|action| {
            let fields = action.set_headers.unwrap_or_default();
            headers::check_map(&fields)
                .map_err(|error| format!("failed to validate the 'set_headers' action: {error}"))?;
            let texts = fields.into_iter().filter_map(|(name, value)| {
                let value = Text::parse(&headers::text_of(&value)?);
                Some((name, value))
            });
            Ok::<_, ConfError>(texts.collect())
        });
        let actions = actions.collect::<Result<_, _>>()?;
        Ok(Self { condition, shares: Shares::new(&weights), actions })
    }

    fn reads_body(&self) -> bool {
        let mut texts = self.actions.iter().flatten();
        self.condition.as_ref().is_some_and(Expr::reads_body)
            || texts.any(|(_, text)| text.reads_body())
    }
}

#[cfg(test)]
mod tests {
    use tollhouse_plugin::testing::Harness;

    use super::*;

    #[test]
    fn the_first_matching_rule_sets_headers() {
        let conf = json!({"rules": [
            {"match": [["uri", "==", "/a"]], "actions": [{"set_headers": {"X-Id": 100, "X-From": "$remote_addr"}}]},
            {"match": ["OR", ["arg_b", "==", "1"], ["uri", "==", "/a"]], "actions": [{"set_headers": {"X-Id": "b", "X-Gone": ""}}]},
        ]});
        let mut harness = Harness::new::<TrafficLabel>(&conf);
        for (target, expected) in [
            ("/a", "+X-Id: 100\n+X-From: 127.0.0.1\n"),
            ("/c?b=1", "+X-Id: b\n-X-Gone\n"),
            ("/c", ""),
        ] {
            let outcome = harness.request(&format!("GET {target} HTTP/1.1\nX-Id: 200\n\n"));
            assert!(outcome.passes());
            assert_eq!(outcome.edits, expected, "{target}");
        }
    }

    #[test]
    fn actions_take_turns_by_weight() {
        let conf = json!({"rules": [{"actions": [
            {"set_headers": {"X-Id": "1"}, "weight": 3},
            {"set_headers": {"X-Id": "2"}, "weight": 2},
            {"weight": 5},
        ]}]});
        let mut harness = Harness::new::<TrafficLabel>(&conf);
        let seen: Vec<String> =
            (0..20).map(|_| harness.request("GET / HTTP/1.1\n\n").edits).collect();
        let count = |edits: &str| seen.iter().filter(|other| *other == edits).count();
        assert_eq!((count("+X-Id: 1\n"), count("+X-Id: 2\n"), count("")), (6, 4, 10));
    }

    #[test]
    fn bad_confs_are_refused() {
        let with = |action: Value| json!({"rules": [{"actions": [action]}]});
        for (conf, text) in [
            (json!({}), "property \"rules\" is required"),
            (json!({"rules": []}), "expect array to have at least 1 items"),
            (json!({"rules": [{}]}), "property \"actions\" is required"),
            (with(json!({"add_headers": {"a": "b"}})), "not supported action: add_headers"),
            (with(json!({"weight": 0})), "property \"weight\" validation failed"),
            (with(json!({"set_headers": {}})), "property \"set_headers\" validation failed"),
            (
                with(json!({"set_headers": {"a": [1]}})),
                "failed to validate the 'set_headers' action: invalid type as header value",
            ),
            (
                json!({"rules": [{"match": [["uri", "=", "/"]], "actions": [{}]}]}),
                "failed to validate the 'match' expression: [[\"uri\",\"=\",\"/\"]] err: ",
            ),
        ] {
            let refusal = Harness::refusal::<TrafficLabel>(&conf);
            assert!(refusal.contains(text), "{refusal}");
        }
    }
}
