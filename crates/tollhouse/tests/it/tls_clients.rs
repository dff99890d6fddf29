//! Certificates of clients: who is let in, who is refused and how.

use std::sync::atomic::{AtomicUsize, Ordering};

use rustls::HandshakeKind;
use serde_json::{Value, json};
use tollhouse_testkit::{Gateway, Origin};

use crate::support::{everything_to, gateway, routes, upstream, with};
use crate::tls_support::{Answer, Authority, Pair, TlsClient, TlsOptions, get, ssl, tls_node};

const NAMES: [&str; 4] = ["mutual.test", "public.test", "partly.test", "x.mutual.test"];

/// A gateway with a host that asks everybody for a certificate, one that asks nobody, and one that
/// exempts paths.
struct Bench {
    servers: Authority,
    clients: Authority,
    origin: Origin,
    pair: Pair,
    gateway: Gateway,
}

impl Bench {
    fn new() -> Self {
        Self::with_depth(1)
    }

    fn with_depth(depth: u32) -> Self {
        let (servers, clients) = (Authority::new("servers"), Authority::new("clients"));
        let origin = Origin::named("hello");
        let pair = servers.server(&NAMES);
        let gateway = gateway()
            .tls()
            .log_requests()
            .resources(&resources(&origin, &pair, &json!({ "ca": clients.pem, "depth": depth })))
            .start();
        Self { servers, clients, origin, pair, gateway }
    }

    fn showing(&self, pair: &Pair) -> TlsClient {
        TlsOptions::showing(&self.servers, pair).build()
    }

    fn nobody(&self) -> TlsClient {
        TlsOptions::new(&self.servers).build()
    }

    fn get(&self, client: &TlsClient, name: &str, target: &str) -> Answer {
        client.get(self.gateway.tls_address(), name, target)
    }
}

fn resources(origin: &Origin, pair: &Pair, client: &Value) -> Value {
    let partly = with(client.clone(), json!({ "skip_mtls_uri_regex": ["^/open/", "^/health$"] }));
    let ssls = [
        with(ssl("1", &["mutual.test", "*.mutual.test"], pair), json!({ "client": client })),
        ssl("2", &["public.test"], pair),
        with(ssl("3", &["partly.test"], pair), json!({ "client": partly })),
    ];
    with(everything_to(origin.address()), json!({ "ssls": ssls }))
}

#[test]
fn a_cache_keeps_answers_to_certificates_apart() {
    let (servers, clients) = (Authority::new("servers"), Authority::new("clients"));
    let count = AtomicUsize::new(0);
    let origin = Origin::script(move |connection| {
        while connection.request().is_some() {
            let body = format!("answer {}", count.fetch_add(1, Ordering::SeqCst) + 1);
            let length = body.len();
            connection.send(format!(
                "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nCache-Control: max-age=60\r\n\r\n{body}"
            ));
        }
    });
    let cache =
        json!({ "proxy-cache": { "cache_strategy": "memory", "cache_zone": "memory_cache" } });
    let route = json!({ "id": "1", "uri": "/*", "plugins": cache, "upstream": upstream([origin.address()]) });
    let names = ["mutual.test", "public.test"];
    let pair = servers.server(&names);
    let asking = json!({ "client": { "ca": clients.pem, "depth": 1 } });
    let ssls = [with(ssl("1", &["mutual.test"], &pair), asking), ssl("2", &["public.test"], &pair)];
    let resources = with(routes([route]), json!({ "ssls": ssls }));
    let gateway = gateway().tls().resources(&resources).start();
    let [alice, bob, other_alice] = ["alice", "bob", "alice"]
        .map(|name| TlsOptions::showing(&servers, &clients.client(name)).build());
    for (client, host, expected) in [
        (&alice, "mutual.test", "answer 1"),
        (&bob, "mutual.test", "answer 2"),
        (&alice, "mutual.test", "answer 1"),
        (&bob, "mutual.test", "answer 2"),
        // The same name in another certificate.
        (&other_alice, "mutual.test", "answer 3"),
        // A host that asks for no certificate answers all alike.
        (&alice, "public.test", "answer 4"),
        (&bob, "public.test", "answer 4"),
    ] {
        let answer = client.get(gateway.tls_address(), host, "/page");
        assert_eq!(answer.status(), 200, "{host}");
        assert!(answer.text().ends_with(expected), "{host}: {}, not {expected}", answer.text());
    }
}

