//! Plugins that keep requests out, seen from outside: cors, csrf, ip-, ua- and referer-restriction,
//! uri-blocker, request-validation, real-ip and client-control.

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
