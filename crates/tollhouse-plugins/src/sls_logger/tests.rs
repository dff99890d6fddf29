//! Messages of sls-logger, as a TLS server in the test reads them.

use tollhouse_plugin::PluginType;
use tollhouse_plugin::testing::Harness;
use tollhouse_testkit::patience::wait_for;

use super::*;
use crate::logging::test_logger::{TestLogger, TlsDelivery, TlsServer};

fn conf(port: u16, more: &Value) -> Value {
    let mut conf = json!({
        "host": "127.0.0.1", "port": port, "project": "shop", "logstore": "a]b",
        "access_key_id": "id", "access_key_secret": "sec\"ret", "log_format": {"a": "$uri"},
        "batch_max_size": 2, "ssl_verify": false, "timeout": 60_000,
    });
    conf.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    conf
}

#[test]
fn a_batch_is_messages_with_the_access_key_over_tls() {
    let server = TlsServer::new();
    let conf = conf(server.address.port(), &json!({}));
    let mut logger = TestLogger::new::<SlsLogger>(&conf, None);
    let received = server.serve(&logger.runtime);
    logger.log("GET /1 HTTP/1.1\nHost: one.test\n\n");
    logger.log("GET /2 HTTP/1.1\nHost: two.test\n\n");
    let process = std::process::id();
    let message = |host, path| {
        format!(
            r#"<46>1 2023-11-14T22:13:20.000Z {host} tollhouse {process} - [logservice project="shop" logstore="a\]b" access-key-id="id" access-key-secret="sec\"ret"] {{"a":"{path}","route_id":"r1"}}"#
        ) + "\n"
    };
    let text = message("one.test", "/1") + &message("two.test", "/2");
    let expected = TlsDelivery { server_name: None, text, is_ended: true };
    assert_eq!(received.recv().expect("a batch"), expected);
}

#[test]
fn an_unknown_certificate_is_refused_unless_the_conf_says_otherwise() {
    let server = TlsServer::new();
    let conf = conf(server.address.port(), &json!({"ssl_verify": true, "batch_max_size": 1}));
    let mut logger = TestLogger::new::<SlsLogger>(&conf, None);
    let received = server.serve(&logger.runtime);
    logger.log("GET /1 HTTP/1.1\nHost: one.test\n\n");
    assert!(received.recv().is_err(), "the handshake fails");
    wait_for("the loss", || (logger.services.queues.lost() == 1).then_some(()));
}

#[test]
fn bad_confs_are_refused() {
    for field in ["host", "port", "project", "logstore", "access_key_id", "access_key_secret"] {
        let mut conf = conf(10_009, &json!({}));
        conf.as_object_mut().unwrap().remove(field);
        let refusal = Harness::refusal::<SlsLogger>(&conf);
        assert_eq!(refusal, format!(r#"property "{field}" is required"#));
    }
    let refusal = Harness::refusal::<SlsLogger>(&conf(1, &json!({"host": "a b"})));
    assert!(refusal.ends_with(r#"invalid server name "a b" for TLS"#), "{refusal}");
    let kind = PluginType::new::<SlsLogger>();
    assert!(kind.check_metadata(&json!({"log_format": {"a": "$b"}})).is_ok());
}
