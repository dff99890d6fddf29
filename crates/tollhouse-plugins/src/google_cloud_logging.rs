//! Sends an entry for every exchange to Google Cloud Logging, in batches.
//!
//! # Example
//! ```json
//! {"auth_file": "/etc/tollhouse/google.json", "resource": {"type": "global"}}
//! ```
//!
//! # Answers
//! None.
//!
//! # Notes
//! Requests never wait for Google. At most 8,192 entries (or `max_pending_entries` of the plugin's
//! metadata) and 64 MiB wait for delivery. Further entries are dropped. The gateway's own log
//! reports that, and `tollhouse_log_entries_lost_total` counts them.
//!
//! The service account is in the conf (`auth_config`) or in a file of Google's own format
//! (`auth_file`), which is read again whenever a token is fetched. Its key signs an assertion (RS256,
//! RFC 7523), for which `token_uri` issues an access token; a token is used until a minute before it
//! expires. An entry has an `httpRequest` and in its payload the ids of route and service, or the
//! fields of `log_format`. Its label `source` is `apache-apisix-google-cloud-logging`, as from APISIX,
//! so that queries work unchanged.

use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tollhouse_plugin::{
    Category, ConfError, LogContext, MetadataSpec, Phases, Plugin, ResponseContext, Scope,
};

use self::account::{AccountFields, AccountSource};
use self::token::Tokens;
use crate::http_client::HttpClient;
use crate::logging::batch::{Batches, Delivery, Failure};
use crate::logging::http::{HttpServers, REUSE, accept_ok, header};
use crate::logging::queue::QueueConf;
use crate::logging::rfc5424::timestamp;
use crate::logging::{
    BatchFields, BatchMetadata, BodyFields, Entries, EntryParts, FormatFields, Layout,
};
use crate::shared::confs::defaults::{default_true, defaults};

mod account;
mod token;

/// Label `source` of all entries, as in APISIX.
const SOURCE: &str = "apache-apisix-google-cloud-logging";
/// Timeout of a request to Google.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Status of a request whose token is not valid any more.
const UNAUTHORIZED: u16 = 401;

/// Configuration of `google-cloud-logging`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Config {
    /// Service account.
    pub auth_config: Option<AccountFields>,
    /// Path of a file with the service account, in Google's format.
    pub auth_file: Option<String>,
    /// Whether Google's TLS certificates are verified; on by default.
    #[serde(default = "default_true")]
    pub ssl_verify: bool,
    /// Monitored resource of the entries; `global` by default.
    #[serde(default)]
    pub resource: Resource,
    /// Id of the log, with escaped slashes.
    #[serde(default = "default_log_id")]
    pub log_id: String,
    /// Format of entries.
    #[serde(flatten)]
    pub format: FormatFields,
    /// Size and timing of batches.
    #[serde(flatten)]
    pub batch: BatchFields,
}

/// Monitored resource.
#[derive(Debug, Clone, Deserialize, serde::Serialize, JsonSchema)]
pub struct Resource {
    /// Type, such as `global` or `k8s_container`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Labels of the type.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub labels: Option<Map<String, Value>>,
}

impl Default for Resource {
    fn default() -> Self {
        Self { kind: "global".to_owned(), labels: None }
    }
}

defaults! {
    default_log_id: String = "apisix.apache.org%2Flogs".to_owned();
}

pub struct GoogleCloudLogging {
    entries: Entries,
    resource: Value,
    batches: Arc<Batches<CloudLogging>>,
}

