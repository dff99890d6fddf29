//! Tests of gRPC framing: messages that arrive in pieces, compressed ones, ones that are too long.
//! Nothing here opens a connection.

use prost_reflect::prost::Message as _;
use prost_reflect::{DynamicMessage, MessageDescriptor};
use serde_json::{Value as Json, json};

use super::*;
use crate::protocol::grpc::testing::{descriptor, testdata};
use go_template::{Functions, Method, Variables};

fn encoded(json: &Json, descriptor: &MessageDescriptor) -> Result<Vec<u8>, String> {
    let message = compile(json, descriptor, Templates::Filled(Functions::All));
    let message = message.map_err(|error| error.to_string())?;
    let method = Method::default();
    let mut random = Random::seeded(1);
    let variables = Variables {
        worker_id: "g0c7",
        request_number: 42,
        method: &method,
        unix_ns: 1_700_000_000_000_000_000,
        uuid: 0,
    };
    let mut text = String::new();
    let mut fill = Fill { variables: &variables, random: &mut random, text: &mut text };
    let mut out = Vec::new();
    message.write(&mut fill, &mut out).map_err(|error| error.to_string())?;
    Ok(out)
}

fn everything() -> MessageDescriptor {
    descriptor("kinds.proto", "kinds.v1.Everything")
}

/// The message as another implementation reads the same JSON.
fn reference(json: &Json, descriptor: &MessageDescriptor) -> DynamicMessage {
    DynamicMessage::deserialize(descriptor.clone(), json).expect("the reference reads it")
}

fn decoded(bytes: &[u8], descriptor: &MessageDescriptor) -> DynamicMessage {
    DynamicMessage::decode(descriptor.clone(), bytes).expect("it is a message")
}

#[test]
fn every_kind_of_field_is_encoded_as_another_implementation_does() {
    let text = std::fs::read_to_string(testdata("everything.json")).expect("test data");
    let whole: Json = serde_json::from_str(&text).expect("JSON");
    let descriptor = everything();
    let bytes = encoded(&whole, &descriptor).expect("encoded");
    let shown = |bytes: &[u8]| serde_json::to_value(decoded(bytes, &descriptor)).expect("JSON");
    assert_eq!(shown(&bytes), shown(&reference(&whole, &descriptor).encode_to_vec()));
    // Field by field too, so that a difference is found where it is.
    for (name, value) in whole.as_object().expect("object") {
        let one = json!({ name: value });
        let bytes = encoded(&one, &descriptor).expect(name);
        let expected = reference(&one, &descriptor).encode_to_vec();
        // Maps have no order, and entries of zero are written either way.
        let is_map = descriptor.get_field_by_json_name(name).is_some_and(|field| field.is_map());
        match is_map {
            true => assert_eq!(shown(&bytes), shown(&expected), "{name}"),
            false => assert_eq!(bytes, expected, "{name}"),
        }
    }
}

#[test]
fn zeros_are_left_out_where_they_have_no_presence() {
    let zeros = json!({
        "double": 0, "int32": "0", "bool": false, "string": "", "bytes": "", "colour": "NONE",
        "packed": [], "strings": [], "numbers": {}, "wrappedBool": null, "nestedMessage": null
    });
    assert_eq!(encoded(&zeros, &everything()), Ok(Vec::new()));
    // A zero with a sign is another number.
    assert_eq!(encoded(&json!({"double": -0.0}), &everything()).map(|bytes| bytes.len()), Ok(9));
}

#[test]
fn other_spellings_of_numbers_and_values_are_taken() {
    let descriptor = everything();
    for (lenient, strict) in [
        (json!({"int32": 1e2}), json!({"int32": 100})),
        (json!({"int32": "7.0"}), json!({"int32": 7})),
        (json!({"uint32": "5"}), json!({"uint32": 5})),
        (json!({"colour": 2}), json!({"colour": "GREEN"})),
        (json!({"colour": "2"}), json!({"colour": "GREEN"})),
        (json!({"colour": -1}), json!({"colour": "NEGATIVE"})),
        (json!({"bool": "true"}), json!({"bool": true})),
        (json!({"bytes": "3q2-7w"}), json!({"bytes": "3q2+7w=="})),
        (json!({"double": "Infinity"}), json!({"double": "Infinity"})),
        (json!({"nested_message": {}}), json!({"nestedMessage": {}})),
    ] {
        let expected = reference(&strict, &descriptor).encode_to_vec();
        assert_eq!(encoded(&lenient, &descriptor), Ok(expected), "{lenient}");
    }
}

#[test]
fn what_does_not_fit_is_named_with_its_place() {
    for (json, message) in [
        (
            json!({"strng": 1}),
            "`strng`: kinds.v1.Everything has no such field; did you mean `string`?",
        ),
        (json!({"quux": 1}), "`quux`: kinds.v1.Everything has no such field"),
        (
            json!({"messages": [{}, {"int32": "x"}]}),
            "`messages[1].int32`: takes a whole number from -2147483648 to 2147483647, not \"x\"",
        ),
        (json!({"uint32": -1}), "`uint32`: takes a whole number from 0 to 4294967295, not -1"),
        (
            json!({"int32": 1.5}),
            "`int32`: takes a whole number from -2147483648 to 2147483647, not 1.5",
        ),
        (json!({"string": 5}), "`string`: takes a text, not 5"),
        (json!({"bool": 1}), "`bool`: takes true or false, not 1"),
        (
            json!({"colour": "GREEM"}),
            "`colour`: takes a value of kinds.v1.Colour, not \"GREEM\"; did you mean GREEN?",
        ),
        (json!({"strings": "a"}), "`strings`: takes a list, not \"a\""),
        (json!({"packed": [null]}), "`packed[0]`: takes a single value, not null"),
        (json!({"numbers": []}), "`numbers`: takes an object (a map), not []"),
        (json!({"left": "a", "right": 1}), "`right`: and `left` exclude each other (oneof)"),
        (
            json!({"nestedMessage": {}, "nested_message": {}}),
            "`nested_message`: is there twice, under both of its names",
        ),
        (
            json!({"time": "today"}),
            "`time`: takes an RFC 3339 time such as 2026-01-31T12:00:00Z, not \"today\"",
        ),
        (json!({"any": {}}), "`any`: needs `@type`, such as type.googleapis.com/package.Message"),
        (json!({"float": 1e300}), "`float`: takes a number that fits in 32 bits, not 1e+300"),
        (json!([]), "takes an object (kinds.v1.Everything), not []"),
    ] {
        assert_eq!(encoded(&json, &everything()).expect_err(message), message);
    }
    let mut deep = json!({});
    for _ in 0..100 {
        deep = json!({"nestedMessage": deep});
    }
    assert!(
        encoded(&deep, &everything())
            .expect_err("deep")
            .ends_with("nests deeper than 100 messages")
    );
}

