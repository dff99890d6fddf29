//! Instances come and go.

use std::collections::HashMap;

use tollhouse_polaris::{Gate, v1};

use super::{Polaris, code, instance, some, ttl};
use crate::client::{Client, framed, request, run};

#[test]
fn an_instance_is_known_by_the_id_of_its_address_or_by_its_own() {
    // 1, 2, 13.
    let polaris = Polaris::start();
    run(async {
        let client = polaris.connect().await;
        let auto = v1::Instance {
            service: some("svc-a"),
            namespace: some("ns-auto"),
            health_check: ttl(3),
            ..instance("127.0.0.1", 8080)
        };
        let computed = "c83801b575d0ed329fb95c1d38944df9006b4f82";
        let given = "polaris-perf-test-1-ins-1";
        let clouded = v1::Instance { vpc_id: some("v"), ..auto.clone() };
        for (case, instance, id) in [
            ("computed", auto.clone(), Some(computed)),
            ("given", v1::Instance { id: some(given), ..auto.clone() }, Some(given)),
            ("empty", v1::Instance { id: some(""), ..auto.clone() }, Some(computed)),
            ("empty cloud", v1::Instance { vpc_id: some(""), ..auto.clone() }, Some(computed)),
            ("cloud", clouded, None),
        ] {
            let response = client.register(&instance).await;
            assert_eq!(code(&response), 200_000, "{case}");
            assert_eq!(response.info.as_deref(), Some("execute success"), "{case}");
            let back = response.instance.expect("the reply has the instance");
            match id {
                Some(id) => assert_eq!(back.id.as_deref(), Some(id), "{case}"),
                None => assert_ne!(back.id.as_deref(), Some(computed), "{case}"),
            }
            assert_eq!((back.host.as_deref(), back.port), (Some("127.0.0.1"), Some(8080)));
            assert_eq!(
                (back.service, back.namespace),
                (auto.service.clone(), auto.namespace.clone())
            );
            assert_eq!((back.metadata.len(), back.health_check), (0, None), "{case}: no more");
        }
    });
    let state = polaris.registry.state();
    assert!(state.namespace("ns-auto").is_some(), "the namespace came along");
}

#[test]
fn what_is_wrong_with_a_registration_has_its_code() {
    // 4, 5, 6, 7.
    let polaris = Polaris::start();
    let good = || instance("h", 1);
    let long = |chars: usize| Some("a".repeat(chars));
    let pairs = |count: usize, key: usize, value: usize| -> HashMap<String, String> {
        let key = |n: usize| format!("{n:0>key$}");
        (0..count).map(|n| (key(n), "v".repeat(value))).collect()
    };
    let empty = v1::Instance::default;
    let cases: Vec<(&str, v1::Instance, u32)> = vec![
        ("nothing", empty(), 400_120),
        ("only a service", v1::Instance { service: some("s"), ..empty() }, 400_110),
        ("no host", v1::Instance { host: None, ..good() }, 400_131),
        ("no port", v1::Instance { port: None, ..good() }, 400_132),
        ("port 0", instance("h", 0), 200_000),
        ("port 65536", instance("h", 65_536), 400_132),
        ("a blank in the name", v1::Instance { service: some("s p"), ..good() }, 400_120),
        ("other letters", v1::Instance { service: some("größe"), ..good() }, 400_120),
        ("long service", v1::Instance { service: long(129), ..good() }, 400_120),
        ("longest service", v1::Instance { service: long(128), ..good() }, 200_000),
        ("long namespace", v1::Instance { namespace: long(65), ..good() }, 400_110),
        ("long host", v1::Instance { host: long(129), ..good() }, 400_131),
        ("long protocol", v1::Instance { protocol: long(33), ..good() }, 400_136),
        ("long version", v1::Instance { version: long(33), ..good() }, 400_137),
        ("long logic set", v1::Instance { logic_set: long(129), ..good() }, 400_138),
        ("weight", v1::Instance { weight: Some(65_536), ..good() }, 400_103),
        ("many labels", v1::Instance { metadata: pairs(65, 2, 1), ..good() }, 400_150),
        ("enough labels", v1::Instance { metadata: pairs(64, 2, 1), ..good() }, 200_000),
        ("long key", v1::Instance { metadata: pairs(1, 129, 1), ..good() }, 400_150),
        ("long value", v1::Instance { metadata: pairs(1, 1, 4_097), ..good() }, 400_150),
        ("only an id", v1::Instance { id: some("i"), ..empty() }, 400_120),
    ];
    run(async {
        let client = polaris.connect().await;
        for (case, instance, expected) in cases {
            let response = client.register(&instance).await;
            assert_eq!(code(&response), expected, "{case}");
            if expected != 200_000 {
                assert_eq!(response.instance, Some(instance), "{case} is echoed");
            }
        }
    });
}

