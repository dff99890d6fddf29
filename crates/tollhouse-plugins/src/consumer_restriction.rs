//! Allows or refuses requests by the consumer's name or group, or by the id of the service or
//! route.
//!
//! # Example
//! ```json
//! {"whitelist": ["jack"], "allowed_by_methods": [{"user": "rose", "methods": ["GET"]}]}
//! ```
//!
//! # Answers
//! - 401 `The request is rejected, please check the consumer_name for this request` when the
//!   compared value is missing: no authenticated consumer, a consumer without a group, a route
//!   without a service
//! - `rejected_code`, 403 by default, with `rejected_msg` or `The consumer_name is forbidden.`
//!
//! # Notes
//! The blacklist is checked first, then the whitelist. Consumers of the whitelist may use all
//! methods. A consumer that `allowed_by_methods` does not name is not restricted by it.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tollhouse_model::variable::Variable;
use tollhouse_plugin::{
    Answer, Category, ConfError, Phases, Plugin, RefusalKind, RequestContext, Scope, Step,
};

use crate::shared::confs::defaults::defaults;
use crate::shared::confs::status::status_of;

const METHODS: [&str; 10] =
    ["GET", "POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS", "CONNECT", "TRACE", "PURGE"];

/// Values that may pass.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Config {
    /// Property of the request that is compared with the lists; the consumer's name by default.
    #[serde(default, rename = "type")]
    pub subject: Subject,
    /// Values that are refused.
    #[schemars(length(min = 1))]
    pub blacklist: Option<Vec<String>>,
    /// Values that pass; all others are refused.
    #[schemars(length(min = 1))]
    pub whitelist: Option<Vec<String>>,
    /// Methods that single values may use. A value without an entry may use all methods.
    pub allowed_by_methods: Option<Vec<MethodRule>>,
    /// Status of a refusal; 403 by default.
    #[serde(default = "default_status")]
    #[schemars(range(min = 200))]
    pub rejected_code: i64,
    /// Message of a refusal. Unset: for example `The consumer_name is forbidden.`
    pub rejected_msg: Option<String>,
}

/// Methods of one value.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct MethodRule {
    /// Compared value, such as a consumer's name.
    pub user: Option<String>,
    /// Methods that this value may use.
    #[schemars(length(min = 1))]
    pub methods: Option<Vec<String>>,
}

/// Property of the request that is compared with the lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, serde::Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Subject {
    #[default]
    ConsumerName,
    ServiceId,
    RouteId,
    ConsumerGroupId,
}

impl Subject {
    const ALL: [Subject; 4] =
        [Self::ConsumerName, Self::ServiceId, Self::RouteId, Self::ConsumerGroupId];

    fn name(self) -> &'static str {
        match self {
            Self::ConsumerName => "consumer_name",
            Self::ServiceId => "service_id",
            Self::RouteId => "route_id",
            Self::ConsumerGroupId => "consumer_group_id",
        }
    }
}

defaults! {
    default_status: i64 = 403;
}

#[derive(Debug)]
pub struct ConsumerRestriction {
    config: Config,
    variable: Variable,
    refusal: String,
    nothing_known: String,
}

impl Plugin for ConsumerRestriction {
    const NAME: &'static str = "consumer-restriction";
    const PRIORITY: i32 = 2400;
    const CATEGORY: Category = Category::Security;
    const PHASES: Phases = Phases::ACCESS;
    type Config = Config;

    fn adjust_schema(schema: &mut Value) {
        schema["properties"]["type"] = json!({
            "type": "string",
            "enum": Subject::ALL.map(Subject::name),
            "default": Subject::default().name(),
            "description": "Property of the request that is compared with the lists.",
        });
        let rule = &mut schema["properties"]["allowed_by_methods"]["items"];
        rule["properties"]["methods"]["items"] = json!({"type": "string", "enum": METHODS});
        schema["anyOf"] = json!([
            {"required": ["blacklist"]},
            {"required": ["whitelist"]},
            {"required": ["allowed_by_methods"]},
        ]);
    }

    fn compile(config: Config, _scope: &Scope<'_>) -> Result<Self, ConfError> {
        let subject = config.subject.name();
        let refusal =
            config.rejected_msg.clone().unwrap_or_else(|| format!("The {subject} is forbidden."));
        let nothing_known =
            format!("The request is rejected, please check the {subject} for this request");
        Ok(Self { variable: Variable::parse(subject), config, refusal, nothing_known })
    }

    fn access<'a>(&'a self, cx: &'a mut RequestContext<'_>) -> Step<'a> {
        let permitted = self.with_value(cx, |value| self.permits(value, cx.method()));
        match permitted {
            None => {
                Answer::message(401, &self.nothing_known).refused(RefusalKind::AuthMissing).into()
            }
            Some(true) => Step::Continue,
            Some(false) => Answer::message(status_of(self.config.rejected_code), &self.refusal)
                .refused(RefusalKind::DeniedByRule)
                .into(),
        }
    }
}

impl ConsumerRestriction {
    /// Calls `decide` with the compared value, or returns `None` if the request has none.
    fn with_value<T>(&self, cx: &RequestContext<'_>, decide: impl FnOnce(&[u8]) -> T) -> Option<T> {
        match self.config.subject {
            Subject::ConsumerName => cx.consumer().map(|who| decide(who.username.as_bytes())),
            Subject::ConsumerGroupId => {
                let group = cx.consumer()?.group_id.as_deref()?;
                Some(decide(group.as_bytes()))
            }
            Subject::ServiceId | Subject::RouteId => {
                let value = cx.variables().variable(&self.variable)?;
                (!value.is_empty()).then(|| decide(&value))
            }
        }
    }

