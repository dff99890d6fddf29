//! What kafka-logger sends: entries and arrays of them, within what a topic takes. The broker is a small one inside of
//! the test, which keeps what it is sent.

use tollhouse_plugin::testing::{Harness, configure_among};
use tollhouse_plugin::{Catalogue, PluginType, Services};
use tollhouse_testkit::patience::wait_for;

use super::*;
use crate::kafka::tests::TestBroker;
use crate::logging::test_logger::TestLogger;

struct Logger {
    logger: TestLogger,
    broker: TestBroker,
}

impl Logger {
    fn new(broker: TestBroker, more: Value) -> Self {
        let mut conf = json!({
            "brokers": [{"host": "127.0.0.1", "port": broker.port()}], "kafka_topic": "logs",
            "retry_delay": 0, "batch_max_size": 1, "log_format": {"a": "$uri"},
            // Only the sizes close a batch, however slowly the machine runs.
            "inactive_timeout": 3600, "buffer_duration": 3600, "producer_time_linger": 3600,
        });
        conf.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        Self { logger: TestLogger::new::<KafkaLogger>(&conf, None), broker }
    }

    /// Logs one exchange.
    fn log(&mut self, request: &str) {
        self.logger.log(request);
    }

    fn log_paths(&mut self, paths: impl IntoIterator<Item = u32>) {
        for path in paths {
            self.log(&format!("GET /{path} HTTP/1.1\nHost: a.com\n\n"));
        }
    }

    /// What the broker was sent to keep, as text, once there is so much of it.
    fn kept(&self, count: usize) -> Vec<String> {
        wait_for("records to be kept", || {
            let kept = self.broker.kept();
            let text = |body: &Vec<u8>| String::from_utf8_lossy(body).into_owned();
            (kept.len() >= count).then(|| kept.iter().map(text).collect())
        })
    }
}

