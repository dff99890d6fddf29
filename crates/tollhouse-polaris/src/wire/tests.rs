//! The hand-written readers and writers beside the generated ones: what either writes, the other
//! reads alike.

use super::write::{
    put_entry, put_flag, put_flag_value, put_message, put_nested, put_number, put_number_value,
    put_text, put_text_value,
};
use super::*;
use crate::v1;
use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;
use prost::Message;

type Text = Option<String>;

fn text() -> impl Strategy<Value = Text> {
    option::of("[a-zé]{0,12}")
}

fn location() -> impl Strategy<Value = Option<v1::Location>> {
    option::of((text(), text(), text()).prop_map(|(region, zone, campus)| v1::Location {
        region,
        zone,
        campus,
    }))
}

fn health_check() -> impl Strategy<Value = Option<v1::HealthCheck>> {
    let heartbeat = option::of(option::of(any::<u32>()));
    option::of((0..3, heartbeat).prop_map(|(r#type, heartbeat)| v1::HealthCheck {
        r#type,
        heartbeat: heartbeat.map(|ttl| v1::HeartbeatHealthCheck { ttl }),
    }))
}

fn instance() -> impl Strategy<Value = v1::Instance> {
    let names = (text(), text(), text(), text(), text(), text(), text(), text());
    let numbers = (option::of(any::<u32>()), option::of(0..3_u32), option::of(any::<u32>()));
    let flags = (option::of(any::<bool>()), option::of(any::<bool>()), option::of(any::<bool>()));
    let parts = (health_check(), location(), btree_map("[a-c]{0,2}", "[a-z]{0,3}", 0..6));
    (names, numbers, flags, parts).prop_map(|(names, numbers, flags, parts)| v1::Instance {
        id: names.0,
        service: names.1,
        namespace: names.2,
        host: names.3,
        protocol: names.4,
        version: names.5,
        logic_set: names.6,
        vpc_id: names.7,
        port: numbers.0,
        priority: numbers.1,
        weight: numbers.2,
        healthy: flags.0,
        isolate: flags.1,
        enable_health_check: flags.2,
        health_check: parts.0,
        location: parts.1,
        metadata: parts.2.into_iter().collect(),
        ctime: Some("ignored".to_owned()),
        ..v1::Instance::default()
    })
}

/// What was read, as the generated type.
fn as_generated(request: &InstanceRequest<'_>) -> v1::Instance {
    let owned = |text: Option<&str>| text.map(str::to_owned);
    v1::Instance {
        id: owned(request.id),
        service: owned(request.service),
        namespace: owned(request.namespace),
        host: owned(request.host),
        protocol: owned(request.protocol),
        version: owned(request.version),
        logic_set: owned(request.logic_set),
        vpc_id: owned(request.vpc_id),
        port: request.port,
        priority: request.priority,
        weight: request.weight,
        healthy: request.healthy,
        isolate: request.isolate,
        enable_health_check: request.enable_health_check,
        health_check: request.health_check.map(|check| v1::HealthCheck {
            r#type: check.kind,
            heartbeat: check.heartbeat_ttl_s.map(|ttl| v1::HeartbeatHealthCheck { ttl }),
        }),
        location: request.location.map(|location| v1::Location {
            region: owned(location.region),
            zone: owned(location.zone),
            campus: owned(location.campus),
        }),
        metadata: request
            .metadata
            .iter()
            .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
            .collect(),
        ctime: Some("ignored".to_owned()),
        ..v1::Instance::default()
    }
}

