//! Datagrams of udp-logger, as a UDP socket in the test receives them.

use std::net::UdpSocket;

use tollhouse_plugin::testing::Harness;
use tollhouse_testkit::patience::wait_for;

use super::*;
use crate::logging::test_logger::TestLogger;

struct Bench {
    logger: TestLogger,
    socket: UdpSocket,
}

impl Bench {
    fn new(more: &Value) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a free port");
        let port = socket.local_addr().expect("a bound socket").port();
        // Only the size closes a batch, however slowly the machine runs.
        let mut conf = json!({
            "host": "127.0.0.1", "port": port, "log_format": {"a": "$arg_a"},
            "inactive_timeout": 3600, "buffer_duration": 3600, "timeout": 60,
        });
        conf.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        Self { logger: TestLogger::new::<UdpLogger>(&conf, None), socket }
    }

    fn log(&mut self, value: &str) {
        self.logger.log(&format!("GET /?a={value} HTTP/1.1\n\n"));
    }

    fn next(&self) -> String {
        let mut bytes = vec![0; 70_000];
        let count = self.socket.recv(&mut bytes).expect("a datagram");
        String::from_utf8_lossy(&bytes[..count]).into_owned()
    }
}

fn entry(value: &str) -> String {
    format!(r#"{{"a":"{value}","route_id":"r1"}}"#)
}

#[test]
fn a_batch_is_an_array_and_a_single_entry_an_object() {
    let mut bench = Bench::new(&json!({"batch_max_size": 1}));
    bench.log("1");
    assert_eq!(bench.next(), entry("1"));
    let mut bench = Bench::new(&json!({"batch_max_size": 2}));
    bench.log("1");
    bench.log("2");
    assert_eq!(bench.next(), format!("[{},{}]", entry("1"), entry("2")));
}

#[test]
fn a_batch_that_is_longer_than_a_datagram_is_split() {
    let mut bench = Bench::new(&json!({"batch_max_size": 3}));
    let values = ["1", "2", "3"].map(|digit| digit.repeat(30_000));
    values.iter().for_each(|value| bench.log(value));
    assert_eq!(bench.next(), format!("[{},{}]", entry(&values[0]), entry(&values[1])));
    assert_eq!(bench.next(), format!("[{}]", entry(&values[2])));
}

#[test]
fn an_entry_that_is_longer_than_a_datagram_is_lost_alone() {
    let mut bench = Bench::new(&json!({"batch_max_size": 3}));
    bench.log("1");
    bench.log(&"2".repeat(65_507));
    bench.log("3");
    assert_eq!(bench.next(), format!("[{}]", entry("1")));
    assert_eq!(bench.next(), format!("[{}]", entry("3")));
    wait_for("the loss", || (bench.logger.services.queues.lost() == 1).then_some(()));
}

#[test]
fn bad_confs_are_refused() {
    for (conf, inner) in [
        (json!({"port": 1}), r#"property "host" is required"#),
        (json!({"host": "a"}), r#"property "port" is required"#),
        (json!({"host": "a", "port": 1, "timeout": 0}), "expected 0 to be at least 1"),
    ] {
        let refusal = Harness::refusal::<UdpLogger>(&conf);
        assert!(refusal.ends_with(inner), "{refusal}");
    }
}
