//! What browsers are told, conf by conf.

use std::sync::Arc;

use tollhouse_plugin::testing::{FakeExchange, Harness, Reply, configure_among};
use tollhouse_plugin::{Catalogue, PluginType, Services};

use super::*;

const NODE: &str = "200\nContent-Type: text/plain\nVary: Via";

fn reply(harness: &mut Harness, lines: &str) -> Reply {
    let mut exchange = FakeExchange::parse(&format!("GET /hello HTTP/1.1\n{lines}\n"), 0);
    assert!(harness.run(&mut exchange).passes());
    harness.respond(&mut exchange, NODE, &["hello"])
}

/// The lines that the plugin adds, without the longest part of their names.
fn added(conf: &Value, lines: &str) -> String {
    header_lines(&reply(&mut Harness::new::<Cors>(conf), lines))
}

fn header_lines(reply: &Reply) -> String {
    let lines = reply.headers.iter().filter(|(name, value)| {
        name != "Content-Type" && (name.as_str(), value.as_str()) != ("Vary", "Via")
    });
    let short = |name: &str| name.replace("Access-Control-", "");
    lines.map(|(name, value)| format!("{}: {value}\n", short(name))).collect()
}

#[test]
fn everything_is_allowed_by_default() {
    let expected = "Allow-Origin: *\nAllow-Methods: *\nMax-Age: 5\nAllow-Headers: *\n";
    assert_eq!(added(&json!({}), ""), expected);
    assert_eq!(added(&json!({}), "Origin: http://a.com\n"), expected);
}

#[test]
fn a_preflight_is_answered_at_once_and_told_the_same() {
    let mut harness = Harness::new::<Cors>(&json!({}));
    let mut exchange = FakeExchange::parse("OPTIONS /hello HTTP/1.1\nOrigin: http://a.com\n\n", 0);
    let outcome = harness.run(&mut exchange);
    assert_eq!((outcome.status(), outcome.body()), (200, ""));
    let reply = harness.respond(&mut exchange, "200", &[]);
    assert_eq!(reply.header("access-control-allow-origin"), Some("*"));
}

#[test]
fn of_a_list_only_the_origin_that_asks_is_told() {
    let conf = json!({
        "allow_origins": "http://sub.domain.com,http://sub2.domain.com",
        "allow_methods": "GET,POST",
        "allow_headers": "headr1,headr2",
        "expose_headers": "ex-headr1,ex-headr2",
        "max_age": 50,
        "allow_credential": true,
    });
    let expected = "Vary: Origin\nAllow-Origin: http://sub2.domain.com\nAllow-Methods: GET,POST\n\
                    Max-Age: 50\nExpose-Headers: ex-headr1,ex-headr2\n\
                    Allow-Headers: headr1,headr2\nAllow-Credentials: true\n";
    assert_eq!(added(&conf, "Origin: http://sub2.domain.com\n"), expected);
    for other in ["Origin: http://sub3.domain.com\n", "Origin: http://sub.domain\n", ""] {
        assert_eq!(added(&conf, other), "Vary: Origin\n", "{other}");
    }
}

#[test]
fn a_single_origin_is_told_to_itself_alone() {
    let told = |origin: &str, lines: &str| added(&json!({"allow_origins": origin}), lines);
    for lines in ["Origin: http://b.com\n", "Origin: null\n", ""] {
        assert_eq!(told("http://a.com", lines), "Vary: Origin\n", "{lines}");
    }
    for origin in ["http://a.com", "null"] {
        let expected = format!("Vary: Origin\nAllow-Origin: {origin}\n");
        assert!(told(origin, &format!("Origin: {origin}\n")).starts_with(&expected), "{origin}");
    }
}

#[test]
fn two_stars_echo_what_is_asked_for() {
    let conf = json!({"allow_origins": "**", "allow_methods": "**", "allow_headers": "**"});
    let asked = "Origin: https://a.com\nAccess-Control-Request-Headers: one,two\n";
    assert_eq!(
        added(&conf, asked),
        format!(
            "Vary: Origin\nAllow-Origin: https://a.com\nAllow-Methods: {METHODS}\nMax-Age: 5\n\
             Allow-Headers: one,two\n"
        )
    );
    let nothing = format!("Vary: Origin\nAllow-Origin: *\nAllow-Methods: {METHODS}\nMax-Age: 5\n");
    assert_eq!(added(&conf, ""), nothing);
}

#[test]
fn an_origin_that_is_none_says_nothing_about_the_next_request() {
    let mut harness = Harness::new::<Cors>(&json!({"allow_origins": "**"}));
    for origin in ["http://a.example,http://b.example", "http://c.example", "http://a.example"] {
        let reply = reply(&mut harness, &format!("Origin: {origin}\n"));
        assert_eq!(reply.header("access-control-allow-origin"), Some(origin));
    }
}

#[test]
fn regular_expressions_stand_instead_of_the_list() {
    let conf = json!({
        "allow_origins": "http://a.com,http://b.com",
        "allow_origins_by_regex": [".*\\.test.com$", "^https://c"],
    });
    for (origin, is_allowed) in [
        ("http://x.test.com", true),
        ("https://c.org", true),
        ("http://x.test2.com", false),
        ("http://a.com", false),
    ] {
        let answer = added(&conf, &format!("Origin: {origin}\n"));
        let expected = format!("Vary: Origin\nAllow-Origin: {origin}\n");
        assert_eq!(answer.starts_with(&expected), is_allowed, "{origin}");
        assert_eq!(answer == "Vary: Origin\n", !is_allowed, "{origin}");
    }
}

