//! Effects of `cryptorRequest`, `cryptorResponse` and `loggingConsole` on bodies.

use aws_lc_rs::encoding::{AsDer, Pkcs8V1Der, PublicKeyX509Der};
use aws_lc_rs::rsa::{KeySize, PrivateDecryptingKey};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use tollhouse_plugin::LogContext;
use tollhouse_plugin::testing::Reply;

use super::*;
use crate::tests::engines::FakeEngines;
use crate::turn::Aftermath;

/// A private and a public key.
fn keys() -> (String, String) {
    let private = PrivateDecryptingKey::generate(KeySize::Rsa2048).expect("a key");
    let public: PublicKeyX509Der<'_> = private.public_key().as_der().expect("X.509");
    let private: Pkcs8V1Der<'_> = private.as_der().expect("PKCS#8");
    (STANDARD.encode(private.as_ref()), STANDARD.encode(public.as_ref()))
}

fn post(body: &str) -> String {
    format!("POST /a HTTP/1.1\nHost: a\nContent-Length: {}\n\n{body}", body.len())
}

struct Passed {
    harness: Harness,
    exchange: FakeExchange,
    outcome: Outcome,
}

/// Runs a request, which may be answered.
fn pass(desk: &Desk, request: &str) -> Passed {
    pass_despite(desk, request, &[])
}

/// Runs a request through a chain for which these problems are reported.
fn pass_despite(desk: &Desk, request: &str, words: &[&str]) -> Passed {
    let (chain, problems) = desk.sources.compile(&desk.terms);
    assert_eq!(problems.len(), words.len(), "{problems:?}");
    for (problem, words) in problems.iter().zip(words) {
        assert!(problem.reason.contains(words), "{problem:?}");
    }
    let services = Arc::new(Services::new("APISIX/3.18.0"));
    let mut harness = Harness::with(chain.expect("a plugin is on"), services);
    let mut exchange = FakeExchange::parse(request, 0);
    let outcome = harness.run(&mut exchange);
    Passed { harness, exchange, outcome }
}

impl Passed {
    fn respond(&mut self, head: &str, body: &[&str]) -> Reply {
        self.harness.respond(&mut self.exchange, head, body)
    }
}

