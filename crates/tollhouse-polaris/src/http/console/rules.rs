//! Console calls for governance rules: one set of functions for all kinds, one table entry per
//! kind.

use super::rule_filters;
use super::{List, ObjectPage, Plan, Write, any_of, page_of};
use crate::code::Code;
use crate::http::failure::Failure;
use crate::http::query::{Query, allows, finds};
use crate::rules::{layout_of, put_permits, read_rule, rule_id, rule_is_enabled, rule_message};
use crate::wire::answer::response;
use std::sync::Arc;
use tollhouse_registry::{Command, NewRule, Outcome, Rule, RuleKind, State};

/// Field of `v1.BatchQueryResponse` for rate limits.
const RATE_LIMITS: u32 = 10;
/// Field of `v1.BatchQueryResponse` for routing of the first generation.
const ROUTINGS: u32 = 8;
/// Field of `v1.BatchQueryResponse` for all other kinds.
const DATA: u32 = 22;

/// Calls for the rules of one kind.
pub(in crate::http) struct Calls {
    pub(in crate::http) create: Write,
    pub(in crate::http) update: Write,
    pub(in crate::http) delete: Write,
    pub(in crate::http) enable: Write,
    pub(in crate::http) list: List,
}

macro_rules! calls {
    ($($name:ident: $kind:ident, $message:literal, $echo:expr, $function:literal;)*) => {
        $(
            #[doc = concat!("Calls for `", $message, "`.")]
            pub(in crate::http) static $name: Calls = Calls {
                create: Write::whole($message, $echo, |state, item| {
                    plan_create(RuleKind::$kind, state, item)
                }),
                update: Write::whole($message, $echo, |state, item| {
                    plan_update(RuleKind::$kind, state, item)
                }),
                delete: Write::whole($message, $echo, |state, item| {
                    plan_delete(RuleKind::$kind, state, item)
                }),
                enable: Write::whole($message, $echo, |state, item| {
                    plan_enable(RuleKind::$kind, state, item)
                }),
                list: List {
                    function: $function,
                    keys: KEYS,
                    find: |state, query| find(RuleKind::$kind, state, query),
                },
            };
        )*
    };
}

calls! {
    ROUTINGS_V1: RoutingV1, "v1.Routing", response::ROUTING, "DescribeRouteRules";
    ROUTE_RULES: Routing, "v1.RouteRule", response::DATA, "DescribeRouteRules";
    RATE_LIMIT_RULES: RateLimit, "v1.Rule", response::RATE_LIMIT, "DescribeRateLimitRules";
    CIRCUIT_BREAKERS: CircuitBreaker, "v1.CircuitBreakerRule", response::DATA, "DescribeCircuitBreakerRules";
    FAULT_DETECTORS: FaultDetector, "v1.FaultDetectRule", response::DATA, "DescribeFaultDetectRules";
    LANE_GROUPS: Lane, "v1.LaneGroup", response::DATA, "DescribeLaneGroups";
    LOSSLESS_RULES: Lossless, "v1.LosslessRule", response::DATA, "DescribeLosslessRules";
    BLOCK_ALLOW_RULES: BlockAllow, "v1.BlockAllowListRule", response::DATA, "DescribeBlockAllowRules";
    TRAFFIC_MIRRORINGS: TrafficMirroring, "v1.TrafficMirroring", response::DATA, "DescribeTrafficMirroringRules";
    FAULT_INJECTIONS: FaultInjection, "v1.FaultInjection", response::DATA, "DescribeFaultInjectionRules";
}

/// Query parameters that filter rules. The list is equal for all kinds, because consoles send
/// filters of other kinds with an empty value.
const KEYS: &[&str] = &[
    "id",
    "name",
    "namespace",
    "service",
    "serviceNamespace",
    "service_namespace",
    "srcService",
    "srcNamespace",
    "source_service",
    "source_namespace",
    "dstService",
    "dstNamespace",
    "destination_service",
    "destination_namespace",
    "dstMethod",
    "method",
    "labels",
    "level",
    "description",
    "enable",
    "disable",
    "brief",
    "order_field",
    "order_type",
];