#[test]
fn texts_are_filled_in_wherever_they_stand() {
    let descriptor = everything();
    for (templated, plain) in [
        (json!({"int32": "{{.RequestNumber}}"}), json!({"int32": 42})),
        (json!({"wrappedUint32": "{{.RequestNumber}}"}), json!({"wrappedUint32": 42})),
        (json!({"string": "a-{{.WorkerID}}-b"}), json!({"string": "a-g0c7-b"})),
        (json!({"packed": [1, "{{.RequestNumber}}", 3]}), json!({"packed": [1, 42, 3]})),
        (json!({"numbers": {"k": "{{.TimestampUnix}}"}}), json!({"numbers": {"k": 1_700_000_000}})),
        (json!({"colour": "{{upper \"red\"}}"}), json!({"colour": "RED"})),
        (json!({"time": "{{.Timestamp}}"}), json!({"time": "2023-11-14T22:13:20Z"})),
        (json!({"structure": {"a": ["{{.WorkerID}}"]}}), json!({"structure": {"a": ["g0c7"]}})),
        (
            json!({"any": {"@type": "x/kinds.v1.Everything", "string": "{{.WorkerID}}"}}),
            json!({"any": {"@type": "x/kinds.v1.Everything", "string": "g0c7"}}),
        ),
        // A zero that is only known when it is filled in.
        (json!({"int32": "{{sub 1 1}}"}), json!({})),
        // A message that grows beyond a length of one byte, inside of one that does too.
        (
            json!({"nestedMessage": {"nestedMessage": {"string": "{{repeat 200 \"x\"}}", "int32": 1}}}),
            json!({"nestedMessage": {"nestedMessage": {"string": "x".repeat(200), "int32": 1}}}),
        ),
    ] {
        let expected = reference(&plain, &descriptor).encode_to_vec();
        assert_eq!(encoded(&templated, &descriptor), Ok(expected), "{templated}");
    }
    let error = encoded(&json!({"int32": "{{.WorkerID}}"}), &descriptor).expect_err("no number");
    assert!(
        error.starts_with("`int32`: takes a whole number") && error.contains("g0c7"),
        "{error}"
    );
    let error = encoded(&json!({"string": "{{.Nothing}}"}), &descriptor).expect_err("unknown");
    assert!(error.starts_with("`string`: template"), "{error}");
}

#[test]
fn templates_can_be_sent_as_they_are() {
    let json = json!({"string": "{{.RequestNumber}}"});
    let message = compile(&json, &everything(), Templates::AsWritten).expect("message");
    let expected = reference(&json, &everything()).encode_to_vec();
    assert_eq!(message.as_static(), Some(expected.as_slice()));
}

#[test]
fn the_messages_of_the_registrys_report_are_taken_as_they_stand() {
    let register = json!({
        "id": "polaris-perf-test-1-ins-{{.RequestNumber}}",
        "service": "POLARIS-PERF-TEST-1",
        "namespace": "default",
        "host": "fakehost-{{randomString 8 }}.com",
        "port": "{{randomInt 1000 50000}}",
        "enable_health_check": true,
        "health_check": {"type": 1, "heartbeat": {"ttl": 3}},
        "healthy": true,
        "isolate": false,
        "ctime": "{{.TimestampUnix}}",
        "mtime": "{{.TimestampUnix}}"
    });
    let instance = descriptor("polaris/grpcapi.proto", "v1.Instance");
    let bytes = encoded(&register, &instance).expect("instance");
    let shown = serde_json::to_value(decoded(&bytes, &instance)).expect("JSON");
    assert_eq!(shown["id"], "polaris-perf-test-1-ins-42");
    assert_eq!(shown["healthCheck"], json!({"type": "HEARTBEAT", "heartbeat": {"ttl": 3}}));
    assert_eq!((&shown["isolate"], &shown["ctime"]), (&json!(false), &json!("1700000000")));
    let host = shown["host"].as_str().expect("host");
    assert!(host.len() == "fakehost-12345678.com".len() && host.ends_with(".com"), "{host}");
    assert!((1000..50_000).contains(&shown["port"].as_u64().expect("port")));
    let discover = json!({
        "type": 1,
        "service": {"name": "PERF-1-TEST-SVCID-{{.WorkerID}}", "namespace": "default"}
    });
    let request = descriptor("polaris/grpcapi.proto", "v1.DiscoverRequest");
    let bytes = encoded(&discover, &request).expect("request");
    let shown = serde_json::to_value(decoded(&bytes, &request)).expect("JSON");
    assert_eq!(shown["service"]["name"], "PERF-1-TEST-SVCID-g0c7");
}
