//! Tests of definitions, and of messages converted in both directions.

use std::sync::LazyLock;

use base64::Engine;
use proptest::prelude::*;
use prost::Message;
use prost_reflect::{DynamicMessage, ReflectMessage};
use serde_json::{Value, json};
use tollhouse_model::json::Document;

use super::*;

const PROTO: &str = r#"
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";

service Orders {
  rpc Place (Order) returns (Receipt);
  rpc Follow (Order) returns (stream Receipt);
  rpc Upload (stream Order) returns (Receipt);
}

enum Size { SMALL = 0; LARGE = 7; }

message Item { string name = 1; uint32 count = 2; }

message Order {
  string user_name = 1;
  int32 small = 2;
  int64 big = 3;
  uint64 huge = 4;
  bool urgent = 5;
  double price = 6;
  float weight = 7;
  bytes photo = 8;
  Size size = 9;
  repeated int32 numbers = 10;
  repeated string tags = 11;
  map<string, int64> counts = 12;
  Item item = 13;
  repeated Item items = 14;
  optional int32 maybe = 15;
  oneof way { string street = 16; int32 box = 17; }
  google.protobuf.Timestamp at = 18;
  sint32 wave = 19;
  sint64 long_wave = 20;
  fixed32 fixed = 21;
  sfixed64 long_fixed = 22;
  map<int32, Item> shelves = 23;
  Order next = 24;
}

message Receipt { string id = 1; }
"#;

fn definition() -> Definition {
    static COMPILED: LazyLock<Definition> =
        LazyLock::new(|| Definition::compile(PROTO).expect("it compiles"));
    COMPILED.clone()
}

/// Returns the message that a server decodes from the encoded form of `json`.
fn sent(json: &str) -> Result<DynamicMessage, String> {
    let descriptor = definition().message("shop.Order").expect("it is there");
    let document = Document::parse(json.as_bytes()).map_err(|_| "no JSON".to_owned())?;
    let mut bytes = Vec::new();
    encode_message(&descriptor, document.root(), &mut bytes).map_err(|error| error.to_string())?;
    Ok(DynamicMessage::decode(descriptor, bytes.as_slice()).expect("a message"))
}

/// Encodes `json` and decodes the result.
fn echoed(json: &str, form: JsonForm) -> String {
    let message = sent(json).unwrap_or_else(|error| panic!("{json}: {error}"));
    let mut out = Vec::new();
    form.write(&message.descriptor(), &message.encode_to_vec(), &mut out, &mut |_| true)
        .expect("a message");
    String::from_utf8(out).expect("text")
}

const BARE: JsonForm =
    JsonForm { int64: Int64Form::Number, enums: EnumForm::Name, defaults: Defaults::Nothing };

#[test]
fn every_kind_of_field_reaches_the_server_as_it_was_written() {
    for text in [
        r#"{"user_name":"a\"ü\n"}"#,
        r#"{"small":-5}"#,
        r#"{"big":-9223372036854775808}"#,
        r#"{"huge":18446744073709551615}"#,
        r#"{"urgent":true}"#,
        r#"{"price":1.5}"#,
        r#"{"weight":0.1}"#,
        r#"{"price":"NaN"}"#,
        r#"{"price":"-Infinity"}"#,
        r#"{"photo":"AAH/"}"#,
        r#"{"size":"LARGE"}"#,
        r#"{"size":9}"#,
        r#"{"numbers":[1,-2,300]}"#,
        r#"{"tags":["a","b"]}"#,
        r#"{"counts":{"a":1,"b":-2}}"#,
        r#"{"item":{"name":"x","count":4294967295}}"#,
        r#"{"items":[{"name":"x"},{"count":2}]}"#,
        r#"{"maybe":0}"#,
        r#"{"street":""}"#,
        r#"{"box":0}"#,
        r#"{"at":{"seconds":5,"nanos":6}}"#,
        r#"{"wave":-2147483648,"long_wave":-3,"fixed":4,"long_fixed":-5}"#,
        r#"{"shelves":{"-1":{"name":"x"}}}"#,
        r#"{"next":{"next":{"small":1}}}"#,
    ] {
        assert_eq!(echoed(text, BARE), text);
    }
}