#[test]
fn each_way_of_failing_has_an_alert_and_a_code_of_its_own() {
    let bench = Bench::new();
    let stranger = Authority::new("strangers");
    let first = bench.clients.intermediate("first");
    let second = first.intermediate("second");
    let table = [
        (None, "CertificateRequired", "tls_client_certificate_missing"),
        (
            Some(bench.clients.expired_client("late")),
            "CertificateExpired",
            "tls_client_certificate_expired",
        ),
        (Some(stranger.client("who")), "UnknownCA", "tls_client_certificate_untrusted"),
        (
            Some(second.client("deep").with(&[&second, &first])),
            "AccessDenied",
            "tls_client_certificate_too_deep",
        ),
    ];
    for (pair, alert, code) in table {
        let client = pair.map_or_else(|| bench.nobody(), |pair| bench.showing(&pair));
        let answer = bench.get(&client, "mutual.test", "/");
        assert!(answer.text().contains(alert), "{code}: {answer:?}");
        bench.gateway.output().wait_line(code, |line| line.contains(code).then_some(()));
    }
    assert_eq!(bench.origin.requests().len(), 0);
    let near = first.client("near").with(&[&first]);
    for pair in [bench.clients.client("good"), near] {
        assert_eq!(bench.get(&bench.showing(&pair), "mutual.test", "/").status(), 200);
    }
}

#[test]
fn clients_and_hosts_may_have_certificates_of_version_1_and_listed_ones() {
    let (servers, clients) = (Authority::new("servers"), Authority::new("clients"));
    let origin = Origin::named("hello");
    let pair = servers.version_one(&servers.server(&NAMES));
    let listed = Authority::own_authority(&["listed"]);
    let list = clients.pem.clone() + &listed.chain;
    let gateway =
        gateway().tls().resources(&resources(&origin, &pair, &json!({ "ca": list }))).start();
    let old = clients.version_one(&clients.client("old"));
    let strange = Authority::new("clients").version_one(&clients.client("strange"));
    for (pair, is_served) in [(&old, true), (&listed, true), (&strange, false)] {
        let client = TlsOptions::showing(&servers, pair).trusting_any().build();
        let answer = client.get(gateway.tls_address(), "mutual.test", "/");
        assert_eq!(matches!(answer, Answer::Http(200, _)), is_served, "{answer:?}");
        // Where paths are exempt, the same verifier is asked for each request.
        let answer = client.get(gateway.tls_address(), "partly.test", "/");
        assert_eq!(answer.status(), if is_served { 200 } else { 400 });
    }
    gateway
        .output()
        .wait_line("the reason", |line| line.contains("version 1 certificate").then_some(()));
}

#[test]
fn paths_may_be_exempt_and_no_others() {
    let bench = Bench::new();
    let (nobody, good) = (bench.nobody(), bench.showing(&bench.clients.client("good")));
    let stranger = bench.showing(&Authority::new("strangers").client("who"));
    for (client, target, expected) in [
        (&nobody, "/open/a", 200),
        (&nobody, "/health", 200),
        (&nobody, "/health/", 400),
        (&nobody, "/", 400),
        (&nobody, "/open/../secret", 400),
        (&nobody, "/secret?/open/", 400),
        (&nobody, "/open/..;/secret", 400),
        (&nobody, "/open/x%2f..%2f..%2fsecret", 400),
        (&nobody, "/open/..%5csecret", 400),
        (&nobody, "/open/a;b", 400),
        (&good, "/open/a;b", 200),
        (&nobody, "/%6fpen/a", 200),
        (&stranger, "/open/a", 200),
        (&stranger, "/", 400),
        (&good, "/", 200),
    ] {
        assert_eq!(bench.get(client, "partly.test", target).status(), expected, "{target}");
    }
    assert_eq!(bench.get(&nobody, "partly.test", "/open/./%61//b").status(), 200);
    assert_eq!(bench.origin.last_request().target(), "/open/a/b", "the node gets what was exempt");
    bench.gateway.wait_failures("client_certificate_missing", 8);
    bench.gateway.wait_failures("client_certificate_invalid", 1);
}

