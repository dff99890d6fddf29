//! Applies conditional rules to requests: the first rule whose case holds returns a status or
//! applies a limit.
//!
//! # Example
//! ```json
//! {
//!   "rules": [
//!     {"case": [["uri", "==", "/admin"]], "actions": [["return", {"code": 403}]]},
//!     {"actions": [["limit-count", {"count": 100, "time_window": 60, "key": "remote_addr"}]]}
//!   ]
//! }
//! ```
//!
//! # Answers
//! - `code` of the action, as `{"error_msg": "rejected by workflow"}`
//! - answers of `limit-count` and `limit-conn`
//!
//! # Notes
//! Only the first action of a rule is executed. Each rule has separate counts, even if the confs of
//! two rules are identical. `group` of `limit-count` is not supported here.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tollhouse_model::expr::Expr;
use tollhouse_model::schema::Schema;
use tollhouse_plugin::handler::SharedHandler;
use tollhouse_plugin::{
    Answer, Category, ConfError, Flow, LogContext, Phases, Plugin, RefusalKind, RequestContext,
    ResponseContext, Scope, Step,
};

use crate::shared::confs::conditions;
use crate::shared::messages::body;

/// Message for requests that a rule refuses.
const REJECTED: &str = "rejected by workflow";

/// Plugins that an action may name.
const PLUGIN_ACTIONS: [&str; 2] = ["limit-count", "limit-conn"];

/// Configuration of `workflow`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Config {
    /// Rules in the order in which they are tried.
    pub rules: Vec<RuleConfig>,
}

/// Condition and actions of one rule.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct RuleConfig {
    /// Expression that must hold. Unset: the rule applies to all requests.
    #[schemars(length(min = 1))]
    pub case: Option<Vec<Value>>,
    /// Actions, each a list of its name and its conf. Only the first one is executed.
    pub actions: Vec<Vec<Value>>,
}

#[derive(Debug)]
pub struct Workflow {
    rules: Box<[Rule]>,
    /// Whether a case reads request bodies.
    reads_body: bool,
}

#[derive(Debug)]
struct Rule {
    case: Option<Expr>,
    action: Option<Action>,
}

#[derive(Debug)]
enum Action {
    Return(u16),
    Plugin(SharedHandler),
}

/// Index of the rule whose plugin the request went through.
struct RuleIndex(usize);

impl Plugin for Workflow {
    const NAME: &'static str = "workflow";
    const PRIORITY: i32 = 1006;
    const CATEGORY: Category = Category::Traffic;
    const JUDGES_PATH: bool = true;
    const PHASES: Phases = Phases::ACCESS.union(Phases::RESPONSE).union(Phases::LOG);
    // Fields of the plugins that actions name.
    const ENCRYPTED: &'static [&'static str] =
        &["rules.actions.redis_password", "rules.actions.sentinel_password"];
    const EXPRESSIONS: &'static [&'static str] = &["rules.*.case"];
    const SENT_TO: &'static [&'static str] = &[
        "rules.actions.policy",
        "rules.actions.redis_host",
        "rules.actions.redis_port",
        "rules.actions.redis_username",
        "rules.actions.redis_ssl",
        "rules.actions.redis_ssl_verify",
        "rules.actions.redis_cluster_nodes",
        "rules.actions.redis_cluster_ssl",
        "rules.actions.redis_cluster_ssl_verify",
        "rules.actions.redis_sentinels",
        "rules.actions.redis_master_name",
        "rules.actions.sentinel_username",
    ];
    type Config = Config;

    fn adjust_schema(schema: &mut Value) {
        let rule = &mut schema["properties"]["rules"]["items"]["properties"];
        rule["case"]["items"] = json!({"anyOf": [{"type": "array"}, {"type": "string"}]});
        rule["actions"]["items"]["minItems"] = json!(1);
    }

    fn compile(config: Config, scope: &Scope<'_>) -> Result<Self, ConfError> {
        let rules = config.rules.into_iter().enumerate();
        let rules = rules.map(|(index, rule)| Rule::compile(rule, index + 1, scope));
        let rules: Box<[Rule]> = rules.collect::<Result<_, _>>()?;
        let reads_body = rules.iter().filter_map(|rule| rule.case.as_ref()).any(Expr::reads_body);
        Ok(Self { rules, reads_body })
    }

    fn access<'a>(&'a self, cx: &'a mut RequestContext<'_>) -> Step<'a> {
        if !self.reads_body {
            return self.perform(cx);
        }
        Step::wait(async move {
            if let Err(answer) = body::read_for_variables(cx).await {
                return answer.into();
            }
            match self.perform(cx) {
                Step::Continue => Flow::Continue,
                Step::Answer(answer) => Flow::Answer(answer),
                Step::Wait(flow) => flow.await,
            }
        })
    }

    fn response(&self, cx: &mut ResponseContext<'_>) {
        let performed = cx.recall::<RuleIndex>().map(|performed| performed.0);
        if let Some(plugin) = self.plugin(performed, Phases::RESPONSE) {
            plugin.response(cx);
        }
    }

    fn log(&self, cx: &mut LogContext<'_>) {
        let performed = cx.recall::<RuleIndex>().map(|performed| performed.0);
        if let Some(plugin) = self.plugin(performed, Phases::LOG) {
            plugin.log(cx);
        }
    }
}

