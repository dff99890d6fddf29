//! Delivery of exchange records to Elasticsearch, ClickHouse and Kafka, in batches, through the
//! queues of the loggers. The content of a record is decided elsewhere.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use tollhouse_kafka::request::Acks;
use tollhouse_shenyu_gateway::{
    CLICKHOUSE_TABLE, ELASTICSEARCH_INDEX, KafkaLogin, KafkaTopic, RecordPlace, RecordSink,
    RecordStore, StoreKind,
};

use crate::http_client::{Call, HttpClient, Repeat, Reuse, Target, TargetError};
use crate::kafka::{Address, Login, Producer, Security, Settings};
use crate::logging::BatchFields;
use crate::logging::batch::{Batches, Delivery, DeliveryError, Failure, Outlet, QueueOptions};
use crate::logging::kafka::{Form, Topic};
use crate::shared::dial::Verification;

/// Timeout of one delivery of records.
const DELIVERY_TIME_MAX: Duration = Duration::from_secs(10);
/// Idle time and number of connections. One is enough, because deliveries follow each other.
const REUSE: Reuse = Reuse::For { idle: Duration::from_secs(60), connections_max: 1 };

/// Owner of these queues in metrics.
const OWNER: &str = "shenyu";

/// Maximum length of a request to Kafka in bytes: the default limit of brokers and topics.
const REQUEST_BYTES_MAX: usize = 1 << 20;
/// Largest number of records in a request.
const REQUESTED_MAX: usize = 500;
/// Timeout of a step with a broker, and time for which its metadata is trusted. Shorter than in
/// Kafka's own clients, because a silent broker delays the whole queue.
const STEP_TIME_MAX: Duration = Duration::from_secs(10);
const BELIEVED_FOR: Duration = Duration::from_secs(60);

/// Returns the batching settings: short delays, like ShenYu's.
fn fields(name: &str) -> BatchFields {
    BatchFields {
        name: name.to_owned(),
        max_retry_count: 2,
        retry_delay: 1,
        buffer_duration: 3,
        inactive_timeout: 1,
        batch_max_size: 500,
    }
}

fn queue_options(pending_max: usize) -> QueueOptions<'static> {
    QueueOptions { owner: OWNER, pending_max }
}

/// Builds the sink for a place.
pub(super) fn sink(place: &RecordPlace, outlet: Outlet) -> Arc<dyn RecordSink> {
    match place {
        RecordPlace::Store(store) => {
            let name = match store.kind {
                StoreKind::Elasticsearch => "loggingElasticSearch",
                StoreKind::ClickHouse => "loggingClickHouse",
            };
            let (server, options) = (Server::new(store), queue_options(store.waiting_max));
            Arc::new(Sink { batches: Batches::new(&fields(name), server, outlet, options) })
        }
        RecordPlace::Topic(topic) => {
            let options = queue_options(topic.waiting_max);
            let (fields, topic) = (fields("loggingKafka"), deliveries(topic));
            Arc::new(Sink { batches: Batches::new(&fields, topic, outlet, options) })
        }
    }
}

/// Builds the Kafka target: one entry per record, without a key, acknowledged by all in-sync
/// replicas. These are the defaults of ShenYu's producer.
fn deliveries(topic: &KafkaTopic) -> Topic {
    let login = topic.login.as_ref().map(|login| {
        let KafkaLogin { mechanism, user, password } = login.clone();
        Arc::new(Login { mechanism, user, password })
    });
    let tls = topic.is_encrypted.then_some(Verification::System);
    let security = Security { tls, login };
    let address = |(host, port): &(String, u16)| Address {
        host: host.clone(),
        port: *port,
        security: security.clone(),
    };
    let settings = Settings {
        brokers: topic.brokers.iter().map(address).collect(),
        topic: topic.name.clone(),
        acks: Acks::All,
        step_time_max: STEP_TIME_MAX,
        believed_for: BELIEVED_FOR,
    };
    Topic {
        producer: Producer::new(settings),
        key: None,
        form: Form::Each { requested_max: REQUESTED_MAX },
        request_bytes_max: REQUEST_BYTES_MAX,
    }
}

/// Queue of the records for one place.
struct Sink<D: Delivery> {
    batches: Batches<D>,
}

impl<D: Delivery> std::fmt::Debug for Sink<D> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("Sink")
    }
}

impl<D: Delivery<Entry = String>> RecordSink for Sink<D> {
    fn push(&self, record: String) {
        let bytes = record.len();
        self.batches.push(record, bytes);
    }
}

struct Server {
    kind: StoreKind,
    target: Result<Target, TargetError>,
    client: HttpClient,
    headers: Vec<(String, Vec<u8>)>,
}

