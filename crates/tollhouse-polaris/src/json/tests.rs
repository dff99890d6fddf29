//! Both directions, and there and back.

use super::*;
use crate::schema::descriptors;
use crate::v1;
use prost::Message;
use prost_reflect::MessageDescriptor;
use serde_json::{Value, json};

fn descriptor(name: &str) -> MessageDescriptor {
    descriptors().get_message_by_name(name).expect("a message of the schema")
}

fn read_as<M: Message + Default>(name: &str, json: &Value) -> M {
    let bytes = read(&descriptor(name), json.to_string().as_bytes()).expect("a message");
    M::decode(&bytes[..]).expect("what was written can be read")
}

fn printed(name: &str, message: &impl Message) -> Value {
    let text = print(&descriptor(name), &message.encode_to_vec()).expect("a message");
    serde_json::from_str(&text).expect("valid JSON")
}

#[test]
fn a_registration_is_read_however_it_is_spelled() {
    let cases = [
        json!({"service": "s", "port": 80, "healthCheck": {"type": 1, "heartbeat": {"ttl": 3}},
               "enableHealthCheck": true, "logic_set": "l", "vpc_id": "v"}),
        json!({"service": "s", "port": "80", "health_check": {"type": "HEARTBEAT",
               "heartbeat": {"ttl": "3"}}, "enable_health_check": true, "logicSet": null,
               "logic_set": "l", "vpc_id": "v", "from_the_future": [1, {"a": 2}]}),
        json!({"service": "s", "port": 80.0, "healthCheck": {"type": 1, "heartbeat": {"ttl": 3}},
               "enableHealthCheck": true, "logicSet": "l", "vpcId": "v"}),
    ];
    for json in cases {
        let instance: v1::Instance = read_as("v1.Instance", &json);
        assert_eq!(instance.port, Some(80), "{json}");
        assert_eq!(instance.enable_health_check, Some(true), "{json}");
        assert_eq!(instance.vpc_id.as_deref(), Some("v"), "{json}");
        assert_eq!(instance.logic_set.as_deref(), Some("l"), "{json}");
        let check = instance.health_check.expect("given");
        assert_eq!((check.r#type, check.heartbeat.and_then(|h| h.ttl)), (1, Some(3)), "{json}");
    }
}

#[test]
fn absent_null_and_empty_are_told_apart() {
    let cases = [
        (json!({}), None),
        (json!({"id": null}), None),
        (json!({"id": ""}), Some("")),
        (json!({"id": "x"}), Some("x")),
    ];
    for (json, expected) in cases {
        let instance: v1::Instance = read_as("v1.Instance", &json);
        assert_eq!(instance.id.as_deref(), expected, "{json}");
    }
}

#[test]
fn texts_that_are_no_such_message_are_refused() {
    for text in ["", "{bad", "[]", "{} {}", r#"{"port":"x"}"#, r#"{"id":7}"#, r#"{"port":-1}"#] {
        assert!(read(&descriptor("v1.Instance"), text.as_bytes()).is_err(), "{text}");
    }
    let deep = "[".repeat(100_000);
    assert!(read(&descriptor("v1.Instance"), deep.as_bytes()).is_err());
}

#[test]
fn what_is_kept_has_no_names_that_nobody_knows() {
    for text in [
        r#"{"healthCheck":{"type":"NOPE"}}"#,
        r#"{"from_the_future":1,"healthCheck":{"type":"1"}}"#,
    ] {
        assert!(read_kept(&descriptor("v1.Instance"), text.as_bytes()).is_err(), "{text}");
        let list = format!("[{{}},{text}]");
        assert!(read_list(&descriptor("v1.Instance"), list.as_bytes(), 2).is_err(), "{text}");
    }
    let config = r#"{"@type":"type.googleapis.com/v1.NearbyRoutingConfig","match_level":"NOPE"}"#;
    let rule = format!(r#"{{"routing_config":{config}}}"#);
    assert!(read_kept(&descriptor("v1.RouteRule"), rule.as_bytes()).is_err());
    let good = r#"{"from_the_future":["NOPE"],"healthCheck":{"type":"HEARTBEAT"},"metadata":{"type":"NOPE"}}"#;
    assert!(read_kept(&descriptor("v1.Instance"), good.as_bytes()).is_ok());
}

#[test]
fn lists_are_read_up_to_their_bound() {
    let instance = descriptor("v1.Instance");
    let list = |text: &str| read_list(&instance, text.as_bytes(), 2).map(|l| l.map(|l| l.len()));
    assert_eq!(list("[]").ok(), Some(Some(0)));
    assert_eq!(list(r#"[{"id":"a"},{"id":"b"}]"#).ok(), Some(Some(2)));
    assert_eq!(list(r#"[{},{},{},{}]"#).ok(), Some(None));
    assert!(list("{}").is_err() && list("[{}").is_err() && list("[{}] x").is_err());
}

#[test]
fn every_field_is_printed() {
    let response = printed("v1.Response", &v1::Response::default());
    let expected = json!({
        "code": null, "info": null, "client": null, "namespace": null, "service": null,
        "instance": null, "routing": null, "alias": null, "rateLimit": null,
        "circuitBreaker": null, "user": null, "userGroup": null, "authStrategy": null,
        "relation": null, "loginResponse": null, "modifyAuthStrategy": null,
        "modifyUserGroup": null, "resources": null, "optionSwitch": null,
        "instanceLabels": null, "data": null, "serviceContract": null,
    });
    assert_eq!(response, expected);

    let record = v1::HeartbeatRecord { count: 1 << 40, exist: true, ..Default::default() };
    assert_eq!(
        printed("v1.HeartbeatRecord", &record),
        json!({"instance_id": "", "last_heartbeat_sec": "0", "exist": true, "count": "1099511627776"})
    );

    let check = v1::HealthCheck { r#type: 1, heartbeat: Some(v1::HeartbeatHealthCheck::default()) };
    assert_eq!(
        printed("v1.HealthCheck", &check),
        json!({"type": "HEARTBEAT", "heartbeat": {"ttl": null}})
    );
}

#[test]
fn fields_that_strict_clients_do_not_know_are_printed_only_when_they_are_set() {
    let unset = [
        ("v1.Service", printed("v1.Service", &v1::Service::default()), "isolate_instance_count"),
        (
            "v1.DiscoverResponse",
            printed("v1.DiscoverResponse", &v1::DiscoverResponse::default()),
            "Direction",
        ),
        (
            "v1.DiscoverResponse",
            printed("v1.DiscoverResponse", &v1::DiscoverResponse::default()),
            "losslessRuleList",
        ),
        (
            "v1.CircuitBreakerRule",
            printed("v1.CircuitBreakerRule", &v1::CircuitBreakerRule::default()),
            "regex_separate",
        ),
    ];
    for (name, message, field) in unset {
        assert!(message.get(field).is_none(), "{name}: {message}");
    }
    let caller = v1::DiscoverResponse { direction: 1, ..Default::default() };
    assert_eq!(printed("v1.DiscoverResponse", &caller)["Direction"], "Caller");
}

#[test]
fn instances_are_printed_as_consoles_expect() {
    let instance = v1::Instance {
        id: Some("i\"\n\u{1}é".to_owned()),
        port: Some(0),
        healthy: Some(false),
        metadata: [("b".to_owned(), "2".to_owned()), ("a".to_owned(), String::new())].into(),
        ..Default::default()
    };
    assert_eq!(
        printed("v1.Instance", &instance),
        json!({
            "id": "i\"\n\u{1}é", "service": null, "namespace": null, "host": null, "port": 0,
            "protocol": null, "version": null, "priority": null, "weight": null,
            "healthCheck": null, "healthy": false, "isolate": null, "location": null,
            "metadata": {"a": "", "b": "2"}, "logic_set": null, "ctime": null, "mtime": null,
            "revision": null, "service_token": null, "enableHealthCheck": null, "vpc_id": null,
        })
    );
}

#[test]
fn a_message_of_a_named_type_goes_there_and_back() {
    let rule = json!({
        "id": "r", "name": "n", "enable": true, "routing_policy": "RulePolicy",
        "routing_config": {
            "@type": "type.googleapis.com/v1.RuleRoutingConfig",
            "rules": [{
                "name": "first",
                "sources": [{"service": "*", "arguments": [
                    {"type": "HEADER", "key": "user", "value": {"type": "IN", "value": "1,2"}}]}],
                "destinations": [{"labels": {"env": {"value": "gray"}}, "weight": 100}],
            }],
        },
    });
    let read: v1::RouteRule = read_as("v1.RouteRule", &rule);
    let config = read.routing_config.as_ref().expect("given");
    let inner = v1::RuleRoutingConfig::decode(&config.value[..]).expect("of the named type");
    assert_eq!(inner.rules[0].destinations[0].weight, 100);

    let printed = printed("v1.RouteRule", &read);
    assert_eq!(printed["routing_policy"], "RulePolicy");
    let config = &printed["routing_config"];
    assert_eq!(config["@type"], "type.googleapis.com/v1.RuleRoutingConfig");
    assert_eq!(config["sources"], json!([]));
    let argument = &config["rules"][0]["sources"][0]["arguments"][0];
    assert_eq!(argument["type"], "HEADER");
    assert_eq!(argument["value"], json!({"type": "IN", "value": "1,2", "value_type": "TEXT"}));
    assert_eq!(read_as::<v1::RouteRule>("v1.RouteRule", &printed), read);
}

#[test]
fn a_type_name_of_an_older_console_is_read() {
    let message = |version: u32| {
        let config = json!({
            "@type": format!("type.googleapis.com/v{version}.NearbyRoutingConfig"),
            "match_level": "ZONE",
        });
        json!({ "name": "n", "routing_policy": "NearbyPolicy", "routing_config": config })
    };
    let current: v1::RouteRule = read_as("v1.RouteRule", &message(1));
    assert!(current.routing_config.is_some());
    assert_eq!(read_as::<v1::RouteRule>("v1.RouteRule", &message(2)), current);
    let list = json!([message(2)]).to_string();
    let items = read_list(&descriptor("v1.RouteRule"), list.as_bytes(), 1);
    assert_eq!(items.expect("a list").expect("one"), [current.encode_to_vec()]);
    // A file is what its author has written.
    let file: v1::ConfigFile =
        read_as("v1.ConfigFile", &json!({"content": "type.googleapis.com/v2.A"}));
    assert_eq!(file.content.as_deref(), Some("type.googleapis.com/v2.A"));
}

#[test]
fn a_message_of_an_unknown_type_is_shown_as_bytes() {
    let any = prost_types::Any { type_url: "a/v1.New".to_owned(), value: vec![0, 1, 2] };
    assert_eq!(printed("google.protobuf.Any", &any), json!({"@type": "a/v1.New", "value": "AAEC"}));
}

#[test]
fn a_message_of_no_type_is_none() {
    let rule = v1::RouteRule { routing_config: Some(Default::default()), ..Default::default() };
    assert_eq!(printed("v1.RouteRule", &rule)["routing_config"], Value::Null);
}

#[test]
fn messages_in_messages_end_somewhere() {
    let mut bytes = Vec::new();
    for _ in 0..1_000 {
        let any = prost_types::Any { type_url: "/v1.RouteRule".to_owned(), value: bytes };
        bytes = v1::RouteRule { routing_config: Some(any), ..Default::default() }.encode_to_vec();
    }
    let text = print(&descriptor("v1.RouteRule"), &bytes).expect("a message");
    assert_eq!(text.matches("@type").count(), 127);
}

#[test]
fn durations_are_seconds_with_a_letter() {
    for (seconds, nanos, expected) in [
        (1, 0, "1s"),
        (0, 500_000_000, "0.500s"),
        (-1, -1_000, "-1.000001s"),
        (0, 1, "0.000000001s"),
    ] {
        let amount = v1::Amount {
            valid_duration: Some(prost_types::Duration { seconds, nanos }),
            ..Default::default()
        };
        assert_eq!(printed("v1.Amount", &amount)["validDuration"], expected);
    }
    let amount: v1::Amount = read_as("v1.Amount", &json!({"validDuration": "1.5s"}));
    let expected = prost_types::Duration { seconds: 1, nanos: 500_000_000 };
    assert_eq!(amount.valid_duration, Some(expected));
}

#[test]
fn fields_of_another_type_and_of_other_editions_are_left_out() {
    // Service 26 was a message and is a boolean now.
    let bytes = [0xd2, 0x01, 0x02, 0x08, 0x01, 0xd0, 0x01, 0x01, 0x08, 0x07];
    let text = print(&descriptor("v1.Service"), &bytes).expect("a message");
    let value: Value = serde_json::from_str(&text).expect("valid JSON");
    assert_eq!(value["name"], Value::Null);
    assert_eq!(value["platform_id"], Value::Null);
}

#[test]
fn bytes_that_are_no_message_are_refused() {
    for bytes in [&[0x0a, 5, 1][..], &[0x0a, 3, 0x0a, 1, 0xff]] {
        assert!(print(&descriptor("v1.Instance"), bytes).is_err(), "{bytes:x?}");
    }
}

proptest::proptest! {
    #[test]
    fn what_is_printed_is_read_as_the_same_message(
        texts in proptest::collection::vec(proptest::option::of(".{0,8}"), 4),
        numbers in proptest::collection::vec(proptest::option::of(proptest::num::u32::ANY), 3),
        labels in proptest::collection::hash_map(".{0,4}", ".{0,4}", 0..4),
        ttl in proptest::option::of(proptest::option::of(0..99_u32)),
    ) {
        let [id, host, version, revision]: [Option<String>; 4] = texts.try_into().expect("four");
        let [port, weight, priority]: [Option<u32>; 3] = numbers.try_into().expect("three");
        let heartbeat = ttl.map(|ttl| v1::HeartbeatHealthCheck { ttl });
        let instance = v1::Instance {
            id, host, version, revision, port, weight, priority,
            metadata: labels,
            health_check: Some(v1::HealthCheck { r#type: 1, heartbeat }),
            healthy: Some(weight.is_some()),
            ..Default::default()
        };
        let text = printed("v1.Instance", &instance);
        proptest::prop_assert_eq!(read_as::<v1::Instance>("v1.Instance", &text), instance);
    }

    #[test]
    fn any_bytes_are_printed_as_json_or_refused(
        bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..48),
        choice in 0..5_usize,
    ) {
        let name = ["v1.Instance", "v1.Rule", "v1.LaneGroup", "v1.RouteRule", "v1.DiscoverResponse"];
        if let Ok(text) = print(&descriptor(name[choice]), &bytes) {
            serde_json::from_str::<Value>(&text).expect("valid JSON");
        }
    }
}