impl Workflow {
    /// Executes the action of the first rule whose case holds.
    fn perform<'a>(&'a self, cx: &'a mut RequestContext<'_>) -> Step<'a> {
        let holds = |rule: &Rule, cx: &RequestContext<'_>| {
            // Rules limit and refuse, so a case that cannot be evaluated counts as true.
            rule.case.as_ref().is_none_or(|case| case.evaluate(cx.variables()).unwrap_or(true))
        };
        let Some(index) = self.rules.iter().position(|rule| holds(rule, cx)) else {
            return Step::Continue;
        };
        match &self.rules[index].action {
            None => Step::Continue,
            Some(Action::Return(status)) => {
                Answer::error_msg(*status, REJECTED).refused(RefusalKind::DeniedByRule).into()
            }
            Some(Action::Plugin(plugin)) => {
                cx.remember(RuleIndex(index));
                plugin.access(cx)
            }
        }
    }

    /// Returns the plugin that the request went through, if it uses `phase`.
    fn plugin(&self, performed: Option<usize>, phase: Phases) -> Option<&SharedHandler> {
        match &self.rules[performed?].action {
            Some(Action::Plugin(plugin)) if plugin.phases().intersects(phase) => Some(plugin),
            _ => None,
        }
    }
}

impl Rule {
    fn compile(config: RuleConfig, number: usize, scope: &Scope<'_>) -> Result<Self, ConfError> {
        let case = config.case.map(|case| conditions::parse(&Value::Array(case)));
        let case = case
            .transpose()
            .map_err(|error| format!("failed to validate the 'case' expression: {error}"))?;
        // All actions must be valid, although only the first is executed.
        let actions: Result<Vec<Action>, ConfError> =
            config.actions.iter().map(|action| Action::compile(action, number, scope)).collect();
        Ok(Self { case, action: actions?.into_iter().next() })
    }
}

impl Action {
    fn compile(action: &[Value], rule_number: usize, scope: &Scope<'_>) -> Result<Self, ConfError> {
        let none = Value::Null;
        let (name, conf) = (action.first().unwrap_or(&none), action.get(1).unwrap_or(&none));
        let name_text = || name.as_str().map_or_else(|| name.to_string(), str::to_owned);
        let action = match name.as_str() {
            Some("return") => returned(conf),
            Some(name) if PLUGIN_ACTIONS.contains(&name) => limited(name, conf, rule_number, scope),
            _ => return Err(format!("unsupported action: {}", name_text()).into()),
        };
        action.map_err(|error| {
            format!("failed to validate the '{}' action: {error}", name_text()).into()
        })
    }
}

fn returned(conf: &Value) -> Result<Action, ConfError> {
    let schema = Schema::compile(&json!({
        "type": "object",
        "properties": {"code": {"type": "integer", "minimum": 100, "maximum": 599}},
        "required": ["code"],
    }))?;
    schema.validate(conf)?;
    // The schema accepts integers between 100 and 599, also as floats.
    let code = conf["code"].as_f64().unwrap_or_default() as u16;
    Ok(Action::Return(code))
}

