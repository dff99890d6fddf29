//! Signed requests, good and bad.

use serde_json::{Value, json};
use tollhouse_plugin::testing::{Harness, Outcome};

use super::*;

/// Virtual time of the harness when it starts.
const DATE: &str = "Tue, 14 Nov 2023 22:13:20 GMT";

fn harness(conf: &Value) -> Harness {
    let key = json!({"key_id": "my-key", "secret_key": "my-secret"});
    Harness::new::<HmacAuth>(conf).consumer::<HmacAuth>("jack", &key)
}

fn signature(algorithm: Algorithm, text: &str) -> String {
    encode_base64(hmac::sign(&hmac::Key::new(algorithm.primitive(), b"my-secret"), text.as_bytes()))
}

fn authorization(algorithm: &str, headers: &str, signature: &str) -> String {
    format!(
        "Authorization: Signature keyId=\"my-key\",algorithm=\"{algorithm}\",headers=\"{headers}\",\
         signature=\"{signature}\"\n"
    )
}

/// Signs `GET /hello` with the date.
fn signed(date: &str) -> String {
    let text = format!("my-key\nGET /hello\ndate: {date}\n");
    let signature = signature(Algorithm::HmacSha256, &text);
    let header = authorization("hmac-sha256", "@request-target date", &signature);
    format!("GET /hello HTTP/1.1\nDate: {date}\n{header}")
}

fn refused(outcome: &Outcome) -> bool {
    outcome.status() == 401
        && outcome.body() == "{\"message\":\"client request can't be validated\"}\n"
        && outcome.header("www-authenticate") == Some("hmac realm=\"hmac\"")
}

#[test]
fn a_good_signature_passes_with_each_algorithm() {
    for algorithm in Algorithm::ALL {
        let text = format!("my-key\nPUT /a?b=c\ndate: {DATE}\nX-Custom: one\n");
        let names = "@request-target date X-Custom X-Absent";
        let header = authorization(algorithm.name(), names, &signature(algorithm, &text));
        let request = format!("PUT /a?b=c HTTP/1.1\nDate: {DATE}\nX-Custom: one\n{header}\n");
        let outcome = harness(&json!({})).request(&request);
        assert_eq!(outcome.consumer.as_deref(), Some("jack"), "{algorithm:?}");
        assert_eq!(outcome.edits, "+X-Consumer-Username: jack\n");
    }
}

#[test]
fn all_lines_of_a_signed_header_are_signed_and_other_spellings_are_refused() {
    let request = |signed: &str, lines: &str| {
        let text = format!("my-key\nGET /hello\ndate: {DATE}\nx-amount: {signed}\n");
        let signature = signature(Algorithm::HmacSha256, &text);
        let header = authorization("hmac-sha256", "@request-target date x-amount", &signature);
        format!("GET /hello HTTP/1.1\nDate: {DATE}\n{lines}{header}\n")
    };
    for (signed, lines, passes) in [
        ("1", "x-amount: 1\n", true),
        ("1, 2", "x-amount: 1\nX-Amount: 2\n", true),
        ("1", "x-amount: 1\nx-amount: 1000\n", false),
        ("1", "x-amount: 1000\nx-amount: 1\n", false),
        ("1", "x-amount:\nx-amount: 1\n", false),
        ("1", "x-amount: 1\nX_Amount: 1000\n", false),
        ("1", "x-amount: 1\nX-Amounts: 1000\n", true),
    ] {
        let outcome = harness(&json!({})).request(&request(signed, lines));
        assert_eq!(outcome.passes(), passes, "{signed} {lines}");
    }
}

#[test]
fn a_known_answer_of_another_implementation_is_accepted() {
    // python3: hmac.new(b"my-secret", b"my-key\nGET /hello\ndate: …\n", sha256)
    assert_eq!(
        signature(Algorithm::HmacSha256, &format!("my-key\nGET /hello\ndate: {DATE}\n")),
        "RRzIc4l/K7OaJAC+hA+pZc4rnj6sRHvIYQqhaTaOwiw="
    );
}

