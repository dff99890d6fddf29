//! Where clients are sent, and which confs are refused.

use std::sync::Arc;

use tollhouse_plugin::Services;
use tollhouse_plugin::testing::{FakeExchange, Harness, configure};

use super::*;

fn location(conf: Value, request: &str) -> (u16, String) {
    let outcome = Harness::new::<Redirect>(&conf).request(request);
    (outcome.status(), outcome.header("location").unwrap_or("none").to_owned())
}

#[test]
fn the_uri_is_made_of_variables() {
    for (uri, expected) in [
        ("/test/add", "/test/add"),
        ("$uri/test/add", "/hello/test/add"),
        ("$uri/test/a${arg_name}c", "/hello/test/ajsonc"),
        ("/foo$$uri", "/foo$/hello"),
        ("\\$uri/foo$uri\\$uri/bar", "\\$uri/foo/hello\\$uri/bar"),
        ("$uri/$bad_var/bar", "/hello//bar"),
        ("https://$host$request_uri", "https://test.com/hello?name=json"),
        ("/a${uri ?? b}", "/a${uri ?? b}"),
        ("/a\\b$", "/ab$"),
    ] {
        let found = location(json!({"uri": uri}), "GET /hello?name=json HTTP/1.1\n\n");
        assert_eq!(found, (302, expected.into()), "{uri}");
    }
}

#[test]
fn the_body_is_read_where_a_variable_is_in_it() {
    let mut exchange = FakeExchange::parse("POST / HTTP/1.1\n\na=b", 0);
    let conf = json!({"uri": "/x/$post_arg_a"});
    let outcome = Harness::new::<Redirect>(&conf).run(&mut exchange);
    assert_eq!(outcome.header("location"), Some("/x/b"));
    assert!(exchange.body_was_read);
}

#[test]
fn the_answer_has_a_page() {
    let conf = json!({"uri": "/a", "ret_code": 301});
    let outcome = Harness::new::<Redirect>(&conf).request("GET / HTTP/1.1\n\n");
    assert!(outcome.body().contains("<h1>301 Moved Permanently</h1>"));
    assert_eq!(outcome.header("content-type"), Some("text/html; charset=utf-8"));
    let conf = json!({"uri": "/a", "ret_code": 201});
    let outcome = Harness::new::<Redirect>(&conf).request("GET / HTTP/1.1\n\n");
    assert_eq!((outcome.status(), outcome.body()), (201, ""));
    assert_eq!(outcome.header("location"), Some("/a"));
}

#[test]
fn a_pattern_is_for_the_path_alone() {
    let conf = json!({"regex_uri": ["^/test/(.*)/(.*)", "http://x/$2/$1"]});
    let found = location(conf.clone(), "GET /test/a/b?c HTTP/1.1\n\n");
    assert_eq!(found, (302, "http://x/b/a".into()));
    let outcome = Harness::new::<Redirect>(&conf).request("GET /other HTTP/1.1\n\n");
    assert!(outcome.passes());
    let conf = json!({"regex_uri": ["(a*)*(?<!c)\\1x", "/"]});
    let request = format!("GET /{} HTTP/1.1\n\n", "a".repeat(64));
    assert_eq!(location(conf, &request), (500, "none".into()));
}

#[test]
fn a_decoded_path_leads_to_no_other_site() {
    let conf = json!({"regex_uri": ["^/x(/.*)", "$1"]});
    for (path, expected) in [
        ("/x/\\evil.com", "/%5Cevil.com"),
        ("/x/\t/evil.com", "/%09/evil.com"),
        ("/x/\u{1}\u{7f}b", "/%01%7Fb"),
        ("/x/é&c", "/%C3%A9&c"),
    ] {
        let mut exchange = FakeExchange::parse("GET / HTTP/1.1\n\n", 0);
        exchange.target = path.into();
        let outcome = Harness::new::<Redirect>(&conf).run(&mut exchange);
        assert_eq!(outcome.header("location"), Some(expected), "{path:?}");
        let outcome = Harness::new::<Redirect>(&json!({"uri": "${uri}"})).run(&mut exchange);
        let whole = format!("/x{expected}");
        assert_eq!(outcome.header("location"), Some(whole.as_str()), "{path:?}");
    }
}

