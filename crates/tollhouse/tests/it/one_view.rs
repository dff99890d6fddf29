//! One view of a request: what a node gets is what routes are matched by, plugins decide by, other
//! services are told and logs show, however the request is spelled.

use serde_json::{Value, json};
use tollhouse_testkit::{Gateway, Message, Origin};

use crate::support::{gateway, gateway_to, routes, upstream, with};

/// A route with plugins, and what it leads to.
fn route(id: &str, origin: &Origin, members: Value) -> Value {
    with(json!({ "id": id, "uri": "/*", "upstream": upstream([origin.address()]) }), members)
}

fn ask(gateway: &Gateway, request_line: &str, lines: &[&str]) -> Message {
    let lines: String = lines.iter().map(|line| format!("{line}\r\n")).collect();
    gateway.client().ask(format!("{request_line} HTTP/1.1\r\n{lines}\r\n"))
}

/// Identities that nobody but the gateway may tell, in the spellings that servers fold.
const CLAIMS: [&str; 11] = [
    "X-Consumer-Username: root",
    "x_consumer_username: root",
    "X-Consumer_Username: root",
    "X.Consumer.Username: root",
    "X_CREDENTIAL-IDENTIFIER: root",
    "X-Consumer-Custom_Id: root",
    "X-Consumer-Groups: root",
    "x.consumer_anything: root",
    "X_CREDENTIAL_x: root",
    "X_Real_IP: 6.6.6.6",
    "x_forwarded-for: 6.6.6.6",
];

#[test]
fn nobody_sees_an_identity_that_a_client_claims() {
    let (node, judge, mirror) = (Origin::named("node"), Origin::named("yes"), Origin::named("m"));
    let names = [
        "X-Consumer-Username",
        "X_Consumer_Username",
        "X-Credential-Identifier",
        "X-Consumer-Groups",
        "X-Own",
    ];
    let plugins = json!({
        "forward-auth": {
            "uri": format!("http://{}/auth", judge.address()),
            "request_headers": names,
            "extra_headers": {
                "X-Seen": "<$http_x_consumer_username$http_x_credential_identifier$http_x_consumer_groups>",
            },
        },
        "proxy-mirror": { "host": format!("http://{}", mirror.address()) },
        "key-auth": {},
    });
    let consumers = json!([{ "username": "jack", "plugins": { "key-auth": { "key": "k" } } }]);
    let caught = route(
        "caught",
        &judge,
        json!({
            "priority": 9, "vars": [["http_x_consumer_username", "==", "root"]],
        }),
    );
    let resources = with(
        routes([caught, route("all", &node, json!({ "plugins": plugins }))]),
        json!({ "consumers": consumers }),
    );
    let gateway = gateway().resources(&resources).start();
    let lines = [&["Host: a", "apikey: k", "X-Own: 1"][..], &CLAIMS].concat();
    assert_eq!(ask(&gateway, "GET /x", &lines).text(), "node");
    let asked = judge.last_request();
    assert_eq!((asked.field("x-seen"), asked.field("x-own")), (Some("<jack>"), Some("1")));
    let copy = mirror.wait_requests(1).remove(0);
    let seen = node.last_request();
    for message in [&asked, &copy, &seen] {
        assert!(!message.fields.iter().any(|(_, value)| value.contains("root")), "{message:?}");
        assert!(!message.fields.iter().any(|(_, value)| value.contains("6.6.6.6")), "{message:?}");
    }
    for name in ["x-consumer-username", "x-real-ip", "x-forwarded-for", "x-forwarded-host", "x-own"]
    {
        assert_eq!(copy.all(name), seen.all(name), "the mirror gets what the node gets: {name}");
        assert_eq!(seen.all(name).len(), 1, "{name}");
    }
}

#[test]
fn a_header_that_a_plugin_sets_has_no_other_spelling() {
    let node = Origin::named("node");
    let plugins = json!({ "proxy-rewrite": { "headers": { "set": { "X-User-ID": "jack" } } } });
    let resources = routes([route("all", &node, json!({ "plugins": plugins }))]);
    let gateway = gateway().resources(&resources).start();
    ask(&gateway, "GET /", &["Host: a", "X_User_ID: root", "x-user-id: root", "X_Other: 1"]);
    let seen = node.last_request();
    assert_eq!((seen.all("x-user-id"), seen.all("x_user_id")), (vec!["jack"], vec![]));
    assert_eq!(seen.field("x_other"), Some("1"));
}