impl Plugin for GoogleCloudLogging {
    const NAME: &'static str = "google-cloud-logging";
    const PRIORITY: i32 = 407;
    const CATEGORY: Category = Category::Observability;
    const PHASES: Phases = Entries::PHASES_WITHOUT_BODIES;
    const ENCRYPTED: &'static [&'static str] = &["auth_config.private_key"];
    const SENT_TO: &'static [&'static str] =
        &["auth_config.token_uri", "auth_config.entries_uri", "ssl_verify"];
    type Config = Config;

    fn adjust_schema(schema: &mut Value) {
        schema["properties"]["name"]["default"] = json!(Self::NAME);
        schema["oneOf"] = json!([{"required": ["auth_config"]}, {"required": ["auth_file"]}]);
        for scopes in ["scope", "scopes"] {
            schema["properties"]["auth_config"]["properties"][scopes]["uniqueItems"] = json!(true);
        }
    }

    fn metadata() -> Option<MetadataSpec> {
        Some(MetadataSpec::new::<BatchMetadata>())
    }

    fn compile(config: Config, scope: &Scope<'_>) -> Result<Self, ConfError> {
        let account = AccountSource::new(config.auth_config, config.auth_file)?;
        let queue = QueueConf::new(Self::NAME, &config.batch);
        let batches = queue.open(scope, || {
            let client = HttpClient::new(TIMEOUT, config.ssl_verify.into(), REUSE);
            CloudLogging {
                tokens: Tokens::new(account, client.clone()),
                client,
                log_id: config.log_id,
            }
        });
        let entries = Entries::compile(BodyFields::default(), config.format, scope)?;
        let resource = serde_json::to_value(config.resource).map_err(|error| error.to_string())?;
        Ok(Self { entries, resource, batches })
    }

    fn response(&self, cx: &mut ResponseContext<'_>) {
        self.entries.response(cx);
    }

    fn log(&self, cx: &mut LogContext<'_>) {
        let parts = self.entries.parts(cx);
        let mut entry = match parts.layout {
            Layout::Default => request_entry(parts),
            Layout::Custom => json!({"jsonPayload": parts.join()}),
        };
        let random = || cx.request().random();
        entry["labels"] = json!({"source": SOURCE});
        entry["timestamp"] = json!(timestamp(cx.now().unix_ms));
        entry["resource"] = self.resource.clone();
        // Google drops an entry with an id that it has, such as one of a batch that is sent again.
        entry["insertId"] = json!(format!("{:016x}{:016x}", random(), random()));
        self.batches.log(cx, entry.to_string());
    }
}

/// Arranges the fields of an entry in the form of Google's `LogEntry`.
fn request_entry(parts: EntryParts) -> Value {
    let fields = Value::Object(parts.fields);
    let (request, response) = (&fields["request"], &fields["response"]);
    let latency_ms = fields["latency"].as_u64().unwrap_or(0);
    let mut http = json!({
        "requestMethod": request["method"],
        "requestUrl": request["url"],
        "requestSize": request["size"],
        "status": response["status"],
        "responseSize": response["size"],
        "userAgent": request["headers"]["user-agent"],
        "remoteIp": fields["client_ip"],
        "serverIp": fields["upstream"],
        "latency": format!("{}.{:03}s", latency_ms / 1_000, latency_ms % 1_000),
    });
    let mut payload = Value::Object(parts.extra);
    for name in ["route_id", "service_id"] {
        payload[name] = fields[name].clone();
    }
    for part in [&mut http, &mut payload] {
        if let Some(fields) = part.as_object_mut() {
            fields.retain(|_, value| !value.is_null());
        }
    }
    json!({"httpRequest": http, "jsonPayload": payload})
}

/// Google Cloud Logging, for one service account.
struct CloudLogging {
    tokens: Tokens,
    client: HttpClient,
    log_id: String,
}

impl Delivery for CloudLogging {
    type Entry = String;

    async fn deliver(&self, batch: &[String]) -> Result<(), Failure> {
        let access = self.tokens.access().await?;
        let log = json!(format!("projects/{}/logs/{}", access.project_id, self.log_id));
        let entries = batch.iter().filter_map(|entry| entry.strip_prefix('{'));
        let entries = entries.map(|fields| format!("{{\"logName\":{log},{fields}"));
        let entries = entries.collect::<Vec<_>>().join(",");
        let body = format!("{{\"entries\":[{entries}],\"partialSuccess\":false}}");
        let headers = vec![
            header("Content-Type", "application/json"),
            header("Authorization", access.authorization.clone()),
        ];
        let servers = HttpServers::new([access.entries_uri.clone()], self.client.clone());
        let reply = servers.post(headers, body).await?;
        if reply.status == UNAUTHORIZED {
            self.tokens.forget();
        }
        Ok(accept_ok(&reply)?)
    }
}

#[cfg(test)]
mod tests;