#[test]
fn a_connection_opened_for_another_name_does_not_reach_a_host_that_asks() {
    let bench = Bench::new();
    let good = bench.showing(&bench.clients.client("good"));
    for (opened, host, expected) in [
        ("public.test", "mutual.test", 421),
        ("public.test", "MUTUAL.test.:443", 421),
        ("public.test", "partly.test", 421),
        ("partly.test", "mutual.test", 421),
        ("x.mutual.test", "mutual.test", 421),
        ("mutual.test", "public.test", 200),
        ("mutual.test", "Mutual.Test", 200),
        ("public.test", "unknown.test", 200),
    ] {
        let address = bench.gateway.tls_address();
        let mut stream = good.connect(address, opened).expect("it is served");
        assert_eq!(get(&mut stream, host, "/").status(), expected, "{host} over {opened}");
    }
    bench.gateway.wait_failures("misdirected_request", 5);
    // Over the plain port nobody is asked.
    assert_eq!(bench.gateway.client().get("/").status(), 200);
}

#[test]
fn a_host_that_asks_and_cannot_be_served_lets_nobody_in() {
    let (servers, clients) = (Authority::new("servers"), Authority::new("clients"));
    let origin = Origin::named("hello");
    let ca = || json!({ "ca": clients.pem });
    let other = servers.server(&["other.test"]);
    let faults = [
        (ca(), json!({ "key": other.key })),
        (ca(), json!({ "key": "$env://NOT_SET" })),
        (ca(), json!({ "ssl_protocols": ["TLSv1.1"] })),
        (ca(), json!({ "not_a_field": 1 })),
        (json!({ "ca": "$env://NOT_SET" }), json!({})),
        (json!({}), json!({})),
        (with(ca(), json!({ "skip_mtls_uri_regex": ["("] })), json!({})),
    ];
    let name = |place: usize| format!("mutual{place}.test");
    let names: Vec<String> = (0..faults.len()).map(name).chain(["public.test".into()]).collect();
    let pair = servers.server(&names.iter().map(String::as_str).collect::<Vec<_>>());
    let resources = |of: &dyn Fn(usize) -> Value| {
        let asking = (0..faults.len())
            .map(|place| with(ssl(&place.to_string(), &[&name(place)], &pair), of(place)));
        let broad = ssl("broad", &["*.test", "*"], &pair);
        let ssls: Vec<Value> = asking.chain([broad]).collect();
        with(everything_to(origin.address()), json!({ "ssls": ssls }))
    };
    let bad = resources(&|place| {
        let (client, more) = &faults[place];
        with(json!({ "client": client }), more.clone())
    });
    let gateway = gateway().tls().resources(&bad).start();
    let address = gateway.tls_address();
    let good = TlsOptions::showing(&servers, &clients.client("good")).build();
    let nobody = TlsOptions::new(&servers).build();
    let mut public = nobody.connect(address, "public.test").expect("others are served");
    for (place, fault) in faults.iter().enumerate() {
        for client in [&good, &nobody] {
            let refused = client.get(address, &name(place), "/");
            assert!(refused.text().contains("UnrecognisedName"), "{fault:?}: {refused:?}");
        }
        // No connection of another name leads there either.
        let host = format!("{}.:443", name(place).to_uppercase());
        assert_eq!(get(&mut public, &host, "/").status(), 421, "{fault:?}");
        let told = gateway.configuration()["problems"].to_string();
        let expected = format!("clients of {} are refused until this is mended", name(place));
        assert!(told.contains(&expected), "{told}");
    }
    assert_eq!(get(&mut public, "public.test", "/").status(), 200);
    // What is in service goes on, as everywhere.
    gateway.reload(&resources(&|_| json!({ "client": ca() })));
    gateway.reload(&bad);
    for (place, fault) in faults.iter().enumerate() {
        assert_eq!(good.get(address, &name(place), "/").status(), 200, "{fault:?}");
    }
}

