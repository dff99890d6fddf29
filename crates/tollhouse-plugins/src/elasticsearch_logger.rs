//! Sends an entry for every exchange to Elasticsearch, in batches.
//!
//! A batch is a request to `_bulk` that adds one document for each entry. OpenSearch takes the same
//! requests.
//!
//! # Example
//! ```json
//! {"endpoint_addrs": ["http://127.0.0.1:9200"], "field": {"index": "access-{%Y.%m.%d}"}}
//! ```
//!
//! # Answers
//! None, except 413 when a chunked request body that is to be logged exceeds 64 MiB.
//!
//! # Notes
//! Requests never wait for Elasticsearch. At most 8,192 entries (or `max_pending_entries` of the
//! plugin's metadata) and 64 MiB wait for delivery. Further entries are dropped. The gateway's own
//! log reports that, and `tollhouse_log_entries_lost_total` counts them.
//!
//! The index may contain variables such as `$host`, and in braces the time at which the exchange
//! ended, in UTC: `%Y`, `%y`, `%m`, `%d`, `%H`, `%M`, `%S`, `%j`, `%F`, `%G` and `%V` as in
//! `strftime`. A document that the server refuses, because it does not fit the index for example, is
//! dropped and counted like an entry that was not delivered. Before the first delivery the server is
//! asked for its version, because versions up to 6 need the type `_doc` of documents.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tollhouse_plugin::{
    Category, ConfError, LogContext, MetadataSpec, Phases, Plugin, RequestContext, ResponseContext,
    Scope, Step,
};

use self::index::IndexName;
use crate::http_client::HttpClient;
use crate::logging::batch::{Batches, Delivery, DeliveryError, Failure};
use crate::logging::http::{HeaderLines, HttpServers, REUSE, accept_ok, header};
use crate::logging::queue::QueueConf;
use crate::logging::{BatchFields, BatchMetadata, BodyFields, Entries, FormatFields, basic_auth};
use crate::shared::auth::secret::SecretText;
use crate::shared::confs::defaults::{default_true, defaults};

mod index;

/// First version whose documents have no type.
const VERSION_WITHOUT_TYPES: u64 = 7;

/// Configuration of `elasticsearch-logger`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Config {
    /// Address of the server. Older form of `endpoint_addrs`.
    #[schemars(regex(pattern = r"[^/]$"))]
    pub endpoint_addr: Option<String>,
    /// Addresses of the servers, `http://` or `https://`, without a slash at the end. Several take
    /// turns.
    #[schemars(length(min = 1), inner(regex(pattern = r"[^/]$")))]
    pub endpoint_addrs: Option<Vec<String>>,
    /// Place of the documents.
    pub field: Option<Field>,
    /// User and password of Basic authentication. Unset: none.
    pub auth: Option<Auth>,
    /// Further header lines of deliveries, such as `Authorization: ApiKey …`.
    pub headers: Option<BTreeMap<String, SecretText>>,
    /// Timeout of a request, in seconds; 10 by default.
    #[serde(default = "default_timeout")]
    #[schemars(range(min = 1))]
    pub timeout: u64,
    /// Whether the server's TLS certificate is verified; on by default.
    #[serde(default = "default_true")]
    pub ssl_verify: bool,
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

/// Place of the documents.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Field {
    /// Name of the index.
    pub index: String,
}

/// Login of Basic authentication.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Auth {
    /// User name.
    #[schemars(length(min = 1))]
    pub username: String,
    /// Password.
    #[schemars(length(min = 1))]
    pub password: SecretText,
}

defaults! {
    default_timeout: u64 = 10;
}

pub struct ElasticsearchLogger {
    entries: Entries,
    index: IndexName,
    batches: Arc<Batches<Elasticsearch>>,
}

impl Plugin for ElasticsearchLogger {
    const NAME: &'static str = "elasticsearch-logger";
    const PRIORITY: i32 = 413;
    const CATEGORY: Category = Category::Observability;
    const PHASES: Phases = Entries::PHASES;
    const ENCRYPTED: &'static [&'static str] = &["auth.password", "headers"];
    const SENT_TO: &'static [&'static str] =
        &["endpoint_addr", "endpoint_addrs", "auth.username", "ssl_verify"];
    type Config = Config;

    fn adjust_schema(schema: &mut Value) {
        let fields = &mut schema["properties"];
        fields["name"]["default"] = json!(Self::NAME);
        let value = json!({"type": "string", "minLength": 1});
        fields["headers"]["minProperties"] = json!(1);
        fields["headers"]["patternProperties"] = json!({"^[^:]+$": value});
        fields["headers"]["additionalProperties"] = json!(false);
        schema["oneOf"] = json!([
            {"required": ["endpoint_addr", "field"]},
            {"required": ["endpoint_addrs", "field"]},
        ]);
    }

    fn metadata() -> Option<MetadataSpec> {
        Some(MetadataSpec::new::<BatchMetadata>())
    }

    fn compile(config: Config, scope: &Scope<'_>) -> Result<Self, ConfError> {
        let index = config.field.as_ref().map_or("", |field| &field.index);
        let index = IndexName::parse(index)?;
        let queue = QueueConf::new(Self::NAME, &config.batch);
        let batches = queue.open(scope, || Elasticsearch::new(&config));
        let entries = Entries::compile(config.bodies, config.format, scope)?;
        Ok(Self { entries, index, batches })
    }

    fn access<'a>(&'a self, cx: &'a mut RequestContext<'_>) -> Step<'a> {
        self.entries.access(cx)
    }

    fn response(&self, cx: &mut ResponseContext<'_>) {
        self.entries.response(cx);
    }

    fn log(&self, cx: &mut LogContext<'_>) {
        let text = self.entries.entry(cx).to_string();
        let index = self.index.at(cx.now().unix_ms, cx.variables());
        let bytes = index.len() + text.len();
        self.batches.log_sized(cx, Document { index, text }, bytes);
    }
}

