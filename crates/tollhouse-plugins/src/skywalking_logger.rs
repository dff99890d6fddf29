//! Sends an entry for every exchange to Apache SkyWalking's OAP over HTTP.
//!
//! Entries belong to the trace in the request's header `sw8`, which the plugin `skywalking` or the
//! client sets.
//!
//! # Example
//! ```json
//! {"endpoint_addr": "http://127.0.0.1:12800"}
//! ```
//!
//! # Answers
//! None, except 413 when a chunked request body that is to be logged exceeds 64 MiB.
//!
//! # Notes
//! Requests never wait for the OAP. At most 8,192 entries (or `max_pending_entries` of the plugin's
//! metadata) and 64 MiB wait for delivery. Further entries are dropped. The gateway's own log
//! reports that, and `tollhouse_log_entries_lost_total` counts them.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tollhouse_model::variable::Variable;
use tollhouse_plugin::{
    Category, ConfError, LogContext, MetadataSpec, Phases, Plugin, RequestContext,
    ResponseContext, Scope, Step,
};

use crate::http_client::{Call, HttpClient, Repeat, Reuse, Target, TargetError};
use crate::logging::batch::{Batches, Delivery, DeliveryError, Failure};
use crate::logging::queue::QueueConf;
use crate::logging::{BatchFields, BatchMetadata, BodyFields, Entries, FormatFields, hostname};
use crate::shared::confs::defaults::defaults;
use crate::shared::dial::Verification;
use crate::skywalking::carrier::{Carrier, SW8};

/// Path of the OAP that takes logs.
const PATH: &str = "/v3/logs";

/// Lifetime of an idle connection and their number.
const IDLE_MAX: Duration = Duration::from_secs(30);
const CONNECTIONS_MAX: usize = 1;

/// Configuration of `skywalking-logger`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Config {
    /// Address of the OAP, such as `http://127.0.0.1:12800`; a path is ignored.
    #[schemars(regex(pattern = r"^[^\/]+:\/\/([\da-zA-Z.-]+|\[[\da-fA-F:]+\])(:\d+)?"))]
    pub endpoint_addr: String,
    /// Name under which SkyWalking shows the gateway; `APISIX` by default.
    #[serde(default = "default_service_name")]
    pub service_name: String,
    /// Name of this instance; `$hostname` is the name of the machine.
    #[serde(default = "default_instance")]
    pub service_instance_name: String,
    /// Timeout of a delivery in seconds; 3 by default.
    #[serde(default = "default_timeout")]
    #[schemars(range(min = 1))]
    pub timeout: u64,
    /// Bodies in entries.
    #[serde(flatten)]
    pub bodies: BodyFields,
    /// Format of entries.
    #[serde(flatten)]
    pub format: FormatFields,
    /// Size and timing of batches.
    #[serde(flatten)]
    pub batch: BatchFields,
}

defaults! {
    default_service_name: String = "APISIX".into();
    default_instance: String = "APISIX Instance Name".into();
    default_timeout: u64 = 3;
}

pub struct SkywalkingLogger {
    entries: Entries,
    batches: Arc<Batches<Oap>>,
    service: String,
    instance: String,
}

impl Plugin for SkywalkingLogger {
    const NAME: &'static str = "skywalking-logger";
    const PRIORITY: i32 = 408;
    const CATEGORY: Category = Category::Observability;
    const PHASES: Phases = Entries::PHASES;
    type Config = Config;

    fn adjust_schema(schema: &mut Value) {
        schema["properties"]["name"]["default"] = json!("skywalking logger");
    }

    fn metadata() -> Option<MetadataSpec> {
        Some(MetadataSpec::new::<BatchMetadata>())
    }