#[test]
fn clients_are_sent_to_tls_with_the_address_that_they_sent() {
    let conf = json!({"http_to_https": true});
    let mut exchange = FakeExchange::parse("GET /a HTTP/1.1\n\n", 0).sent_as("/./%61?b=%20");
    let outcome = Harness::new::<Redirect>(&conf).run(&mut exchange);
    assert_eq!(outcome.header("location"), Some("https://test.com/./%61?b=%20"));
}

#[test]
fn the_query_is_appended_where_asked_for() {
    for (uri, target, expected) in [
        ("/a", "/b?c=1", "/a?c=1"),
        ("/a?x=y", "/b?c=1", "/a?x=y&c=1"),
        ("/a", "/b", "/a"),
        ("/a", "/b?", "/a"),
    ] {
        let conf = json!({"uri": uri, "append_query_string": true});
        let found = location(conf, &format!("GET {target} HTTP/1.1\n\n"));
        assert_eq!(found, (302, expected.into()));
    }
}

#[test]
fn the_path_is_encoded_where_asked_for() {
    let conf = json!({"uri": "/a b?c d", "encode_uri": true});
    assert_eq!(location(conf, "GET / HTTP/1.1\n\n"), (302, "/a%20b?c d".into()));
}

#[test]
fn plain_requests_are_sent_to_tls() {
    let conf = json!({"http_to_https": true, "ret_code": 302});
    for (request, expected) in [
        ("GET /a?b HTTP/1.1\n\n", (301, "https://test.com/a?b")),
        ("HEAD /a HTTP/1.1\n\n", (301, "https://test.com/a")),
        ("POST /a HTTP/1.1\n\n", (308, "https://test.com/a")),
        ("GET /a HTTP/1.1\nHost: b:81\n\n", (301, "https://b/a")),
        ("GET /a HTTP/1.1\nX-Forwarded-Proto: http\n\n", (301, "https://test.com/a")),
        ("GET /a HTTP/1.1\nX-Forwarded-Proto: any\n\n", (301, "https://test.com/a")),
        ("GET /a HTTP/1.1\nX-Forwarded-Proto: https\n\n", (0, "none")),
    ] {
        let (status, location) = location(conf.clone(), request);
        assert_eq!((status, location.as_str()), expected, "{request}");
    }
    let mut secure = FakeExchange::parse("GET / HTTP/1.1\n\n", 0);
    secure.is_tls = true;
    assert!(Harness::new::<Redirect>(&conf).run(&mut secure).passes());
    assert_eq!(location(json!({"http_to_https": false}), "GET / HTTP/1.1\n\n").0, 0);
}

#[test]
fn the_port_is_named_unless_it_is_443() {
    for (attribute, tls_port, expected) in [
        (None, Some(9443), "https://test.com:9443/"),
        (Some(8443), Some(9443), "https://test.com:8443/"),
        (Some(443), Some(9443), "https://test.com/"),
        (Some(0), None, "https://test.com/"),
        (Some(65536), None, "https://test.com/"),
    ] {
        let mut services = Services::new("APISIX/3.18.0");
        services.tls_port = tls_port;
        if let Some(port) = attribute {
            services.attributes.insert("redirect".into(), json!({"https_port": port}));
        }
        let services = Arc::new(services);
        let handler = configure::<Redirect>(&json!({"http_to_https": true}), &services).unwrap();
        let outcome = Harness::with(handler, services).request("GET / HTTP/1.1\n\n");
        assert_eq!(outcome.header("location"), Some(expected));
    }
}

#[test]
fn bad_confs_are_refused() {
    for (conf, expected) in [
        (json!({}), "value should match only one schema, but matches none"),
        (
            json!({"uri": "/a", "http_to_https": true}),
            "value should match only one schema, but matches both schemas 1 and 3",
        ),
        (
            json!({"http_to_https": true, "append_query_string": true}),
            "only one of `http_to_https` and `append_query_string` can be configured.",
        ),
        (json!({"uri": "a"}), "property \"uri\" validation failed: string too short, expected at"),
        (
            json!({"regex_uri": ["a"]}),
            "property \"regex_uri\" validation failed: expect array to have at least 2 items",
        ),
        (json!({"regex_uri": ["^(", "/"]}), "invalid regex_uri (^(, /), err:pcre2_compile()"),
        (
            json!({"uri": "/a", "ret_code": 100}),
            "property \"ret_code\" validation failed: expected 100 to be at least 200",
        ),
    ] {
        let refusal = Harness::refusal::<Redirect>(&conf);
        assert!(refusal.starts_with(expected), "{conf}: {refusal}");
    }
}
