//! Admits requests that an OpenAPI document describes: their path, method, parameters and body.
//!
//! # Example
//! ```json
//! {
//!   "spec": "{\"openapi\": \"3.0.2\", \"paths\": {\"/pet/{id}\": {\"get\": {\"parameters\": [{\"name\": \"id\", \"in\": \"path\", \"required\": true, \"schema\": {\"type\": \"integer\"}}]}}}}",
//!   "verbose_errors": true
//! }
//! ```
//!
//! # Answers
//! - `rejection_status_code` (400 by default) `failed to validate request. `, with the reason if
//!   `verbose_errors` is set
//! - 500 `failed to parse openapi spec` when the document at `spec_url` cannot be fetched or read
//! - 500 `error reading the request body. …` also when it exceeds `max_req_body_size`
//!
//! # Notes
//! The document is JSON, version 3.0 or 3.1. Paths are those of its operations, after the path of one
//! of its servers. Parameters in `deepObject` style or with a media type, and bodies other than JSON,
//! forms and texts, are not checked. A document from `spec_url` is fetched with the first request and
//! again after `spec_url_ttl` seconds (3600, in the plugin's metadata); if that fails, the last one
//! stays.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tollhouse_plugin::{
    Answer, Category, ConfError, Flow, MetadataSpec, Phases, Plugin, RefusalKind, RequestContext,
    Scope, Step,
};
use tollhouse_stdx::raw_text;

use crate::http_client::{Call, HttpClient, Repeat, Reuse, Target};
use crate::shared::confs::defaults::{default_true, defaults};
use crate::shared::messages::request_document::text;

use self::check::{Request, Skipped};
use self::spec::Spec;

mod check;
mod spec;

/// Longest document that is fetched, in bytes.
const SPEC_BYTES_MAX: usize = 16 << 20;

/// Time after which a failed fetch is tried again, in milliseconds.
const RETRY_MS: u64 = 5_000;

/// Configuration of `oas-validator`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Config {
    /// Document as a text in JSON.
    #[schemars(length(min = 1))]
    pub spec: Option<String>,
    /// Address of the document.
    #[schemars(regex(pattern = "^https?://"))]
    pub spec_url: Option<String>,
    /// Headers of the request for the document.
    pub spec_url_request_headers: Option<Map<String, Value>>,
    /// Whether the TLS certificate of the document's server is verified; off by default.
    #[serde(default)]
    pub ssl_verify: bool,
    /// Timeout for the document, in milliseconds; 10000 by default.
    #[serde(default = "default_timeout")]
    #[schemars(range(min = 1_000, max = 60_000))]
    pub timeout: u64,
    /// Whether refusals tell their reason; off by default.
    #[serde(default)]
    pub verbose_errors: bool,
    /// Whether bodies are not checked; off by default.
    #[serde(default)]
    pub skip_request_body_validation: bool,
    /// Whether headers and cookies are not checked; off by default.
    #[serde(default)]
    pub skip_request_header_validation: bool,
    /// Whether arguments are not checked; off by default.
    #[serde(default)]
    pub skip_query_param_validation: bool,
    /// Whether parameters in paths are not checked; off by default.
    #[serde(default)]
    pub skip_path_params_validation: bool,
    /// Whether other requests are refused; on by default. Off: they are only reported in the log.
    #[serde(default = "default_true")]
    pub reject_if_not_match: bool,
    /// Status of a refusal; 400 by default.
    #[serde(default = "default_status")]
    #[schemars(range(min = 400, max = 599))]
    pub rejection_status_code: u16,
    /// Longest body, in bytes; 64 MiB by default.
    #[serde(default = "default_body_bytes_max")]
    #[schemars(range(min = 1))]
    pub max_req_body_size: u64,
}

/// Plugin metadata.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Metadata {
    /// Seconds after which a document is fetched again; 3600 by default.
    #[serde(default = "default_spec_url_ttl")]
    #[schemars(range(min = 1))]
    pub spec_url_ttl: u64,
}

