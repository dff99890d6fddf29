//! Filters on the contents of rules: caller, callee, method, labels, level and description. A rule is
//! decoded only if such a filter is given.

use prost::Message;
use tollhouse_registry::{Rule, RuleKind};

use crate::http::query::{Query, allows, finds};
use crate::rules::rule_message;
use crate::v1;

/// Separator between levels in one filter value.
const LIST_SEPARATOR: char = ',';

/// Fields of a rule that filters compare.
#[derive(Default)]
struct Parts {
    /// Service that the rule is for as a caller; empty for kinds without one.
    caller: NamedService,
    /// Service that the rule is for as a callee; empty for kinds without one.
    callee: NamedService,
    method: String,
    description: String,
    level: Option<i32>,
    labels: Vec<String>,
}

#[derive(Default)]
struct NamedService {
    namespace: String,
    name: String,
}

/// Whether filters by name find parts of names, as in Polaris. Routing rules compare whole names.
pub(super) fn finds_parts(kind: RuleKind) -> bool {
    names_both_services(kind) || matches!(kind, RuleKind::RateLimit | RuleKind::Lane)
}

/// Whether caller and callee have filters of their own, which find parts of names.
pub(super) fn names_both_services(kind: RuleKind) -> bool {
    matches!(kind, RuleKind::CircuitBreaker | RuleKind::FaultDetector)
}

/// Whether a rule matches these filters of a query.
pub(super) fn fit(rule: &Rule, query: &Query) -> bool {
    let method = query.get("dstMethod").or_else(|| query.get("method"));
    let [labels, level, description] = ["labels", "level", "description"].map(|key| query.get(key));
    let services = ["srcNamespace", "srcService", "dstNamespace", "dstService"];
    let has_both = names_both_services(rule.kind);
    let services = services.map(|key| query.get(key).filter(|_| has_both));
    if [method, labels, level, description].iter().chain(&services).all(Option::is_none) {
        return true;
    }
    let parts = Parts::from_rule(rule);
    let is_level = |text: &str| text.trim().parse().ok() == parts.level;
    let allows = if has_both { finds } else { allows };
    let Parts { caller, callee, .. } = &parts;
    let names = [&caller.namespace, &caller.name, &callee.namespace, &callee.name];
    services.into_iter().zip(names).all(|(filter, name)| finds(filter, name))
        && allows(method, &parts.method)
        && finds(description, &parts.description)
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
        let matcher = rule.rule_matcher.unwrap_or_default();
        let caller = matcher.source.unwrap_or_default();
        let callee = matcher.destination.unwrap_or_default();
        Self {
            caller: NamedService { namespace: caller.namespace, name: caller.service },
            callee: NamedService { namespace: callee.namespace, name: callee.service },
            method: text_of(callee.method),
            description: rule.description,
            level: Some(rule.level),
            labels: Vec::new(),
        }
    }
}

impl From<v1::FaultDetectRule> for Parts {
    fn from(rule: v1::FaultDetectRule) -> Self {
        let callee = rule.target_service.unwrap_or_default();
        Self {
            callee: NamedService { namespace: callee.namespace, name: callee.service },
            method: text_of(callee.method),
            description: rule.description,
            ..Self::default()
        }
    }
}

fn text_of(text: Option<v1::MatchString>) -> String {
    text.and_then(|it| it.value).unwrap_or_default()
}
