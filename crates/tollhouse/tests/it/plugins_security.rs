//! Plugins that keep requests out, seen from outside: cors, csrf, ip-, ua- and referer-restriction,
//! uri-blocker, request-validation, real-ip and client-control.

use std::io::{Read, Write};
use std::net::TcpListener;

use serde_json::json;

use crate::cases::Bench;

#[test]
fn cors_answers_browsers() {
    let bench = Bench::start();
    let metadata = json!({"allow_origins": {"key_1": "https://domain.com,https://sub.domain.com", "key_2": "*"}});
    bench.put("/plugin_metadata/cors", metadata);
    bench.put("/consumers", json!({"username": "jack", "plugins": {"key-auth": {"key": "k1"}}}));
    bench.check(include_str!("cases/tables/cors.txt"));
}

#[test]
fn lists_let_in_and_keep_out() {
    let bench = Bench::start();
    bench.check(include_str!("cases/tables/restrictions.txt"));
}

#[test]
fn restrictions_refuse_bad_confs() {
    Bench::start().refuse(include_str!("cases/tables/security_refusals.txt"));
}

#[test]
fn casbin_judges_the_consumer_that_a_key_belongs_to() {
    let bench = Bench::start();
    for name in ["alice", "bob"] {
        bench.put("/consumers", json!({"username": name, "plugins": {"key-auth": {"key": name}}}));
    }
    let model = "[request_definition]\nr = sub, obj, act\n[policy_definition]\np = sub, obj, act\n\
                 [policy_effect]\ne = some(where (p.eft == allow))\n\
                 [matchers]\nm = r.sub == p.sub && keyMatch(r.obj, p.obj)";
    let policy = "p, alice, /data*, GET\np, anonymous, /public, GET";
    let conf = json!({"model": model, "policy": policy, "username": "X-Consumer-Username"});
    let plugins = json!({"key-auth": {}, "authz-casbin": conf});
    bench.put("/routes/a", bench.route("a.test", plugins));
    bench.put("/routes/b", bench.route("b.test", json!({"authz-casbin": conf})));
    bench.wait_until_served();
    bench.say("a.test", "> GET /data\n> apikey: alice\n< 200");
    bench.say("a.test", "> GET /data\n> apikey: bob\n< 403");
    bench.say("a.test", "> GET /data\n> apikey: bob\n> X-Consumer-Username: alice\n< 403");
    bench.say("a.test", "> GET /data\n> X-Consumer-Username: alice\n< 401");
    bench.say("b.test", "> GET /data\n> X-Consumer-Username: alice\n< 403");
    bench.say("b.test", "> GET /public\n< 200");
}

