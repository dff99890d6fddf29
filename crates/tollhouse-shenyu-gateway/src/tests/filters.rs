//! Filters, which run before any plugin.

use tollhouse_plugin::LocalFuture;
use tollhouse_shenyu::filters::{Cross, Filters, LocalKey};

use super::*;
use crate::{LocalAnswer, LocalCall, LocalInterface};

/// The SHA-512 digest of `key`.
fn local_key() -> LocalKey {
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA512, b"key");
    let digits: String = digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    LocalKey::parse(&digits).expect("128 digits")
}

fn filters() -> Filters {
    let set = |paths: &[&str]| paths.iter().map(|path| (*path).to_owned()).collect();
    Filters {
        collapse_slashes: true,
        local_key: Some(local_key()),
        cross: Some(Cross { max_age_s: 18_000, ..Cross::default() }),
        health_prefixes: vec!["/actuator".into()],
        actuator: false,
        file_bytes_max: 10,
        exclude: set(&["/favicon.ico"]),
        fallback: set(&["/fallback/sentinel", "/fallback/other"]),
    }
}

/// Local interface that answers with the call it received.
#[derive(Debug)]
struct Echo;

impl LocalInterface for Echo {
    fn call<'a>(&'a self, call: LocalCall) -> LocalFuture<'a, LocalAnswer> {
        let LocalCall { method, path, query, body } = call;
        let text = format!("{method} {path}?{query} {}", String::from_utf8_lossy(&body));
        let answer = LocalAnswer { status: 200, body: text, warning: Some("a\nb".to_owned()) };
        Box::pin(std::future::ready(answer))
    }
}

fn desk() -> Desk {
    let mut desk = Desk::new();
    desk.sources = Sources::default().with_local(Some(Arc::new(Echo)));
    desk.terms.filters = filters();
    desk
}

#[test]
fn a_chain_takes_requests_only_where_an_object_asks_for_them() {
    let takes = |desk: Desk| {
        let (chain, _) = desk.sources.compile(&desk.terms);
        chain.expect("a plugin is on").takes(&FakeExchange::parse(&get("/a"), 0))
    };
    let on = |desk: Desk| desk.plugin("divide", None).plugin("contextPath", None);
    assert!(!takes(on(Desk::new())), "plugins without a selector");
    assert!(takes(on(Desk::new()).divide("/other")));
    let waf = |model: &str| on(Desk::new()).plugin("waf", Some(&json!({"model": model})));
    assert!(!takes(waf("black")));
    assert!(takes(waf("mixed")), "it refuses what no selector takes");
    let off = json!({"id": "divide", "name": "divide", "enabled": false});
    assert!(!takes(on(Desk::new()).divide("/other").put(Kind::Plugin, &off)));
}

#[test]
fn objects_are_shown_below_actuator_where_asked_for_without_their_secrets() {
    let rule = json!({"keyName": "apiKey", "key": "k1", "password": "p1"});
    let desk = Desk::new().plugin("keyAuth", None).rule("keyAuth", "/key", &Value::Null, &rule);
    let mut desk = desk.divide("/");
    assert!(desk.send(&get("/actuator/plugins")).answer.is_none(), "it is a path like others");
    desk.terms.filters = Filters { actuator: true, ..Filters::default() };
    let page = |path: &str| -> Value {
        let answer = desk.send(&get(path)).answer.expect("it is answered");
        assert_eq!(answer.status, 200, "{path}");
        serde_json::from_str(&answer.body).expect("JSON")
    };
    let plugins = page("/actuator/plugins");
    assert_eq!(plugins[0]["org.apache.shenyu.plugin.divide.DividePlugin"], 200);
    assert_eq!(plugins[0]["org.apache.shenyu.plugin.key.auth.KeyAuthPlugin"], 150);
    assert_eq!(page("/actuator/pluginData")[0]["keyAuth"]["enabled"], true);
    assert_eq!(page("/actuator/selectorData")[0]["divide"][0]["id"], "divide-2");
    let rules = page("/actuator/ruleData");
    assert_eq!(rules[0]["keyAuth-1"][0]["pluginName"], "keyAuth");
    assert!(!rules.to_string().contains("p1"), "{rules}");
    assert_eq!(page("/actuator/metadata"), json!([{}]));
    assert_eq!(page("/actuator/health")["status"], "UP");
    assert!(desk.answer(&get("/actuator/other")).starts_with("404 "));
    assert!(desk.send(&get("/actuators")).answer.is_none());
}