/// Writes an instance with our functions, fields in any order that suits.
fn write_by_hand(instance: &v1::Instance) -> Vec<u8> {
    let mut out = Vec::new();
    let texts = [
        (1, &instance.id),
        (2, &instance.service),
        (3, &instance.namespace),
        (4, &instance.host),
        (6, &instance.protocol),
        (7, &instance.version),
        (15, &instance.logic_set),
        (16, &instance.ctime),
        (21, &instance.vpc_id),
    ];
    for (number, text) in texts {
        if let Some(text) = text {
            put_text_value(&mut out, number, text);
        }
    }
    for (number, value) in [(5, instance.port), (8, instance.priority), (9, instance.weight)] {
        if let Some(value) = value {
            put_number_value(&mut out, number, value);
        }
    }
    let flags =
        [(11, instance.healthy), (12, instance.isolate), (20, instance.enable_health_check)];
    for (number, value) in flags {
        if let Some(value) = value {
            put_flag_value(&mut out, number, value);
        }
    }
    if let Some(check) = &instance.health_check {
        put_nested(&mut out, 10, |out| {
            put_number(out, 1, check.r#type as u64);
            if let Some(heartbeat) = &check.heartbeat {
                put_nested(out, 2, |out| {
                    if let Some(ttl) = heartbeat.ttl {
                        put_number_value(out, 1, ttl);
                    }
                });
            }
        });
    }
    if let Some(location) = &instance.location {
        put_message(&mut out, 13, &location.encode_to_vec());
    }
    for (key, value) in &instance.metadata {
        put_entry(&mut out, 14, key, value);
    }
    out
}

proptest! {
    #[test]
    fn what_the_generated_code_writes_is_read_alike(instance in instance()) {
        let bytes = instance.encode_to_vec();
        let request = InstanceRequest::parse(&bytes).expect("a message");
        prop_assert_eq!(as_generated(&request), instance);
        prop_assert_eq!(request.raw, &bytes[..]);
    }

    #[test]
    fn what_is_written_by_hand_the_generated_code_reads(instance in instance()) {
        let read = v1::Instance::decode(&write_by_hand(&instance)[..]).expect("a message");
        prop_assert_eq!(read, instance);
    }

    #[test]
    fn any_bytes_are_read_or_refused_as_the_generated_code_would(
        bytes in vec(any::<u8>(), 0..40),
    ) {
        // The generated code refuses known numbers of another type, which are skipped here, and
        // skips groups, which are refused here.
        if let (Ok(request), Ok(generated)) =
            (InstanceRequest::parse(&bytes), v1::Instance::decode(&bytes[..]))
        {
            prop_assert_eq!(request.id.map(str::to_owned), generated.id);
            prop_assert_eq!(request.port, generated.port);
            prop_assert_eq!(request.healthy, generated.healthy);
        }
        let _ = DiscoverRequest::parse(&bytes);
    }

    #[test]
    fn the_verdict_does_not_panic_on_damaged_messages(
        instance in instance(),
        place in any::<prop::sample::Index>(),
        byte in any::<u8>(),
    ) {
        let mut bytes = instance.encode_to_vec();
        let place = place.index(bytes.len());
        bytes[place] = byte;
        let _ = InstanceRequest::parse(&bytes);
        let _ = InstanceRequest::parse(&bytes[..place]);
    }

    #[test]
    fn questions_are_read_alike(
        r#type in 0..200_i32,
        service in option::of((text(), text(), text())),
        only_healthy in option::of(any::<bool>()),
        direction in 0..3_i32,
    ) {
        let service = service.map(|(name, namespace, revision)| v1::Service {
            name,
            namespace,
            revision,
            ..v1::Service::default()
        });
        let generated = v1::DiscoverRequest {
            r#type,
            service: service.clone(),
            filter: only_healthy.map(|only_healthy_instance| v1::DiscoverFilter {
                only_healthy_instance,
            }),
            direction,
        };
        let bytes = generated.encode_to_vec();
        let request = DiscoverRequest::parse(&bytes).expect("a message");
        prop_assert_eq!(request.kind, r#type);
        prop_assert_eq!(request.only_healthy, only_healthy);
        prop_assert_eq!(request.direction, Direction(direction));
        let read = request.service.map(|service| {
            assert_eq!(
                v1::Service::decode(service.raw).expect("a service").name.as_deref(),
                service.name
            );
            v1::Service {
                name: service.name.map(str::to_owned),
                namespace: service.namespace.map(str::to_owned),
                revision: service.revision.map(str::to_owned),
                ..v1::Service::default()
            }
        });
        prop_assert_eq!(read, service);
    }
}

#[test]
fn absent_and_empty_differ() {
    let request = InstanceRequest::parse(&[]).expect("a message");
    assert_eq!((request.id, request.port, request.health_check), (None, None, None));
    let request = InstanceRequest::parse(&[0x0a, 0, 0x2a, 0, 0x52, 0]).expect("a message");
    assert_eq!((request.id, request.port), (Some(""), Some(0)));
    assert_eq!(request.health_check, Some(HealthCheckRequest::default()));
}

#[test]
fn the_last_value_wins_and_wrappers_merge() {
    let mut bytes = Vec::new();
    put_text_value(&mut bytes, 1, "first");
    put_text_value(&mut bytes, 1, "last");
    put_text_value(&mut bytes, 2, "kept");
    put_text_value(&mut bytes, 2, "");
    let request = InstanceRequest::parse(&bytes).expect("a message");
    assert_eq!((request.id, request.service), (Some("last"), Some("kept")));
}

#[test]
fn a_known_field_of_another_type_is_skipped_and_not_passed_on() {
    let mut bytes = Vec::new();
    put_number(&mut bytes, 5, 8080);
    put_text_value(&mut bytes, 1, "id");
    let request = InstanceRequest::parse(&bytes).expect("a message");
    assert_eq!((request.id, request.port), (Some("id"), None));
    assert_eq!(request.unknown_bytes(), 0);
}

#[test]
fn fields_of_newer_editions_are_kept_as_they_are() {
    let mut bytes = Vec::new();
    put_text(&mut bytes, 30, "new");
    put_flag(&mut bytes, 31, true);
    put_text_value(&mut bytes, 1, "id");
    put_text(&mut bytes, 1_000, "later");
    let request = InstanceRequest::parse(&bytes).expect("a message");
    let pieces: Vec<&[u8]> = request.unknown().collect();
    let mut expected = Vec::new();
    put_text(&mut expected, 30, "new");
    put_flag(&mut expected, 31, true);
    assert_eq!(pieces[0], expected);
    expected.clear();
    put_text(&mut expected, 1_000, "later");
    assert_eq!(pieces[1], expected);
    assert_eq!(request.unknown_bytes(), pieces[0].len() + pieces[1].len());
}

#[test]
fn labels_are_a_map_and_bounded() {
    let mut bytes = Vec::new();
    for (key, value) in [("b", "1"), ("a", "2"), ("b", "3"), ("", "")] {
        put_entry(&mut bytes, 14, key, value);
    }
    let request = InstanceRequest::parse(&bytes).expect("a message");
    assert_eq!(request.metadata, [("", ""), ("a", "2"), ("b", "3")]);
    assert_eq!((request.label("b"), request.label("c")), (Some("3"), None));

    bytes.clear();
    for index in 0..METADATA_KEPT_MAX + 10 {
        put_entry(&mut bytes, 14, &format!("key-{index}"), "");
    }
    let request = InstanceRequest::parse(&bytes).expect("a message");
    assert_eq!((request.metadata.len(), request.labels_dropped), (METADATA_KEPT_MAX, 10));
}

#[test]
fn text_that_is_no_text_is_refused_wherever_it_stands() {
    let broken: &[u8] = &[0x0a, 1, 0xff];
    let cases: [(&str, u32, &[u8]); 4] = [
        ("a wrapper", 1, broken),
        ("one that is ignored", 16, broken),
        ("a label", 14, broken),
        ("a place", 13, &[0x0a, 3, 0x0a, 1, 0xff]),
    ];
    for (what, number, message) in cases {
        let mut bytes = Vec::new();
        put_message(&mut bytes, number, message);
        assert_eq!(InstanceRequest::parse(&bytes), Err(WireError::NotUtf8), "{what}");
    }
    let mut bytes = Vec::new();
    put_message(&mut bytes, 30, broken);
    assert!(InstanceRequest::parse(&bytes).is_ok(), "what is unknown is not judged");
}
