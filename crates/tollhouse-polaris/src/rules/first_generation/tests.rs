//! Rules in, routes out, for each side of a call.

use tollhouse_registry::{Revision, RuleKind};

use super::*;

const SVC: ServiceRef<'static> = ServiceRef { namespace: "ns", name: "svc" };

fn from(service: &str, arguments: &[(Type, &str, &str)]) -> v1::SourceService {
    let (namespace, service) = service.split_once('/').expect("a namespace and a name");
    let arguments = arguments.iter().map(|(kind, key, value)| v1::SourceMatch {
        r#type: *kind as i32,
        key: (*key).to_owned(),
        value: Some(text(value)),
    });
    v1::SourceService {
        service: service.to_owned(),
        namespace: namespace.to_owned(),
        arguments: arguments.collect(),
    }
}

fn text(value: &str) -> v1::MatchString {
    v1::MatchString { value: Some(value.to_owned()), ..Default::default() }
}

fn to(service: &str, name: &str) -> v1::DestinationGroup {
    let (namespace, service) = service.split_once('/').expect("a namespace and a name");
    v1::DestinationGroup {
        service: service.to_owned(),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        labels: [("env".to_owned(), text(name))].into(),
        weight: 100,
        ..Default::default()
    }
}

fn link(name: &str, from: v1::SourceService, to: v1::DestinationGroup) -> v1::SubRuleRouting {
    v1::SubRuleRouting { name: name.to_owned(), sources: vec![from], destinations: vec![to] }
}

fn rule(name: &str, rules: Vec<v1::SubRuleRouting>) -> Rule {
    rule_of(name, v1::RuleRoutingConfig { rules, ..Default::default() })
}

fn rule_of(name: &str, config: v1::RuleRoutingConfig) -> Rule {
    let type_url = "type.googleapis.com/v1.RuleRoutingConfig".to_owned();
    let config = prost_types::Any { type_url, value: config.encode_to_vec() };
    let message = v1::RouteRule { routing_config: Some(config), ..Default::default() };
    Rule {
        kind: RuleKind::Routing,
        id: format!("id-{name}").into(),
        name: name.into(),
        namespace: "ns".into(),
        targets: Vec::new(),
        priority: 0,
        enabled: true,
        created_at: 0,
        modified_at: 0,
        enabled_at: 0,
        revision: Revision::default(),
        body: message.encode_to_vec().into(),
        encoded: Default::default(),
    }
}

/// The names of the destinations, route by route.
fn names(routes: &[(Nearness, v1::Route)]) -> Vec<Vec<&str>> {
    routes.iter().map(|(_, route)| destination_names(route)).collect()
}

fn destination_names(route: &v1::Route) -> Vec<&str> {
    route.destinations.iter().map(|it| it.name.as_deref().unwrap_or_default()).collect()
}

#[test]
fn what_a_rule_demands_of_a_call_becomes_labels_of_its_source() {
    let demands = [
        (Type::Custom, "k", "custom"),
        (Type::Method, "", "GET"),
        (Type::Header, "user", "a"),
        (Type::Query, "env", "dev"),
        (Type::CallerIp, "", "10.0.0.1"),
        (Type::Path, "", "/echo"),
        (Type::Cookie, "session", "s"),
        (Type::CallerMetadata, "zone", "unknown to the first generation"),
    ];
    let rule = rule("r", vec![link("l", from("*/*", &demands), to("ns/svc", "dev"))]);
    let routes = Routes::for_service([&rule].into_iter(), SVC);
    let (_, route) = &routes.inbounds[0];
    let labels = &route.sources[0].metadata;
    let expected = [
        ("k", "custom"),
        ("$method", "GET"),
        ("$header.user", "a"),
        ("$query.env", "dev"),
        ("$caller_ip", "10.0.0.1"),
        ("$path", "/echo"),
        ("$cookie.session", "s"),
    ];
    assert_eq!(labels.len(), expected.len(), "{labels:?}");
    for (key, value) in expected {
        assert_eq!(labels.get(key), Some(&text(value)), "{key}");
    }
    let target = &route.destinations[0];
    assert_eq!(target.name.as_deref(), Some("r.l.dev"));
    assert_eq!((target.weight, target.priority, target.isolate), (Some(100), Some(0), Some(false)));
    assert_eq!(target.metadata.get("env"), Some(&text("dev")));
    assert_eq!(route.extend_info.get("__routing_v2_id__").map(String::as_str), Some("id-r"));
}

