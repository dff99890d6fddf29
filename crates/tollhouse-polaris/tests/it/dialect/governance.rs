//! Rules that clients fetch.

use prost::Message;
use tollhouse_polaris::rules::read_rule;
use tollhouse_polaris::v1;
use tollhouse_registry::{Command, RuleKind};

use super::{Polaris, about, about_since, revision, some};
use crate::client::run;

async fn create(polaris: &Polaris, kind: RuleKind, rule: &impl Message) {
    let rule = read_rule(kind, &rule.encode_to_vec()).expect("a good rule");
    polaris.registry.submit(Command::CreateRule(Box::new(rule))).await.expect("created");
}

fn limit(name: &str, disable: bool) -> v1::Rule {
    v1::Rule {
        name: some(name),
        service: some("svc"),
        namespace: some("ns"),
        disable: Some(disable),
        amounts: vec![v1::Amount { max_amount: Some(10), ..Default::default() }],
        ..Default::default()
    }
}

fn nearby() -> v1::RouteRule {
    let config = v1::NearbyRoutingConfig {
        service: "*".to_owned(),
        namespace: "*".to_owned(),
        ..Default::default()
    };
    let type_url = "type.googleapis.com/v1.NearbyRoutingConfig".to_owned();
    let config = prost_types::Any { type_url, value: config.encode_to_vec() };
    v1::RouteRule {
        name: "near".to_owned(),
        routing_policy: 2,
        routing_config: Some(config),
        enable: true,
        ..Default::default()
    }
}

#[test]
fn rules_are_handed_out_with_a_revision_and_only_when_they_changed() {
    let polaris = Polaris::start();
    run(async {
        let client = polaris.connect().await;
        create(&polaris, RuleKind::RateLimit, &limit("on", false)).await;
        let first = client.discover(&about(4, "ns", "svc")).await;
        let rules = first.rate_limit.clone().expect("rules").rules;
        assert_eq!(rules.iter().map(|rule| rule.name.clone()).collect::<Vec<_>>(), [some("on")]);
        assert!(rules[0].id.is_some() && rules[0].revision.is_some());
        let known = about_since(4, &revision(&first));
        assert_eq!(client.discover(&known).await.code, Some(200_001));
        create(&polaris, RuleKind::RateLimit, &limit("off", true)).await;
        let second = client.discover(&known).await;
        assert_eq!(second.code, Some(200_000));
        assert_ne!(revision(&second), revision(&first));
        assert_eq!(second.rate_limit.expect("rules").rules.len(), 1, "what is off stays here");
        let other = client.discover(&about(4, "ns", "other")).await;
        assert_eq!((other.code, other.rate_limit), (Some(200_000), None));
    });
}

#[test]
fn every_kind_of_rule_is_found_where_clients_look_for_it() {
    let polaris = Polaris::start();
    let text = |text: &str| text.to_owned();
    run(async {
        let client = polaris.connect().await;
        create(&polaris, RuleKind::Routing, &nearby()).await;
        let lossless =
            v1::LosslessRule { service: text("svc"), namespace: text("ns"), ..Default::default() };
        create(&polaris, RuleKind::Lossless, &lossless).await;
        let destination = v1::rule_matcher::DestinationService {
            service: text("svc"),
            namespace: text("ns"),
            ..Default::default()
        };
        let matcher = v1::RuleMatcher { destination: Some(destination), ..Default::default() };
        let breaker = v1::CircuitBreakerRule {
            name: text("b"),
            enable: true,
            rule_matcher: Some(matcher),
            ..Default::default()
        };
        create(&polaris, RuleKind::CircuitBreaker, &breaker).await;
        let target = v1::fault_detect_rule::DestinationService {
            service: text("svc"),
            namespace: text("ns"),
            ..Default::default()
        };
        let detector = v1::FaultDetectRule {
            name: text("d"),
            target_service: Some(target),
            ..Default::default()
        };
        create(&polaris, RuleKind::FaultDetector, &detector).await;

        let near = client.discover(&about(102, "ns", "svc")).await;
        assert_eq!(near.nearby_route_rules[0].name, "near");
        let custom = client.discover(&about(101, "ns", "svc")).await;
        assert_eq!(custom.custom_route_rules.len(), 0);
        let lossless = client.discover(&about(103, "ns", "svc")).await;
        assert_eq!((lossless.lossless.is_some(), lossless.lossless_rule_list.len()), (true, 1));
        let breaker = client.discover(&about(5, "ns", "svc")).await.circuit_breaker;
        let breaker = breaker.expect("a breaker");
        assert_eq!((&*breaker.rules[0].name, breaker.service), ("b", some("svc")));
        let detector = client.discover(&about(13, "ns", "svc")).await.fault_detector;
        let detector = detector.expect("a detector");
        assert_eq!((&*detector.rules[0].name, detector.revision.len()), ("d", 32));
    });
}