#[test]
fn services_are_asked_about_the_address_that_is_matched() {
    let (node, judge) = (Origin::named("node"), Origin::named("yes"));
    let plugins = json!({ "forward-auth": {
        "uri": format!("http://{}/auth", judge.address()),
        "extra_headers": { "X-Real-Uri": "$real_request_uri" },
    } });
    let blocked = route(
        "blocked",
        &judge,
        json!({
            "priority": 9, "vars": [["request_uri", "~~", "^/hidden"]],
            "plugins": { "fault-injection": { "abort": { "http_status": 418 } } },
        }),
    );
    let resources = routes([blocked, route("all", &node, json!({ "plugins": plugins }))]);
    let gateway = gateway().resources(&resources).start();
    for (target, uri, real, sent) in [
        ("/a?b=%20c", "/a?b=%20c", "/a?b=%20c", "/a?b=%20c"),
        ("/public/../admin", "/admin", "/public/../admin", "/admin"),
        ("/public/%2e%2e/admin?x", "/admin?x", "/public/%2e%2e/admin?x", "/admin?x"),
        ("//a/./b/%61", "/a/b/a", "//a/./b/%61", "/a/b/a"),
        ("http://other.test/admin?x=1", "/admin?x=1", "/admin?x=1", "/admin?x=1"),
        ("http://other.test", "/", "/", "/"),
        ("http://other.test?x", "/?x", "/?x", "/?x"),
        ("/a%3Fb?", "/a%3Fb", "/a%3Fb?", "/a%3Fb?"),
        ("/a%0d%0aX-Evil:%201", "/a%0D%0AX-Evil: 1", "/a%0d%0aX-Evil:%201", "/a%0D%0AX-Evil:%201"),
    ] {
        let answer = ask(&gateway, &format!("GET {target}"), &["Host: a"]);
        assert_eq!(answer.status(), 200, "{target}");
        let asked = judge.last_request();
        let told = (asked.field("x-forwarded-uri"), asked.field("x-real-uri"));
        assert_eq!(told, (Some(uri), Some(real)), "{target}");
        assert_eq!(node.last_request().target(), sent, "{target}");
    }
    for target in ["/hidden", "//hidden", "/%68idden", "/x/../hidden", "http://a/hidden"] {
        assert_eq!(ask(&gateway, &format!("GET {target}"), &["Host: a"]).status(), 418, "{target}");
    }
}

#[test]
fn no_node_and_no_client_is_told_an_absolute_address_of_the_clients() {
    let node = Origin::named("node");
    let plugins = json!({ "key-auth": { "hide_credentials": true } });
    let moved = json!({ "redirect": { "http_to_https": true } });
    let resources = with(
        routes([
            route("all", &node, json!({ "plugins": plugins })),
            route("moved", &node, json!({ "uri": "/moved", "plugins": moved })),
        ]),
        json!({ "consumers": [{ "username": "jack", "plugins": { "key-auth": { "key": "k" } } }] }),
    );
    let gateway = gateway().log_requests().resources(&resources).start();
    for target in ["http://other.test/x?apikey=k&a=b", "http://other.test?apikey=k"] {
        assert_eq!(ask(&gateway, &format!("GET {target}"), &["Host: a"]).text(), "node");
    }
    let seen: Vec<Message> = node.requests();
    assert_eq!((seen[0].target(), seen[0].all("host")), ("/x?a=b", vec!["other.test"]));
    assert_eq!((seen[1].target(), seen[1].all("host")), ("/", vec!["other.test"]));
    let answer = ask(&gateway, "GET http://b.test/moved?q=%41", &["Host: a"]);
    assert_eq!(answer.field("location"), Some("https://b.test/moved?q=%41"));
    assert_eq!(gateway.log_line("/moved?q=%41")["host"], json!("b.test"));
}

