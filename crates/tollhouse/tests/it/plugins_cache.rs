//! proxy-cache, seen from outside: what is kept, for whom, and what clients are told about it.

use serde_json::json;
use tollhouse_testkit::Origin;

use crate::cases::Bench;

#[test]
fn answers_are_kept() {
    let bench = Bench::start();
    bench.put("/consumers", json!({"username": "jack", "plugins": {"key-auth": {"key": "one"}}}));
    bench.put("/consumers", json!({"username": "rose", "plugins": {"key-auth": {"key": "two"}}}));
    bench.check(include_str!("cases/tables/proxy_cache.txt"));
}

/// Behaviours that RFC 9111, RFC 9110 and RFC 9213 require, with both strategies.
#[test]
fn caches_follow_the_standards() {
    let table = include_str!("cases/tables/proxy_cache_rfc9111.txt");
    for strategy in [
        r#""cache_strategy":"memory","cache_zone":"memory_cache""#,
        r#""cache_strategy":"disk","cache_zone":"disk_cache_one""#,
    ] {
        let conf = format!(r#""proxy-cache":{{{strategy},"cache_control":true}}"#);
        let lines = table.lines().map(|line| match line.strip_prefix("$ CONF") {
            Some(others) => format!("$ {{{conf}{others}}}\n"),
            None => format!("{line}\n"),
        });
        Bench::start().check(&lines.collect::<String>());
    }
}

#[test]
fn a_user_whom_an_authorization_service_lets_in_reads_no_page_of_another() {
    let (bench, service) = (Bench::start(), Origin::named("yes"));
    let uri = format!("http://{}/auth", service.address());
    for strategy in ["memory", "disk"] {
        let cache = json!({"cache_strategy": strategy, "cache_zone": match strategy {
            "memory" => "memory_cache",
            _ => "disk_cache_one",
        }});
        let auth = json!({"uri": uri, "request_headers": ["X-Session"]});
        let plugins = json!({"proxy-cache": cache, "forward-auth": auth});
        let host = format!("{strategy}.test");
        bench.put(&format!("/routes/{strategy}"), bench.route(&host, plugins));
        let mut client = bench.gateway.client();
        for (user, verdict) in [("alice", "MISS"), ("bob", "MISS"), ("alice", "HIT")] {
            let answer = client.ask(format!(
                "GET /me HTTP/1.1\r\nHost: {host}\r\nX-Session: {user}\r\nX-Answer: 200 OK|Cache-Control: max-age=60||page of {user}\r\n\r\n"
            ));
            assert_eq!(answer.text(), format!("page of {user}"), "{strategy}");
            if strategy == "memory" {
                assert_eq!(answer.field("apisix-cache-status"), Some(verdict), "{user}");
            }
        }
    }
}

#[test]
fn caches_refuse_bad_confs() {
    Bench::start().refuse(include_str!("cases/tables/proxy_cache_refusals.txt"));
}

#[test]
fn queries_of_graphql_are_kept_and_purged_by_their_key() {
    let bench = Bench::start();
    let conf = json!({"cache_strategy": "memory", "cache_zone": "memory_cache"});
    bench.put("/routes/g", bench.route("g.test", json!({"graphql-proxy-cache": conf})));
    let purge =
        json!({"uri": "/apisix/plugin/graphql-proxy-cache/*", "plugins": {"public-api": {}}});
    bench.put("/routes/purge", purge);
    bench.wait_until_served();
    let mut client = bench.gateway.client();
    let mut ask = |query: &str| {
        let body = json!({"query": query}).to_string();
        client.ask(format!(
            "POST /graphql HTTP/1.1\r\nHost: g.test\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        ))
    };
    let (first, second) = (ask("{a}"), ask("{a}"));
    let key = first.field("apisix-cache-key").expect("a key").to_owned();
    for (answer, status) in [(&first, "MISS"), (&second, "HIT")] {
        assert_eq!(answer.field("apisix-cache-status"), Some(status));
        assert_eq!(answer.field("apisix-cache-key"), Some(&*key));
        assert_eq!(answer.text(), "hello");
    }
    assert_eq!(ask("mutation {a}").field("apisix-cache-status"), Some("BYPASS"));
    assert_eq!(ask("{a").status(), 400);
    assert_eq!(bench.node.requests().iter().filter(|it| it.target() == "/graphql").count(), 2);
    let path = format!("/apisix/plugin/graphql-proxy-cache/memory/g/{key}");
    for status in [200, 404] {
        let request = format!("PURGE {path} HTTP/1.1\r\nHost: purge.test\r\n\r\n");
        assert_eq!(bench.gateway.client().ask(request).status(), status);
    }
    assert_eq!(ask("{a}").field("apisix-cache-status"), Some("MISS"));
}