defaults! {
    default_timeout: u64 = 10_000;
    default_status: u16 = 400;
    default_body_bytes_max: u64 = 64 << 20;
    default_spec_url_ttl: u64 = 3_600;
}

#[derive(Debug)]
pub struct OasValidator {
    source: Source,
    skipped: Skipped,
    rejects: bool,
    is_verbose: bool,
    status: u16,
    body_bytes_max: u64,
}

#[derive(Debug)]
enum Source {
    Text(Arc<Spec>),
    Server(Box<Remote>),
}

/// Document of a server.
#[derive(Debug)]
struct Remote {
    target: Target,
    client: HttpClient,
    headers: Vec<(String, Vec<u8>)>,
    ttl_ms: u64,
    kept: Arc<KeptSpec>,
}

/// Last document of a server with the turn to fetch it; survives changes of the object's other
/// fields.
#[derive(Debug, Default)]
struct KeptSpec {
    turn: tokio::sync::Mutex<()>,
    fetched: Mutex<Fetched>,
}

#[derive(Debug, Default)]
struct Fetched {
    spec: Option<Arc<Spec>>,
    /// Time of the next fetch, in milliseconds of the monotonic clock.
    next_ms: u64,
}

impl Plugin for OasValidator {
    const NAME: &'static str = "oas-validator";
    const PRIORITY: i32 = 512;
    const CATEGORY: Category = Category::Security;
    const PHASES: Phases = Phases::ACCESS;
    type Config = Config;

    fn adjust_schema(schema: &mut Value) {
        schema["oneOf"] = json!([{"required": ["spec"]}, {"required": ["spec_url"]}]);
        let headers = &mut schema["properties"]["spec_url_request_headers"];
        headers["additionalProperties"] = json!({"type": "string"});
    }

    fn metadata() -> Option<MetadataSpec> {
        Some(MetadataSpec::new::<Metadata>())
    }

    fn compile(config: Config, scope: &Scope<'_>) -> Result<Self, ConfError> {
        Ok(Self {
            source: Source::compile(&config, scope)?,
            skipped: Skipped {
                body: config.skip_request_body_validation,
                headers: config.skip_request_header_validation,
                query: config.skip_query_param_validation,
                path: config.skip_path_params_validation,
            },
            rejects: config.reject_if_not_match,
            is_verbose: config.verbose_errors,
            status: config.rejection_status_code,
            body_bytes_max: config.max_req_body_size,
        })
    }

    fn access<'a>(&'a self, cx: &'a mut RequestContext<'_>) -> Step<'a> {
        Step::wait(async move {
            match self.check(cx).await {
                Ok(()) => Flow::Continue,
                Err(answer) => answer.into(),
            }
        })
    }
}

impl Source {
    fn compile(config: &Config, scope: &Scope<'_>) -> Result<Self, ConfError> {
        if let Some(spec) = &config.spec {
            let escaped = raw_text::escape(spec.as_bytes());
            let spec = escaped.as_deref().unwrap_or(spec.as_bytes());
            if let Err(error) = serde_json::from_slice::<serde::de::IgnoredAny>(spec) {
                return Err(format!("invalid JSON string provided, err: {error}").into());
            }
            let compiled = Spec::compile(spec)
                .map_err(|error| format!("failed to compile openapi spec, err: {error}"))?;
            return Ok(Source::Text(Arc::new(compiled)));
        }
        let url = config.spec_url.as_deref().unwrap_or_default();
        let target = Target::parse(url)
            .map_err(|error| ConfError::in_field("spec_url", error.to_string()))?;
        let timeout = Duration::from_millis(config.timeout);
        let client = HttpClient::new(timeout, config.ssl_verify.into(), Reuse::Never);
        let headers = config.spec_url_request_headers.iter().flatten();
        let headers =
            headers.filter_map(|(name, value)| Some((name.clone(), value.as_str()?.into())));
        let ttl = scope.metadata_field("spec_url_ttl").and_then(Value::as_u64);
        let key = scope.identity(OasValidator::NAME);
        Ok(Source::Server(Box::new(Remote {
            client: client.with_replies_up_to(SPEC_BYTES_MAX).prepared_for(&target),
            target,
            headers: headers.collect(),
            ttl_ms: ttl.unwrap_or_else(default_spec_url_ttl).saturating_mul(1_000),
            kept: scope.keep(&key, KeptSpec::default),
        })))
    }
}

