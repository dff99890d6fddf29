//! Requests of clickhouse-logger to a small server in the test, as ClickHouse's HTTP interface takes
//! them.

use tollhouse_plugin::PluginType;
use tollhouse_plugin::testing::Harness;

use super::*;
use crate::logging::test_logger::TestLogger;
use crate::shared::test_server::{TestServer, body, header, reply};

fn conf(address: &str) -> Value {
    json!({
        "endpoint_addrs": [address], "user": "web", "password": "secret", "database": "logs",
        "logtable": "access", "log_format": {"a": "$uri"}, "ssl_verify": false, "batch_max_size": 2,
    })
}

#[test]
fn a_batch_is_one_insert() {
    let server = TestServer::ok();
    let conf = conf(&server.url("/?input_format_skip_unknown_fields=1"));
    let mut logger = TestLogger::new::<ClickhouseLogger>(&conf, None);
    logger.log("GET /1 HTTP/1.1\n\n");
    logger.log("GET /2 HTTP/1.1\n\n");
    let request = server.next_request();
    let line = "POST /?input_format_skip_unknown_fields=1 HTTP/1.1\r\n";
    assert!(request.starts_with(line), "{request}");
    assert_eq!(header(&request, "x-clickhouse-user"), Some("web"));
    assert_eq!(header(&request, "x-clickhouse-key"), Some("secret"));
    assert_eq!(header(&request, "x-clickhouse-database"), Some("logs"));
    let rows = r#"{"a":"/1","route_id":"r1"} {"a":"/2","route_id":"r1"}"#;
    assert_eq!(body(&request), format!("INSERT INTO access FORMAT JSONEachRow {rows}"));
}

#[test]
fn a_refused_batch_is_sent_again() {
    let server = TestServer::start(|_| reply(400, "", "DB::Exception: no such column"));
    let mut conf = conf(&server.url("/"));
    conf["max_retry_count"] = json!(1);
    conf["retry_delay"] = json!(0);
    conf["batch_max_size"] = json!(1);
    let mut logger = TestLogger::new::<ClickhouseLogger>(&conf, None);
    logger.log("GET /1 HTTP/1.1\n\n");
    assert_eq!(body(&server.next_request()), body(&server.next_request()));
}

#[test]
fn bad_confs_are_refused() {
    let good = conf("http://127.0.0.1:8123");
    assert_eq!(Harness::refusal::<ClickhouseLogger>(&good), "");
    for missing in ["endpoint_addrs", "user", "password", "database", "logtable"] {
        let mut conf = good.clone();
        conf.as_object_mut().unwrap().remove(missing);
        let refusal = Harness::refusal::<ClickhouseLogger>(&conf);
        assert!(refusal.contains("matches none"), "{missing}: {refusal}");
    }
    let mut both = good.clone();
    both["endpoint_addr"] = json!("http://127.0.0.1:8123");
    assert!(Harness::refusal::<ClickhouseLogger>(&both).contains("matches both"));
    let kind = PluginType::new::<ClickhouseLogger>();
    assert!(kind.check_metadata(&json!({"log_format": {"a": "$b"}})).is_ok());
}