/// Entry with the name of its index.
struct Document {
    index: String,
    text: String,
}

/// Elasticsearch servers of a conf.
struct Elasticsearch {
    /// Servers at the path `/`, which return their version.
    roots: HttpServers,
    bulk: HttpServers,
    headers: HeaderLines,
    /// Major version of the servers, once one has told it.
    version: OnceLock<u64>,
}

impl Elasticsearch {
    fn new(config: &Config) -> Self {
        let timeout = Duration::from_secs(config.timeout);
        let client = HttpClient::new(timeout, config.ssl_verify.into(), REUSE);
        let addresses = config.endpoint_addr.iter().chain(config.endpoint_addrs.iter().flatten());
        let addresses: Vec<String> = addresses.cloned().collect();
        let bulk = addresses.iter().map(|address| format!("{address}/_bulk"));
        let bulk = HttpServers::new(bulk, client.clone());
        let mut headers = HeaderLines::new();
        if let Some(auth) = &config.auth {
            headers.push(basic_auth(&auth.username, &auth.password));
        }
        for (name, value) in config.headers.iter().flatten() {
            // A line of the conf replaces that of the login.
            headers.retain(|(own, _)| !own.eq_ignore_ascii_case(name));
            headers.push(header(name, value.as_bytes()));
        }
        Self { roots: HttpServers::new(addresses, client), bulk, headers, version: OnceLock::new() }
    }

    /// Returns the major version; `None` if no server tells it.
    async fn version(&self) -> Option<u64> {
        if let Some(version) = self.version.get() {
            return Some(*version);
        }
        let reply = self.roots.get(self.headers.clone()).await.ok()?;
        let document: Value = serde_json::from_slice(&reply.body).ok()?;
        let number = document["version"]["number"].as_str()?;
        let major = number.split('.').next()?.parse().ok()?;
        Some(*self.version.get_or_init(|| major))
    }
}

impl Delivery for Elasticsearch {
    type Entry = Document;

    async fn deliver(&self, batch: &[Document]) -> Result<(), Failure> {
        let has_types = self.version().await.is_some_and(|major| major < VERSION_WITHOUT_TYPES);
        let mut body = String::new();
        for Document { index, text } in batch {
            let mut action = json!({"index": {"_index": index}});
            if has_types {
                action["index"]["_type"] = json!("_doc");
            }
            body.push_str(&action.to_string());
            body.push('\n');
            body.push_str(text);
            body.push('\n');
        }
        let mut headers = vec![
            header("Content-Type", "application/x-ndjson"),
            header("Accept", "application/vnd.elasticsearch+json"),
        ];
        headers.retain(|(name, _)| {
            self.headers.iter().all(|(own, _)| !own.eq_ignore_ascii_case(name))
        });
        headers.extend(self.headers.iter().cloned());
        let reply = self.bulk.post(headers, body).await?;
        accept_ok(&reply)?;
        refused_documents(&reply.body, batch.len())
    }
}

/// Counts the documents that the server refused, although it accepted the request.
///
/// # Errors
/// If there are any: they are lost, because the same documents would be refused again.
pub(crate) fn refused_documents(body: &[u8], sent: usize) -> Result<(), Failure> {
    let answer: Value = serde_json::from_slice(body).unwrap_or_default();
    if answer["errors"] != true {
        return Ok(());
    }
    let items = answer["items"].as_array().map(Vec::as_slice).unwrap_or_default();
    let results = items.iter().filter_map(|item| item.as_object()?.values().next());
    let refused = results.filter(|result| result["status"].as_u64().is_some_and(|it| it >= 300));
    let refused: Vec<&Value> = refused.collect();
    let Some(first) = refused.first() else { return Ok(()) };
    let reason = first["error"]["reason"].as_str().unwrap_or_default().to_owned();
    let lost = refused.len().min(sent);
    let error = DeliveryError::PartlyRefused { entries: lost, reason };
    Err(Failure { taken: sent, lost, error })
}

#[cfg(test)]
mod tests;
