//! Decisions word for word, and comparison with the decisions of a running data plane.

mod agreement;
mod shenyu;

use clap::Parser;
use tollhouse_config::{Bootstrap, Format, declarative};

use super::*;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    arguments: ExplainArguments,
}

fn arguments(line: &[&str]) -> ExplainArguments {
    Line::parse_from(std::iter::once(&"explain").chain(line)).arguments
}

fn document(text: &str) -> Document {
    declarative::parse(text, Format::Json, &|_| None).expect("a document")
}

fn settings(overrides: &[(&str, &str)]) -> Settings {
    let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
    let overrides: Vec<_> = overrides.iter().map(owned).collect();
    let loaded = Bootstrap::parse(None, &|_| None, &overrides).expect("good keys");
    settings::data_plane(&loaded.bootstrap)
}

fn loaded(text: &str, settings: Settings) -> ExplainInput {
    let (name, skipped_plugins) = ("test".to_owned(), Vec::new());
    ExplainInput { settings, skipped_plugins, name, document: document(text) }
}

/// Returns the output of `explain`, and whether a route matched.
fn explain(text: &str, line: &[&str]) -> (String, bool) {
    let loaded = loaded(text, settings(&[]));
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    answer(&arguments(line), &loaded, runtime.handle())
}

fn check(text: &str, line: &[&str], expected: &str) {
    let (found, _) = explain(text, line);
    assert_eq!(found, expected.trim_start_matches('\n'), "{line:?}");
}

#[test]
fn a_connection_below_http_is_told_its_stream_route_and_why_no_other() {
    let text = r#"{
        "upstreams": [{"id": "u", "scheme": "tcp", "nodes": {"10.0.0.6:5432": 2}}],
        "stream_routes": [
            {"id": "db", "name": "Database", "server_port": 9100, "upstream_id": "u",
             "plugins": {"ip-restriction": {"blacklist": ["10.9.9.9"]}}},
            {"id": "near", "remote_addr": "192.0.2.0/24",
             "upstream": {"nodes": {"10.0.0.7:1": 1}}},
            {"id": "mail", "sni": "*.mail.test", "upstream": {"nodes": {"10.0.0.8:1": 1}}},
            {"id": "gone", "server_addr": "127.0.0.9", "upstream_id": "none"}
        ]
    }"#;
    check(
        text,
        &["--url", "tcp://127.0.0.1:9100"],
        "
connection  tcp to 127.0.0.1:9100, from 127.0.0.1
listener    none: nothing listens on port 9100, so no connection arrives; add {address: 0.0.0.0:9100} to listen.stream \
and restart
route       db (Database)
plugins     ip-restriction
upstream    upstreams/u: roundrobin
            10.0.0.6:5432  weight 2

other stream routes
  gone  server_addr is 127.0.0.9/32
  mail  sni is *.mail.test
  near  remote_addr is 192.0.2.0/24
",
    );
    for (url, client, expected, is_taken) in [
        ("tls://A.mail.test:1", "127.0.0.1", "route       mail\n", true),
        ("tls://a.test:1", "127.0.0.1", "answer      it is closed (route_not_found)", false),
        ("udp://127.0.0.1:53", "192.0.2.1", "upstream    its own: roundrobin", true),
        ("tcp://127.0.0.9:53", "127.0.0.1", "it is closed (upstream_not_found)", true),
    ] {
        let (found, matched) = explain(text, &["--url", url, "--remote-addr", client]);
        assert!(found.contains(expected), "{url}: {found}");
        assert_eq!(matched, is_taken, "{url}");
    }
}

