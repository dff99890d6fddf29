//! `Discover` of a service's governance rules, which clients enforce. A service that does not exist
//! has rules too, because a rule may be created before its service, and rules for all services
//! apply as well.

use tollhouse_registry::{RuleKind, RuleSet, ServiceRef, State};

use super::{CallReply, Question, routing};
use crate::code::Code;
use crate::rules::rule_message;
use crate::wire::answer::{discover, put_revision};
use crate::wire::write::{put_message, put_nested, put_text, put_text_value};

/// Answers with the rules of one kind.
pub(super) fn answer(
    state: &State,
    question: &Question<'_>,
    kind: RuleKind,
    name: ServiceRef<'_>,
) -> CallReply {
    // Rules of a service apply to calls by its aliases too.
    let target = match state.alias(name) {
        Some(alias) => alias.target.borrowed(),
        None => name,
    };
    if kind == RuleKind::RoutingV1 {
        return routing::answer(state, question, name, target);
    }
    let set = state.rules_for(kind, target);
    if set.rules.is_empty() {
        return question.nothing();
    }
    let digits = set.revision.digits();
    if question.has(&digits) {
        return question.unchanged();
    }
    let mut out = question.begin(Some(set.revision));
    put_rules(&mut out, kind, &set, name);
    CallReply::made(Code::ExecuteSuccess, out)
}

fn put_rules(out: &mut Vec<u8>, kind: RuleKind, set: &RuleSet, name: ServiceRef<'_>) {
    let digits = set.revision.digits();
    match kind {
        RuleKind::RateLimit => put_nested(out, discover::RATE_LIMIT, |out| {
            put_each(out, 1, set);
            put_revision(out, 2, &digits);
        }),
        RuleKind::CircuitBreaker => put_nested(out, discover::CIRCUIT_BREAKER, |out| {
            put_text_value(out, 5, name.name);
            put_text_value(out, 6, name.namespace);
            put_revision(out, 16, &digits);
            put_each(out, 21, set);
        }),
        RuleKind::FaultDetector => put_nested(out, discover::FAULT_DETECTOR, |out| {
            put_each(out, 1, set);
            put_text(out, 2, &set.revision.to_string());
        }),
        // Both fields are sent, because older client libraries read one rule, newer ones a list.
        RuleKind::Lossless => {
            if let Some(first) = set.rules.first() {
                put_message(out, discover::LOSSLESS, rule_message(first));
            }
            put_each(out, discover::LOSSLESS_RULE_LIST, set);
        }
        RuleKind::Lane => put_each(out, discover::LANES, set),
        RuleKind::RoutingV1 | RuleKind::Routing => {
            put_each(out, discover::CUSTOM_ROUTE_RULES, set);
        }
        RuleKind::NearbyRouting => put_each(out, discover::NEARBY_ROUTE_RULES, set),
        RuleKind::BlockAllow => put_each(out, discover::BLOCK_ALLOW_LIST_RULE, set),
        RuleKind::TrafficMirroring => put_each(out, discover::TRAFFIC_MIRRORING, set),
        RuleKind::FaultInjection => put_each(out, discover::FAULT_INJECTION, set),
    }
}

/// Encodes the enabled rules; disabled ones affect the revision only.
fn put_each(out: &mut Vec<u8>, number: u32, set: &RuleSet) {
    for rule in set.rules.iter().filter(|rule| rule.enabled) {
        put_message(out, number, rule_message(rule));
    }
}
