//! Servers that answer, that are down, that come back.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::conf::Policy;
use super::*;
use tollhouse_testkit::{ClosedPort, RedisServer, ReservedPort};

fn run<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build_local(Default::default())
        .expect("a runtime");
    runtime.block_on(future)
}

fn servers(policy: Policy, conf: &Value) -> Servers {
    Servers::parse(policy, conf).expect("the conf is good").expect("it names servers")
}

async fn count(servers: &Servers) -> Result<u64, Unavailable> {
    let script = Script::new("return redis.call('INCRBY', KEYS[1], ARGV[1])");
    let arguments = [Argument::Whole(1)];
    servers
        .call(&Call { script: &script, key: b"{k}x", further_key: None, arguments: &arguments })
        .await
}

#[test]
fn scripts_run_with_database_and_password() {
    let Some(server) = RedisServer::start(&["--requirepass", "secret"]) else { return };
    let conf = |password: &str| {
        json!({"redis_host": "127.0.0.1", "redis_port": server.port, "redis_database": 3,
            "redis_password": password})
    };
    let good = servers(Policy::Redis, &conf("secret"));
    assert_eq!(run(async { (count(&good).await, count(&good).await) }), (Ok(1), Ok(2)));
    let bad = servers(Policy::Redis, &conf("other"));
    assert_eq!(run(count(&bad)), Err(Unavailable));
    assert!(!format!("{good:?}").contains("Client"));
}

#[test]
fn a_connection_that_broke_is_opened_anew() {
    let Some(server) = RedisServer::start(&[]) else { return };
    let conf = json!({"redis_host": "127.0.0.1", "redis_port": server.port});
    let servers = servers(Policy::Redis, &conf);
    run(async {
        assert_eq!(count(&servers).await, Ok(1));
        server.ask(&["client", "kill", "type", "normal"]);
        assert_eq!(count(&servers).await, Ok(2));
    });
    // Connections end with the runtime that they were opened on.
    assert_eq!(run(count(&servers)), Ok(3));
}

#[test]
fn a_server_that_is_down_costs_no_more_than_the_time_out() {
    let closed = ClosedPort::new();
    let conf = json!({"redis_host": "127.0.0.1", "redis_port": closed.address().port()});
    assert_eq!(run(count(&servers(Policy::Redis, &conf))), Err(Unavailable));
    // It accepts and never answers.
    let mute = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = mute.local_addr().expect("it is bound").port();
    let conf = json!({"redis_host": "127.0.0.1", "redis_port": port, "redis_timeout": 50});
    let began = Instant::now();
    assert_eq!(run(count(&servers(Policy::Redis, &conf))), Err(Unavailable));
    // Far more than the time-out of a busy machine, and far less than for ever.
    assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
}

#[test]
fn the_master_is_found_through_sentinels() {
    let Some(master) = RedisServer::start(&[]) else { return };
    let Some(sentinel) = RedisServer::sentinel(master.port) else { return };
    let closed = ClosedPort::new();
    let conf = json!({
        "redis_sentinels": [
            {"host": "127.0.0.1", "port": closed.address().port()},
            {"host": "127.0.0.1", "port": sentinel.port},
        ],
        "redis_master_name": "counters",
    });
    assert_eq!(run(count(&servers(Policy::RedisSentinel, &conf))), Ok(1));
    assert_eq!(master.ask(&["get", "{k}x"]).trim(), "1");
}

#[test]
fn scripts_run_on_the_cluster_node_that_has_the_key() {
    let Some(nodes) = RedisServer::cluster() else { return };
    let conf = json!({
        "redis_cluster_nodes": [format!("127.0.0.1:{}", nodes[1].port)],
        "redis_cluster_name": "test",
    });
    let servers = servers(Policy::RedisCluster, &conf);
    assert_eq!(run(async { (count(&servers).await, count(&servers).await) }), (Ok(1), Ok(2)));
}

#[test]
fn tls_is_spoken_and_certificates_are_judged_where_the_conf_says_so() {
    let folder = tempfile::tempdir().expect("a folder");
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("it is made");
    let file = |name: &str, text: String| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).expect("the file is written");
        path.to_str().expect("the path is text").to_owned()
    };
    let certificate = file("cert.pem", pem("CERTIFICATE", made.cert.der()));
    let key = file("key.pem", pem("PRIVATE KEY", &made.signing_key.serialize_der()));
    let reserved = ReservedPort::new();
    let tls_port = reserved.number();
    let port = tls_port.to_string();
    let server = RedisServer::start(&[
        "--tls-port",
        &port,
        "--tls-cert-file",
        &certificate,
        "--tls-key-file",
        &key,
        "--tls-ca-cert-file",
        &certificate,
        "--tls-auth-clients",
        "no",
    ]);
    let Some(_server) = server else { return };
    let conf = |verifies: bool| {
        json!({"redis_host": "localhost", "redis_port": tls_port, "redis_ssl": true,
            "redis_ssl_verify": verifies})
    };
    assert_eq!(run(count(&servers(Policy::Redis, &conf(false)))), Ok(1));
    assert_eq!(run(count(&servers(Policy::Redis, &conf(true)))), Err(Unavailable));
}

fn pem(label: &str, der: &[u8]) -> String {
    let text = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, der);
    let lines = text.as_bytes().chunks(64).map(|line| String::from_utf8_lossy(line).into_owned());
    let body = lines.collect::<Vec<_>>().join("\n");
    format!("-----BEGIN {label}-----\n{body}\n-----END {label}-----\n")
}