#[test]
fn values_that_come_of_a_query_are_read_leniently() {
    for (text, expected) in [
        (r#"{"small":"7"}"#, r#"{"small":7}"#),
        (r#"{"small":"0x10"}"#, r#"{"small":16}"#),
        (r#"{"small":1e3}"#, r#"{"small":1000}"#),
        (r#"{"small":2.0}"#, r#"{"small":2}"#),
        (r#"{"big":"-9223372036854775808"}"#, r#"{"big":-9223372036854775808}"#),
        (r#"{"big":1e3}"#, r#"{"big":1000}"#),
        (r##"{"big":"#2251799813685261"}"##, r#"{"big":2251799813685261}"#),
        (r##"{"big":"#-0x10"}"##, r#"{"big":-16}"#),
        (r#"{"urgent":"true"}"#, r#"{"urgent":true}"#),
        (r#"{"urgent":1}"#, r#"{"urgent":true}"#),
        (r#"{"price":"1.5"}"#, r#"{"price":1.5}"#),
        (r#"{"numbers":"5"}"#, r#"{"numbers":[5]}"#),
        (r#"{"items":{"name":"x"}}"#, r#"{"items":[{"name":"x"}]}"#),
        (r#"{"size":"7"}"#, r#"{"size":"LARGE"}"#),
        (r#"{"user_name":5}"#, r#"{"user_name":"5"}"#),
        (r#"{"userName":"j"}"#, r#"{"user_name":"j"}"#),
        (r#"{"photo":"_-8"}"#, r#"{"photo":"/+8="}"#),
        (r#"{"unknown":{"a":[1]},"small":1}"#, r#"{"small":1}"#),
        (r#"{"small":null,"item":null}"#, "{}"),
        (r#"{"small":1,"small":2}"#, r#"{"small":2}"#),
    ] {
        assert_eq!(echoed(text, BARE), expected, "{text}");
    }
}

#[test]
fn what_does_not_fit_is_refused_with_its_field() {
    for (text, expected) in [
        ("[]", "expected an object, got a list"),
        (r#"{"small":"seven"}"#, "field small: expected an integer, got \"seven\""),
        (r#"{"small":2147483648}"#, "field small: expected a 32-bit integer, got 2147483648"),
        (r#"{"small":1.5}"#, "field small: expected an integer, got 1.5"),
        (r#"{"small":true}"#, "field small: expected an integer, got true"),
        (r#"{"small":""}"#, "field small: expected an integer, got \"\""),
        (r#"{"small":"--1"}"#, "field small: expected an integer, got \"--1\""),
        (r#"{"small":"+1"}"#, "field small: expected an integer, got \"+1\""),
        (r#"{"big":"a"}"#, "field big: expected an integer, got \"a\""),
        (r#"{"big":"9223372036854775808"}"#, "field big: expected a 64-bit integer, got \"922"),
        (r#"{"big":1.5}"#, "field big: expected an integer, got 1.5"),
        (r#"{"big":""}"#, "field big: expected an integer, got \"\""),
        (r#"{"big":true}"#, "field big: expected an integer, got true"),
        (r#"{"big":9223372036854775808}"#, "field big: expected a 64-bit integer, got 9223372"),
        (r#"{"huge":-1}"#, "field huge: expected a 64-bit integer from 0, got -1"),
        (r#"{"urgent":"yes"}"#, "field urgent: expected true or false, got \"yes\""),
        (r#"{"price":"inf"}"#, "field price: expected a number, got \"inf\""),
        (r#"{"photo":"a b"}"#, "field photo: expected base64, got \"a b\""),
        (r#"{"size":"MEDIUM"}"#, "field size: expected a value of Size, got \"MEDIUM\""),
        (r#"{"numbers":[1,[2]]}"#, "field numbers: expected one value, got a list"),
        (r#"{"numbers":[null]}"#, "field numbers: expected one value, got null"),
        (r#"{"small":[1,2]}"#, "field small: expected one value, got a list"),
        (r#"{"item":5}"#, "field item: expected an object, got a number"),
        (r#"{"items":[{"count":-1}]}"#, "field items.count: expected a 32-bit integer from 0"),
        (r#"{"counts":[1]}"#, "field counts: expected an object, got a list"),
        (r#"{"shelves":{"a":{}}}"#, "field shelves.a: expected an integer, got \"a\""),
        (r#"{"user_name":"a","userName":"b"}"#, "field user_name: given twice"),
        (r#"{"user_name":true}"#, "field user_name: expected a text, got true"),
    ] {
        let error = sent(text).expect_err(text);
        assert!(error.starts_with(expected), "{text}: {error}");
    }
}

#[test]
fn nesting_is_bounded() {
    let nested = |depth| format!("{}{{}}{}", "{\"next\":".repeat(depth), "}".repeat(depth));
    assert!(sent(&nested(90)).is_ok());
    let error = sent(&nested(101)).expect_err("too deep");
    assert!(error.ends_with("nested deeper than 100"), "{error}");
}

#[test]
fn options_say_how_integers_enums_and_absent_fields_are_written() {
    let form = |int64, enums| JsonForm { int64, enums, ..BARE };
    for (text, form, expected) in [
        (
            r#"{"big":2251799813685261,"huge":5}"#,
            form(Int64Form::Text, EnumForm::Name),
            r##"{"big":"#2251799813685261","huge":5}"##,
        ),
        (
            r#"{"big":-2251799813685261}"#,
            form(Int64Form::Hexadecimal, EnumForm::Name),
            r##"{"big":"#-0x800000000000D"}"##,
        ),
        (r#"{"big":4294967295}"#, form(Int64Form::Text, EnumForm::Name), r#"{"big":4294967295}"#),
        (r#"{"size":"LARGE"}"#, form(Int64Form::Number, EnumForm::Number), r#"{"size":7}"#),
    ] {
        assert_eq!(echoed(text, form), expected, "{text}");
    }
    let filled: Value = serde_json::from_str(&echoed("{}", JsonForm::default())).expect("JSON");
    assert_eq!(
        filled,
        json!({
            "user_name": "", "small": 0, "big": 0, "huge": 0, "urgent": false, "price": 0.0,
            "weight": 0.0, "photo": "", "size": "SMALL", "numbers": [], "tags": [], "counts": {},
            "items": [], "wave": 0, "long_wave": 0, "fixed": 0, "long_fixed": 0, "shelves": {},
        })
    );
}

#[test]
fn defaults_of_proto2_are_written_when_asked_for() {
    let text = "syntax = \"proto2\"; message A { optional int32 a = 1 [default = 5]; \
                repeated int32 b = 2; optional A c = 3; oneof d { int32 e = 4; } }";
    let definition = Definition::compile(text).expect("it compiles");
    let descriptor = definition.message("A").expect("it is there");
    for (defaults, expected) in
        [(Defaults::Auto, "{}"), (Defaults::All, r#"{"a":5,"b":[]}"#), (Defaults::Nothing, "{}")]
    {
        let mut out = Vec::new();
        JsonForm { defaults, ..BARE }
            .write(&descriptor, b"", &mut out, &mut |_| true)
            .expect("a message");
        assert_eq!(String::from_utf8_lossy(&out), expected, "{defaults:?}");
    }
}

#[test]
fn no_more_is_written_than_there_is_room_for() {
    let text = "syntax = \"proto3\"; message Item { string a_name_of_some_length = 1; }
        message Page { repeated Item items = 1; map<int32, Item> named = 2; }";
    let definition = Definition::compile(text).expect("it compiles");
    let descriptor = definition.message("Page").expect("it is there");
    let items = [0x0a, 0x00].repeat(10_000);
    let named = (0..100).flat_map(|key| [0x12, 0x04, 0x08, key, 0x12, 0x00]).collect::<Vec<u8>>();
    let full = JsonForm { defaults: Defaults::Auto, ..BARE };
    // Input, permitted size of the output, and size that the whole output needs.
    for (bytes, room, whole) in [(items, 100_000, 250_000), (named, 2_100, 3_000)] {
        let mut out = Vec::new();
        let written = full.write(&descriptor, &bytes, &mut out, &mut |bytes| bytes <= room);
        assert_eq!(written, Err(WriteError::NoRoom));
        assert!(out.len() <= room, "{}", out.len());
        out.clear();
        let mut asked = 0;
        let written = full.write(&descriptor, &bytes, &mut out, &mut |bytes| {
            asked = bytes;
            true
        });
        assert_eq!(written, Ok(()));
        assert!(out.len() > whole && out.len() <= asked + 100, "{} {asked}", out.len());
    }
}

#[test]
fn bytes_that_are_no_message_are_refused() {
    let descriptor = definition().message("shop.Receipt").expect("it is there");
    assert!(BARE.write(&descriptor, b"\x0a\xff", &mut Vec::new(), &mut |_| true).is_err());
}

#[test]
fn methods_are_found_by_service_and_name() {
    let definition = definition();
    for (service, method, expected) in [
        ("shop.Orders", "Place", Some((false, false))),
        ("shop.Orders", "Follow", Some((false, true))),
        ("shop.Orders", "Upload", Some((true, false))),
        ("shop.Orders", "place", None),
        ("Orders", "Place", None),
        ("shop.Order", "Place", None),
    ] {
        let found = definition.method(service, method);
        let streams = found.as_ref().map(|found| (found.streams_in, found.streams_out));
        assert_eq!(streams, expected, "{service}/{method}");
        if let Some(found) = found {
            assert_eq!(found.path, format!("/{service}/{method}"));
        }
    }
}

#[test]
fn a_descriptor_set_in_base64_defines_the_same_with_or_without_well_known_files() {
    let file = protox::file::File::from_source("shop.proto", PROTO).expect("it parses");
    let lone = prost_types::FileDescriptorSet { file: vec![file.file_descriptor_proto().clone()] };
    let text = base64::engine::general_purpose::STANDARD.encode(lone.encode_to_vec());
    let definition = Definition::compile(&text).expect("a set");
    assert!(definition.method("shop.Orders", "Place").is_some());
    let folded: String = text
        .as_bytes()
        .chunks(76)
        .map(|line| format!("{}\n", String::from_utf8_lossy(line)))
        .collect();
    assert!(Definition::compile(&folded).is_ok());
}

#[test]
fn contents_that_define_nothing_are_refused_in_words() {
    for (content, expected) in [
        ("syntax = \"proto3\"; message A { string a = 0; }", "content:1"),
        ("message A {", "end of file"),
        ("import \"other.proto\";", "content:1"),
        ("AAAA", "not a complete descriptor set"),
        ("", ""),
    ] {
        match Definition::compile(content) {
            Ok(_) => assert_eq!(expected, "", "{content}"),
            Err(error) => assert!(error.to_string().contains(expected), "{content}: {error}"),
        }
    }
    let deep = format!("syntax = \"proto3\";{}", "message A {".repeat(10_000));
    assert!(Definition::compile(&deep).is_err());
    let deep = format!("option a = {}", "{a:".repeat(100_000));
    assert!(Definition::compile(&deep).is_err());
}

#[test]
fn arguments_are_nested_by_dots_and_repeated_ones_are_lists() {
    for (text, expected) in [
        ("", json!({})),
        ("a=1&b=x%20y+z&c", json!({"a": "1", "b": "x y z", "c": true})),
        ("a=1&a=2&a=3", json!({"a": ["1", "2", "3"]})),
        ("item.name=x&item.count=2", json!({"item": {"name": "x", "count": "2"}})),
        ("a=1&a.b=2&c.d=1&c=2", json!({"a": "1", "c": {"d": "1"}})),
        ("=1&&a=b=c", json!({"a": "b=c"})),
    ] {
        let document: Value =
            serde_json::from_slice(&document_of_arguments(text.as_bytes())).expect("JSON");
        assert_eq!(document, expected, "{text}");
    }
    let deep = format!("{}a=1", "a.".repeat(1_000));
    assert_eq!(document_of_arguments(deep.as_bytes()), b"{}");
}

#[test]
fn a_status_is_written_with_its_details() {
    let definition = definition();
    let receipt = definition.message("shop.Receipt").expect("it is there");
    let mut value = Vec::new();
    let document = Document::parse(br#"{"id":"7"}"#).expect("JSON");
    encode_message(&receipt, document.root(), &mut value).expect("a message");
    let detail = StatusDetail { type_url: "t/shop.Receipt".into(), value: value.into() };
    let status = Status { code: 5, message: "no \"x\"".into(), details: vec![detail] };
    let parsed = Status::parse(&status.encode_to_vec()).expect("a status");
    for (named, expected) in [
        (
            Some("shop.Receipt"),
            Ok(r#"{"error":{"code":5,"message":"no \"x\"","details":[{"id":"7"}]}}"#),
        ),
        (
            None,
            Ok(
                r#"{"error":{"code":5,"message":"no \"x\"","details":[{"type_url":"t/shop.Receipt","value":"CgE3"}]}}"#,
            ),
        ),
        (Some("shop.Nothing"), Err(StatusError::NoDetail)),
    ] {
        let mut out = Vec::new();
        let details = named.map(|name| (&definition, name));
        let written = parsed.write(&JsonForm::default(), details, &mut out);
        assert_eq!(
            written.map(|()| String::from_utf8_lossy(&out).into_owned()),
            expected.map(String::from)
        );
    }
    let bare = Status { code: 14, ..Status::default() };
    let mut out = Vec::new();
    bare.write(&JsonForm::default(), None, &mut out).expect("a status");
    assert_eq!(out, br#"{"error":{"code":14,"message":""}}"#);
    assert_eq!(Status::parse(b"\x0a"), Err(StatusError::NoStatus));
}

/// Strategy for JSON with names of the definition, well-formed and malformed.
fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (-300_i64..300).prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[-#]?(0x)?[0-9a-f]{0,20}".prop_map(Value::from),
        "[A-Za-z0-9+/_=-]{0,12}|LARGE|NaN|\\PC{0,4}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 6, |inner| {
        let names = prop::sample::select(vec![
            "user_name",
            "small",
            "big",
            "huge",
            "urgent",
            "price",
            "weight",
            "photo",
            "size",
            "numbers",
            "tags",
            "counts",
            "item",
            "items",
            "maybe",
            "street",
            "box",
            "at",
            "wave",
            "long_wave",
            "fixed",
            "long_fixed",
            "shelves",
            "next",
            "name",
            "count",
            "seconds",
            "nanos",
            "7",
            "userName",
        ]);
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::vec((names, inner), 0..6)
                .prop_map(|members| members.into_iter().collect()),
        ]
    })
}

proptest! {
    /// Accepted JSON is encoded to a valid message, and the JSON form of that message encodes to it
    /// again.
    #[test]
    fn whatever_is_taken_is_a_message_and_comes_back(value in any_json()) {
        let Ok(message) = sent(&value.to_string()) else { return Ok(()) };
        let bytes = message.encode_to_vec();
        let mut text = Vec::new();
        BARE.write(&message.descriptor(), &bytes, &mut text, &mut |_| true).expect("a message");
        let text = String::from_utf8(text).expect("text");
        let again = sent(&text).map_err(|error| TestCaseError::fail(format!("{text}: {error}")))?;
        let mut second = Vec::new();
        BARE.write(&message.descriptor(), &again.encode_to_vec(), &mut second, &mut |_| true).expect("a message");
        prop_assert_eq!(String::from_utf8_lossy(&second), text);
    }

    /// Arbitrary bytes are either refused or written as JSON.
    #[test]
    fn whatever_a_node_sends_is_refused_or_json(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let descriptor = definition().message("shop.Order").expect("it is there");
        let mut out = Vec::new();
        if JsonForm::default().write(&descriptor, &bytes, &mut out, &mut |_| true).is_ok() {
            prop_assert!(serde_json::from_slice::<Value>(&out).is_ok(), "{}", String::from_utf8_lossy(&out));
        }
    }
}