#[test]
fn the_called_has_routes_in_and_the_caller_routes_out() {
    let rule = rule("r", vec![link("l", from("ns/caller", &[]), to("ns/svc", "a"))]);
    let caller = ServiceRef { namespace: "ns", name: "caller" };
    let other = ServiceRef { namespace: "other", name: "svc" };
    for (service, inbounds, outbounds) in [(SVC, 1, 0), (caller, 0, 1), (other, 0, 0)] {
        let routes = Routes::for_service([&rule].into_iter(), service);
        let counts = (routes.inbounds.len(), routes.outbounds.len());
        assert_eq!(counts, (inbounds, outbounds), "{service:?}");
    }
    let routes = Routes::for_service([&rule].into_iter(), SVC);
    assert_eq!(routes.inbounds[0].1.sources[0].service.as_deref(), Some("caller"));
}

#[test]
fn each_end_is_told_of_itself_alone() {
    let both = v1::SubRuleRouting {
        name: "l".to_owned(),
        sources: vec![from("ns/caller", &[]), from("ns/third", &[])],
        destinations: vec![to("ns/svc", "mine"), to("ns/other", "theirs")],
    };
    let rule = rule("r", vec![both]);
    let routes = Routes::for_service([&rule].into_iter(), SVC);
    assert_eq!(names(&routes.inbounds), [["r.l.mine"]]);
    assert_eq!(routes.inbounds[0].1.sources.len(), 2);
    let caller = ServiceRef { namespace: "ns", name: "caller" };
    let routes = Routes::for_service([&rule].into_iter(), caller);
    assert_eq!(names(&routes.outbounds), [["r.l.mine", "r.l.theirs"]]);
    assert_eq!(routes.outbounds[0].1.sources.len(), 1);
}

#[test]
fn nearer_rules_go_first_and_among_them_those_that_came_first() {
    let rules = [
        rule("everybody", vec![link("l", from("*/*", &[]), to("*/*", "a"))]),
        rule("first", vec![link("l", from("*/*", &[]), to("ns/svc", "a"))]),
        rule("namespace", vec![link("l", from("*/*", &[]), to("ns/*", "a"))]),
        rule("second", vec![link("l", from("*/*", &[]), to("ns/svc", "a"))]),
    ];
    let routes = Routes::for_service(rules.iter(), SVC);
    let order: Vec<_> = names(&routes.inbounds).concat();
    assert_eq!(order, ["first.l.a", "second.l.a", "namespace.l.a", "everybody.l.a"]);
    assert_eq!(routes.outbounds.len(), 4, "everybody calls, this service too");
}

#[test]
fn what_is_off_or_of_another_policy_makes_no_routes() {
    let links = || vec![link("l", from("*/*", &[]), to("ns/svc", "a"))];
    let off = Rule { enabled: false, ..rule("off", links()) };
    let metadata = v1::RouteRule {
        routing_policy: v1::RoutingPolicy::MetadataPolicy as i32,
        ..v1::RouteRule::decode(&rule("m", links()).body[..]).expect("a rule")
    };
    let metadata = Rule { body: metadata.encode_to_vec().into(), ..rule("metadata", Vec::new()) };
    let damaged = Rule { body: b"\xff".as_slice().into(), ..rule("damaged", Vec::new()) };
    let routes = Routes::for_service([&off, &metadata, &damaged].into_iter(), SVC);
    assert_eq!(routes, Routes::default());
}

#[test]
fn links_take_the_ends_that_they_leave_out_from_the_rule() {
    let open = v1::SubRuleRouting { name: "l".to_owned(), ..Default::default() };
    let ends = v1::RuleRoutingConfig {
        sources: vec![from("*/*", &[])],
        destinations: vec![to("ns/svc", "a")],
        rules: vec![open],
    };
    let flat = v1::RuleRoutingConfig { rules: Vec::new(), ..ends.clone() };
    for (config, name) in [(ends, "r.l.a"), (flat, "r..a")] {
        let rule = rule_of("r", config);
        let routes = Routes::for_service([&rule].into_iter(), SVC);
        assert_eq!(names(&routes.inbounds), [[name]]);
    }
}