impl Server {
    fn new(store: &RecordStore) -> Self {
        let RecordStore { kind, host, port, user, password, database, .. } = store;
        let path = match kind {
            StoreKind::Elasticsearch => "/_bulk".to_owned(),
            // Fields without a column are skipped. The database name contains no characters that
            // need encoding.
            StoreKind::ClickHouse => format!(
                "/?input_format_skip_unknown_fields=1&query=\
                 INSERT%20INTO%20%60{database}%60.{CLICKHOUSE_TABLE}%20FORMAT%20JSONEachRow"
            ),
        };
        let mut headers = Vec::new();
        let mut header =
            |name: &str, value: String| headers.push((name.to_owned(), value.into_bytes()));
        match kind {
            StoreKind::Elasticsearch => {
                header("Content-Type", "application/x-ndjson".to_owned());
                if !user.is_empty() {
                    let pair = STANDARD.encode(format!("{user}:{password}"));
                    header("Authorization", format!("Basic {pair}"));
                }
            }
            StoreKind::ClickHouse if !user.is_empty() => {
                header("X-ClickHouse-User", user.clone());
                header("X-ClickHouse-Key", password.clone());
            }
            StoreKind::ClickHouse => {}
        }
        Self {
            kind: *kind,
            target: Target::parse(&format!("http://{host}:{port}{path}")),
            client: HttpClient::new(DELIVERY_TIME_MAX, Verification::System, REUSE),
            headers,
        }
    }

    /// Joins a batch to the lines of a request.
    fn put_together(&self, batch: &[String]) -> String {
        let mut text = String::new();
        for row in batch {
            if self.kind == StoreKind::Elasticsearch {
                text.push_str("{\"create\":{\"_index\":\"");
                text.push_str(ELASTICSEARCH_INDEX);
                text.push_str("\"}}\n");
            }
            text.push_str(row);
            text.push('\n');
        }
        text
    }
}

impl Delivery for Server {
    type Entry = String;

    async fn deliver(&self, batch: &[String]) -> Result<(), Failure> {
        let target = self.target.clone().map_err(DeliveryError::from)?;
        let call = Call {
            method: b"POST".to_vec(),
            path: target.path.clone().into_bytes(),
            headers: self.headers.clone(),
            body: Bytes::from(self.put_together(batch)),
            repeat: Repeat::ByMethod,
        };
        match self.client.send(&target, call).await.map_err(DeliveryError::from)?.status {
            ..400 => Ok(()),
            status => Err(DeliveryError::Status(status).into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared::test_server::TestServer;

    fn store(kind: StoreKind, url: &str) -> RecordStore {
        let port = url.trim_end_matches('/').rsplit_once(':').expect("a port").1;
        let config = format!(
            r#"{{"host":"127.0.0.1","port":{port},"username":"u","password":"p","database":"logs-1"}}"#
        );
        RecordStore::read(kind, Some(&config)).expect("it is good")
    }

    fn deliver(kind: StoreKind) -> String {
        let server = TestServer::ok();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("a runtime");
        let outlet = Outlet { background: Some(runtime.handle().clone()), ..Outlet::default() };
        let sink = sink(&RecordPlace::Store(store(kind, &server.url(""))), outlet);
        sink.push(r#"{"path":"/a"}"#.to_owned());
        sink.push(r#"{"path":"/b"}"#.to_owned());
        // The last batch is sent once the queue is closed.
        drop(sink);
        server.next_request()
    }

    #[test]
    fn elasticsearch_gets_a_document_a_record() {
        let request = deliver(StoreKind::Elasticsearch);
        let (head, body) = request.split_once("\r\n\r\n").expect("a head");
        assert!(head.starts_with("POST /_bulk HTTP/1.1\r\n"), "{head}");
        let head = head.to_ascii_lowercase();
        assert!(head.contains("content-type: application/x-ndjson"), "{head}");
        assert!(head.contains("authorization: basic dtpw"), "{head}");
        let action = r#"{"create":{"_index":"shenyu-access-logging"}}"#;
        assert_eq!(body, format!("{action}\n{{\"path\":\"/a\"}}\n{action}\n{{\"path\":\"/b\"}}\n"));
    }

    #[test]
    fn clickhouse_gets_a_row_a_record() {
        let request = deliver(StoreKind::ClickHouse);
        let (head, body) = request.split_once("\r\n\r\n").expect("a head");
        let query = "query=INSERT%20INTO%20%60logs-1%60.request_log%20FORMAT%20JSONEachRow";
        assert!(head.lines().next().is_some_and(|line| line.contains(query)), "{head}");
        let head = head.to_ascii_lowercase();
        assert!(
            head.contains("x-clickhouse-user: u") && head.contains("x-clickhouse-key: p"),
            "{head}"
        );
        assert_eq!(body, "{\"path\":\"/a\"}\n{\"path\":\"/b\"}\n");
    }
}
