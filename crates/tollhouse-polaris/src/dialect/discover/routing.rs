//! `Discover` of routing, as all client libraries fetch it: routes of the first generation, inbound
//! and outbound, in one message that is sent even if it is empty.
//!
//! Rules of the second generation are converted to such routes, because libraries read nothing else
//! here. They can fetch those rules unconverted by another type.

use prost::Message;
use tollhouse_registry::{Rule, RuleKind, ServiceRef, State};

use super::{CallReply, Question};
use crate::code::Code;
use crate::rules::first_generation::{Nearness, Routes};
use crate::rules::rule_message;
use crate::v1;
use crate::wire::Fields;
use crate::wire::answer::discover;
use crate::wire::write::{put_message, put_nested, put_text_value};

/// Revision of an empty rule set: the SHA-1 of an empty text, as in Polaris. Clients may have
/// cached it.
const NO_ROUTING_REVISION: &str = "da39a3ee5e6b4b0d3255bfef95601890afd80709";

/// Field numbers of `Routing.inbounds` and `Routing.outbounds`.
const INBOUNDS: u32 = 3;
const OUTBOUNDS: u32 = 4;

/// Fields copied from a rule of the first generation: its routes, and its times.
const TAKEN_OVER: std::ops::RangeInclusive<u32> = INBOUNDS..=6;

/// Answers with the routes of `target`, which the client calls `name`.
pub(super) fn answer(
    state: &State,
    question: &Question<'_>,
    name: ServiceRef<'_>,
    target: ServiceRef<'_>,
) -> CallReply {
    let old = state.rules_for(RuleKind::RoutingV1, target);
    let new = state.rules_for(RuleKind::Routing, target);
    let revision = old.revision.with(new.revision);
    let is_empty = old.rules.is_empty() && new.rules.is_empty();
    let digits = revision.digits();
    let revision_text: &[u8] = if is_empty { NO_ROUTING_REVISION.as_bytes() } else { &digits };
    if question.has(revision_text) {
        return question.unchanged();
    }
    let mut out = question.begin((!is_empty).then_some(revision));
    put_nested(&mut out, discover::ROUTING, |out| {
        let routes = Routes::for_service(new.rules.iter().map(|rule| &**rule), target);
        put_routes(out, &routes, |nearness| nearness == Nearness::Named);
        // Rules of the first generation name one service exactly, so they come after other such
        // rules and before wildcards.
        old.rules.iter().filter(|rule| rule.enabled).for_each(|rule| put_old(out, rule));
        put_routes(out, &routes, |nearness| nearness != Nearness::Named);
        put_text_value(out, 1, name.name);
        put_text_value(out, 2, name.namespace);
        put_text_value(out, 7, std::str::from_utf8(revision_text).unwrap_or_default());
    });
    put_nested(&mut out, discover::ALIAS_FOR, |out| {
        put_text_value(out, 1, target.name);
        put_text_value(out, 2, target.namespace);
    });
    CallReply::made(Code::ExecuteSuccess, out)
}

fn put_routes(out: &mut Vec<u8>, routes: &Routes, takes: impl Fn(Nearness) -> bool) {
    let mut put = |number, routes: &[(Nearness, v1::Route)]| {
        for (_, route) in routes.iter().filter(|(nearness, _)| takes(*nearness)) {
            put_message(out, number, &route.encode_to_vec());
        }
    };
    put(INBOUNDS, &routes.inbounds);
    put(OUTBOUNDS, &routes.outbounds);
}

fn put_old(out: &mut Vec<u8>, rule: &Rule) {
    let message = rule_message(rule);
    for field in Fields::new(message).flatten().filter(|it| TAKEN_OVER.contains(&it.number)) {
        out.extend_from_slice(&message[field.start..field.end]);
    }
}