#[test]
fn headers_that_are_missing_or_foreign_are_told() {
    for (header, reason) in [
        ("", "missing Authorization header"),
        ("Authorization: Basic x\n", "Authorization header does not start with 'Signature'"),
    ] {
        let outcome = harness(&json!({})).request(&format!("GET / HTTP/1.1\n{header}\n"));
        let body = format!("{{\"message\":\"client request can't be validated: {reason}\"}}\n");
        assert_eq!((outcome.status(), outcome.body()), (401, body.as_str()));
        assert_eq!(outcome.header("www-authenticate"), Some("hmac realm=\"hmac\""));
    }
}

#[test]
fn whatever_is_wrong_with_a_signature_is_not_told() {
    let good = signed(DATE);
    for (wrong, right) in [
        ("keyId=\"other\"", "keyId=\"my-key\""),
        ("x=\"\"", "keyId=\"my-key\""),
        ("algorithm=\"hmac-md5\"", "algorithm=\"hmac-sha256\""),
        ("algorithm=\"hmac-sha1\"", "algorithm=\"hmac-sha256\""),
        ("x=\"\"", "algorithm=\"hmac-sha256\""),
        ("headers=\"@request-target\"", "headers=\"@request-target date\""),
        ("headers=\"date @request-target\"", "headers=\"@request-target date\""),
        ("x=\"\"", "headers=\"@request-target date\""),
        ("signature=\"%", "signature=\""),
        ("signature=\"AAAA", "signature=\""),
        ("x=\"", "signature=\""),
        ("POST /hello", "GET /hello"),
        ("GET /hello?x", "GET /hello"),
        ("\nX: ", "\nDate: "),
    ] {
        let request = good.replace(right, wrong);
        assert_ne!(request, good, "{wrong}");
        let outcome = harness(&json!({})).request(&request);
        assert!(refused(&outcome), "{wrong}: {outcome:?}");
    }
    assert!(harness(&json!({})).request(&good).passes());
}

#[test]
fn the_date_may_differ_by_the_skew_and_no_more() {
    let cases = [
        ("Tue, 14 Nov 2023 22:13:20 GMT", true),
        ("Tue, 14 Nov 2023 22:13:10 GMT", true),
        ("Tue, 14 Nov 2023 22:13:30 GMT", true),
        ("Tue, 14 Nov 2023 22:13:09 GMT", false),
        ("Tue, 14 Nov 2023 22:13:31 GMT", false),
        ("Thu, 24 Sep 2020 06:39:52 GMT", false),
        ("adfsdf", false),
    ];
    for (date, passes) in cases {
        let outcome = harness(&json!({"clock_skew": 10})).request(&signed(date));
        assert_eq!(outcome.passes(), passes, "{date}");
        assert_eq!(refused(&outcome), !passes, "{date}");
    }
}

#[test]
fn x_date_counts_where_there_is_no_date() {
    let text = format!("my-key\nGET /\nx-date: {DATE}\n");
    let header = authorization(
        "hmac-sha256",
        "@request-target x-date",
        &signature(Algorithm::HmacSha256, &text),
    );
    let request = format!("GET / HTTP/1.1\nX-Date: {DATE}\n{header}");
    assert!(harness(&json!({"signed_headers": ["x-date"]})).request(&request).passes());
    assert!(refused(&harness(&json!({})).request(&request)), "date is not signed");
}

#[test]
fn the_header_whose_time_counts_must_be_signed() {
    let conf = json!({"signed_headers": ["x-date"], "clock_skew": 10});
    let old = "Thu, 24 Sep 2020 06:39:52 GMT";
    let sign = |names: &str, text: &str| {
        authorization("hmac-sha256", names, &signature(Algorithm::HmacSha256, text))
    };
    // A request of long ago, with a date that says now.
    let captured = sign("@request-target x-date", &format!("my-key\nGET /\nx-date: {old}\n"));
    let replayed = format!("GET / HTTP/1.1\nDate: {DATE}\nX-Date: {old}\n{captured}");
    assert!(refused(&harness(&conf).request(&replayed)));
    // Named, and not there: `date` says nothing about the time that is.
    let named = sign("@request-target date", "my-key\nGET /\n");
    let unsigned = format!("GET / HTTP/1.1\nX-Date: {DATE}\n{named}");
    assert!(refused(&harness(&json!({})).request(&unsigned)));
}