    fn compile(config: Config, scope: &Scope<'_>) -> Result<Self, ConfError> {
        let entries = Entries::compile(config.bodies, config.format, scope)?;
        let queue = QueueConf::new(Self::NAME, &config.batch);
        let batches = queue.open(scope, || Oap {
            target: Target::parse(&config.endpoint_addr),
            client: HttpClient::new(
                Duration::from_secs(config.timeout),
                Verification::Off,
                Reuse::For { idle: IDLE_MAX, connections_max: CONNECTIONS_MAX },
            ),
        });
        let instance = match config.service_instance_name.as_str() {
            "$hostname" => hostname().to_owned(),
            _ => config.service_instance_name,
        };
        Ok(Self { entries, batches, service: config.service_name, instance })
    }

    fn access<'a>(&'a self, cx: &'a mut RequestContext<'_>) -> Step<'a> {
        self.entries.access(cx)
    }

    fn response(&self, cx: &mut ResponseContext<'_>) {
        self.entries.response(cx);
    }

    fn log(&self, cx: &mut LogContext<'_>) {
        let text = self.entries.entry(cx).to_string();
        let uri = cx.variables().variable(&Variable::Uri).unwrap_or_default();
        let mut entry = json!({
            "body": {"json": {"json": text}},
            "service": self.service,
            "serviceInstance": self.instance,
            "endpoint": String::from_utf8_lossy(&uri),
        });
        let carrier = cx.request().header(SW8.as_bytes());
        if let Some(carrier) = carrier.and_then(|value| Carrier::parse(&value)) {
            entry["traceContext"] = json!({
                "traceId": carrier.trace_id,
                "traceSegmentId": carrier.segment_id,
                "spanId": carrier.span,
            });
        }
        self.batches.log(cx, entry.to_string());
    }
}

struct Oap {
    target: Result<Target, TargetError>,
    client: HttpClient,
}

impl Delivery for Oap {
    type Entry = String;

    async fn deliver(&self, batch: &[String]) -> Result<(), Failure> {
        let target = self.target.clone().map_err(DeliveryError::from)?;
        let call = Call {
            method: b"POST".to_vec(),
            path: PATH.as_bytes().to_vec(),
            headers: vec![("Content-Type".to_owned(), b"application/json".to_vec())],
            body: Bytes::from(format!("[{}]", batch.join(","))),
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
    use crate::logging::test_logger::TestLogger;
    use crate::shared::test_server::{TestServer, body};

    #[test]
    fn an_entry_names_service_endpoint_and_trace() {
        let server = TestServer::ok();
        let conf = json!({"endpoint_addr": server.url("/ignored"), "batch_max_size": 1,
            "service_name": "edge", "log_format": {"host": "$host"}});
        let mut logger = TestLogger::new::<SkywalkingLogger>(&conf, None);
        let carrier = Carrier {
            trace_id: "t1".into(),
            segment_id: "s1".into(),
            span: 1,
            service: "web".into(),
            instance: "web-1".into(),
            endpoint: "/".into(),
            peer: "edge:80".into(),
        };
        for (line, trace) in [
            (format!("sw8: {carrier}\n"), json!({"traceId": "t1", "traceSegmentId": "s1", "spanId": 1})),
            ("sw8: broken\n".to_owned(), Value::Null),
            (String::new(), Value::Null),
        ] {
            logger.log(&format!("GET /a?b=c HTTP/1.1\nHost: a.com\n{line}\n"));
            let request = server.next_request();
            assert!(request.starts_with("POST /v3/logs HTTP/1.1\r\n"), "{request}");
            let entries: Value = serde_json::from_str(body(&request)).expect("JSON");
            let entry = &entries[0];
            assert_eq!(entry["traceContext"], trace);
            assert_eq!((&entry["service"], &entry["endpoint"]), (&json!("edge"), &json!("/a")));
            assert_eq!(entry["serviceInstance"], json!("APISIX Instance Name"));
            let text = entry["body"]["json"]["json"].as_str().expect("a text");
            let own: Value = serde_json::from_str(text).expect("JSON");
            assert_eq!((&own["host"], &own["route_id"]), (&json!("a.com"), &json!("r1")));
        }
    }
}
