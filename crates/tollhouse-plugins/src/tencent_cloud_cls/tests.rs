//! Requests of tencent-cloud-cls to a small server in the test, decoded by the service's own
//! description of its messages.

use prost::Message;
use tollhouse_plugin::PluginType;
use tollhouse_plugin::testing::Harness;
use tollhouse_testkit::patience::wait_for;

use super::*;
use crate::logging::test_logger::TestLogger;
use crate::shared::test_server::{TestServer, header, reply};

#[derive(Clone, PartialEq, Message)]
struct LogGroupList {
    #[prost(message, repeated, tag = "1")]
    groups: Vec<LogGroup>,
}

#[derive(Clone, PartialEq, Message)]
struct LogGroup {
    #[prost(message, repeated, tag = "1")]
    logs: Vec<Log>,
    #[prost(string, optional, tag = "4")]
    source: Option<String>,
}

fn logger(server: &TestServer, more: &Value) -> TestLogger {
    let mut conf = json!({
        "cls_host": server.url("").trim_start_matches("http://"), "cls_topic": "9f9e/1",
        "scheme": "http", "secret_id": "AKID", "secret_key": "secret", "batch_max_size": 2,
        "log_format": {"a": "$uri", "n": "$status", "o": {"p": "$uri"}},
    });
    conf.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    TestLogger::new::<TencentCloudCls>(&conf, None)
}

/// Head and messages of a request.
fn received(server: &TestServer) -> (String, LogGroupList) {
    let request = server.next_bytes();
    let end = request.windows(4).position(|bytes| bytes == b"\r\n\r\n").expect("a head") + 4;
    let head = String::from_utf8_lossy(&request[..end]).into_owned();
    (head, LogGroupList::decode(&request[end..]).expect("a list of groups"))
}

#[test]
fn a_batch_is_a_group_of_logs() {
    let server = TestServer::ok();
    let mut logger = logger(&server, &json!({"global_tag": {"env": "test"}}));
    logger.log("GET /1 HTTP/1.1\n\n");
    logger.log("GET /2 HTTP/1.1\n\n");
    let (head, list) = received(&server);
    assert!(head.starts_with("POST /structuredlog?topic_id=9f9e%2F1 HTTP/1.1\r\n"), "{head}");
    assert_eq!(header(&head, "content-type"), Some("application/x-protobuf"));
    let authorization = header(&head, "authorization").expect("a signature");
    assert!(authorization.starts_with("q-sign-algorithm=sha1&q-ak=AKID&q-sign-time="));
    let [group] = &list.groups[..] else { panic!("{list:?}") };
    assert_eq!(group.source.as_deref(), Some(hostname()));
    let logs: Vec<Vec<(&str, &str)>> = group
        .logs
        .iter()
        .map(|log| log.contents.iter().map(|it| (it.key.as_str(), it.value.as_str())).collect())
        .collect();
    let log = |path, object| {
        vec![("a", path), ("n", "200"), ("o", object), ("route_id", "r1"), ("env", "test")]
    };
    assert_eq!(logs, [log("/1", r#"{"p":"/1"}"#), log("/2", r#"{"p":"/2"}"#)]);
    assert_eq!(group.logs[0].time, 1_700_000_000_000);
}

#[test]
fn requests_are_signed_as_the_service_prescribes() {
    // Computed with Python's hmac and hashlib.
    let key = SecretText::from("secret".to_owned());
    let expected = "q-sign-algorithm=sha1&q-ak=AKID&q-sign-time=1700000000;1700000060\
                    &q-key-time=1700000000;1700000060&q-header-list=&q-url-param-list=\
                    &q-signature=27280c5899acaad5ee495d3b7ad903944270262f";
    assert_eq!(sign("AKID", &key, "/structuredlog", 1_700_000_000), expected);
}

#[test]
fn a_batch_is_divided_into_requests_that_the_service_accepts() {
    let server = TestServer::ok();
    let logs: Vec<Log> = [3 << 20, 3 << 20, 1 << 20].map(long).to_vec();
    let topic = topic(&server);
    wait(topic.deliver(&logs)).expect("the server accepts all");
    let counts = [received(&server), received(&server)].map(|(_, list)| list.groups[0].logs.len());
    assert_eq!(counts, [1, 2]);
}

#[test]
fn what_the_service_would_refuse_again_is_lost() {
    for (status, lost) in [(401, 2), (403, 2), (404, 2), (413, 2), (500, 0)] {
        let server = TestServer::start(move |_| reply(status, "", "no"));
        let failure = wait(topic(&server).deliver(&[long(1), long(1)])).unwrap_err();
        assert_eq!((failure.taken, failure.lost), (lost, lost), "{status}");
    }
}

#[test]
fn long_values_are_cut_between_characters() {
    let fields = json!({"a": "ä".repeat(1 << 20)});
    let log = Log::new(1, fields.as_object().unwrap().clone());
    assert_eq!(log.contents[0].value.len(), 1 << 20);
    let fields = json!({"a": format!("x{}", "ä".repeat(1 << 20))});
    let log = Log::new(1, fields.as_object().unwrap().clone());
    assert_eq!(log.contents[0].value.len(), (1 << 20) - 1);
}

#[test]
fn only_a_part_of_the_exchanges_is_logged() {
    let server = TestServer::ok();
    // The harness' random number is 0.618 of the range.
    for (ratio, is_logged) in [(0.6, false), (0.7, true)] {
        let mut logger = logger(&server, &json!({"sample_ratio": ratio, "batch_max_size": 1}));
        logger.log("GET /1 HTTP/1.1\n\n");
        let lengths = logger.services.queues.lengths();
        assert_eq!(lengths[0].origin.is_some(), is_logged, "{ratio}");
        if is_logged {
            wait_for("the entry", || (server.connections() == 1).then_some(()));
        }
    }
}

/// Entry with a value of this length.
fn long(bytes: usize) -> Log {
    let part = bytes / 4 + 1;
    let contents = (0..4).map(|_| log::Content { key: "a".into(), value: "x".repeat(part) });
    Log { time: 1, contents: contents.collect() }
}

fn topic(server: &TestServer) -> Topic {
    let client = HttpClient::new(TIMEOUT, false.into(), REUSE);
    let servers = HttpServers::new([server.url("/structuredlog?topic_id=t")], client);
    Topic { servers, secret_id: "a".into(), secret_key: SecretText::from("b".to_owned()) }
}

fn wait<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(future)
}

#[test]
fn bad_confs_are_refused() {
    let good = json!({"cls_host": "a", "cls_topic": "b", "secret_id": "c", "secret_key": "d"});
    assert_eq!(Harness::refusal::<TencentCloudCls>(&good), "");
    for field in ["cls_host", "cls_topic", "secret_id", "secret_key"] {
        let mut conf = good.clone();
        conf.as_object_mut().unwrap().remove(field);
        let refusal = Harness::refusal::<TencentCloudCls>(&conf);
        assert_eq!(refusal, format!(r#"property "{field}" is required"#));
    }
    for (field, value) in
        [("sample_ratio", json!(0)), ("sample_ratio", json!(2)), ("scheme", json!("ftp"))]
    {
        let mut conf = good.clone();
        conf[field] = value;
        assert_ne!(Harness::refusal::<TencentCloudCls>(&conf), "", "{conf}");
    }
    let kind = PluginType::new::<TencentCloudCls>();
    assert!(kind.check_metadata(&json!({"log_format": {"a": "$b"}})).is_ok());
}