    fn permits(&self, value: &[u8], method: &[u8]) -> bool {
        let names = |list: &Vec<String>| list.iter().any(|name| name.as_bytes() == value);
        if self.config.blacklist.as_ref().is_some_and(names) {
            return false;
        }
        match &self.config.whitelist {
            Some(list) => names(list),
            None => self.may_use(value, method),
        }
    }

    fn may_use(&self, value: &[u8], method: &[u8]) -> bool {
        let rules = self.config.allowed_by_methods.iter().flatten();
        let mut rules =
            rules.filter(|rule| rule.user.as_deref().is_some_and(|user| user.as_bytes() == value));
        let Some(rule) = rules.next() else { return true };
        rule.methods.iter().flatten().any(|allowed| allowed.as_bytes() == method)
    }
}

#[cfg(test)]
mod tests {
    use tollhouse_plugin::Consumer;
    use tollhouse_plugin::testing::{FakeExchange, Harness, Outcome};

    use super::*;

    fn consumer(name: &str, group: Option<&str>) -> Consumer {
        Consumer {
            username: name.into(),
            group_id: group.map(Into::into),
            custom_id: None,
            labels: Default::default(),
            has_plugins: false,
            number: 0,
        }
    }

    fn sent(conf: &Value, method: &str, who: Option<&str>) -> Outcome {
        let harness = Harness::new::<ConsumerRestriction>(conf);
        let harness = harness.plain_consumer(consumer("jack", Some("crew")));
        let mut harness = harness.plain_consumer(consumer("rose", None));
        let mut exchange = FakeExchange::parse(&format!("{method} / HTTP/1.1\n\n"), 0)
            .with_variable("route_id", "r1")
            .with_variable("service_id", "");
        harness.run_as(&mut exchange, who)
    }

    #[test]
    fn lists_decide_in_their_order() {
        let methods = json!([{"user": "jack", "methods": ["GET", "HEAD"]}]);
        for (conf, method, passes) in [
            (json!({"blacklist": ["jack"]}), "GET", false),
            (json!({"blacklist": ["rose"]}), "GET", true),
            (json!({"whitelist": ["jack"]}), "GET", true),
            (json!({"whitelist": ["rose"]}), "GET", false),
            (json!({"whitelist": ["jack"], "blacklist": ["jack"]}), "GET", false),
            (json!({"allowed_by_methods": methods}), "GET", true),
            (json!({"allowed_by_methods": methods}), "POST", false),
            (json!({"allowed_by_methods": [{"user": "rose", "methods": ["GET"]}]}), "POST", true),
            // The whitelist allows all methods to its consumers and refuses all others.
            (json!({"allowed_by_methods": methods, "whitelist": ["jack"]}), "POST", true),
            (json!({"allowed_by_methods": methods, "whitelist": ["rose"]}), "GET", false),
        ] {
            let outcome = sent(&conf, method, Some("jack"));
            assert_eq!(outcome.passes(), passes, "{conf}");
            if !passes {
                assert_eq!(outcome.status(), 403);
                assert_eq!(outcome.body(), "{\"message\":\"The consumer_name is forbidden.\"}\n");
            }
        }
    }

    #[test]
    fn other_subjects_are_compared_alike() {
        for (conf, who, status) in [
            (json!({"type": "consumer_group_id", "whitelist": ["crew"]}), Some("jack"), 0),
            (json!({"type": "consumer_group_id", "blacklist": ["crew"]}), Some("jack"), 403),
            (json!({"type": "consumer_group_id", "blacklist": ["crew"]}), Some("rose"), 401),
            (json!({"type": "route_id", "whitelist": ["r1"]}), None, 0),
            (json!({"type": "route_id", "whitelist": ["r2"]}), None, 403),
            (json!({"type": "service_id", "whitelist": ["s1"]}), None, 401),
            (json!({"whitelist": ["jack"]}), None, 401),
        ] {
            let outcome = sent(&conf, "GET", who);
            assert_eq!(outcome.status(), status, "{conf} {who:?}");
            let subject = conf["type"].as_str().unwrap_or("consumer_name");
            if status == 401 {
                let text = "The request is rejected, please check the";
                let body = format!("{{\"message\":\"{text} {subject} for this request\"}}\n");
                assert_eq!(outcome.body(), body);
            }
        }
    }

    #[test]
    fn a_refusal_says_what_it_is_told_to() {
        let conf = json!({"blacklist": ["jack"], "rejected_code": 429, "rejected_msg": "go away"});
        let outcome = sent(&conf, "GET", Some("jack"));
        assert_eq!((outcome.status(), outcome.body()), (429, "{\"message\":\"go away\"}\n"));
    }

    #[test]
    fn bad_confs_are_refused() {
        for (conf, inner) in [
            (
                json!({}),
                "object matches none of the required: [\"blacklist\"] or [\"whitelist\"] or \
                 [\"allowed_by_methods\"]",
            ),
            (json!({"blacklist": []}), "expect array to have at least 1 items"),
            (json!({"blacklist": ["a"], "type": "x"}), "matches none of the enum values"),
            (json!({"blacklist": ["a"], "rejected_code": 199}), "expected 199 to be at least 200"),
            (
                json!({"allowed_by_methods": [{"user": "a", "methods": ["get"]}]}),
                "failed to validate item 1: matches none of the enum values",
            ),
        ] {
            let refusal = Harness::refusal::<ConsumerRestriction>(&conf);
            assert!(refusal.ends_with(inner), "{refusal}");
        }
    }
}