/// Returns the kinds that the calls for `kind` handle: nearby routing is written and listed with
/// routing.
fn kinds_of(kind: RuleKind) -> &'static [RuleKind] {
    match kind {
        RuleKind::RoutingV1 => &[RuleKind::RoutingV1],
        RuleKind::Routing | RuleKind::NearbyRouting => {
            &[RuleKind::Routing, RuleKind::NearbyRouting]
        }
        RuleKind::RateLimit => &[RuleKind::RateLimit],
        RuleKind::CircuitBreaker => &[RuleKind::CircuitBreaker],
        RuleKind::FaultDetector => &[RuleKind::FaultDetector],
        RuleKind::Lane => &[RuleKind::Lane],
        RuleKind::Lossless => &[RuleKind::Lossless],
        RuleKind::BlockAllow => &[RuleKind::BlockAllow],
        RuleKind::TrafficMirroring => &[RuleKind::TrafficMirroring],
        RuleKind::FaultInjection => &[RuleKind::FaultInjection],
    }
}

fn known<'a>(kind: RuleKind, state: &'a State, id: &str) -> Result<&'a Arc<Rule>, Failure> {
    let layout = layout_of(kind);
    if id.is_empty() {
        return Err(layout.bad_id.into());
    }
    let found = kinds_of(kind).iter().find_map(|kind| state.rule(*kind, id));
    found.ok_or_else(|| layout.not_found.into())
}

fn plan_create(kind: RuleKind, state: &State, item: &[u8]) -> Result<Plan, Failure> {
    let rule = read_rule(kind, item)?;
    if !rule.id.is_empty() && known(kind, state, &rule.id).is_ok() {
        return Err(Code::ExistedResource.into());
    }
    Ok(Plan::command(Command::CreateRule(Box::new(rule))).answering(echo_of))
}

fn plan_update(kind: RuleKind, state: &State, item: &[u8]) -> Result<Plan, Failure> {
    let mut rule = read_rule(kind, item)?;
    if kind == RuleKind::BlockAllow && rule.id.is_empty() {
        rule.id = named(state, &rule)?;
    }
    let before = known(kind, state, &rule.id)?;
    if before.kind == rule.kind {
        return Ok(Plan::command(Command::UpdateRule(Box::new(rule))).answering(echo_of));
    }
    // The rule changes between routing and nearby routing, which are different kinds here.
    let delete = Command::DeleteRule(before.kind, Arc::clone(&before.id));
    Ok(Plan::commands(vec![delete, Command::CreateRule(Box::new(rule))]).answering(echo_of))
}

/// Returns the id of the stored rule that a rule without id means: the only one of its name for the
/// same service.
fn named(state: &State, rule: &NewRule) -> Result<Arc<str>, Failure> {
    let mut found = state
        .rules(rule.kind)
        .filter(|stored| stored.name == rule.name && stored.targets == rule.targets);
    match (found.next(), found.next()) {
        (Some(stored), None) if !rule.name.is_empty() => Ok(Arc::clone(&stored.id)),
        (None, _) if !rule.name.is_empty() => Err(layout_of(rule.kind).not_found.into()),
        _ => Err(Failure::with(layout_of(rule.kind).bad_id, "the rule has no id")),
    }
}

fn plan_delete(kind: RuleKind, state: &State, item: &[u8]) -> Result<Plan, Failure> {
    let id = id_in(kind, item)?;
    match known(kind, state, &id) {
        Ok(rule) => Ok(Plan::command(Command::DeleteRule(rule.kind, Arc::clone(&rule.id)))),
        Err(failure) if failure.code == layout_of(kind).bad_id => Err(failure),
        // Deleting a missing object succeeds.
        Err(_) => Ok(Plan::commands(Vec::new())),
    }
}