#[test]
fn a_redirect_inside_finds_the_pages_of_the_gateway_itself() {
    let desk = Desk::new()
        .plugin("redirect", None)
        .rule("redirect", "/old", &Value::Null, &json!({"redirectURI": "/actuator/health"}))
        .divide("/");
    assert_eq!(desk.answer(&get("/old")), r#"200 {"status":"UP"}"#);
}

#[test]
fn paths_of_filters_are_answered_before_any_plugin() {
    let desk = desk().divide("/");
    for (path, expected) in [
        ("/actuator/health", r#"200 {"status":"UP"}"#),
        ("//actuator///health", r#"200 {"status":"UP"}"#),
        ("/favicon.ico", "200 "),
        (
            "/fallback/sentinel",
            r#"200 {"code":429,"message":"SentinelPlugin fallback success, please check your service status!"}"#,
        ),
        (
            "/fallback/other",
            r#"200 {"code":-103,"message":"Service invocation exception, or no result is returned!"}"#,
        ),
        ("/shenyu/cleanAll", r#"403 {"code":403,"message":"The key is not correct."}"#),
    ] {
        assert_eq!(desk.answer(&get(path)), expected, "{path}");
    }
    for path in ["/actuator-x", "/order"] {
        assert!(desk.send(&get(path)).answer.is_none(), "{path} is a node's");
    }
}

#[test]
fn the_gateways_own_interface_is_for_who_has_its_key() {
    let desk = desk();
    let call = |key: &str, body: &str| {
        format!(
            "POST /shenyu/plugin/saveOrUpdate?a=1 HTTP/1.1\nHost: a\nlocalKey: {key}\n\
             Content-Length: {}\n\n{body}",
            body.len()
        )
    };
    assert_eq!(desk.answer(&call("key", "{}")), "200 POST /shenyu/plugin/saveOrUpdate?a=1 {}");
    let answer = desk.send(&call("key", "{}")).answer.expect("an answer");
    let warning = answer.headers.iter().find(|(name, _)| name == "X-Tollhouse-Warning");
    assert_eq!(warning.map(|(_, value)| &**value), Some("a b"), "on one line");
    for key in ["", "Key", "key2"] {
        assert!(desk.answer(&call(key, "{}")).starts_with("403 "), "{key}");
    }
    // Without the key, no body is read. With the key, a body that is too long is refused.
    let long = "x".repeat(5 << 20);
    assert!(desk.answer(&call("wrong", &long)).starts_with("403 "));
    assert!(desk.answer(&call("key", &long)).contains("413"));
    let mut off = Desk::new().divide("/");
    off.sources = off.sources.with_local(Some(Arc::new(Echo)));
    assert!(off.send(&call("key", "{}")).answer.is_none(), "it is off unless a key is set");
}

#[test]
fn filters_alone_take_their_own_paths_and_leave_the_others() {
    let desk = desk();
    let (chain, _) = desk.sources.compile(&desk.terms);
    let chain = chain.expect("there are filters");
    let takes = |path: &str| chain.takes(&FakeExchange::parse(&get(path), 0));
    assert!(takes("/shenyu/cleanAll") && takes("/actuator") && takes("/favicon.ico"));
    assert!(!takes("/order/1") && !takes("/shenyu"));
    let desk = desk.divide("/order/");
    let chain = desk.sources.compile(&desk.terms).0.expect("it is on");
    assert!(chain.takes(&FakeExchange::parse(&get("/other"), 0)));
    assert!(chain.knows(&FakeExchange::parse(&get("/actuator"), 0)));
    assert!(!chain.knows(&FakeExchange::parse(&get("/other"), 0)));
}

#[test]
fn pages_of_other_sites_are_told_what_they_may_read_whoever_answers() {
    let desk = desk().divide("/order/");
    let (chain, _) = desk.sources.compile(&desk.terms);
    let services = Arc::new(Services::new("APISIX/3.18.0"));
    let mut harness = Harness::with(chain.expect("it is on"), services);
    let asked = |method: &str, path: &str, origin: &str| {
        FakeExchange::parse(
            &format!("{method} {path} HTTP/1.1\nHost: a.com\nOrigin: {origin}\n\n"),
            0,
        )
    };
    let mut allowed = |mut exchange: FakeExchange, head: &str| {
        let outcome = harness.run(&mut exchange);
        let reply = harness.respond(&mut exchange, head, &[""]);
        let origins = reply
            .headers
            .iter()
            .filter(|(name, _)| name.eq_ignore_ascii_case("access-control-allow-origin"));
        let origins: Vec<String> = origins.map(|(_, value)| value.clone()).collect();
        (outcome.answer.map(|answer| answer.status), origins.join(" "))
    };
    let page = "https://b.com";
    let node = "200\nAccess-Control-Allow-Origin: *\n";
    assert_eq!(allowed(asked("GET", "/order/1", page), node), (None, page.to_owned()));
    assert_eq!(allowed(asked("OPTIONS", "/order/1", page), "200"), (Some(200), page.to_owned()));
    assert_eq!(allowed(asked("GET", "/other", page), "200"), (Some(200), page.to_owned()));
    assert_eq!(allowed(asked("GET", "/order/1", "http://a.com"), node), (None, "*".to_owned()));
    assert_eq!(allowed(asked("OPTIONS", "/order/1", "http://a.com"), node).0, None);
}

#[test]
fn forms_with_files_have_a_size_and_slashes_are_one() {
    let desk = desk().divide("/order/");
    let form = |head: &str, body: &str| {
        format!(
            "POST /order/1 HTTP/1.1\nHost: a\nContent-Type: Multipart/form-data; boundary=x\n{head}\n{body}"
        )
    };
    assert!(desk.send(&form("Content-Length: 10\n", "0123456789")).answer.is_none());
    for (head, body) in [("Content-Length: 11\n", "01234567890"), ("", "01234567890")] {
        let answer = desk.answer(&form(head, body));
        assert_eq!(answer, r#"400 {"code":403,"message":"Payload too large!"}"#, "{head}");
    }
    let outcome = desk.send(&get("//order///1?a=//"));
    assert!(outcome.answer.is_none());
    assert!(outcome.edits.contains("/order/1?a=//"), "{}", outcome.edits);
}
