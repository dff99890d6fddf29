//! Rules there and back, and what is refused.

use super::*;
use crate::v1;
use prost::Message;
use std::sync::Arc;
use tollhouse_registry::{Encoded, Revision};

fn stored(new: NewRule) -> Rule {
    Rule {
        kind: new.kind,
        id: if new.id.is_empty() { Arc::from("made") } else { new.id },
        name: new.name,
        namespace: new.namespace,
        targets: new.targets,
        priority: new.priority,
        enabled: new.enabled,
        created_at: 0,
        modified_at: 60,
        enabled_at: 120,
        revision: Revision(0xab),
        body: new.body,
        encoded: Encoded::default(),
    }
}

fn any(name: &str, message: &impl Message) -> Option<prost_types::Any> {
    let type_url = format!("type.googleapis.com/{name}");
    Some(prost_types::Any { type_url, value: message.encode_to_vec() })
}

fn amount(seconds: i64) -> v1::Amount {
    let valid_duration = Some(prost_types::Duration { seconds, nanos: 0 });
    v1::Amount { max_amount: Some(10), valid_duration, ..Default::default() }
}

fn limit() -> v1::Rule {
    v1::Rule {
        id: Some("l".to_owned()),
        service: Some("s".to_owned()),
        namespace: Some("n".to_owned()),
        priority: Some(3),
        disable: Some(true),
        name: Some("name".to_owned()),
        ctime: Some("theirs".to_owned()),
        amounts: vec![amount(1)],
        ..Default::default()
    }
}

fn route(config: Option<prost_types::Any>, routing_policy: i32) -> v1::RouteRule {
    v1::RouteRule { routing_config: config, routing_policy, enable: true, ..Default::default() }
}

#[test]
fn a_rate_limit_is_kept_with_the_servers_fields() {
    let new = read_rule(RuleKind::RateLimit, &limit().encode_to_vec()).expect("good");
    assert_eq!((&*new.id, &*new.name, &*new.namespace), ("l", "name", "n"));
    assert_eq!((new.priority, new.enabled), (3, false));
    assert_eq!(new.targets, [ServiceKey::new("n", "s")]);
    let message = rule_message(&stored(new)).clone();
    let back = v1::Rule::decode(message).expect("a message");
    let expected = v1::Rule {
        ctime: Some("1970-01-01 00:00:00".to_owned()),
        mtime: Some("1970-01-01 00:01:00".to_owned()),
        revision: Some("000000000000000000000000000000ab".to_owned()),
        ..limit()
    };
    assert_eq!(back, expected);
}

#[test]
fn a_circuit_breaker_without_a_namespace_is_in_the_default_one() {
    for (given, expected) in [("", "default"), ("n", "n")] {
        let rule = v1::CircuitBreakerRule {
            name: "name".to_owned(),
            namespace: given.to_owned(),
            ..Default::default()
        };
        let new = read_rule(RuleKind::CircuitBreaker, &rule.encode_to_vec()).expect("good");
        assert_eq!(&*new.namespace, expected);
        let message = rule_message(&stored(new)).clone();
        let back = v1::CircuitBreakerRule::decode(message).expect("a message");
        assert_eq!(back.namespace, expected);
    }
}

#[test]
fn a_routing_rule_is_for_both_ends_of_a_call() {
    let config = v1::RuleRoutingConfig {
        rules: vec![v1::SubRuleRouting {
            sources: vec![v1::SourceService {
                service: "caller".to_owned(),
                namespace: "n".to_owned(),
                ..Default::default()
            }],
            destinations: vec![v1::DestinationGroup {
                service: "called".to_owned(),
                namespace: "n".to_owned(),
                ..Default::default()
            }],
            ..Default::default()
        }],
        ..Default::default()
    };
    let rule = route(any("v1.RuleRoutingConfig", &config), 0);
    let new = read_rule(RuleKind::Routing, &rule.encode_to_vec()).expect("good");
    assert_eq!(new.targets, [ServiceKey::new("n", "called"), ServiceKey::new("n", "caller")]);
    assert!(new.enabled);
    let back = v1::RouteRule::decode(rule_message(&stored(new)).clone()).expect("a message");
    assert_eq!((back.routing_config, back.enable), (rule.routing_config, true));
    assert_eq!(back.id, "made");
}

