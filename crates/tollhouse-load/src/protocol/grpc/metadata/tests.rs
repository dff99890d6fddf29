//! Tests of metadata: what is sent under which name, and what may not be.
//! Values with templates are filled in from a fixed seed.

use serde_json::json;
use tollhouse_stdx::Random;

use super::*;
use go_template::{Method, Variables};

fn filled(metadata: Json, number: u64) -> Result<HeaderMap, String> {
    let call = GrpcCall { metadata: Some(metadata), ..GrpcCall::default() };
    let prepared = Metadata::prepare(&Case::new("grpc://127.0.0.1:1"), &call);
    let prepared = prepared.map_err(|error| error.to_string())?;
    let method = Method::default();
    let mut random = Random::seeded(1);
    let variables = Variables {
        worker_id: "g0c7",
        request_number: number,
        method: &method,
        unix_ns: 0,
        uuid: 0,
    };
    let mut text = String::new();
    let mut fill = Fill { variables: &variables, random: &mut random, text: &mut text };
    prepared.headers(&mut fill).map(Cow::into_owned).map_err(|error| error.to_string())
}

#[test]
fn headers_are_the_protocols_own_and_the_cases() {
    let headers = filled(json!({"x-token": "t-{{.WorkerID}}", "X-Fixed": 5}), 0).expect("headers");
    for (name, value) in [
        ("content-type", "application/grpc"),
        ("te", "trailers"),
        ("grpc-timeout", "10000m"),
        ("x-token", "t-g0c7"),
        ("x-fixed", "5"),
    ] {
        assert_eq!(headers[name], value, "{name}");
    }
    assert!(headers["user-agent"].to_str().expect("text").starts_with("tollhouse-bench/"));
    let named = filled(json!({"user-agent": "mine"}), 0).expect("headers");
    assert_eq!(named.get_all("user-agent").iter().count(), 1);
}

#[test]
fn a_list_of_objects_takes_turns() {
    let list = json!([{"k": "a"}, {"k": "b"}]);
    let values: Vec<_> =
        (0..3).map(|number| filled(list.clone(), number).expect("headers")["k"].clone()).collect();
    assert_eq!(values, ["a", "b", "a"]);
}

#[test]
fn bytes_are_base64_and_travel_without_padding() {
    assert_eq!(filled(json!({"k-bin": "AAE="}), 0).expect("headers")["k-bin"], "AAE");
    assert!(filled(json!({"k-bin": "?"}), 0).expect_err("no base64").contains("not base64"));
}

#[test]
fn what_cannot_be_sent_is_named() {
    for (metadata, part) in [
        (json!("text"), "takes an object of texts"),
        (json!({"a b": "c"}), "`a b` is not a header name"),
        (json!({"grpc-status": "0"}), "belongs to the protocol"),
        (json!({"Host": "h"}), "belongs to the protocol"),
        (json!({"k": "é"}), "a name that ends in -bin"),
        (json!({"k": "a\nb"}), "the value of `k`"),
        (json!({"k": {}}), "`k` takes a text"),
        (json!({"k": "{{.Nothing}}"}), "`k`: template"),
    ] {
        let error = filled(metadata, 0).expect_err(part);
        assert!(error.starts_with("grpc.metadata") && error.contains(part), "{error}");
    }
}

#[test]
fn timeouts_have_eight_digits_at_most() {
    for (timeout, text) in [
        (Duration::from_secs(20), "20000m"),
        (Duration::from_micros(1), "1m"),
        (Duration::from_secs(1_000_000), "1000000S"),
        (Duration::MAX, "99999999S"),
    ] {
        assert_eq!(timeout_text(timeout), text);
    }
}
