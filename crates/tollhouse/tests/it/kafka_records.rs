//! Records of requests in Kafka's own broker: those of `kafka-logger` and of ShenYu's `loggingKafka`, with every way to
//! log in, and while the broker is killed and comes back.
//!
//! `cargo x install` builds the broker (source in `tests/interop`); a machine without one skips the test.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};
use tollhouse_testkit::program::{self, Running};
use tollhouse_testkit::{Gateway, Origin, ReservedPort};

use super::shenyu::{nodes, objects, pair};
use super::support;

/// A broker in Java takes seconds to start, and more where others compile: this bounds a hang and measures nothing.
const PATIENCE: Duration = Duration::from_secs(180);

/// The broker, and what it needs to come back as the same.
struct Broker {
    program: std::path::PathBuf,
    folder: tempfile::TempDir,
    open: ReservedPort,
    secured: ReservedPort,
    controller: ReservedPort,
}

impl Broker {
    fn find() -> Option<Self> {
        let program = program::find("kafka-broker-4.1.1")?;
        let folder = tempfile::tempdir().expect("a folder can be made");
        let [open, secured, controller] = std::array::from_fn(|_| ReservedPort::new());
        Some(Self { program, folder, open, secured, controller })
    }

    /// Starts it; it prints every record that it has, those of an earlier life too.
    fn start(&self) -> Running {
        let ports = [&self.open, &self.secured, &self.controller];
        let ports = ports.map(|port| port.number().to_string());
        let folder: &Path = self.folder.path();
        let running = Running::start(Command::new(&self.program).arg(folder.join("b")).args(ports));
        running.output().wait_line_within(PATIENCE, "the broker to serve", |line| {
            line.starts_with("serving at ").then_some(())
        });
        running
    }
}

/// A record as the broker's consumer prints it.
struct Printed {
    partition: String,
    /// The partition that Kafka's own producer would have chosen; `-` without a key.
    proper: String,
    value: Value,
}

fn printed(line: &str, topic: &str) -> Option<Printed> {
    let mut words = line.strip_prefix("record ")?.splitn(4, ' ');
    let is_topic = words.next()? == topic;
    let (partition, proper, value) = (words.next()?, words.next()?, words.next()?);
    is_topic.then(|| Printed {
        partition: partition.to_owned(),
        proper: proper.to_owned(),
        value: serde_json::from_str(value).expect("a record is JSON"),
    })
}

/// The first record of a topic that is as `is_it` says, which may take the broker a while.
fn wait_record(broker: &Running, topic: &str, is_it: impl Fn(&Value) -> bool) -> Printed {
    broker.output().wait_line_within(PATIENCE, &format!("a record in {topic}"), |line| {
        printed(line, topic).filter(|record| is_it(&record.value))
    })
}

fn ask(gateway: &Gateway, target: &str) {
    let request = format!("GET {target} HTTP/1.1\r\nHost: a.test\r\n\r\n");
    assert_eq!(gateway.client().ask(request).status(), 200, "{target}");
}

/// A route with a logger.
fn route(id: &str, node: &Origin, conf: Value) -> Value {
    let upstream = support::upstream([node.address()]);
    json!({"id": id, "uri": format!("/{id}"), "plugins": {"kafka-logger": conf}, "upstream": upstream})
}

fn routes(broker: &Broker, node: &Origin) -> Value {
    let number = |port: &ReservedPort| port.number();
    let open = json!([{"host": "127.0.0.1", "port": number(&broker.open)}]);
    let secured = |mechanism: &str, user: &str| {
        let password = format!("{user}-secret");
        let sasl = json!({"mechanism": mechanism, "user": user, "password": password});
        json!({
            "brokers": [{"host": "127.0.0.1", "port": number(&broker.secured), "sasl_config": sasl}],
            "kafka_topic": "secured", "batch_max_size": 1, "producer_type": "sync",
            "log_format": {"uri": "$uri"}, "max_retry_count": 100,
        })
    };
    json!([
        route(
            "each",
            node,
            json!({
                "brokers": open, "kafka_topic": "each", "batch_max_size": 1, "max_retry_count": 100,
                "log_format": {"n": "$arg_n"}, "required_acks": -1,
            })
        ),
        route(
            "array",
            node,
            json!({
                "broker_list": {"127.0.0.1": number(&broker.open)}, "kafka_topic": "array", "key": "key",
                "batch_max_size": 2, "max_retry_count": 100,
            })
        ),
        route("plain", node, secured("PLAIN", "alice")),
        route("scram256", node, secured("SCRAM-SHA-256", "bob")),
        route("scram512", node, secured("SCRAM-SHA-512", "carol")),
    ])
}

fn resources(broker: &Broker, node: &Origin) -> Value {
    let topic = json!({"topic": "orders", "sampleRate": "1"});
    let mut resources = objects(&[
        pair("loggingKafka", "/shop/", topic, json!({})),
        pair("divide", "/shop/", nodes([node.address().port()]), json!({})),
    ]);
    for plugin in resources["shenyu"]["plugins"].as_array_mut().expect("there are some") {
        if plugin["name"] == "loggingKafka" {
            plugin["config"] = json!({
                "namesrvAddr": format!("127.0.0.1:{}", broker.secured.number()), "topic": "other",
                "securityProtocol": "SASL_PLAINTEXT", "saslMechanism": "SCRAM-SHA-512",
                "userName": "carol", "passWord": "carol-secret",
            });
        }
    }
    resources["routes"] = routes(broker, node);
    resources
}

#[test]
fn kafkas_own_broker_keeps_records_of_both_dialects_and_may_go_and_come_back() {
    let Some(broker) = Broker::find() else { return };
    let node = Origin::named("node");
    let running = broker.start();
    let gateway = support::gateway().resources(&resources(&broker, &node)).start();

    for target in ["/array?n=1", "/array?n=2", "/plain", "/scram256", "/scram512", "/shop/7?q=1"] {
        ask(&gateway, target);
    }
    let array = wait_record(&running, "array", Value::is_array);
    let uris = [&array.value[0], &array.value[1]].map(|entry| &entry["request"]["uri"]);
    assert_eq!(uris, ["/array?n=1", "/array?n=2"]);
    assert_eq!(array.value[0]["response"]["status"], 200);
    assert_eq!(array.partition, array.proper);
    for uri in ["/plain", "/scram256", "/scram512"] {
        wait_record(&running, "secured", |record| record["uri"] == uri);
    }
    let order = wait_record(&running, "orders", Value::is_object).value;
    for (member, expected) in [
        ("path", json!("/shop/7")),
        ("queryParams", json!("q=1")),
        ("requestMethod", json!("GET")),
        ("status", json!(200)),
        ("host", json!("a.test")),
        ("ruleId", json!("100")),
    ] {
        assert_eq!(order[member], expected, "{member} of {order}");
    }
    assert!(order["requestHeader"].is_string(), "{order}");

    let mut asked = 0_u32;
    let mut ask_more = |count: u32| {
        for n in asked..asked + count {
            ask(&gateway, &format!("/each?n={n}"));
        }
        asked += count;
        asked
    };
    let is_number = |n: u32| move |record: &Value| record["n"].as_str() == Some(&*n.to_string());
    let first = ask_more(100);
    wait_record(&running, "each", is_number(first - 1));
    // These may be on their way when it is killed.
    ask_more(100);
    drop(running);
    let all = ask_more(100);
    let running = broker.start();
    for n in 0..all {
        wait_record(&running, "each", is_number(n));
    }
    assert!(gateway.metric("tollhouse_log_entries_lost_total").abs() < 0.5, "nothing is lost");
}
