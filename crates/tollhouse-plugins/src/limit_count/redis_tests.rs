//! Counting in Redis: shared by gateways, sliding, now and then, and when Redis is down.

use std::sync::Arc;

use serde_json::{Value, json};
use tollhouse_plugin::Services;
use tollhouse_plugin::testing::{FakeExchange, Harness};

use super::*;
use tollhouse_testkit::{ClosedPort, RedisServer};

const GET: &str = "GET /hello HTTP/1.1\n\n";

fn conf(port: u16, extra: Value) -> Value {
    let mut conf = json!({"count": 3, "time_window": 60, "policy": "redis",
        "redis_host": "127.0.0.1", "redis_port": port});
    conf.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    conf
}

#[test]
fn gateways_count_together() {
    let Some(server) = RedisServer::start(&[]) else { return };
    let conf = conf(server.port, json!({}));
    let mut first = Harness::new::<LimitCount>(&conf);
    let mut second = Harness::new::<LimitCount>(&conf);
    let mut exchange = FakeExchange::parse(GET, first.now_ms);
    assert!(first.run(&mut exchange).passes());
    let reply = first.respond(&mut exchange, "200", &[]);
    assert_eq!(reply.header("X-RateLimit-Remaining"), Some("2"));
    assert_eq!(reply.header("X-RateLimit-Reset"), Some("60"));
    assert!(second.request(GET).passes());
    assert!(first.request(GET).passes());
    let outcome = second.request(GET);
    assert_eq!(outcome.status(), 503);
    assert_eq!(outcome.header("X-RateLimit-Remaining"), Some("0"));
    let keys = server.ask(&["keys", "*"]);
    assert!(keys.starts_with("plugin-limit-count:routes/1:"), "{keys}");
    server.ask(&["pexpire", keys.trim(), "1"]);
    server.wait_until(&["dbsize"], |size| size.trim() == "0");
    assert!(second.request(GET).passes());
}

#[test]
fn a_sliding_window_weighs_the_one_before() {
    let Some(server) = RedisServer::start(&[]) else { return };
    let conf = conf(server.port, json!({"count": 4, "time_window": 10, "window_type": "sliding"}));
    let mut harness = Harness::new::<LimitCount>(&conf);
    harness.now_ms = 1_700_000_005_000;
    let statuses = |harness: &mut Harness, times: usize| -> Vec<u16> {
        (0..times).map(|_| harness.request(GET).status()).collect()
    };
    assert_eq!(statuses(&mut harness, 5), [0, 0, 0, 0, 503]);
    harness.now_ms = 1_700_000_012_500;
    assert_eq!(statuses(&mut harness, 2), [0, 503]);
    harness.now_ms = 1_700_000_030_000;
    assert_eq!(statuses(&mut harness, 5), [0, 0, 0, 0, 503]);
}

#[test]
fn clusters_count_too() {
    let Some(nodes) = RedisServer::cluster() else { return };
    let conf = json!({"count": 2, "time_window": 60, "policy": "redis-cluster",
        "redis_cluster_nodes": [format!("127.0.0.1:{}", nodes[0].port)],
        "redis_cluster_name": "c", "key": "http_x_key"});
    let mut harness = Harness::new::<LimitCount>(&conf);
    for key in ["a", "b", "c", "d"] {
        let request = format!("GET / HTTP/1.1\nX-Key: {key}\n\n");
        let statuses = [0; 3].map(|_| harness.request(&request).status());
        assert_eq!(statuses, [0, 0, 503], "{key}");
    }
}

#[test]
fn when_redis_is_down_the_conf_decides() {
    let closed = ClosedPort::new();
    let port = closed.address().port();
    let outcome = Harness::new::<LimitCount>(&conf(port, json!({}))).request(GET);
    assert_eq!(outcome.status(), 500);
    assert_eq!(outcome.body(), "{\"error_msg\":\"failed to limit count\"}\n");
    let conf = conf(port, json!({"allow_degradation": true}));
    assert!(Harness::new::<LimitCount>(&conf).request(GET).passes());
}

#[test]
fn with_an_interval_requests_are_counted_here_while_redis_is_away() {
    let closed = ClosedPort::new();
    for window_type in ["fixed", "sliding"] {
        let extra = json!({"sync_interval": 1, "window_type": window_type});
        let mut harness = Harness::new::<LimitCount>(&conf(closed.address().port(), extra));
        let statuses = [0; 4].map(|_| harness.request(GET).status());
        assert_eq!(statuses, [0, 0, 0, 503], "{window_type}");
    }
}

#[test]
fn with_an_interval_requests_agree_with_redis_now_and_then() {
    let Some(server) = RedisServer::start(&[]) else { return };
    let conf = conf(server.port, json!({"sync_interval": 0.1}));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build_local(Default::default())
        .expect("a runtime");
    let catalogue = tollhouse_plugin::Catalogue::empty();
    let counts = |services: &Arc<Services>| {
        let scope = Scope {
            owner: "routes/1",
            conf: &conf,
            metadata: None,
            protos: None,
            catalogue: &catalogue,
            services,
        };
        let config = serde_json::from_value(conf.clone()).expect("the conf is good");
        Backend::open(&config, &scope).expect("the conf is good")
    };
    let (first, second) = (Arc::new(Services::new("a")), Arc::new(Services::new("b")));
    let (first, second) = (counts(&first), counts(&second));
    let limit = Limit { count: 3, window_ms: 60_000, cost: 1 };
    let now = tollhouse_plugin::Moment { monotonic_ms: 0, unix_ms: 0 };
    let used = || {
        server.ask(&["--raw", "eval", "return redis.call('GET', redis.call('KEYS', '*')[1])", "0"])
    };
    runtime.block_on(async {
        let remaining = async |backend: &Backend| {
            backend.ask(b"k", limit, now).await.map(|verdict| verdict.quota().remaining)
        };
        assert_eq!(remaining(&first).await, Ok(2));
        assert_eq!(remaining(&second).await, Ok(1));
        // Not told yet.
        assert_eq!(remaining(&first).await, Ok(1));
        assert_eq!(used().trim(), "2");
        while used().trim() != "3" {
            tokio::task::yield_now().await;
        }
        // Another gateway's next window of agreement sees it.
        assert_eq!(remaining(&second).await, Ok(0));
    });
}
