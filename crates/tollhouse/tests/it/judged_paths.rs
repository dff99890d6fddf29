//! Judged paths: the node gets the path that a plugin, a cache or a selector has judged, however a client spells it.

use serde_json::{Value, json};
use tollhouse_testkit::origin::answer;
use tollhouse_testkit::{Gateway, GatewayBuilder, Message, Origin};

use crate::shenyu::{Pair, divide, pair, serving};
use crate::support::{gateway, routes, upstream, with};

/// Spellings that servers read in several ways.
const AMBIGUOUS: [&str; 10] = [
    "/shop%2fitem",
    "/shop/%2Fitem",
    "/shop/x/..%2fitem",
    "/shop/x/%2e%2e%2fitem",
    "/shop/;a/item",
    "/shop;a=b/item",
    "/shop/x/..;/item",
    "/shop/item;x",
    "/shop%5citem",
    "/shop\\item",
];

/// Spellings of `/shop/item` that are read in one way.
const SPELLINGS: [&str; 7] = [
    "//shop/item",
    "/shop//item",
    "/shop/./item",
    "/shop/x/../item",
    "/shop/%69tem",
    "/s%68op/x/%2e%2E/item",
    "http://a/shop//%69tem",
];

fn route(uri: &str, origin: &Origin, plugins: Value) -> Value {
    let id = uri.replace(['/', '*'], "-");
    json!({
        "id": format!("r{id}"), "uri": uri, "plugins": plugins,
        "upstream": upstream([origin.address()]),
    })
}

fn ask(gateway: &Gateway, target: &str, lines: &str) -> Message {
    gateway.client().ask(format!("GET {target} HTTP/1.1\r\nHost: a\r\n{lines}\r\n"))
}

fn targets(origin: &Origin) -> Vec<String> {
    origin.requests().iter().map(|request| request.target().to_owned()).collect()
}

/// A gateway whose only route has these plugins, and two consumers.
fn guarded(node: &Origin, plugins: Value) -> GatewayBuilder {
    let consumers = json!([
        { "username": "jack", "plugins": { "key-auth": { "key": "k" }, "ip-restriction": { "blacklist": ["10.0.0.0/8"] } } },
        { "username": "rose", "plugins": { "key-auth": { "key": "r" } } },
    ]);
    let resources = with(routes([route("/*", node, plugins)]), json!({ "consumers": consumers }));
    gateway().resources(&resources)
}

#[test]
fn a_node_gets_the_path_that_a_protecting_plugin_has_judged() {
    for (plugins, lines) in [
        (json!({ "key-auth": {} }), "apikey: k\r\n"),
        (json!({ "ip-restriction": { "blacklist": ["10.0.0.0/8"] } }), ""),
        (json!({ "uri-blocker": { "block_rules": ["^/admin"] } }), ""),
        (json!({ "limit-count": { "count": 1000, "time_window": 60 } }), ""),
        (
            json!({ "fault-injection": { "abort": { "http_status": 403, "vars": [[["uri", "==", "/no"]]] } } }),
            "",
        ),
    ] {
        let node = Origin::named("node");
        let gateway = guarded(&node, plugins.clone()).start();
        for spelling in SPELLINGS {
            assert_eq!(ask(&gateway, spelling, lines).status(), 200, "{spelling} {plugins}");
            assert_eq!(node.last_request().target(), "/shop/item", "{spelling} {plugins}");
        }
        let kept = "/a%20b%3Fc%23%25/%3b%C3%A9?d=%20//../%2f";
        assert_eq!(ask(&gateway, &kept.replace("%C3", "%c3"), lines).status(), 200);
        assert_eq!(node.last_request().target(), kept.replace("%3b", "%3B"), "{plugins}");
        node.forget();
        for spelling in AMBIGUOUS {
            let refused = ask(&gateway, spelling, lines);
            assert_eq!(refused.status(), 400, "{spelling} {plugins}");
        }
        gateway.wait_failures("ambiguous_path", u32::try_from(AMBIGUOUS.len()).expect("ten"));
        assert_eq!(targets(&node), Vec::<String>::new(), "{plugins}");
    }
}