fn plan_enable(kind: RuleKind, state: &State, item: &[u8]) -> Result<Plan, Failure> {
    let enabled = rule_is_enabled(kind, item)?;
    let before = known(kind, state, &id_in(kind, item)?)?;
    let enable = Command::EnableRule(before.kind, Arc::clone(&before.id), enabled);
    Ok(Plan::command(enable).answering(echo_of))
}

/// Returns the id of an item; for kinds without explicit ids it is derived from the service.
fn id_in(kind: RuleKind, item: &[u8]) -> Result<String, Failure> {
    match kind {
        RuleKind::RoutingV1 | RuleKind::TrafficMirroring | RuleKind::FaultInjection => {
            Ok(String::from(&*read_rule(kind, item)?.id))
        }
        _ => Ok(rule_id(kind, item)?),
    }
}

/// Returns the rule after the command. Kinds without their own field are wrapped in an `Any`.
fn echo_of(outcome: &Outcome) -> Option<Vec<u8>> {
    let Outcome::Rule(rule) = outcome else {
        return None;
    };
    let mut out = Vec::new();
    put_rule(&mut out, rule.kind, rule_message(rule));
    Some(out)
}

fn put_rule(out: &mut Vec<u8>, kind: RuleKind, message: &[u8]) {
    match kind {
        RuleKind::RateLimit | RuleKind::RoutingV1 => out.extend_from_slice(message),
        _ => out.extend_from_slice(&any_of(layout_of(kind).message, message)),
    }
}

fn find(kind: RuleKind, state: &State, query: &Query) -> Result<ObjectPage, Failure> {
    let enabled = match (query.flag("enable")?, query.flag("disable")?) {
        (Some(enabled), _) => Some(enabled),
        (None, disabled) => disabled.map(|disabled| !disabled),
    };
    let found: Vec<&Arc<Rule>> = kinds_of(kind)
        .iter()
        .flat_map(|kind| state.rules(*kind))
        .filter(|rule| enabled.is_none_or(|enabled| enabled == rule.enabled))
        .filter(|rule| fits(rule, query) && query.viewer.sees_rule(state, rule))
        .collect();
    let number = match kind {
        RuleKind::RateLimit => RATE_LIMITS,
        RuleKind::RoutingV1 => ROUTINGS,
        _ => DATA,
    };
    page_of(
        query,
        found,
        number,
        |rule| (rule.priority, Arc::clone(&rule.id)),
        |out, rule| {
            let mut message = rule_message(rule).to_vec();
            put_permits(&mut message, rule.kind, query.viewer.rule_permits(state, rule));
            put_rule(out, rule.kind, &message);
        },
    )
}

fn fits(rule: &Rule, query: &Query) -> bool {
    // For routing rules `namespace` is that of `service`, and means nothing without it.
    let is_routing = matches!(rule.kind, RuleKind::Routing | RuleKind::NearbyRouting);
    let own_namespace = query.get("namespace").filter(|_| !is_routing);
    let target_namespace =
        query.get("namespace").filter(|_| is_routing && query.get("service").is_some());
    let fits_name = if rule_filters::finds_parts(rule.kind) { finds } else { allows };
    // Kinds with two services compare each of them with its own filters.
    let has_both = rule_filters::names_both_services(rule.kind);
    let is_compared = |key: &&&str| !has_both || !key.starts_with("src") && !key.starts_with("dst");
    let any_of = |keys: &[&str]| keys.iter().filter(is_compared).find_map(|key| query.get(key));
    let service =
        any_of(&["service", "srcService", "source_service", "dstService", "destination_service"]);
    let namespace = target_namespace.or_else(|| {
        any_of(&[
            "serviceNamespace",
            "service_namespace",
            "srcNamespace",
            "source_namespace",
            "dstNamespace",
            "destination_namespace",
        ])
    });
    let fits_target = (service.is_none() && namespace.is_none())
        || rule
            .targets
            .iter()
            .any(|target| allows(service, &target.name) && allows(namespace, &target.namespace));
    allows(query.get("id"), &rule.id)
        && allows(own_namespace, &rule.namespace)
        && fits_name(query.get("name"), &rule.name)
        && fits_target
        && rule_filters::fit(rule, query)
}