fn limited(
    name: &str,
    conf: &Value,
    rule_number: usize,
    scope: &Scope<'_>,
) -> Result<Action, ConfError> {
    let plugin = scope.catalogue.get(name).ok_or_else(|| format!("unknown plugin [{name}]"))?;
    // The rule's number separates the counts of different rules.
    let owner = format!("{}/workflow/{rule_number}", scope.owner);
    let own = Scope { owner: &owner, conf, metadata: None, ..*scope };
    let handler = plugin.compile(conf, &own)?;
    if conf.get("group").is_some() {
        return Err("group is not supported".into());
    }
    Ok(Action::Plugin(handler))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tollhouse_plugin::testing::{FakeExchange, Harness, configure_among};
    use tollhouse_plugin::{Catalogue, PluginType, Services, Transfer};

    use super::*;
    use crate::limit_conn::LimitConn;
    use crate::limit_count::LimitCount;

    fn configured(conf: &Value) -> Result<Harness, ConfError> {
        let services = Arc::new(Services::new("test"));
        let types = [PluginType::new::<LimitCount>(), PluginType::new::<LimitConn>()];
        let catalogue = Catalogue::new(types);
        let handler = configure_among::<Workflow>(conf, &services, &catalogue, None)?;
        Ok(Harness::with(handler, services))
    }

    fn status(harness: &mut Harness, target: &str) -> u16 {
        harness.request(&format!("GET {target} HTTP/1.1\n\n")).status()
    }

    #[test]
    fn the_first_rule_whose_case_holds_decides() {
        let conf = json!({"rules": [
            {"case": [["arg_foo", "==", "bar"], ["uri", "==", "/a"]],
             "actions": [["return", {"code": 403}], ["return", {"code": 404}]]},
            {"case": ["OR", ["uri", "==", "/a"], ["uri", "==", "/b"]],
             "actions": [["return", {"code": 401.0}]]},
            {"case": [["uri", "==", "/c"]], "actions": []},
        ]});
        let mut harness = configured(&conf).expect("the conf is good");
        let targets = ["/a?foo=bar", "/a?foo=bad", "/b", "/c", "/d"];
        let statuses = targets.map(|target| status(&mut harness, target));
        assert_eq!(statuses, [403, 401, 401, 0, 0]);
        let outcome = harness.request("GET /a HTTP/1.1\n\n");
        assert_eq!(outcome.body(), "{\"error_msg\":\"rejected by workflow\"}\n");
    }

    #[test]
    fn limits_of_rules_are_apart_and_show_their_quota() {
        let limit = json!(["limit-count", {"count": 1, "time_window": 60}]);
        let conf = json!({"rules": [
            {"case": [["uri", "==", "/a"]], "actions": [limit]},
            {"actions": [limit]},
        ]});
        let mut harness = configured(&conf).expect("the conf is good");
        let mut exchange = FakeExchange::parse("GET /a HTTP/1.1\n\n", harness.now_ms);
        assert!(harness.run(&mut exchange).passes());
        let reply = harness.respond(&mut exchange, "200", &[]);
        assert_eq!(reply.header("X-RateLimit-Remaining"), Some("0"));
        let targets = ["/a", "/b", "/b"];
        assert_eq!(targets.map(|target| status(&mut harness, target)), [503, 0, 503]);
    }

    #[test]
    fn requests_under_way_leave_when_they_end() {
        let conf = json!({"rules": [{"actions": [["limit-conn", {"conn": 1, "burst": 0,
            "default_conn_delay": 0.1, "key": "remote_addr"}]]}]});
        let mut harness = configured(&conf).expect("the conf is good");
        let mut first = FakeExchange::parse("GET / HTTP/1.1\n\n", harness.now_ms);
        assert!(harness.run(&mut first).passes());
        assert_eq!(status(&mut harness, "/"), 503);
        harness.log(&mut first, Transfer::default());
        assert_eq!(status(&mut harness, "/"), 0);
    }

    #[test]
    fn cases_may_be_about_the_body() {
        let conf = json!({"rules": [
            {"case": [["post_arg_a", "==", "1"]], "actions": [["return", {"code": 403}]]},
        ]});
        let mut harness = configured(&conf).expect("the conf is good");
        for (body, expected) in [("a=1", 403), ("a=2", 0)] {
            let outcome = harness.request(&format!("POST / HTTP/1.1\n\n{body}"));
            assert_eq!(outcome.status(), expected, "{body}");
        }
    }

    #[test]
    fn bad_confs_are_refused() {
        let rule = |rule: Value| json!({"rules": [rule]});
        let item = "property \"rules\" validation failed: failed to validate item 1: ";
        let none = "value should match only one schema, but matches none";
        let cases = [
            (json!({}), "property \"rules\" is required".to_owned()),
            (rule(json!({})), format!("{item}property \"actions\" is required")),
            (
                rule(json!({"actions": [[]]})),
                format!(
                    "{item}property \"actions\" validation failed: failed to validate item 1: \
                     expect array to have at least 1 items"
                ),
            ),
            (
                rule(json!({"case": [], "actions": [["return", {"code": 403}]]})),
                format!(
                    "{item}property \"case\" validation failed: expect array to have at least 1 \
                     items"
                ),
            ),
            (
                rule(json!({"case": [["uri", "=", "/"]], "actions": []})),
                "failed to validate the 'case' expression: invalid operator '='".to_owned(),
            ),
            (
                rule(json!({"actions": [["return", {"status": 403}]]})),
                "failed to validate the 'return' action: property \"code\" is required".to_owned(),
            ),
            (
                rule(json!({"actions": [["return", {"code": "403"}]]})),
                "failed to validate the 'return' action: property \"code\" validation failed: \
                 wrong type: expected integer, got string"
                    .to_owned(),
            ),
            (rule(json!({"actions": [["fake", {}]]})), "unsupported action: fake".to_owned()),
            (
                rule(json!({"actions": [["limit-count", {"count": 2}]]})),
                format!("failed to validate the 'limit-count' action: {none}"),
            ),
            (
                rule(json!({"actions": [["limit-count",
                    {"count": 2, "time_window": 60, "group": "g"}]]})),
                "failed to validate the 'limit-count' action: group is not supported".to_owned(),
            ),
        ];
        for (conf, expected) in cases {
            assert_eq!(configured(&conf).err(), Some(expected.into()), "{conf}");
        }
    }
}