fn entry(path: u32) -> String {
    format!(r#"{{"a":"/{path}","route_id":"r1"}}"#)
}

#[test]
fn entries_are_records_of_their_own_or_one_array() {
    let mut gathered = Logger::new(TestBroker::start(), json!({"producer_batch_num": 2}));
    gathered.log_paths(1..=2);
    let kept = gathered.kept(1);
    assert!(kept[0].contains(&entry(1)) && kept[0].contains(&entry(2)), "{kept:?}");
    assert!(!kept[0].contains("[{"), "{kept:?}");

    let mut alone = Logger::new(TestBroker::start(), json!({"producer_type": "sync"}));
    alone.log_paths(1..=2);
    let kept = alone.kept(2);
    assert!(kept[0].contains(&entry(1)) && kept[1].contains(&entry(2)), "{kept:?}");

    let mut array = Logger::new(TestBroker::start(), json!({"batch_max_size": 2}));
    array.log_paths(1..=2);
    let expected = format!("[{},{}]", entry(1), entry(2));
    assert!(array.kept(1)[0].contains(&expected));
}

#[test]
fn a_request_is_logged_as_it_came_where_that_is_asked_for() {
    let upload = "POST /a?b=c HTTP/1.1\nHost: a.com\nContent-Length: 5\n\nabcde";
    let original = "POST /a?b=c HTTP/1.1\r\nhost: a.com\r\ncontent-length: 5\r\n\r\nabcde";
    let conf = json!({"meta_format": "origin", "include_req_body": true, "producer_batch_num": 1});
    let mut logger = Logger::new(TestBroker::start(), conf);
    logger.log(upload);
    assert!(logger.kept(1)[0].contains(original), "{:?}", logger.kept(1));

    let conf = json!({"meta_format": "origin", "batch_max_size": 2});
    let mut logger = Logger::new(TestBroker::start(), conf);
    logger.log(upload);
    logger.log(upload);
    let quoted = json!(original.strip_suffix("abcde")).to_string();
    let expected = format!("[{quoted},{quoted}]");
    assert!(logger.kept(1)[0].contains(&expected), "{:?}", logger.kept(1));
}

#[test]
fn what_is_too_long_for_a_request_is_made_two() {
    // Two entries fit, beside what a batch, a record and an array have of their own.
    let bytes = 61 + 23 + 2 + 2 * (entry(1).len() + 1);
    let conf = json!({"batch_max_size": 4, "producer_batch_size": bytes});
    let mut logger = Logger::new(TestBroker::start(), conf);
    logger.log_paths(1..=4);
    let kept = logger.kept(2);
    assert!(kept[0].contains(&format!("[{},{}]", entry(1), entry(2))), "{kept:?}");
    assert!(kept[1].contains(&format!("[{},{}]", entry(3), entry(4))), "{kept:?}");
}

#[test]
fn what_a_topic_does_not_take_is_halved_and_what_is_left_of_it_lost() {
    let broker = TestBroker::start();
    // All four, the first two, the first: too long. The second is taken, and so are the others.
    broker.refuses([10, 10, 10, 0]);
    let mut logger = Logger::new(broker, json!({"batch_max_size": 4}));
    logger.log_paths(1..=4);
    let kept = logger.kept(4);
    let array = |paths: std::ops::RangeInclusive<u32>| {
        format!("[{}]", paths.map(entry).collect::<Vec<_>>().join(","))
    };
    for (kept, expected) in
        kept.iter().zip([array(1..=4), array(1..=2), array(1..=1), array(2..=4)])
    {
        assert!(kept.contains(&expected), "{kept:?} {expected}");
    }
    wait_for("the loss to be counted", || {
        (logger.logger.services.queues.lost() == 1).then_some(())
    });
}

#[test]
fn a_batch_that_is_refused_is_tried_three_times_more_and_then_counted() {
    let broker = TestBroker::start();
    broker.refuses([29]);
    let mut logger = Logger::new(broker, json!({"batch_max_size": 2}));
    logger.log_paths(1..=2);
    wait_for("the loss to be counted", || {
        (logger.logger.services.queues.lost() == 2).then_some(())
    });
    assert_eq!(logger.kept(4).len(), 4);
}

#[test]
fn bad_confs_are_refused() {
    let brokers = json!([{"host": "a", "port": 9092}]);
    let with = |more: Value| {
        let mut conf = json!({"brokers": brokers, "kafka_topic": "t"});
        conf.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        conf
    };
    for (conf, part) in [
        (json!({"kafka_topic": "t"}), "value should match only one schema, but matches none"),
        (json!({"brokers": brokers}), "value should match only one schema, but matches none"),
        (with(json!({"broker_list": {"a": 1}})), "value should match only one schema"),
        (json!({"broker_list": {"a": 0}, "kafka_topic": "t"}), "expected 0 to be at least 1"),
        (json!({"brokers": [], "kafka_topic": "t"}), "expect array to have at least 1 items"),
        (json!({"brokers": [{"host": "a"}], "kafka_topic": "t"}), r#"property "port" is required"#),
        (with(json!({"required_acks": 0})), "matches none of the enum values"),
        (with(json!({"producer_type": "x"})), "matches none of the enum values"),
        (with(json!({"api_version": 3})), "matches none of the enum values"),
        (with(json!({"timeout": 0})), "expected 0 to be at least 1"),
        (
            with(json!({"brokers": [{"host": "a", "port": 1,
                "sasl_config": {"user": "u", "password": "p", "mechanism": "GSSAPI"}}]})),
            "matches none of the enum values",
        ),
    ] {
        let refusal = Harness::refusal::<KafkaLogger>(&conf);
        assert!(refusal.contains(part), "{conf}: {refusal}");
    }
    let list = json!({"broker_list": {"a": 9092}, "kafka_topic": "t"});
    let catalogue = Catalogue::new([PluginType::new::<KafkaLogger>()]);
    let services = Arc::new(Services::new("APISIX"));
    assert!(configure_among::<KafkaLogger>(&list, &services, &catalogue, None).is_ok());
}