#[test]
fn whatever_object_brings_the_plugin_the_path_is_judged() {
    let node = Origin::named("node");
    let limit = json!({ "limit-count": { "count": 1000, "time_window": 60 } });
    let route = |id: &str, members: Value| {
        let uri = format!("/{id}/*");
        with(json!({ "id": id, "uri": uri, "upstream": upstream([node.address()]) }), members)
    };
    let resources = json!({
        "routes": [
            route("service", json!({ "service_id": "s" })),
            route("config", json!({ "plugin_config_id": "p" })),
            route("bare", json!({ "plugins": { "request-id": {}, "cors": {} } })),
        ],
        "services": [{ "id": "s", "plugins": limit }],
        "plugin_configs": [{ "id": "p", "plugins": limit }],
    });
    let start = |resources: &Value| gateway().resources(resources).start();
    let gateway = start(&resources);
    for (target, expected) in [
        ("/service/a;b", 400),
        ("/config/a;b", 400),
        ("/bare/a;b", 200),
        ("/service//%61", 200),
        ("/config//%61", 200),
        ("/bare//%61%2f", 200),
    ] {
        assert_eq!(ask(&gateway, target, "").status(), expected, "{target}");
    }
    let expected = ["/bare/a;b", "/service/a", "/config/a", "/bare//%61%2f"];
    assert_eq!(targets(&node), expected, "a route that nothing protects passes the client's bytes");
    let rule =
        json!([{ "id": "g", "plugins": { "ip-restriction": { "blacklist": ["10.0.0.0/8"] } } }]);
    let gateway = start(&with(resources, json!({ "global_rules": rule })));
    assert_eq!(ask(&gateway, "/bare/a;b", "").status(), 400);
    assert_eq!(ask(&gateway, "/nowhere/a;b", "").status(), 400);
}

#[test]
fn operators_may_allow_what_their_nodes_read_alike() {
    let node = Origin::named("node");
    let plugins = || json!({ "key-auth": {} });
    let gateway = guarded(&node, plugins()).set("ambiguous_paths", "allow").start();
    for spelling in AMBIGUOUS {
        assert_eq!(ask(&gateway, spelling, "apikey: k\r\n").status(), 200, "{spelling}");
        assert_eq!(node.last_request().target(), spelling);
    }
    let encoded = guarded(&node, plugins()).set("match_uri_encoded_slash", "true").start();
    for (target, seen) in [("/a%2fb", Some("/a%2Fb")), ("/a%2f../b", None), ("/a/..%2Fb", None)] {
        node.forget();
        ask(&encoded, target, "apikey: k\r\n");
        assert_eq!(targets(&node).first().map(String::as_str), seen, "{target}");
    }
    let servlet = guarded(&node, plugins()).set("normalize_uri_like_servlet", "true").start();
    for (target, seen) in [("/%61;x/b;y", Some("/a;x/b;y")), ("/a/..;/b", None), ("/a%3bx", None)] {
        node.forget();
        ask(&servlet, target, "apikey: k\r\n");
        assert_eq!(targets(&node).first().map(String::as_str), seen, "{target}");
    }
}

#[test]
fn a_cached_page_is_not_replaced_by_the_answer_to_another_spelling() {
    for strategy in ["memory", "disk"] {
        // As most nodes do: other spellings are other pages, and not there.
        let node = Origin::script(|connection| {
            while let Some(request) = connection.request() {
                let page = match request.target() {
                    "/shop/item" => answer(200, "page"),
                    _ => answer(404, "none"),
                };
                connection.send(page);
            }
        });
        let zone = if strategy == "memory" { "memory_cache" } else { "disk_cache_one" };
        let cache = json!({ "cache_strategy": strategy, "cache_zone": zone });
        let resources = routes([route("/*", &node, json!({ "proxy-cache": cache }))]);
        let gateway = gateway().resources(&resources).start();
        for spelling in SPELLINGS.iter().chain(&AMBIGUOUS) {
            ask(&gateway, spelling, "");
            let page = ask(&gateway, "/shop/item", "");
            assert_eq!((page.status(), page.text()), (200, "page".into()), "{spelling} {strategy}");
        }
        assert!(targets(&node).iter().all(|target| target == "/shop/item"), "{:?}", targets(&node));
        let purge = |target: &str| {
            gateway.client().ask(format!("PURGE {target} HTTP/1.1\r\nHost: a\r\n\r\n")).status()
        };
        assert_eq!((purge("/shop//item"), purge("/shop/item")), (200, 404), "{strategy}");
    }
}

