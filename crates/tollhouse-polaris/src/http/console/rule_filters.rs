//! Filters on the contents of rules: method, labels, level and description. A rule is decoded only
//! if such a filter is given.

use prost::Message;
use tollhouse_registry::{Rule, RuleKind};

use crate::http::query::{Query, allows};
use crate::rules::rule_message;
use crate::v1;

/// Separator between levels in one filter value.
const LIST_SEPARATOR: char = ',';

/// Fields of a rule that filters compare.
#[derive(Default)]
struct Parts {
    method: String,
    description: String,
    level: Option<i32>,
    labels: Vec<String>,
}

/// Whether a rule matches these filters of a query.
pub(super) fn fit(rule: &Rule, query: &Query) -> bool {
    let method = query.get("dstMethod").or_else(|| query.get("method"));
    let [labels, level, description] = ["labels", "level", "description"].map(|key| query.get(key));
    if [method, labels, level, description].iter().all(Option::is_none) {
        return true;
    }
    let parts = Parts::from_rule(rule);
    let is_level = |text: &str| text.trim().parse().ok() == parts.level;
    allows(method, &parts.method)
        && allows(description, &parts.description)
        && labels.is_none_or(|text| parts.labels.iter().any(|label| label.contains(text)))
        && level.is_none_or(|list| list.split(LIST_SEPARATOR).any(is_level))
}

impl Parts {
    /// Decodes the fields; they stay empty for other kinds of rules.
    fn from_rule(rule: &Rule) -> Self {
        let message = &rule_message(rule)[..];
        match rule.kind {
            RuleKind::RateLimit => v1::Rule::decode(message).map(Self::from).unwrap_or_default(),
            RuleKind::CircuitBreaker => {
                v1::CircuitBreakerRule::decode(message).map(Self::from).unwrap_or_default()
            }
            RuleKind::FaultDetector => {
                v1::FaultDetectRule::decode(message).map(Self::from).unwrap_or_default()
            }
            RuleKind::Routing | RuleKind::NearbyRouting => {
                let read = v1::RouteRule::decode(message);
                let description = read.map(|rule| rule.description).unwrap_or_default();
                Self { description, ..Self::default() }
            }
            RuleKind::Lane => {
                let read = v1::LaneGroup::decode(message);
                let description = read.map(|rule| rule.description).unwrap_or_default();
                Self { description, ..Self::default() }
            }
            RuleKind::RoutingV1
            | RuleKind::Lossless
            | RuleKind::BlockAllow
            | RuleKind::TrafficMirroring
            | RuleKind::FaultInjection => Self::default(),
        }
    }
}

impl From<v1::Rule> for Parts {
    fn from(rule: v1::Rule) -> Self {
        let label =
            |(key, value): (String, Option<v1::MatchString>)| format!("{key}:{}", text_of(value));
        let labels = rule.labels.into_iter().map(|(key, value)| (key, Some(value)));
        let arguments = rule.arguments.into_iter().map(|it| (it.key, it.value));
        let labels = labels.chain(arguments).map(label).collect();
        Self { method: text_of(rule.method), labels, ..Self::default() }
    }
}

impl From<v1::CircuitBreakerRule> for Parts {
    fn from(rule: v1::CircuitBreakerRule) -> Self {
        let destination = rule.rule_matcher.and_then(|matcher| matcher.destination);
        let method = text_of(destination.and_then(|it| it.method));
        let (description, level) = (rule.description, Some(rule.level));
        Self { method, description, level, ..Self::default() }
    }
}

impl From<v1::FaultDetectRule> for Parts {
    fn from(rule: v1::FaultDetectRule) -> Self {
        let method = text_of(rule.target_service.and_then(|it| it.method));
        Self { method, description: rule.description, ..Self::default() }
    }
}

fn text_of(text: Option<v1::MatchString>) -> String {
    text.and_then(|it| it.value).unwrap_or_default()
}