#[test]
fn the_dot_that_ends_a_host_leads_past_no_route() {
    let (guarded, open) = (Origin::named("guarded"), Origin::named("open"));
    let resources = routes([
        route("guarded", &guarded, json!({ "host": "priv.test" })),
        route("open", &open, json!({})),
    ]);
    let gateway = gateway().resources(&resources).start();
    let port = gateway.address().port();
    for (target, host, expected) in [
        ("/", "priv.test", "guarded"),
        ("/", "priv.test.", "guarded"),
        ("/", "PRIV.Test.", "guarded"),
        ("/", "priv.test.:80", "guarded"),
        ("/", &format!("priv.test.:{port}"), "guarded"),
        ("http://priv.test./", "a", "guarded"),
        ("http://priv.test.:81/", "a", "guarded"),
        ("/", "a.priv.test.", "open"),
    ] {
        let answer = ask(&gateway, &format!("GET {target}"), &[&format!("Host: {host}")]);
        assert_eq!(answer.text(), expected, "{target} {host}");
    }
    ask(&gateway, "GET /", &["Host: priv.test.:80"]);
    let seen = guarded.last_request();
    assert_eq!(seen.field("host"), Some("priv.test.:80"), "passed on as sent");
    assert_eq!(seen.field("x-forwarded-host"), Some("priv.test"));
    for host in ["priv.test..", "priv..test", ".", "..", "priv.test..:80"] {
        assert_eq!(ask(&gateway, "GET /", &[&format!("Host: {host}")]).status(), 400, "{host}");
    }
}

#[test]
fn what_connection_names_is_for_nobody() {
    let (node, tenant) = (Origin::named("node"), Origin::named("tenant"));
    let resources = routes([
        route("tenant", &tenant, json!({ "priority": 9, "vars": [["http_x_tenant", "==", "a"]] })),
        route("all", &node, json!({ "plugins": { "request-id": {} } })),
    ]);
    let gateway = gateway().resources(&resources).start();
    assert_eq!(ask(&gateway, "GET /", &["Host: a", "X-Tenant: a"]).text(), "tenant");
    let lines =
        ["Host: a", "X-Tenant: a", "X-Request-Id: mine", "Connection: x-tenant, x-request-id"];
    assert_eq!(ask(&gateway, "GET /", &lines).text(), "node");
    let seen = node.last_request();
    assert_eq!(seen.field("x-tenant"), None);
    assert!(seen.field("x-request-id").is_some_and(|id| id != "mine"), "{seen:?}");
}

#[test]
fn a_header_with_an_underscore_is_a_variable() {
    let (node, found) = (Origin::named("node"), Origin::named("found"));
    let resources = routes([
        route(
            "found",
            &found,
            json!({ "priority": 9, "vars": [["http_custom_header", "==", "1"]] }),
        ),
        route("all", &node, json!({})),
    ]);
    let gateway = gateway().resources(&resources).start();
    for (lines, expected) in [
        (&["Host: a", "custom_header: 1"][..], "found"),
        (&["Host: a", "Custom-Header: 1"], "found"),
        (&["Host: a", "custom.header: 1"], "node"),
        // Both lines go to the node, so that both count.
        (&["Host: a", "custom_header: 1", "custom-header: 2"], "node"),
    ] {
        assert_eq!(ask(&gateway, "GET /", lines).text(), expected, "{lines:?}");
    }
}

#[test]
fn methods_and_headers_that_mean_two_things_are_refused() {
    let node = Origin::named("node");
    let gateway = gateway_to(&node);
    for (request_line, lines, status) in [
        ("TRACE /", &["Host: a"][..], 405),
        ("CONNECT a:80", &["Host: a:80"], 501),
        ("GET /", &["Host: a", "Authorization: Basic YTpi", "authorization: Basic YTpj"], 400),
        ("GET /", &["Host: a", "If-Match: a", "If-Match: b"], 400),
        ("GET /", &["Host: a", "Cookie: a=1", "Cookie: b=2"], 200),
    ] {
        assert_eq!(ask(&gateway, request_line, lines).status(), status, "{request_line} {lines:?}");
    }
    assert_eq!(node.requests().len(), 1);
    assert_eq!(node.last_request().all("cookie"), ["a=1", "b=2"]);
}