#[test]
fn tokens_of_csrf_go_out_and_come_back() {
    let bench = Bench::start();
    bench.put(
        "/routes/csrf",
        bench.route("csrf.test", json!({"csrf": {"key": "userkey", "expires": 1_000_000_000}})),
    );
    bench.wait_until_served();
    bench.say("csrf.test", "\
        > GET /
        < 200
        < Set-Cookie: *

        > HEAD /
        < 200

        > OPTIONS /
        < 200

        > POST /
        >= x
        < 401
        < Set-Cookie: *
        <= {\"error_msg\":\"no csrf token in headers\"}\\n
        ^ none

        > POST /
        > apisix-csrf-token: wrong
        >= x
        < 401
        <= {\"error_msg\":\"no csrf cookie\"}\\n

        > POST /
        > apisix-csrf-token: one
        > Cookie: apisix-csrf-token=two
        >= x
        < 401
        <= {\"error_msg\":\"csrf token mismatch\"}\\n

        > POST /
        > apisix-csrf-token: wrong
        > Cookie: apisix-csrf-token=wrong
        >= x
        < 401
        <= {\"error_msg\":\"Failed to verify the csrf token signature\"}\\n

        > POST /
        > apisix-csrf-token: eyJyYW5kb20iOjAuNDI5ODYzMTk3MTYxMzksInNpZ24iOiI0ODRlMDY4NTkxMWQ5NmJhMDc5YzQ1ZGI0OTE2NmZkYjQ0ODhjODVkNWQ0NmE1Y2FhM2UwMmFhZDliNjE5OTQ2IiwiZXhwaXJlcyI6MjY0MzExOTYyNH0=
        > Cookie: apisix-csrf-token=eyJyYW5kb20iOjAuNDI5ODYzMTk3MTYxMzksInNpZ24iOiI0ODRlMDY4NTkxMWQ5NmJhMDc5YzQ1ZGI0OTE2NmZkYjQ0ODhjODVkNWQ0NmE1Y2FhM2UwMmFhZDliNjE5OTQ2IiwiZXhwaXJlcyI6MjY0MzExOTYyNH0=
        >= x
        < 200");
    let answer = bench.gateway.client().ask("GET / HTTP/1.1\r\nHost: csrf.test\r\n\r\n");
    let cookie = answer.field("set-cookie").expect("a cookie").to_owned();
    let (token, rest) = cookie.split_once(';').expect("attributes");
    assert!(rest.starts_with("path=/;SameSite=Lax;Expires="), "{rest}");
    let token = token.strip_prefix("apisix-csrf-token=").expect("the cookie's name");
    bench.say(
        "csrf.test",
        &format!(
            "\
        > POST /
        > apisix-csrf-token: {token}
        > Cookie: a=b; apisix-csrf-token={token}
        >= x
        < 200
        ^= x"
        ),
    );
}

#[test]
fn bodies_are_validated_and_limited() {
    let bench = Bench::start();
    bench.check(include_str!("cases/tables/request_bodies.txt"));
}

/// Starts a detection service of SafeLine that blocks requests with `attack` in them.
fn detection_service() -> std::net::SocketAddr {
    const PASS: &[u8] = b"\x41\x01\0\0\0.\xa5\x02\0\0\0{}";
    const BLOCK: &[u8] = b"\x41\x01\0\0\0?\x02\x03\0\0\0403\x23\x0f\0\0\0Set-Cookie:a=b\n\
        \xa4\x16\0\0\0<!-- event_id: b3c -->";
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("a bound socket");
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            std::thread::spawn(move || {
                let mut message = Vec::new();
                let mut piece = [0; 4096];
                while let Ok(bytes @ 1..) = stream.read(&mut piece) {
                    message.extend_from_slice(&piece[..bytes]);
                    if message.ends_with(b"Proto:3\n") {
                        let is_attack = message.windows(6).any(|part| part == b"attack");
                        let _ = stream.write_all(if is_attack { BLOCK } else { PASS });
                        message.clear();
                    }
                }
            });
        }
    });
    address
}

#[test]
fn safeline_blocks_or_only_reports() {
    let bench = Bench::start();
    let service = detection_service();
    let nodes = json!([{"host": "127.0.0.1", "port": service.port()}]);
    let settings = json!({"read_timeout": 10_000});
    bench.put("/plugin_metadata/chaitin-waf", json!({"nodes": nodes, "config": settings}));
    for mode in ["block", "monitor", "off"] {
        let plugins = json!({"chaitin-waf": {"mode": mode}});
        bench.put(&format!("/routes/{mode}"), bench.route(&format!("{mode}.test"), plugins));
    }
    bench.wait_until_served();
    bench.say(
        "block.test",
        "> GET /a\n< 200\n< x-apisix-chaitin-waf: yes\n< x-apisix-chaitin-waf-action: pass",
    );
    bench.say(
        "block.test",
        "> POST /a\n>= an attack\n< 403\n< x-apisix-chaitin-waf-action: reject\n< set-cookie: a=b",
    );
    bench.say(
        "monitor.test",
        "> GET /attack\n< 200\n< x-apisix-chaitin-waf-action: reject\n< x-apisix-chaitin-waf-status: 403",
    );
    bench.say("off.test", "> GET /attack\n< 200\n< x-apisix-chaitin-waf: off");
}