#[test]
fn a_signature_fits_one_target_alone() {
    let text = format!("my-key\nGET /a\ndate: {DATE}\n");
    let signature = signature(Algorithm::HmacSha256, &text);
    let target = authorization("hmac-sha256", "@request-target date", &signature);
    for (line, passes) in [
        ("/a", true),
        (&*format!("/a%0adate:%20{}", DATE.replace(' ', "%20")), false),
        ("/a%3F", false),
    ] {
        let request = format!("GET {line} HTTP/1.1\nDate: {DATE}\n{target}");
        assert_eq!(harness(&json!({})).request(&request).passes(), passes, "{line}");
    }
    let alone = authorization("hmac-sha256", "@request-target x-date", &signature);
    let line = format!("GET /a%0adate:%20{} HTTP/1.1", DATE.replace(' ', "%20"));
    let request = format!("{line}\nX-Date: {DATE}\n{alone}");
    assert!(!harness(&json!({"signed_headers": []})).request(&request).passes());
}

#[test]
fn the_case_of_a_signed_header_is_the_clients_choice() {
    let text = format!("my-key\nDate: {DATE}\n");
    let signature = signature(Algorithm::HmacSha256, &text);
    let header = authorization("hmac-sha256", "Date", &signature);
    let request = format!("GET / HTTP/1.1\nDate: {DATE}\n{header}");
    assert!(harness(&json!({})).request(&request).passes());
}

#[test]
fn only_allowed_algorithms_count() {
    let conf = json!({"allowed_algorithms": ["hmac-sha1"]});
    assert!(refused(&harness(&conf).request(&signed(DATE))));
}

#[test]
fn a_body_must_have_its_digest_where_that_is_asked_for() {
    let conf = json!({"validate_request_body": true, "max_req_body_size": 5});
    let digest = "Digest: SHA-256=LPJNul+wow4m6DsqxbninhsWHlwfp0JecwQzYpOLmCQ=\n";
    let sent = |digest: &str, body: &str| {
        harness(&conf).request(&format!("{}{digest}\n{body}", signed(DATE)))
    };
    assert_eq!(sent(digest, "hello").consumer.as_deref(), Some("jack"));
    assert!(refused(&sent(digest, "hellO")));
    assert!(refused(&sent(digest, "")));
    assert!(refused(&sent("", "hello")));
    let empty = "Digest: SHA-256=47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=\n";
    assert!(sent(empty, "").passes());
    let outcome = sent(digest, "hello!");
    assert_eq!((outcome.status(), outcome.body()), (413, ""));
}

#[test]
fn credentials_are_hidden_whoever_passes() {
    let conf = json!({"hide_credentials": true, "anonymous_consumer": "jack"});
    for request in [signed(DATE), signed("adfsdf")] {
        let outcome = harness(&conf).request(&request);
        assert_eq!(outcome.edits, "+X-Consumer-Username: jack\n-Authorization\n");
    }
    let conf = json!({"anonymous_consumer": "nobody"});
    let outcome = harness(&conf).request("GET / HTTP/1.1\n\n");
    assert_eq!(outcome.body(), "{\"message\":\"Invalid user authorization\"}\n");
}

#[test]
fn bad_confs_are_refused() {
    let cases = [
        (json!({"clock_skew": 0}), "\"clock_skew\" validation failed: expected 0 to be at least 1"),
        (json!({"allowed_algorithms": []}), "expect array to have at least 1 items"),
        (
            json!({"allowed_algorithms": ["hmac-md5"]}),
            "failed to validate item 1: matches none of the enum values",
        ),
        (
            json!({"signed_headers": [""]}),
            "failed to validate item 1: string too short, expected at least 1, got 0",
        ),
        (json!({"max_req_body_size": 0}), "expected 0 to be at least 1"),
    ];
    for (conf, inner) in cases {
        let refusal = Harness::refusal::<HmacAuth>(&conf);
        assert!(refusal.ends_with(inner), "{refusal}");
    }
    let plugin = tollhouse_plugin::PluginType::new::<HmacAuth>();
    let refusal = plugin.identify(&json!({"key_id": "a", "secret_key": "x".repeat(257)}));
    let refusal = refusal.err().map(String::from);
    let expected = "property \"secret_key\" validation failed: \
                    string too long, expected at most 256, got 257";
    assert_eq!(refusal.as_deref(), Some(expected));
}