#[test]
fn a_ticket_of_a_host_that_asks_nobody_opens_none_that_asks() {
    let bench = Bench::new();
    let nobody = bench.nobody();
    let address = bench.gateway.tls_address();
    for expected in [HandshakeKind::Full, HandshakeKind::Resumed] {
        let mut stream = nobody.connect(address, "partly.test").expect("it is served");
        assert_eq!(get(&mut stream, "partly.test", "/open/").status(), 200);
        assert_eq!(stream.conn.handshake_kind(), Some(expected));
    }
    // The same name asks from now on, and the client comes back with its ticket.
    let changed = json!({ "ssls": [
        with(
            ssl("3", &["partly.test"], &bench.pair),
            json!({ "client": { "ca": bench.clients.pem } }),
        ),
    ] });
    bench.gateway.reload(&with(everything_to(bench.origin.address()), changed));
    let answer = bench.get(&nobody, "partly.test", "/");
    assert!(answer.text().contains("CertificateRequired"), "{answer:?}");
}

#[test]
fn other_authorities_hold_for_connections_that_are_open() {
    let bench = Bench::new();
    let good = bench.showing(&bench.clients.client("good"));
    let mut stream = good.connect(bench.gateway.tls_address(), "mutual.test").expect("served");
    assert_eq!(get(&mut stream, "mutual.test", "/").status(), 200);
    let others = Authority::new("others");
    let changed = resources(&bench.origin, &bench.pair, &json!({ "ca": others.pem }));
    bench.gateway.reload(&changed);
    assert_eq!(get(&mut stream, "mutual.test", "/").status(), 400);
    let both = format!("{}{}", others.pem, bench.clients.pem);
    bench.gateway.reload(&resources(&bench.origin, &bench.pair, &json!({ "ca": both })));
    assert_eq!(get(&mut stream, "mutual.test", "/").status(), 200);
}

#[test]
fn nodes_may_learn_whose_certificate_it_was() {
    let bench = Bench::new();
    let headers = json!({
        "x-dn": "$ssl_client_s_dn", "x-issuer": "$ssl_client_i_dn", "x-verify": "$ssl_client_verify",
        "x-protocol": "$ssl_protocol", "x-name": "$ssl_server_name", "x-https": "$https",
    });
    let plugins = json!({ "proxy-rewrite": { "headers": { "set": headers } } });
    let mut changed =
        resources(&bench.origin, &bench.pair, &json!({ "ca": bench.clients.pem, "depth": 1 }));
    changed["routes"][0]["plugins"] = plugins;
    bench.gateway.reload(&changed);
    let good = bench.showing(&bench.clients.client("good"));
    for (client, name, dn, verify) in [
        (&good, "mutual.test", "CN=good,O=Tests\\, Inc.", "SUCCESS"),
        (&good, "public.test", "", "NONE"),
        (&bench.nobody(), "partly.test", "", "NONE"),
    ] {
        assert_eq!(bench.get(client, name, "/open/").status(), 200);
        let request = bench.origin.last_request();
        let field = |name: &str| request.field(name).unwrap_or_default().to_owned();
        assert_eq!((field("x-dn").as_str(), field("x-verify").as_str()), (dn, verify), "{name}");
        let expected = ("TLSv1.3".to_owned(), name.to_owned(), "on".to_owned());
        assert_eq!((field("x-protocol"), field("x-name"), field("x-https")), expected);
    }
}

