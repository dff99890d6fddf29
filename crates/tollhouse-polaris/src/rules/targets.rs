//! Services that a rule is for; their clients fetch it. The whole message is decoded with the
//! generated types, which also validates it.

use super::RuleTargets;
use crate::code::Code;
use crate::v1;
use prost::Message;
use std::collections::HashSet;
use tollhouse_registry::{RuleKind, ServiceKey};

/// Lowest priority of a routing rule, as in Polaris' server and console.
const ROUTING_PRIORITY_MAX: u32 = 10;

/// Decodes a rule, and returns its services and final kind.
pub(super) fn read(kind: RuleKind, message: &[u8]) -> Result<RuleTargets, Code> {
    let mut kind = kind;
    let targets = match kind {
        RuleKind::RoutingV1 => {
            let routing: v1::Routing = decode(message)?;
            vec![one_service(routing.service, routing.namespace)?]
        }
        RuleKind::Routing | RuleKind::NearbyRouting => {
            let rule: v1::RouteRule = decode(message)?;
            // The message's policy decides between the two kinds, not the call that it came by.
            kind = kind_of_policy(&rule)?;
            route_targets(rule)?
        }
        RuleKind::RateLimit => {
            let rule: v1::Rule = decode(message)?;
            let target = one_service(rule.service, rule.namespace)?;
            let has_amount = !rule.amounts.is_empty() || rule.concurrency_amount.is_some();
            if !has_amount || !has_one_amount_for_each_duration(&rule.amounts) {
                return Err(Code::InvalidRateLimitAmounts);
            }
            vec![target]
        }
        RuleKind::CircuitBreaker => {
            let rule: v1::CircuitBreakerRule = decode(message)?;
            let destination = rule.rule_matcher.and_then(|matcher| matcher.destination);
            destination.map(|d| key(&d.namespace, &d.service)).into_iter().collect()
        }
        RuleKind::FaultDetector => {
            let rule: v1::FaultDetectRule = decode(message)?;
            rule.target_service.map(|t| key(&t.namespace, &t.service)).into_iter().collect()
        }
        RuleKind::Lane => lane_targets(decode(message)?)?,
        RuleKind::Lossless => {
            let rule: v1::LosslessRule = decode(message)?;
            vec![one_service(Some(rule.service), Some(rule.namespace))?]
        }
        RuleKind::BlockAllow => {
            let rule: v1::BlockAllowListRule = decode(message)?;
            vec![one_service(Some(rule.service), Some(rule.namespace))?]
        }
        RuleKind::TrafficMirroring => {
            let rule: v1::TrafficMirroring = decode(message)?;
            vec![one_service(rule.service, rule.namespace)?]
        }
        RuleKind::FaultInjection => {
            let rule: v1::FaultInjection = decode(message)?;
            vec![one_service(rule.service, rule.namespace)?]
        }
    };
    Ok(RuleTargets { kind, targets })
}

fn decode<M: Message + Default>(message: &[u8]) -> Result<M, Code> {
    M::decode(message).map_err(|_| Code::ParseException)
}

/// Decodes the message in an `Any` if it has the expected type.
fn unpack<M: Message + Default>(any: &prost_types::Any, name: &str) -> Option<Result<M, Code>> {
    let found = any.type_url.rsplit('/').next().unwrap_or_default();
    (found == name).then(|| decode(&any.value))
}

/// Whether all amounts have different durations; amounts with equal durations would contradict each
/// other.
fn has_one_amount_for_each_duration(amounts: &[v1::Amount]) -> bool {
    let durations = amounts.iter().map(|amount| amount.valid_duration.as_ref());
    let durations: HashSet<_> = durations.map(|d| d.map(|it| (it.seconds, it.nanos))).collect();
    durations.len() == amounts.len()
}

fn kind_of_policy(rule: &v1::RouteRule) -> Result<RuleKind, Code> {
    match v1::RoutingPolicy::try_from(rule.routing_policy) {
        Ok(v1::RoutingPolicy::NearbyPolicy) => Ok(RuleKind::NearbyRouting),
        Ok(v1::RoutingPolicy::RulePolicy | v1::RoutingPolicy::MetadataPolicy) => {
            Ok(RuleKind::Routing)
        }
        Err(_) => Err(Code::InvalidRoutingPolicy),
    }
}

/// Returns the sources and destinations of a routing rule: callers apply it, and called services
/// show it.
fn route_targets(rule: v1::RouteRule) -> Result<Vec<ServiceKey>, Code> {
    if rule.priority > ROUTING_PRIORITY_MAX {
        return Err(Code::InvalidRoutingPriority);
    }
    let Some(any) = rule.routing_config else {
        return Err(Code::InvalidRoutingPolicy);
    };
    let mut targets = Vec::new();
    if let Some(config) = unpack::<v1::RuleRoutingConfig>(&any, "v1.RuleRoutingConfig") {
        let config = config?;
        let inner = config.rules.into_iter().map(|rule| (rule.sources, rule.destinations));
        for (sources, destinations) in inner.chain([(config.sources, config.destinations)]) {
            targets.extend(sources.iter().map(|s| key(&s.namespace, &s.service)));
            targets.extend(destinations.iter().map(|d| key(&d.namespace, &d.service)));
        }
    } else if let Some(config) =
        unpack::<v1::MetadataRoutingConfig>(&any, "v1.MetadataRoutingConfig")
    {
        let config = config?;
        targets.push(key(&config.namespace, &config.service));
    } else if let Some(config) = unpack::<v1::NearbyRoutingConfig>(&any, "v1.NearbyRoutingConfig") {
        let config = config?;
        targets.push(key(&config.namespace, &config.service));
    } else {
        return Err(Code::InvalidRoutingPolicy);
    }
    Ok(each_once(targets))
}

/// Returns all services of a lane group, including the entry points.
fn lane_targets(group: v1::LaneGroup) -> Result<Vec<ServiceKey>, Code> {
    let mut targets: Vec<ServiceKey> =
        group.destinations.iter().map(|d| key(&d.namespace, &d.service)).collect();
    for selector in group.entries.iter().filter_map(|entry| entry.selector.as_ref()) {
        if let Some(gateway) =
            unpack::<v1::ServiceGatewaySelector>(selector, "v1.ServiceGatewaySelector")
        {
            let gateway = gateway?;
            targets.push(key(&gateway.namespace, &gateway.service));
        } else if let Some(service) = unpack::<v1::ServiceSelector>(selector, "v1.ServiceSelector")
        {
            let service = service?;
            targets.push(key(&service.namespace, &service.service));
        } else {
            return Err(Code::InvalidParameter);
        }
    }
    Ok(each_once(targets))
}

fn each_once(mut targets: Vec<ServiceKey>) -> Vec<ServiceKey> {
    targets.sort();
    targets.dedup();
    targets
}

/// Requires name and namespace of a service.
fn one_service(service: Option<String>, namespace: Option<String>) -> Result<ServiceKey, Code> {
    let service = service.filter(|name| !name.is_empty()).ok_or(Code::InvalidServiceName)?;
    let namespace = namespace.filter(|name| !name.is_empty()).ok_or(Code::InvalidNamespaceName)?;
    Ok(key(&namespace, &service))
}

fn key(namespace: &str, service: &str) -> ServiceKey {
    ServiceKey::new(namespace, service)
}