#[test]
fn a_rule_of_routing_nearby_is_of_its_own_kind() {
    let config = v1::NearbyRoutingConfig { service: "*".to_owned(), ..Default::default() };
    let rule = route(any("v1.NearbyRoutingConfig", &config), 2);
    let new = read_rule(RuleKind::Routing, &rule.encode_to_vec()).expect("good");
    assert_eq!((new.kind, &*new.targets[0].name), (RuleKind::NearbyRouting, "*"));
}

#[test]
fn what_this_edition_does_not_know_of_a_rule_survives() {
    let mut message = limit().encode_to_vec();
    crate::wire::write::put_text(&mut message, 900, "new");
    let new = read_rule(RuleKind::RateLimit, &message).expect("good");
    let back = rule_message(&stored(new)).clone();
    let kept = Fields::new(&back)
        .filter_map(Result::ok)
        .any(|field| (field.number, field.value) == (900, Value::Bytes(b"new")));
    assert!(kept);
}

#[test]
fn rules_of_one_service_are_known_by_it() {
    let fault = v1::FaultInjection {
        service: Some("s".to_owned()),
        namespace: Some("n".to_owned()),
        enabled: Some(true),
        ..Default::default()
    };
    let new = read_rule(RuleKind::FaultInjection, &fault.encode_to_vec()).expect("good");
    assert_eq!((&*new.id, new.enabled), ("n##s", true));
}

#[test]
fn what_is_wrong_with_a_rule_has_its_code() {
    let long_name = Some("é".repeat(NAME_CHARS_MAX + 1));
    let cases: Vec<(RuleKind, Vec<u8>, Code)> = vec![
        (RuleKind::RateLimit, vec![0x0a], Code::ParseException),
        (
            RuleKind::RateLimit,
            v1::Rule { amounts: vec![], ..limit() }.encode_to_vec(),
            Code::InvalidRateLimitAmounts,
        ),
        (
            RuleKind::RateLimit,
            v1::Rule { amounts: vec![amount(1), amount(2), amount(1)], ..limit() }.encode_to_vec(),
            Code::InvalidRateLimitAmounts,
        ),
        (RuleKind::RateLimit, vec![], Code::InvalidServiceName),
        (
            RuleKind::RateLimit,
            v1::Rule { service: None, ..limit() }.encode_to_vec(),
            Code::InvalidServiceName,
        ),
        (
            RuleKind::RateLimit,
            v1::Rule { namespace: Some(String::new()), ..limit() }.encode_to_vec(),
            Code::InvalidNamespaceName,
        ),
        (
            RuleKind::RateLimit,
            v1::Rule { name: long_name, ..limit() }.encode_to_vec(),
            Code::InvalidRateLimitName,
        ),
        (RuleKind::CircuitBreaker, vec![], Code::InvalidCircuitBreakerName),
        (RuleKind::FaultDetector, vec![], Code::InvalidFaultDetectName),
        (RuleKind::Routing, route(None, 0).encode_to_vec(), Code::InvalidRoutingPolicy),
        (
            RuleKind::Routing,
            route(any("v1.Service", &v1::Service::default()), 0).encode_to_vec(),
            Code::InvalidRoutingPolicy,
        ),
        (RuleKind::Routing, route(None, 9).encode_to_vec(), Code::InvalidRoutingPolicy),
        (
            RuleKind::Routing,
            v1::RouteRule { priority: 11, ..route(None, 0) }.encode_to_vec(),
            Code::InvalidRoutingPriority,
        ),
    ];
    for (kind, message, expected) in cases {
        let found = read_rule(kind, &message).err();
        assert_eq!(found, Some(expected), "{kind:?} {message:x?}");
    }
}

#[test]
fn every_kind_has_a_message_of_the_schema() {
    for kind in RuleKind::ALL {
        let name = layout_of(kind).message;
        assert!(crate::descriptors().get_message_by_name(name).is_some(), "{name}");
    }
}