#[test]
fn a_client_comes_back_to_a_successor_with_its_ticket() {
    let bench = Bench::new();
    let good = bench.showing(&bench.clients.client("good"));
    let address = bench.gateway.tls_address();
    let mut stream = good.connect(address, "mutual.test").expect("it is served");
    assert_eq!(get(&mut stream, "mutual.test", "/").status(), 200);
    let successor = bench.gateway.successor().flag("--upgrade").start();
    let mut old = bench.gateway;
    drop(stream);
    old.wait_exit();
    let mut stream = good.connect(successor.tls_address(), "mutual.test").expect("it is served");
    assert_eq!(get(&mut stream, "mutual.test", "/").status(), 200);
    assert_eq!(stream.conn.handshake_kind(), Some(HandshakeKind::Resumed));
    assert_eq!(successor.tls_address(), address);
    // A process of its own has keys of its own.
    let restarted = successor.kill().start();
    let stream = good.connect(restarted.tls_address(), "mutual.test").expect("it is served");
    assert_eq!(stream.conn.handshake_kind(), Some(HandshakeKind::Full));
}

#[test]
fn nodes_are_shown_the_certificate_of_an_object_and_the_next_one_at_once() {
    let (servers, clients) = (Authority::new("servers"), Authority::new("clients"));
    let node = tls_node(&servers.server(&["node.test"]), Some(&clients));
    let upstream = json!({
        "type": "roundrobin", "scheme": "https", "nodes": { node.to_string(): 1 },
        "tls": { "client_cert_id": "c" },
    });
    let service = json!({ "id": "s", "upstream": upstream });
    let resources = |pair: Option<&Pair>| {
        let object = |pair: &Pair| json!({ "id": "c", "type": "client", "cert": pair.chain, "key": pair.key });
        json!({
            "routes": [
                { "id": "1", "uri": "/inline", "upstream": upstream },
                { "id": "2", "uri": "/object", "upstream_id": "u" },
                { "id": "3", "uri": "/service", "service_id": "s" },
            ],
            "upstreams": [with(json!({ "id": "u" }), upstream.clone())],
            "services": [service],
            "ssls": pair.map(object).into_iter().collect::<Vec<_>>(),
        })
    };
    let gateway = gateway().resources(&resources(None)).start();
    let good = clients.client("gateway");
    let stranger = Authority::new("strangers").client("gateway");
    for (pair, expected) in
        [(None, 502), (Some(&good), 200), (Some(&stranger), 502), (Some(&good), 200)]
    {
        if pair.is_some() {
            gateway.reload(&resources(pair));
        }
        for target in ["/inline", "/object", "/service"] {
            let answer = gateway.client().get(target);
            assert_eq!(answer.status(), expected, "{target} with {}", pair.is_some());
        }
    }
}

#[test]
fn nodes_are_not_asked_without_the_certificate_that_an_upstream_names() {
    let (servers, clients) = (Authority::new("servers"), Authority::new("clients"));
    // A node that serves clients without a certificate too.
    let node = tls_node(&servers.server(&["node.test"]), None);
    let upstream = |tls: Value| json!({ "type": "roundrobin", "scheme": "https", "nodes": { node.to_string(): 1 }, "tls": tls });
    let pair = clients.client("gateway");
    let object =
        |kind: Value| with(json!({ "id": "c", "cert": pair.chain, "key": pair.key }), kind);
    let resources = |ssls: Value| {
        json!({
            "routes": [
                { "id": "1", "uri": "/named", "upstream": upstream(json!({ "client_cert_id": "c" })) },
                { "id": "2", "uri": "/bare", "upstream": upstream(json!({})) },
            ],
            "ssls": ssls,
        })
    };
    let gateway = gateway().resources(&resources(json!([]))).start();
    let named = |expected: u16, what: &str| {
        // A kept connection of another upstream is not taken in its place.
        assert_eq!(gateway.client().get("/bare").status(), 200);
        let answer = gateway.client().get("/named");
        assert_eq!(answer.status(), expected, "{what}");
    };
    named(502, "there is no such object");
    gateway.reload(&resources(json!([object(json!({ "type": "client" }))])));
    named(200, "it is there");
    gateway.reload(&resources(json!([object(json!({ "type": "server", "snis": ["a.test"] }))])));
    named(502, "it is for servers");
    gateway.reload(&resources(json!([object(json!({ "type": "client", "status": 0 }))])));
    named(502, "it is off");
}