#[test]
fn a_credential_is_found_in_any_of_several_cookie_lines() {
    let node = Origin::named("node");
    let plugins = json!({ "jwt-auth": { "cookie": "jwt", "hide_credentials": true } });
    let resources = with(
        routes([
            route("all", &node, json!({ "plugins": plugins })),
            route(
                "vars",
                &Origin::named("never"),
                json!({
                    "uri": "/vars", "vars": [["cookie_b", "==", "2"]],
                    "plugins": { "mocking": { "response_example": "both" } },
                }),
            ),
        ]),
        json!({ "consumers": [{
            "username": "jack", "plugins": { "jwt-auth": { "key": "k", "secret": "secret-of-jack" } },
        }] }),
    );
    let gateway = gateway().resources(&resources).start();
    assert_eq!(
        ask(&gateway, "GET /vars", &["Host: a", "Cookie: a=1", "Cookie: b=2"]).text(),
        "both"
    );
    let refused = ask(&gateway, "GET /", &["Host: a", "Cookie: a=1", "Cookie: jwt=x"]);
    assert_eq!(refused.status(), 401);
    assert!(refused.text().contains("JWT token invalid"), "{}", refused.text());
}

#[test]
fn consumers_are_hashed_by_name() {
    let nodes = [Origin::named("a"), Origin::named("b"), Origin::named("c")];
    let names: Vec<String> = (0..12).map(|number| format!("consumer{number}")).collect();
    let consumer =
        |name: &String| json!({ "username": name, "plugins": { "key-auth": { "key": name } } });
    let addresses = nodes.each_ref().map(Origin::address);
    let hashed = json!({ "type": "chash", "hash_on": "consumer" });
    let resources = with(
        routes([json!({
            "id": "all", "uri": "/*", "plugins": { "key-auth": {} },
            "upstream": with(upstream(addresses), hashed),
        })]),
        json!({ "consumers": names.iter().map(consumer).collect::<Vec<Value>>() }),
    );
    let gateway = gateway().resources(&resources).start();
    let served =
        |name: &String| ask(&gateway, "GET /", &["Host: a", &format!("apikey: {name}")]).text();
    let first: Vec<String> = names.iter().map(served).collect();
    let distinct: std::collections::BTreeSet<&String> = first.iter().collect();
    assert!(distinct.len() > 1, "{first:?}");
    assert_eq!(names.iter().map(served).collect::<Vec<String>>(), first);
}

#[test]
fn a_plugin_that_answers_is_logged_with_the_address_that_plugins_found() {
    let node = Origin::named("node");
    let plugins = json!({
        "real-ip": { "source": "arg_ip" },
        "fault-injection": { "abort": { "http_status": 418 } },
    });
    let resources = routes([route("all", &node, json!({ "plugins": plugins }))]);
    let gateway = gateway().log_requests().resources(&resources).start();
    assert_eq!(ask(&gateway, "GET /x?ip=5.6.7.8", &["Host: a"]).status(), 418);
    assert_eq!(gateway.log_line("/x?ip=5.6.7.8")["remote_addr"], json!("5.6.7.8"));
}

#[test]
fn questions_about_the_server_are_asked_by_the_rules_for_all() {
    let rule = json!({ "global_rules": [{
        "id": "1", "plugins": { "ip-restriction": { "blacklist": ["5.6.7.8"] }, "real-ip": { "source": "http_x_ip" } },
    }] });
    let gateway = gateway().resources(&rule).start();
    let answer = ask(&gateway, "OPTIONS *", &["Host: a"]);
    assert_eq!((answer.status(), answer.text().as_str()), (200, ""));
    assert!(answer.field("allow").is_some_and(|methods| !methods.contains("TRACE")));
    assert_eq!(ask(&gateway, "OPTIONS *", &["Host: a", "X-IP: 5.6.7.8"]).status(), 403);
}

#[test]
fn a_chain_of_proxies_that_a_plugin_writes_ends_with_the_client() {
    for (headers, expected) in [
        (json!({ "set": { "X-Forwarded-For": "1.1.1.1" } }), &["1.1.1.1, 127.0.0.1"][..]),
        (json!({ "remove": ["X-Forwarded-For"] }), &["127.0.0.1"]),
        (json!({ "set": { "X-A": "1" } }), &["9.9.9.9, 127.0.0.1"]),
    ] {
        let node = Origin::named("node");
        let plugins = json!({ "proxy-rewrite": { "headers": headers } });
        let resources = routes([route("all", &node, json!({ "plugins": plugins }))]);
        let gateway = gateway().resources(&resources).start();
        ask(&gateway, "GET /", &["Host: a", "X-Forwarded-For: 9.9.9.9"]);
        assert_eq!(node.last_request().all("x-forwarded-for"), expected, "{headers}");
    }
}
