//! Tests of the messages of a call: static ones, templates, lists that take turns.
//! Bytes are compared with those of the reflected message.

use std::fs;

use prost_reflect::prost::Message as _;

use super::*;
use crate::protocol::grpc::testing::pool;
use go_template::Method;

fn method() -> MethodDescriptor {
    let service = pool("kinds.proto").get_service_by_name("kinds.v1.Kinds").expect("service");
    service.methods().next().expect("method")
}

fn of_json(text: &str) -> GrpcCall {
    GrpcCall { data: Some(GrpcData::Json(text.into())), ..GrpcCall::default() }
}

/// The messages of one call as JSON.
fn messages(call: &GrpcCall) -> Result<Vec<Json>, String> {
    let data = Data::prepare(call, &method()).map_err(|error| error.to_string())?;
    let names = Method::default();
    let mut random = Random::seeded(1);
    let variables =
        Variables { worker_id: "w", request_number: 3, method: &names, unix_ns: 0, uuid: 0 };
    let mut text = String::new();
    let mut fill = Fill { variables: &variables, random: &mut random, text: &mut text };
    let framed = data.all(&mut fill).map_err(|error| error.to_string())?;
    let shown = |framed: &Bytes| {
        let message = DynamicMessage::decode(method().input(), &framed[5..]).expect("a message");
        serde_json::to_value(message).expect("JSON")
    };
    Ok(framed.iter().map(shown).collect())
}

#[test]
fn an_object_is_one_message_and_a_list_many() {
    let json = |text: &str| serde_json::from_str::<Vec<Json>>(text).expect("JSON");
    assert_eq!(messages(&GrpcCall::default()), Ok(json("[{}]")));
    assert_eq!(messages(&of_json(r#"{"int32": 1}"#)), Ok(json(r#"[{"int32": 1}]"#)));
    assert_eq!(messages(&of_json(r#"[{"int32": 1}, {}]"#)), Ok(json(r#"[{"int32": 1}, {}]"#)));
    assert_eq!(messages(&of_json("[]")), Ok(Vec::new()));
}

#[test]
fn a_text_that_is_no_json_until_it_is_filled_in_is_taken() {
    let json = |text: &str| serde_json::from_str::<Vec<Json>>(text).expect("JSON");
    for (text, filled) in [
        (r#"{"int32": {{.RequestNumber}}}"#, r#"[{"int32": 3}]"#),
        (r#"[{"int32": {{.RequestNumber}}}, {"bool": true}]"#, r#"[{"int32": 3}, {"bool": true}]"#),
        (r#"{"numbers": {"{{.WorkerID}}": 1}}"#, r#"[{"numbers": {"w": "1"}}]"#),
        (r#"{"string": "a" {{if true}}, "int32": 5{{end}}}"#, r#"[{"string": "a", "int32": 5}]"#),
    ] {
        assert_eq!(messages(&of_json(text)), Ok(json(filled)), "{text}");
    }
}

#[test]
fn templates_can_be_switched_off() {
    let call = GrpcCall { disable_template_data: true, ..of_json(r#"{"string": "{{.X}}"}"#) };
    assert_eq!(messages(&call).expect("messages")[0]["string"], "{{.X}}");
    let text = r#"{"string": "{{randomString 5}}"}"#;
    let call = GrpcCall { disable_template_functions: true, ..of_json(text) };
    assert!(messages(&call).expect_err("no such function").contains("randomString"));
}

#[test]
fn what_is_wrong_is_named_with_its_place() {
    for (text, parts) in [
        ("{", ["grpc.data: is not JSON", "line 1"]),
        (r#"{"int33": 1}"#, ["grpc.data: `int33`", "did you mean"]),
        (r#"[{}, {"int32": "a"}]"#, ["message 2: `int32`", "not \"a\""]),
        (r#"{"int32": {{.Nothing}}}"#, ["grpc.data: template", "Nothing"]),
        (r#"{"string": "{{.Nothing}}"}"#, ["grpc.data: `string`: template", "Nothing"]),
        (r#"{"int33": "{{.RequestNumber}}"}"#, ["`int33`", "did you mean"]),
    ] {
        let error = messages(&of_json(text)).expect_err(text);
        assert!(parts.iter().all(|part| error.contains(part)), "{error}");
    }
}

#[test]
fn files_hold_json_or_encoded_messages() {
    let folder = tempfile::tempdir().expect("folder");
    let path = folder.path().join("data");
    let json_file =
        GrpcCall { data: Some(GrpcData::JsonFile(path.clone())), ..GrpcCall::default() };
    assert!(messages(&json_file).expect_err("absent").contains("No such file"));
    fs::write(&path, r#"{"int32": 9}"#).expect("write");
    assert_eq!(messages(&json_file).expect("messages")[0]["int32"], 9);

    let binary = GrpcCall { data: Some(GrpcData::BinaryFile(path.clone())), ..GrpcCall::default() };
    let mut message = DynamicMessage::new(method().input());
    message.set_field_by_name("int32", prost_reflect::Value::I32(7));
    fs::write(&path, message.encode_to_vec()).expect("write");
    assert_eq!(messages(&binary).expect("messages")[0]["int32"], 7);
    let delimited =
        [message.encode_length_delimited_to_vec(), message.encode_length_delimited_to_vec()];
    fs::write(&path, delimited.concat()).expect("write");
    assert_eq!(messages(&binary).expect("messages").len(), 2);
    fs::write(&path, [0xff, 0xff, 0xff]).expect("write");
    assert!(messages(&binary).expect_err("nothing").contains("is not a kinds.v1.Everything"));
}
