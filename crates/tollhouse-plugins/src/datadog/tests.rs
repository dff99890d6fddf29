//! Datagrams of datadog, as an agent in the test receives them.

use std::net::UdpSocket;

use tollhouse_plugin::PluginType;
use tollhouse_plugin::testing::Harness;

use super::*;
use crate::logging::test_logger::TestLogger;

/// Agent, and a logger that sends to it.
fn agent(conf: &Value, metadata: &Value) -> (UdpSocket, TestLogger) {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    let mut metadata = metadata.clone();
    metadata["port"] = json!(socket.local_addr().expect("a bound socket").port());
    let mut conf = conf.clone();
    conf["batch_max_size"] = json!(1);
    let logger = TestLogger::new::<Datadog>(&conf, Some(&metadata));
    (socket, logger)
}

fn received(socket: &UdpSocket) -> String {
    let mut bytes = [0; 65_535];
    let count = socket.recv(&mut bytes).expect("a datagram");
    String::from_utf8_lossy(&bytes[..count]).into_owned()
}

#[test]
fn the_metrics_of_an_exchange_are_one_datagram() {
    let (socket, mut logger) = agent(&json!({}), &json!({}));
    logger.log("GET /1 HTTP/1.1\n\n");
    let tags = "#source:apisix,route_name:r1,balancer_ip:127.0.0.1,response_status:200,\
                response_status_class:2xx,scheme:http";
    let expected = [
        format!("apisix.request.counter:1|c|{tags}"),
        format!("apisix.request.latency:12|h|{tags}"),
        format!("apisix.upstream.latency:10|h|{tags}"),
        format!("apisix.apisix.latency:2|h|{tags}"),
        format!("apisix.ingress.size:90|ms|{tags}"),
        format!("apisix.egress.size:190|ms|{tags}"),
    ];
    assert_eq!(received(&socket), expected.join("\n"));
}

#[test]
fn names_and_tags_are_those_of_metadata_and_conf() {
    let conf = json!({"include_method": true, "constant_tags": ["team:shop"]});
    let (socket, mut logger) =
        agent(&conf, &json!({"namespace": "", "constant_tags": ["zone:eu"]}));
    logger.log("POST /1 HTTP/1.1\n\n");
    let text = received(&socket);
    let line = text.lines().next().unwrap();
    assert!(
        line.starts_with("request.counter:1|c|#zone:eu,team:shop,route_name:r1,method:POST,"),
        "{line}"
    );
}

#[test]
fn metrics_that_exceed_a_datagram_are_sent_one_by_one() {
    let tags: Vec<String> = (0..45).map(|number| format!("a{number}{}", "b".repeat(190))).collect();
    let (socket, mut logger) = agent(&json!({"constant_tags": tags}), &json!({}));
    logger.log("GET /1 HTTP/1.1\n\n");
    for name in ["request.counter", "request.latency", "upstream.latency"] {
        let text = received(&socket);
        assert!(text.starts_with(&format!("apisix.{name}:")) && !text.contains('\n'), "{text}");
    }
}

#[test]
fn no_value_ends_a_tag() {
    assert_eq!(tag_value("a,b|c\nd:e"), "a_b_c_d:e");
    for (upstream, expected) in [("127.0.0.1:80", "127.0.0.1"), ("[::1]:80", "[::1]"), ("", "")] {
        assert_eq!(address_of(upstream), expected);
    }
}

#[test]
fn bad_confs_are_refused() {
    for (tag, is_good) in
        [("a:b", true), ("é_1", true), ("a", true), ("a:", false), ("1a", false), ("a b", false)]
    {
        let refusal = Harness::refusal::<Datadog>(&json!({"constant_tags": [tag]}));
        assert_eq!(refusal.is_empty(), is_good, "{tag}: {refusal}");
    }
    assert_ne!(Harness::refusal::<Datadog>(&json!({"prefer_name": 1})), "");
    let kind = PluginType::new::<Datadog>();
    assert!(kind.check_metadata(&json!({"host": "a", "port": 8125})).is_ok());
    assert!(kind.check_metadata(&json!({"port": "a"})).is_err());
}