impl KeptSpec {
    fn fetched(&self) -> MutexGuard<'_, Fetched> {
        self.fetched.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the document unless it is to be fetched now.
    fn fresh(&self, now_ms: u64) -> Option<Arc<Spec>> {
        let fetched = self.fetched();
        fetched.spec.clone().filter(|_| now_ms < fetched.next_ms)
    }
}

impl Remote {
    /// Returns the current document. The first request after its time fetches it again, while others
    /// use the last one, or wait if there was none. `None` if it cannot be had; the next fetch is
    /// then a while later.
    async fn spec(&self, now_ms: u64) -> Option<Arc<Spec>> {
        if let Some(spec) = self.kept.fresh(now_ms) {
            return Some(spec);
        }
        let _turn = self.kept.turn.lock().await;
        {
            let mut fetched = self.kept.fetched();
            if now_ms < fetched.next_ms {
                return fetched.spec.clone();
            }
            fetched.next_ms = now_ms.saturating_add(RETRY_MS);
        }
        let new = self.fetch().await;
        let mut fetched = self.kept.fetched();
        match new {
            Ok(spec) => {
                fetched.spec = Some(Arc::new(spec));
                fetched.next_ms = now_ms.saturating_add(self.ttl_ms);
            }
            Err(error) => tracing::warn!(error, "the OpenAPI document cannot be used"),
        }
        fetched.spec.clone()
    }

    async fn fetch(&self) -> Result<Spec, String> {
        let call = Call {
            method: b"GET".to_vec(),
            path: self.target.path.clone().into_bytes(),
            headers: self.headers.clone(),
            body: Bytes::new(),
            repeat: Repeat::ByMethod,
        };
        let reply = self.client.send(&self.target, call).await.map_err(|it| it.to_string())?;
        if reply.status != 200 {
            return Err(format!("the server answers with status {}", reply.status));
        }
        let compiled = tokio::task::spawn_blocking(move || Spec::compile(&reply.body)).await;
        compiled.map_err(|error| error.to_string())?
    }
}

impl OasValidator {
    /// Checks a request; the error is the answer of a refusal.
    async fn check<'a>(&self, cx: &mut RequestContext<'_>) -> Result<(), Answer<'a>> {
        let failed = |text: &str| Answer::message(500, text).refused(RefusalKind::PluginFailed);
        let spec = match &self.source {
            Source::Text(spec) => Some(Arc::clone(spec)),
            Source::Server(remote) => remote.spec(cx.now().monotonic_ms).await,
        };
        let spec = spec.ok_or_else(|| failed("failed to parse openapi spec"))?;
        let unread = |_| failed("error reading the request body. err: it is too long or broken");
        if !self.skipped.body {
            cx.read_body(self.body_bytes_max).await.map_err(unread)?;
        }
        let (request, skipped) = (request(cx), self.skipped);
        let examine = move |body: &[u8]| spec.check(&request, body, skipped);
        let Err(reason) = cx.examine_body(examine).await.map_err(unread)? else { return Ok(()) };
        tracing::debug!(reason, "a request does not fit the OpenAPI document");
        if !self.rejects {
            return Ok(());
        }
        let reason = if self.is_verbose { reason } else { String::new() };
        let text = format!("failed to validate request. {reason}");
        Err(Answer::message(self.status, &text).refused(RefusalKind::RequestInvalid))
    }
}

fn request(cx: &RequestContext<'_>) -> Request {
    let mut headers = Vec::new();
    cx.each_header(&mut |name, value| {
        headers.push((text(name).to_ascii_lowercase(), value.to_vec()));
    });
    Request {
        method: text(cx.method()).into_owned(),
        path: text(cx.path()).into_owned(),
        query: cx.query().unwrap_or_default().to_vec(),
        headers,
    }
}

#[cfg(test)]
mod tests;