/// A rule by which calls of `ns/svc` go where a label says that an argument of the call does.
fn by_query(name: &str, enable: bool) -> v1::RouteRule {
    let text = |text: &str| v1::MatchString { value: some(text), ..Default::default() };
    let argument = v1::SourceMatch {
        r#type: v1::source_match::Type::Query as i32,
        key: "env".to_owned(),
        value: Some(text("dev")),
    };
    let source = v1::SourceService {
        service: "caller".to_owned(),
        namespace: "ns".to_owned(),
        arguments: vec![argument],
    };
    let destination = v1::DestinationGroup {
        service: "svc".to_owned(),
        namespace: "ns".to_owned(),
        labels: [("env".to_owned(), text("dev"))].into(),
        name: "dev".to_owned(),
        ..Default::default()
    };
    let link = v1::SubRuleRouting {
        name: "link".to_owned(),
        sources: vec![source],
        destinations: vec![destination],
    };
    let config = v1::RuleRoutingConfig { rules: vec![link], ..Default::default() };
    let type_url = "type.googleapis.com/v1.RuleRoutingConfig".to_owned();
    let config = prost_types::Any { type_url, value: config.encode_to_vec() };
    v1::RouteRule {
        name: name.to_owned(),
        routing_config: Some(config),
        enable,
        ..Default::default()
    }
}

#[test]
fn routing_is_answered_with_routes_of_the_first_generation() {
    let polaris = Polaris::start();
    run(async {
        let client = polaris.connect().await;
        create(&polaris, RuleKind::Routing, &by_query("on", true)).await;
        create(&polaris, RuleKind::Routing, &by_query("off", false)).await;
        let old_route = v1::Route {
            sources: vec![v1::Source { service: some("old"), ..Default::default() }],
            ..Default::default()
        };
        let old = v1::Routing {
            service: some("svc"),
            namespace: some("ns"),
            inbounds: vec![old_route],
            ..Default::default()
        };
        create(&polaris, RuleKind::RoutingV1, &old).await;

        let answer = client.discover(&about(3, "ns", "svc")).await;
        let routing = answer.routing.clone().expect("always there");
        assert_eq!(routing.rules, [], "these have a type of their own");
        assert_eq!((routing.service, routing.namespace), (some("svc"), some("ns")));
        let sources: Vec<_> =
            routing.inbounds.iter().map(|route| route.sources[0].service.clone()).collect();
        assert_eq!(sources, [some("caller"), some("old")]);
        let labels = &routing.inbounds[0].sources[0].metadata;
        assert_eq!(labels["$query.env"].value, some("dev"));
        assert_eq!(routing.inbounds[0].destinations[0].name, some("on.link.dev"));
        assert_eq!(routing.outbounds, []);
        assert_eq!(routing.revision, some(&revision(&answer)));

        let caller = client.discover(&about(3, "ns", "caller")).await.routing.expect("there");
        assert_eq!((caller.inbounds.len(), caller.outbounds.len()), (0, 1));
        let custom = client.discover(&about(101, "ns", "svc")).await.custom_route_rules;
        assert_eq!(custom.iter().map(|rule| &*rule.name).collect::<Vec<_>>(), ["on"]);
    });
}