#[test]
fn a_field_that_a_client_has_encrypted_reaches_the_node_in_the_clear_and_the_answer_goes_back_encrypted()
 {
    let (private, public) = keys();
    let decrypt = json!({"strategyName": "rsa", "fieldNames": "card", "way": "decrypt",
        "decryptKey": private, "mapType": "all"});
    let encrypt = json!({"strategyName": "rsa", "fieldNames": "card", "way": "encrypt",
        "encryptKey": public, "mapType": "all"});
    let desk = Desk::new()
        .plugin("cryptorRequest", None)
        .rule("cryptorRequest", "/a", &Value::Null, &decrypt)
        .plugin("cryptorResponse", None)
        .rule("cryptorResponse", "/a", &Value::Null, &encrypt)
        .divide("/a");
    // A request without a body has nothing to decrypt.
    let mut passed = pass(&desk, &get("/a"));
    let reply =
        passed.respond("200\nContent-Type: application/json\n", &[r#"{"ca"#, r#"rd":"4711"}"#]);
    let encrypted = reply.body.clone();
    assert!(encrypted.starts_with(r#"{"card":""#) && !encrypted.contains("4711"), "{encrypted}");
    let passed = pass(&desk, &post(&encrypted));
    assert!(passed.outcome.answer.is_none());
    assert_eq!(passed.exchange.edits.body.as_deref(), Some(&br#"{"card":"4711"}"#[..]));
    let strange = desk.answer(&post(r#"{"card":"4711"}"#));
    assert!(strange.contains("-117"), "{strange}");
}

#[test]
fn what_is_to_be_encrypted_never_goes_out_as_it_is_because_it_cannot_be_read() {
    let (_, public) = keys();
    let encrypt = json!({"strategyName": "rsa", "fieldNames": "card", "way": "encrypt",
        "encryptKey": public});
    let desk = cryptor("cryptorResponse", &encrypt);
    let json = "200\nContent-Type: application/json\n";
    let large = format!(r#"{{"card":"4711","x":"{}"}}"#, "x".repeat(9 << 20));
    let long_card = format!(r#"{{"card":"4711{}"}}"#, "x".repeat(300));
    for (head, body) in [
        (format!("{json}Content-Encoding: gzip\n"), r#"{"card":"4711"}"#),
        (format!("{json}Content-Length: {}\n", large.len()), &large),
        (json.to_owned(), &large),
        (json.to_owned(), &long_card),
        (json.to_owned(), r#"[{"card":"4711"}]"#),
        (json.to_owned(), "card=4711"),
    ] {
        let reply = pass(&desk, &get("/a")).respond(&head, &[body]);
        assert!(reply.body.contains("-118") && !reply.body.contains("4711"), "{head}");
        assert!(reply.header("content-encoding").is_none());
    }
    let reply = pass(&desk, &get("/a")).respond(json, &[r#"{"n":1}"#]);
    assert_eq!(reply.body, r#"{"n":1}"#, "it has nothing secret");
}

#[test]
fn the_answer_in_place_of_a_body_has_the_nodes_type_and_a_treated_body_is_text() {
    let (private, public) = keys();
    let decrypt = json!({"strategyName": "rsa", "fieldNames": "card", "way": "decrypt",
        "decryptKey": private, "mapType": "field"});
    let encrypt = json!({"strategyName": "rsa", "fieldNames": "card", "way": "encrypt",
        "encryptKey": public});
    let respond = |handle: &Value, body: &str| {
        let head = "200\nContent-Type: application/json;charset=UTF-8\n";
        pass(&cryptor("cryptorResponse", handle), &get("/a")).respond(head, &[body])
    };
    let encrypted = respond(&encrypt, r#"{"card":"4711"}"#);
    assert_eq!(encrypted.header("content-type"), Some("text/plain"));
    let decrypted = respond(&decrypt, &encrypted.body);
    assert_eq!((&*decrypted.body, decrypted.header("content-type")), ("4711", Some("text/plain")));
    let refused = respond(&decrypt, r#"{"card":"4711"}"#);
    assert!(refused.body.contains("-117"), "{}", refused.body);
    assert_eq!(refused.header("content-type"), Some("application/json;charset=UTF-8"));
    let head = "200\nContent-Type: a/b\nContent-Length: 0\n";
    let empty = pass(&cryptor("cryptorResponse", &decrypt), &get("/a")).respond(head, &[""]);
    assert_eq!(empty.header("content-type"), Some("a/b"));
}

#[test]
fn one_of_several_encrypted_fields_may_be_wrong_and_a_plain_one_may_not() {
    let (private, public) = keys();
    let rule = |fields: &str, way: &str| {
        json!({"strategyName": "rsa", "fieldNames": fields, "way": way, "decryptKey": private,
            "encryptKey": public})
    };
    let respond = |handle: &Value, body: &str| {
        pass(&cryptor("cryptorResponse", handle), &get("/a")).respond("200\n", &[body]).body
    };
    let encrypted = respond(&rule("a", "encrypt"), r#"{"a":"4711","b":1,"c":" "}"#);
    assert_eq!(respond(&rule("a,b,c", "decrypt"), &encrypted), r#"{"a":"4711","b":1,"c":" "}"#);
    assert!(respond(&rule("b,c", "decrypt"), &encrypted).contains("-117"));
    assert_eq!(respond(&rule("c,d", "decrypt"), &encrypted), encrypted, "nothing to decrypt");
    let long = format!(r#"{{"a":"4711","b":"{}"}}"#, "x".repeat(300));
    assert!(respond(&rule("a,b", "encrypt"), &long).contains("-118"));
}

fn cryptor(plugin: &str, handle: &Value) -> Desk {
    Desk::new().plugin(plugin, None).rule(plugin, "/a", &Value::Null, handle).divide("/a")
}

#[test]
fn a_cryptor_rule_that_cannot_be_used_refuses_in_shenyus_words_before_a_node_is_asked() {
    let rule = |member: &str, value: Value| {
        let mut rule = json!({"strategyName": "rsa", "fieldNames": "card", "way": "encrypt",
            "encryptKey": "garbage"});
        rule[member] = value;
        rule
    };
    for plugin in ["cryptorRequest", "cryptorResponse"] {
        let words = if plugin == "cryptorRequest" { "-114 request" } else { "-116 response" };
        let (lacks, side) = words.split_once(' ').expect("two words");
        let decrypt = json!({"strategyName": "rsa", "fieldNames": "card", "way": "decrypt",
            "decryptKey": "garbage"});
        for (handle, code, text) in [
            (rule("way", "encrypt".into()), "-118", "data length is too long"),
            (decrypt, "-117", "data length is too long"),
            (rule("strategyName", "rot13".into()), "-118", "Encryption failed"),
            (
                rule("encryptKey", "".into()),
                lacks,
                &*format!("Cryptor {side} plugin's [encryptKey]"),
            ),
            (rule("way", "".into()), lacks, "[way]"),
            (json!([]), "-1,", "Internal exception"),
        ] {
            let desk = cryptor(plugin, &handle);
            let (_, problems) = desk.sources.compile(&desk.terms);
            assert_eq!(problems.len(), 1, "{handle}");
            let passed = pass_despite(&desk, &post(r#"{"card":"1"}"#), &["requests are refused"]);
            let answer = passed.outcome.answer.expect("it is refused");
            assert!(answer.body.contains(code) && answer.body.contains(text), "{}", answer.body);
            let (chain, _) = desk.sources.compile(&desk.terms);
            let course = chain.expect("it is on").explain(&FakeExchange::parse(&get("/a"), 0));
            let explained = format!("{:?}", course.end);
            assert!(explained.contains(code), "{plugin}: {explained}");
        }
    }
    let skipped = cryptor("cryptorRequest", &Value::Null);
    assert!(skipped.send(&post("{}")).answer.is_none(), "ShenYu skips a rule without a handle");
    let (private, _) = keys();
    let decrypt = json!({"strategyName": "rsa", "fieldNames": "card", "way": "decrypt",
        "decryptKey": private});
    for body in ["{}", "[]", "no JSON"] {
        let answer = cryptor("cryptorRequest", &decrypt).answer(&post(body));
        assert!(answer.contains("Cryptor request plugin's [fieldNames]"), "{answer}");
    }
    assert!(cryptor("cryptorRequest", &decrypt).send(&get("/a")).answer.is_none(), "no body");
    let several = json!({"strategyName": "rsa", "fieldNames": "card,code", "way": "decrypt",
        "decryptKey": private});
    let answer = cryptor("cryptorRequest", &several).answer(&get("/a"));
    assert!(answer.contains("Cryptor request plugin's [fieldNames]"), "{answer}");
}

#[test]
fn a_body_that_is_too_long_to_be_decrypted_does_not_reach_the_node() {
    let (private, _) = keys();
    let desk = Desk::new()
        .plugin("cryptorRequest", None)
        .rule(
            "cryptorRequest",
            "/a",
            &Value::Null,
            &json!({"strategyName": "rsa", "way": "decrypt", "fieldNames": "a",
                "decryptKey": private}),
        )
        .divide("/a");
    let answer = desk.answer(&post(&format!(r#"{{"a":"{}"}}"#, "x".repeat(9 << 20))));
    assert!(answer.contains("413"), "{}", &answer[..100]);
    let heavy = desk.answer(&post(&format!("[{}1]", "1,".repeat(1 << 20))));
    assert!(heavy.contains("413"), "more values than are made of a text");
}

#[test]
fn logging_console_takes_an_exchange_down_with_masks() {
    let config = json!({"sampleRate": "1", "maxResponseBody": 100});
    let masks = json!({"keyword": "card", "maskType": "dataMaskByCharReplace", "maskStatus": true});
    let desk = Desk::new()
        .plugin("loggingConsole", Some(&config))
        .rule("loggingConsole", "/a", &Value::Null, &masks)
        .divide("/a");
    let body = r#"{"card":"4711","n":1}"#;
    let request = format!(
        "POST /a?q=1 HTTP/1.1\nHost: a\nAuthorization: secret\nContent-Length: {}\n\n{body}",
        body.len()
    );
    let mut passed = pass(&desk, &request);
    assert!(passed.outcome.answer.is_none());
    passed.respond("200\nSet-Cookie: secret\n", &[r#"{"card":4711,"#, r#""m":2}"#]);
    let mut memory = std::mem::take(&mut passed.exchange.memory);
    let left = memory.get::<Aftermath>(1).expect("something is left");
    let record = left.records.pop().expect("it is taken down");
    let transfer = Transfer { status: 200, upstream: "10.0.0.1:80", ..Transfer::default() };
    let cx = LogContext::new(&passed.exchange, &mut memory, transfer);
    let record = Value::Object(record.members(&cx));
    assert!(!record.to_string().contains("4711") && !record.to_string().contains("secret"));
    for (member, expected) in [
        ("requestMethod", json!("POST")),
        ("requestUri", json!("/a?q=1")),
        ("queryParams", json!("q=1")),
        ("requestBody", json!(r#"{"card":"******","n":1}"#)),
        ("responseBody", json!(r#"{"card":"******","m":2}"#)),
        ("status", json!(200)),
        ("upstreamIp", json!("10.0.0.1")),
        ("ruleId", json!("loggingConsole-1")),
        ("rpcType", json!("http")),
    ] {
        assert_eq!(record[member], expected, "{member}");
    }
}

#[test]
fn records_go_to_each_store_that_is_configured_and_loggers_without_one_stop_nobody() {
    let engines = Arc::new(FakeEngines::default());
    let mut desk = Desk::new();
    desk.sources = Sources::with_engines(Some(Arc::<FakeEngines>::clone(&engines)));
    let server = json!({"host": "127.0.0.1", "port": "9200"});
    let brokers = json!({"namesrvAddr": "127.0.0.1:9092", "topic": "logs"});
    let mut desk = desk
        .plugin("loggingKafka", Some(&brokers))
        .rule("loggingKafka", "/a", &json!({"topic": "orders"}), &Value::Null)
        .plugin("loggingElasticSearch", Some(&server))
        .plugin("loggingClickHouse", Some(&server))
        .rule("loggingElasticSearch", "/a", &Value::Null, &Value::Null)
        .rule("loggingClickHouse", "/a", &Value::Null, &Value::Null)
        .divide("/a");
    let without = ["RocketMQ", "RabbitMQ", "Pulsar", "AliyunSls", "TencentCls", "HuaweiLts"];
    for name in without.map(|name| format!("logging{name}")) {
        let config = json!({"bootstrapServer": "127.0.0.1:9092", "topic": "shenyu-access-logging"});
        desk = desk.plugin(&name, Some(&config)).rule(&name, "/a", &Value::Null, &Value::Null);
    }
    let request = "GET /a HTTP/1.1\nHost: a\n\n";
    let mut passed = pass_despite(&desk, request, &["use `loggingKafka`"; 6]);
    assert!(passed.outcome.answer.is_none(), "who cannot write stops nobody");
    passed.respond("200\n", &["x"]);
    let mut memory = std::mem::take(&mut passed.exchange.memory);
    let left = memory.get::<Aftermath>(1).expect("something is left");
    let records = std::mem::take(&mut left.records);
    assert_eq!(records.len(), 3);
    for record in records {
        let cx = LogContext::new(&passed.exchange, &mut memory, Transfer::default());
        record.write(&cx);
    }
    let stored = engines.records.all();
    assert_eq!(stored.len(), 3);
    let places = engines.places.all().join("\n");
    assert!(places.contains("topic orders") && places.contains("ClickHouse"), "{places}");
    let record: Value = serde_json::from_str(&stored[0]).expect("JSON");
    assert!(record["requestHeader"].is_string(), "{record}");
    assert_eq!(record["path"], "/a");
}

#[test]
fn who_would_log_people_in_and_cannot_refuses_and_says_what_is_missing() {
    for (plugin, words) in [("oauth2", "`session_secret`"), ("casdoor", "`client_id`")] {
        let desk = Desk::new()
            .plugin(plugin, None)
            .rule(plugin, "/a", &Value::Null, &Value::Null)
            .divide("/a");
        let passed = pass_despite(&desk, "GET /a HTTP/1.1\nHost: a\n\n", &[words]);
        let answer = passed.outcome.answer.expect("it is refused");
        assert!(answer.body.contains("\"code\":-1,"), "{plugin}");
    }
}