#[test]
fn a_listener_on_the_port_of_a_connection_is_not_missed() {
    let listener = r#"[{"address": "127.0.0.1:9100"}]"#;
    let loaded = loaded(r#"{"stream_routes": []}"#, settings(&[("listen.stream", listener)]));
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    for (url, is_missed) in [("tcp://127.0.0.1:9100", false), ("tcp://127.0.0.1:9101", true)] {
        let (text, _) = answer(&arguments(&["--url", url]), &loaded, runtime.handle());
        assert_eq!(text.contains("listener    none"), is_missed, "{text}");
    }
}

const RESOURCES: &str = r#"{
    "routes": [
        {"id": "users", "name": "User API", "uri": "/v2/*", "methods": ["GET", "POST"],
         "upstream_id": "u", "service_id": "web", "plugin_config_id": "pc",
         "plugins": {"key-auth": {}}, "timeout": {"connect": 1, "send": 2, "read": 0.5}},
        {"id": "urgent", "uri": "/v2/*", "priority": 9, "vars": [["arg_x", "==", "1"]],
         "upstream_id": "u"},
        {"id": "inside", "uri": "/v2/admin", "remote_addr": "10.0.0.0/8", "upstream_id": "u"},
        {"id": "all", "uri": "/*", "service_id": "web"},
        {"id": "hosted", "uri": "/h", "hosts": ["a.com", "*.b.com"], "upstream_id": "gone"},
        {"id": "off", "uri": "/off", "status": 0, "host": "c.com", "upstream_id": "u"},
        {"id": "lost", "uri": "/lost", "host": "c.com", "service_id": "none"},
        {"id": "poor", "uri": "/poor", "host": "c.com", "upstream_id": "u", "plugin_config_id": "x"},
        {"id": "empty", "uri": "/empty", "host": "c.com",
         "upstream": {"nodes": {"127.0.0.1:1": 0}}}
    ],
    "services": [
        {"id": "web", "hosts": ["api.com"], "plugins": {"uri-blocker": {"block_rules": ["^/x"]}},
         "upstream": {"type": "chash", "key": "remote_addr", "scheme": "https",
                      "pass_host": "node", "nodes": {"10.0.0.1": 1, "10.0.0.2:8443": 2}}}
    ],
    "upstreams": [
        {"id": "u", "nodes": [{"host": "127.0.0.1", "port": 1980, "weight": 1},
                              {"host": "::1", "port": 1981, "weight": 0, "priority": 2}]}
    ],
    "plugin_configs": [{"id": "pc", "plugins": {"ip-restriction": {"blacklist": ["10.9.9.9"]}}}],
    "global_rules": [{"id": "1", "plugins": {"real-ip": {"source": "arg_ip"}}}]
}"#;

