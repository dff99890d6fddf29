//! Records of exchanges for Elasticsearch and ClickHouse, in batches, by what delivers those of loggers here.
//! What a record holds is decided where it is taken; here it is only brought away.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use tokio::runtime::Handle;
use tollhouse_shenyu::record_store::{
    CLICKHOUSE_TABLE, ELASTICSEARCH_INDEX, RecordStore, StoreKind,
};
use tollhouse_shenyu_gateway::RecordSink;

use crate::shared::http_client::{
    Call, HttpClient, Repeat, Reuse, Target, TargetError, Verification,
};
use crate::shared::logging::BatchFields;
use crate::shared::logging::batch::{Batches, Delivery, DeliveryError};

/// How long a delivery may take.
const DELIVERY_TIME_MAX: Duration = Duration::from_secs(10);
/// How long a connection is kept: deliveries follow one another.
const REUSE: Reuse = Reuse::For { idle: Duration::from_secs(60), connections_max: 1 };

/// When batches go out: soon, as ShenYu sends them.
fn fields(kind: StoreKind) -> BatchFields {
    BatchFields {
        name: match kind {
            StoreKind::Elasticsearch => "loggingElasticSearch".to_owned(),
            StoreKind::ClickHouse => "loggingClickHouse".to_owned(),
        },
        max_retry_count: 2,
        retry_delay: 1,
        buffer_duration: 3,
        inactive_timeout: 1,
        batch_max_size: 500,
    }
}

/// What takes the records of a store.
pub(super) struct Sink {
    batches: Batches<Server>,
}

impl std::fmt::Debug for Sink {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("Sink")
    }
}

impl Sink {
    pub(super) fn new(store: &RecordStore, background: Option<Handle>) -> Self {
        let batches =
            Batches::new(&fields(store.kind), Server::new(store), background, store.waiting_max);
        Self { batches }
    }
}

impl RecordSink for Sink {
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
            // What the table has no column for is left out. The name has nothing that would have to be encoded.
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

    /// The lines of a batch.
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

    async fn deliver(&self, batch: &[String]) -> Result<(), DeliveryError> {
        let target = self.target.as_ref().map_err(TargetError::clone)?;
        let call = Call {
            method: b"POST".to_vec(),
            path: target.path.clone().into_bytes(),
            headers: self.headers.clone(),
            body: Bytes::from(self.put_together(batch)),
            repeat: Repeat::ByMethod,
        };
        match self.client.send(target, call).await?.status {
            ..400 => Ok(()),
            status => Err(DeliveryError::Status(status)),
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
        let sink = Sink::new(&store(kind, &server.url("")), Some(runtime.handle().clone()));
        sink.push(r#"{"path":"/a"}"#.to_owned());
        sink.push(r#"{"path":"/b"}"#.to_owned());
        // The last of what waits goes out when nobody can add to it.
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