#[test]
fn the_key_of_a_cache_has_borders_and_always_the_target() {
    let node = Origin::named("node");
    let cache = |key: Value| {
        json!({ "proxy-cache": {
            "cache_strategy": "memory", "cache_zone": "memory_cache", "cache_key": key,
        } })
    };
    let moved = with(cache(json!(["$host"])), json!({ "proxy-rewrite": { "uri": "/v$arg_v" } }));
    let resources = routes([
        route("/parts", &node, cache(json!(["$arg_a", "$arg_b"]))),
        route("/fixed/*", &node, cache(json!(["fixed"]))),
        route("/moved", &node, moved),
    ]);
    let gateway = gateway().resources(&resources).start();
    for (target, expected) in [
        ("/parts?a=ab&b=c", "MISS"),
        ("/parts?a=a&b=bc", "MISS"),
        ("/parts?a=ab&b=c", "HIT"),
        ("/fixed/a", "MISS"),
        ("/fixed/b", "MISS"),
        ("/fixed/a", "HIT"),
        ("/moved?v=1", "MISS"),
        ("/moved?v=2", "MISS"),
        ("/moved?v=1", "HIT"),
    ] {
        let found = ask(&gateway, target, "");
        assert_eq!(found.field("apisix-cache-status"), Some(expected), "{target}");
    }
}

/// The plugin protects `/s/secret`; `/s/` leads to the node.
fn guard(plugin: &'static str, rule: Value, node: &Origin) -> [Pair; 2] {
    [pair(plugin, "/s/secret", Value::Null, rule), divide("/s/", node, json!({}))]
}

#[test]
fn shenyus_conditions_see_the_path_that_the_node_gets() {
    for (plugin, rule) in [
        ("waf", json!({ "permission": "reject", "statusCode": "403" })),
        ("keyAuth", json!({ "keyName": "apiKey", "key": "k" })),
        ("jwt", json!({})),
        ("sign", json!({})),
        ("basicAuth", json!({ "authorization": "jack:secret" })),
    ] {
        let node = Origin::named("node");
        let gateway = serving(&guard(plugin, rule, &node)).start();
        for spelling in [
            "/s/secret",
            "/s/%73ecret",
            "/s/secre%74/x",
            "/s//secret",
            "//s/secret/",
            "/s/x/../secret",
            "/s/x/%2e%2e/secret",
            "http://a/s/%73ecret",
            "/s/%2fsecret",
            "/s/;a/secret",
            "/s;a/secret",
            "/s/x/..;/secret",
            "/s/x/%2e%2e%2fsecret",
            "/s/x\\..\\secret",
            "/s/secret%2fa",
        ] {
            assert_ne!(ask(&gateway, spelling, "").status(), 200, "{plugin} {spelling}");
        }
        assert_eq!(targets(&node), Vec::<String>::new(), "{plugin}");
        for (sent, seen) in [
            ("/s//op%65n/./%c3%a9?a=//%2f", "/s/open/%C3%A9?a=%2F%2F%2F"),
            ("/s/open", "/s/open"),
            ("/s/a%20b", "/s/a%20b"),
        ] {
            assert_eq!(ask(&gateway, sent, "").status(), 200, "{plugin} {sent}");
            assert_eq!(node.last_request().target(), seen, "{plugin}");
        }
    }
}