#[test]
fn a_match_is_told_with_plugins_nodes_and_losers() {
    check(
        RESOURCES,
        &["--url", "http://api.com:9080//v2/./users%20x?x=2"],
        r#"
request     GET /v2/users x of api.com:9080, from 127.0.0.1
            path normalised, sent as //v2/./users%20x
route       users (User API), pattern /v2/*
            :ext = users x
plugins     real-ip (priority 23000; rewrite) from global rules
            ip-restriction (priority 3000; access) from plugin_configs/pc
            uri-blocker (priority 2900; rewrite) from services/web
            key-auth (priority 2500; rewrite) from routes/users
upstream    upstreams/u: roundrobin over http, 1 retry
            127.0.0.1:1980  weight 1  Host: api.com:9080
            [::1]:1981  weight 0, never picked  priority 2  Host: api.com:9080
timeouts    connect 1s, send 2s, read 500ms

candidates, in the order tried
  1  won   users   /v2/*
  2  lost  all     /*     an earlier candidate had won
  3  lost  urgent  /v2/*  priority 9  the vars do not hold: [["arg_x","==","1"]]
"#,
    );
}

#[test]
fn an_inline_upstream_of_a_service_is_told_by_its_place() {
    check(
        RESOURCES,
        &["-X", "PURGE", "-u", "http://api.com/v2/admin", "--remote-addr", "10.1.1.1"],
        r#"
request     PURGE /v2/admin of api.com, from 10.1.1.1
route       all, pattern /*
            :ext = v2/admin
plugins     real-ip (priority 23000; rewrite) from global rules
            uri-blocker (priority 2900; rewrite) from services/web
upstream    services/web (inline): chash on variable remote_addr over https, 1 retry
            10.0.0.1:443  weight 1  Host: 10.0.0.1
            10.0.0.2:8443  weight 2  Host: 10.0.0.2:8443
timeouts    connect 60s, send 60s, read 60s

candidates, in the order tried
  1  lost  users   /v2/*      the method is not among the route's: GET, POST
  2  won   all     /*
  3  lost  inside  /v2/admin  an earlier candidate had won
  4  lost  urgent  /v2/*      priority 9  the vars do not hold: [["arg_x","==","1"]]
"#,
    );
}

#[test]
fn an_upstream_of_the_registry_is_told_by_its_service_and_filters() {
    let resources = r#"{"routes": [{"id": "r", "uri": "/*", "upstream": {
        "discovery_type": "polaris", "service_name": "prod/orders", "type": "least_conn",
        "discovery_args": {"version": "2.1", "metadata": {"zone": "a"}, "warmup": "30s"}}}]}"#;
    check(
        resources,
        &["-u", "http://api.com/x"],
        r#"
request     GET /x of api.com, from 127.0.0.1
route       r, pattern /*
            :ext = x
plugins     none
upstream    routes/r (inline): least_conn over http, a retry for each other node
            instances of prod/orders with version 2.1, zone=a, from the registry; Host as the client sent it
            how many these are now, and why: GET /v1/discovery/registry of its control API
            a fresh node begins with 10 % of its weight and has all of it after 30s
timeouts    connect 60s, send 60s, read 60s

candidates, in the order tried
  1  won   r  /*
"#,
    );
}

#[test]
fn what_is_missing_is_told_with_the_answer_it_leads_to() {
    let table = [
        ("http://a.com/h", "502 upstream_not_found: upstream gone does not exist"),
        ("http://c.com/lost", "404 service_not_found: service none does not exist"),
        ("http://c.com/poor", "503 plugin_config_not_found: plugin config x does not exist"),
        (
            "http://c.com/empty",
            "503 no_nodes: routes/empty (inline) has no node with a weight above 0",
        ),
    ];
    for (url, expected) in table {
        let (text, matched) = explain(RESOURCES, &["--url", url]);
        assert!(matched, "{url}");
        assert!(text.contains(&format!("answer      {expected}\n")), "{url}: {text}");
    }
}

#[test]
fn what_is_refused_before_routing_is_told() {
    let table = [
        (&["-u", "http://a.com/../x"][..], "answer      400 bad_path: "),
        (&["-u", "http://a.com/%zz"], "answer      400 bad_path: "),
        (&["-u", "http://a.com/", "-X", "A B"], "answer      an error at once: "),
        (&["-u", "http://a.com/", "-H", "Host: b c"], "answer      an error at once: "),
    ];
    for (line, expected) in table {
        let (text, matched) = explain(RESOURCES, line);
        assert!(!matched && text.starts_with(expected), "{line:?}: {text}");
    }
}

#[test]
fn no_match_tells_what_came_nearest() {
    let none = "route       none\nanswer      404 route_not_found: No route matches the request.\n";
    let table = [
        ("http://x.com/h", "  hosted  /h  the host is not among the route's: a.com, *.b.com\n"),
        ("http://c.com/off", "  off  /off  it is switched off (status: 0)\n"),
        ("http://c.com/lost/", "  lost would take /lost: a last slash makes another path\n"),
        ("http://c.com/emty", "  empty  /empty  has a similar spelling\n"),
    ];
    let without_all = RESOURCES.replace("\"uri\": \"/*\"", "\"uri\": \"/all/here/*\"");
    for (url, expected) in table {
        let (text, matched) = explain(&without_all, &["--url", url]);
        assert!(!matched, "{url}: {text}");
        assert!(text.contains(none), "{url}: {text}");
        assert!(text.contains(&format!("\nnearest\n{expected}")), "{url}: {text}");
    }
    let (text, _) = explain(r#"{"routes": []}"#, &["--url", "http://c.com/x"]);
    assert!(text.ends_with("  nothing: no route has a path like it\n"), "{text}");
}

#[test]
fn control_characters_of_a_path_do_not_reach_the_terminal() {
    let (text, _) = explain(RESOURCES, &["--url", "http://c.com/%1b%5b31m"]);
    assert!(!text.contains('\u{1b}'), "{text}");
    assert!(text.contains("/\\u{1b}[31m"), "{text}");
}