#[test]
fn a_further_registration_replaces_all_but_isolation() {
    // 8, 9.
    let polaris = Polaris::start();
    run(async {
        let client = polaris.connect().await;
        let labels = |value: &str| HashMap::from([("k".to_owned(), value.to_owned())]);
        let first = v1::Instance { metadata: labels("1"), isolate: Some(true), ..instance("h", 1) };
        client.register(&first).await;
        let before = client.instances().await;
        let again = v1::Instance { weight: Some(7), metadata: labels("2"), ..instance("h", 1) };
        assert_eq!(code(&client.register(&again).await), 200_000);
        let after = client.instances().await;
        assert_eq!((before.len(), after.len()), (1, 1));
        assert_eq!((before[0].weight, after[0].weight), (Some(100), Some(7)));
        assert_eq!(after[0].metadata, labels("2"));
        assert_eq!((before[0].isolate, after[0].isolate), (Some(true), Some(true)));
        assert_ne!(before[0].revision, after[0].revision);
        client.register(&v1::Instance { isolate: Some(false), ..again }).await;
        assert_eq!(client.instances().await[0].isolate, Some(false));
    });
}

#[test]
fn health_is_checked_where_heartbeats_are_asked_for_and_not_switched_off() {
    // 10.
    let polaris = Polaris::start();
    let empty_heartbeat =
        Some(v1::HealthCheck { r#type: 1, heartbeat: Some(v1::HeartbeatHealthCheck::default()) });
    let empty_check = Some(v1::HealthCheck::default());
    run(async {
        let client = polaris.connect().await;
        for (case, health_check, enabled, expected) in [
            ("ttl 3", ttl(3), None, ttl(3)),
            ("switched off", ttl(3), Some(false), None),
            ("out of range", ttl(100), None, ttl(5)),
            ("no number", empty_heartbeat, None, ttl(5)),
            ("no heartbeat", empty_check, Some(true), None),
            ("switched on alone", None, Some(true), None),
        ] {
            let sent =
                v1::Instance { health_check, enable_health_check: enabled, ..instance("h", 1) };
            client.register(&sent).await;
            let shown = client.instances().await.remove(0);
            assert_eq!(shown.health_check, expected, "{case}");
            assert_eq!(shown.enable_health_check, expected.map(|_| true), "{case}");
        }
    });
}

#[test]
fn clients_find_an_instance_as_it_was_described() {
    // 3, 13.
    let polaris = Polaris::start();
    run(async {
        let client = polaris.connect().await;
        let location = v1::Location { region: some("r"), zone: some("z"), campus: some("c") };
        let sent = v1::Instance {
            protocol: some("grpc"),
            version: some("1.0"),
            logic_set: some("l"),
            location: Some(location.clone()),
            ctime: some("1999-01-01 00:00:00"),
            mtime: some("1999-01-01 00:00:00"),
            ..instance("  h ", 1)
        };
        client.register(&sent).await;
        let shown = client.instances().await.remove(0);
        assert_eq!(shown.host.as_deref(), Some("h"), "without its blanks");
        assert_eq!(
            (shown.protocol, shown.version, shown.logic_set),
            (some("grpc"), some("1.0"), some("l"))
        );
        assert_eq!(
            (shown.healthy, shown.isolate, shown.weight),
            (Some(true), Some(false), Some(100))
        );
        assert_eq!(shown.location, Some(location));
        assert_eq!(shown.ctime.as_deref(), Some("2023-11-14 22:13:20"), "the server's time");
        assert_eq!(shown.mtime.as_deref(), Some("2023-11-14 22:13:20"));
        let labels = [
            ("protocol", "grpc"),
            ("version", "1.0"),
            ("region", "r"),
            ("zone", "z"),
            ("campus", "c"),
        ];
        for (key, value) in labels {
            assert_eq!(shown.metadata.get(key).map(String::as_str), Some(value), "{key}");
        }
    });
}

#[test]
fn fields_of_a_newer_protocol_survive() {
    use prost::Message;
    let polaris = Polaris::start();
    run(async {
        let client = polaris.connect().await;
        // Field 900, a text.
        let newer =
            [&instance("h", 1).encode_to_vec()[..], &[0xa2, 0x38, 3, b'n', b'e', b'w']].concat();
        let ended = client.0.unary("/v1.PolarisGRPC/RegisterInstance", &newer).await;
        assert_eq!(ended.code, Some(0));
        let question = super::about(1, "ns", "svc").encode_to_vec();
        let ended = client.0.unary("/v1.PolarisGRPC/Discover", &question).await;
        let found = ended.messages[0].windows(6).any(|bytes| bytes == &newer[newer.len() - 6..]);
        assert!(found);
    });
}

#[test]
fn many_registrations_of_one_instance_leave_one() {
    // 11.
    let polaris = Polaris::start();
    run(async {
        let client = polaris.connect().await;
        let mut calls = Vec::new();
        for _ in 0..100 {
            let mut call = client.0.open(request("/v1.PolarisGRPC/RegisterInstance")).await;
            call.say(&prost::Message::encode_to_vec(&instance("h", 1)));
            call.close();
            calls.push(call);
        }
        for call in calls {
            let ended = call.end().await;
            let response: v1::Response = prost::Message::decode(&*ended.messages[0]).expect("one");
            assert_eq!(code(&response), 200_000);
        }
        assert_eq!(client.instances().await.len(), 1);
    });
}

#[test]
fn an_instance_goes_by_its_address_or_id_and_may_have_gone_before() {
    // 23, 24, 25.
    let polaris = Polaris::start();
    run(async {
        let client = polaris.connect().await;
        let given = v1::Instance { id: some("i"), ..instance("g", 2) };
        for (case, registered, removed) in [
            ("by address", instance("h", 1), instance("h", 1)),
            ("by id", given.clone(), v1::Instance { id: some("i"), ..Default::default() }),
            ("by both", given.clone(), given.clone()),
        ] {
            let id = client.register(&registered).await.instance.and_then(|it| it.id);
            for again in [false, true] {
                let response = client.deregister(&removed).await;
                assert_eq!(code(&response), 200_000, "{case}, again: {again}");
                let back = response.instance.expect("echoed");
                assert_eq!(back.id, id, "{case}");
                assert_eq!(back.host, removed.host, "{case}");
                assert_eq!(client.instances().await, [], "{case}");
            }
        }
        let empty = v1::Instance { id: some(""), ..instance("h", 1) };
        assert_eq!(code(&client.deregister(&empty).await), 400_130);
        for (wrong, expected) in wrong_addresses() {
            assert_eq!(code(&client.deregister(&wrong).await), expected, "{wrong:?}");
        }
    });
}

/// Instances without an id that cannot be told from others.
pub(super) fn wrong_addresses() -> Vec<(v1::Instance, u32)> {
    vec![
        (v1::Instance::default(), 400_120),
        (v1::Instance { namespace: None, ..instance("h", 1) }, 400_110),
        (v1::Instance { host: None, ..instance("h", 1) }, 400_131),
        (instance("", 1), 400_131),
        (v1::Instance { port: None, ..instance("h", 1) }, 400_132),
    ]
}

#[test]
fn bytes_that_are_no_message_end_the_call_and_nothing_else() {
    let polaris = Polaris::start();
    run(async {
        let client = Client::connect(polaris.server.address).await;
        // A name that is not UTF-8, and a field that is cut off.
        for bad in [&[0x12, 4, 0x0a, 2, 0xff, 0xfe][..], &[0x12, 9, 1]] {
            for method in ["RegisterInstance", "DeregisterInstance", "Heartbeat", "Discover"] {
                let ended = client.unary(&format!("/v1.PolarisGRPC/{method}"), bad).await;
                assert_eq!(ended.code, Some(13), "{method}");
            }
        }
        let watch = client.unary("/v1.PolarisGRPC/WatchClientEvents", b"").await;
        assert_eq!(watch.code, Some(12));
    });
}

#[test]
fn a_locked_gate_asks_for_a_token_of_the_call_or_the_instance() {
    let polaris = Polaris::start_with(Gate::Locked);
    let call = |token: Option<&str>, method: &str| {
        let mut request = request(&format!("/v1.PolarisGRPC/{method}"));
        if let Some(token) = token {
            request.headers_mut().insert("x-polaris-token", token.parse().expect("valid"));
        }
        request
    };
    run(async {
        let client = Client::connect(polaris.server.address).await;
        for (case, token, own, expected) in [
            ("none", None, None, 401_001),
            ("wrong", Some("wrong"), None, 401_001),
            ("right", Some("right"), None, 200_000),
            ("own", None, some("right"), 200_000),
            ("own goes first", Some("right"), some("wrong"), 401_001),
            ("an empty one is none", Some("right"), some(""), 200_000),
        ] {
            let sent = v1::Instance { service_token: own, ..instance("h", 1) };
            for method in ["RegisterInstance", "Heartbeat", "DeregisterInstance"] {
                let message = framed(&prost::Message::encode_to_vec(&sent));
                let ended = client.send(call(token, method), &[message]).await;
                let response: v1::Response =
                    prost::Message::decode(&*ended.messages[0]).expect("one");
                assert_eq!(code(&response), expected, "{case} {method}");
            }
        }
        let question = framed(&prost::Message::encode_to_vec(&super::about(1, "ns", "svc")));
        for (token, expected) in [(None, 401_001), (Some("right"), 200_000)] {
            let ended = client.send(call(token, "Discover"), std::slice::from_ref(&question)).await;
            let response: v1::DiscoverResponse =
                prost::Message::decode(&*ended.messages[0]).expect("one");
            assert_eq!(response.code, Some(expected));
        }
        // Answers without a place for a code.
        for method in ["BatchHeartbeat", "BatchGetHeartbeat"] {
            let path = format!("/v1.PolarisHeartbeatGRPC/{method}");
            for (token, expected) in
                [(None, 16), (Some("wrong"), 16), (Some("right"), 0), (Some("client"), 0)]
            {
                let mut call = request(&path);
                if let Some(token) = token {
                    call.headers_mut().insert("x-polaris-token", token.parse().expect("valid"));
                }
                let ended = client.send(call, &[framed(b"")]).await;
                assert_eq!(ended.code, Some(expected), "{method} {token:?}");
                assert_eq!(ended.text.contains("401001"), expected != 0, "{}", ended.text);
            }
        }
    });
}