#[test]
fn a_limit_of_shenyus_counts_every_spelling() {
    let node = Origin::named("node");
    let limit = json!({ "algorithmName": "tokenBucket", "replenishRate": 1, "burstCapacity": 1 });
    let gateway = serving(&guard("rateLimiter", limit, &node)).start();
    for spelling in ["/s/secret", "/s/%73ecret", "/s//secret"] {
        // A token comes back each time a second of the clock begins, which may be between any two requests.
        let is_limited = (0..10).any(|_| ask(&gateway, spelling, "").status() == 429);
        assert!(is_limited, "{spelling}");
    }
}

#[test]
fn without_a_plugin_that_protects_shenyus_selectors_pass_escaped_slashes() {
    let node = Origin::named("node");
    let gateway = serving(&[divide("/s/", &node, json!({}))]).start();
    for (sent, seen) in
        [("/s/a%2fb;c", "/s/a%2Fb;c"), ("/s/a;b", "/s/a;b"), ("/s/x/../%61", "/s/a")]
    {
        assert_eq!(ask(&gateway, sent, "").status(), 200, "{sent}");
        assert_eq!(node.last_request().target(), seen);
    }
}

#[test]
fn values_are_encoded_for_the_part_of_the_address_that_they_go_into() {
    let node = Origin::named("node");
    let rewrite = |uri: &str| json!({ "proxy-rewrite": { "uri": uri } });
    let resources = routes([
        route("/a/*", &node, rewrite("/api$request_uri")),
        route("/b/*", &node, rewrite("/api$uri$is_args$args")),
        route("/c/*", &node, rewrite("/p?next=$uri")),
        route("/d/*", &node, json!({ "proxy-rewrite": { "regex_uri": ["^/d/(.*)", "/e?id=$1"] } })),
        route("/r/*", &node, json!({ "redirect": { "uri": "https://b$request_uri" } })),
    ]);
    let gateway = gateway().resources(&resources).start();
    for (sent, seen) in [
        ("/a/u?id=1", "/api/a/u?id=1"),
        ("/a/u", "/api/a/u"),
        ("/b/u?id=1", "/api/b/u?id=1"),
        ("/b/u", "/api/b/u"),
        ("/a/b%20c%3Fd%25?e=%20", "/api/a/b%20c%3Fd%25?e=%20"),
        ("/b/%2525%26", "/api/b/%2525%26"),
        ("/c/x%26y=%23?q=1", "/p?next=/c/x%26y%3D%23&q=1"),
        ("/d/1%26admin=1?q", "/e?id=1%26admin%3D1&q"),
    ] {
        assert_eq!(ask(&gateway, sent, "").status(), 200, "{sent}");
        assert_eq!(node.last_request().target(), seen, "{sent}");
    }
    let moved = ask(&gateway, "/r/a%20b%3Fc?d=%20e", "");
    assert_eq!(moved.field("location"), Some("https://b/r/a%20b%3Fc?d=%20e"));
}

#[test]
fn a_rewrite_that_leaves_the_path_leaves_its_escapes() {
    let node = Origin::named("node");
    let parameters = |conf: Value| {
        let route = json!({
            "id": "1", "uri": "/machines/:id/feeds", "plugins": { "proxy-rewrite": conf },
            "upstream": upstream([node.address()]),
        });
        gateway()
            .set("router", "radixtree_uri_with_parameter")
            .set("match_uri_encoded_slash", "true")
            .resources(&routes([route]))
            .start()
    };
    for conf in [
        json!({ "headers": { "set": { "X-Machine": "$uri_param_id" } } }),
        json!({ "host": "b.test" }),
        json!({ "method": "POST" }),
        json!({ "regex_uri": ["^/none", "/x"] }),
        json!({ "uri": "/machines/$uri_param_id/feeds" }),
        json!({ "regex_uri": ["^/machines/(.*)/feeds", "/machines/$1/feeds"] }),
    ] {
        let answer = ask(&parameters(conf.clone()), "/machines/a%2Fb/feeds", "");
        assert_eq!(answer.status(), 200, "{conf}");
        assert_eq!(node.last_request().target(), "/machines/a%2Fb/feeds", "{conf}");
    }
}