#[test]
fn lists_of_the_metadata_come_first() {
    let metadata = json!({"allow_origins": {
        "one": "https://domain.com",
        "two": "https://sub.domain.com,https://sub2.domain.com",
    }});
    let catalogue = Catalogue::new([PluginType::new::<Cors>()]);
    catalogue.get("cors").unwrap().check_metadata(&metadata).unwrap();
    let services = Arc::new(Services::new("APISIX/3.18.0"));
    for (local, origin, is_allowed) in [
        (None, "https://domain.com", true),
        (None, "https://sub2.domain.com", true),
        (None, "https://other.com", false),
        (Some("http://local.com,http://local2.com"), "http://local.com", true),
        (Some("http://local.com,http://local2.com"), "https://domain.com", true),
        (Some("http://local.com,http://local2.com"), "https://other.com", false),
    ] {
        let mut conf = json!({"allow_origins_by_metadata": ["one", "two", "absent"]});
        if let Some(local) = local {
            conf["allow_origins"] = json!(local);
        }
        let handler = configure_among::<Cors>(&conf, &services, &catalogue, Some(&metadata));
        let mut harness = Harness::with(handler.unwrap(), Arc::clone(&services));
        let reply = reply(&mut harness, &format!("Origin: {origin}\n"));
        let told = reply.header("access-control-allow-origin");
        assert_eq!(told, is_allowed.then_some(origin), "{local:?} {origin}");
    }
}

#[test]
fn timings_are_allowed_by_the_same_rules() {
    let list = json!({"timing_allow_origins": "http://a.com,http://b.com"});
    let matching = json!({"timing_allow_origins_by_regex": ["http://.*?\\.domain\\.com"]});
    for (conf, origin, expected) in [
        (json!({}), "http://a.com", None),
        (json!({"timing_allow_origins": "*"}), "http://a.com", Some("*")),
        (json!({"timing_allow_origins": "**"}), "http://a.com", Some("http://a.com")),
        (list.clone(), "http://b.com", Some("http://b.com")),
        (list, "http://c.com", None),
        (json!({"timing_allow_origins": "http://a.com"}), "http://a.com", Some("http://a.com")),
        (json!({"timing_allow_origins": "http://a.com"}), "http://b.com", None),
        (matching.clone(), "http://x.domain.com", Some("http://x.domain.com")),
        (matching, "http://x.com", None),
    ] {
        let reply = reply(&mut Harness::new::<Cors>(&conf), &format!("Origin: {origin}\n"));
        assert_eq!(reply.header("timing-allow-origin"), expected, "{conf} {origin}");
    }
}

#[test]
fn what_a_node_says_is_overridden() {
    let mut harness = Harness::new::<Cors>(&json!({"max_age": 7}));
    let mut exchange = FakeExchange::parse("GET / HTTP/1.1\nOrigin: http://a.com\n\n", 0);
    let node = "200\nAccess-Control-Allow-Origin: http://b.com\nAccess-Control-Max-Age: 10";
    let reply = harness.respond(&mut exchange, node, &[]);
    let expected = "Allow-Origin: *\nAllow-Methods: *\nMax-Age: 7\nAllow-Headers: *\n";
    assert_eq!(header_lines(&reply), expected);
}

#[test]
fn bad_confs_are_refused() {
    let credentials = "you can not set '*' for other option when 'allow_credential' is true";
    let good = json!({
        "allow_origins": "**", "allow_methods": "**", "allow_headers": "**",
        "allow_credential": true,
    });
    assert_eq!(Harness::refusal::<Cors>(&good), "");
    let fields = [
        "allow_origins",
        "allow_methods",
        "allow_headers",
        "expose_headers",
        "timing_allow_origins",
    ];
    for field in fields {
        let mut conf = good.clone();
        conf[field] = json!("*");
        assert_eq!(Harness::refusal::<Cors>(&conf), credentials, "{field}");
    }
    let refusal = Harness::refusal::<Cors>(&json!({"allow_origins": "a.com"}));
    assert!(refusal.starts_with("property \"allow_origins\" validation failed: failed to match"));
    let cases = [
        (
            json!({"max_age": "5"}),
            "property \"max_age\" validation failed: wrong type: expected integer, got string",
        ),
        (
            json!({"allow_origins_by_regex": []}),
            "property \"allow_origins_by_regex\" validation failed: \
             expect array to have at least 1 items",
        ),
        (
            json!({"allow_origins_by_regex": ["["]}),
            "pcre2_compile() failed: missing terminating ] for character class in \"[\"",
        ),
    ];
    for (conf, expected) in cases {
        assert_eq!(Harness::refusal::<Cors>(&conf), expected, "{conf}");
    }
    let metadata = json!({"allow_origins": {"one": "a.com"}});
    assert!(PluginType::new::<Cors>().check_metadata(&metadata).is_err());
}
