//! Answers several requests of a client with one exchange.
//!
//! The endpoint `/apisix/batch-requests` takes a list of requests (`pipeline`), sends them to this
//! gateway one after another, and returns their answers as a list. A route exposes it with the
//! plugin `public-api`.
//!
//! # Example
//! ```json
//! {}
//! ```
//!
//! # Answers
//! - 200 with a list of `{"status", "reason", "headers", "body"}`, with header names as they were
//!   sent; a request that gets no answer
//!   within `timeout`, and those after it, have 504 `upstream timeout`. An answer whose body is
//!   longer than 1 MiB, or that makes the list longer than 4 MiB, has 502 `the answers are too long`
//! - 400 `no request body, you should give at least one pipeline setting`, 400 `bad request body:
//!   …`, 400 `too many pipeline requests, …`
//! - 413 when the body exceeds `max_body_size`
//! - 415 when the request has `Origin`, as that of a browser, and its `Content-Type` is not
//!   `application/json`
//! - 500 `connect to apisix failed: …` also if the gateway does not trust itself (see Notes)
//! - 503 when the memory for bodies is exhausted
//!
//! # Notes
//! The body is `{"query": {}, "headers": {}, "timeout": 30000, "pipeline": [{"method": "GET", "path":
//! "/a", "query": {}, "headers": {}, "body": ""}]}`. `timeout` is for each request, in milliseconds;
//! values above 60000 count as 60000. Each path, `query` and `headers` has at most 16 KiB and 100
//! fields. Headers of the outer request, except those of its body and `X-Forwarded-*`, are added to
//! each request. If the outer request has `Origin`, `Referer` or `Sec-Fetch-*`, the batch cannot set
//! these. The requests arrive from 127.0.0.1 with the client's address in `real_ip.header`,
//! which clients cannot set, so that `real_ip.from` must contain 127.0.0.1, as it does by default. A
//! batch within a batch is refused. `plugin_attr.batch-requests.uri` names another path; limits are
//! in the plugin's metadata.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use bytes::Bytes;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use tollhouse_model::variable::Variable;
use tollhouse_plugin::{
    Answer, AnswerBody, BackgroundWork, BodyError, Category, ConfError, LocalFuture, MetadataSpec,
    Phases, Plugin, PluginEndpoint, RefusalKind, RequestContext, Scope, Services,
};
use tollhouse_stdx::Reservation;

use crate::http_client::{ClientError, HttpClient, Reuse, Target};
use crate::shared::confs::defaults::defaults;

use self::answers::{Answers, NoMemory, REPLY_BYTES_MAX};
use self::batch::{Batch, Common, belongs_to_outer};

mod answers;
mod batch;

const PATH: &str = "/apisix/batch-requests";

/// Header of requests within a batch.
const MARK: &str = "x-batch-request";

/// Configuration of `batch-requests`: none; limits are in the metadata.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Config {}

/// Plugin metadata: limits of all batches.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Metadata {
    /// Longest body of a batch, in bytes; 1 MiB by default.
    #[serde(default = "default_body_bytes_max")]
    #[schemars(range(min = 1))]
    pub max_body_size: u64,
    /// Largest number of requests in a batch; 1000 by default.
    #[serde(default = "default_items_max")]
    #[schemars(range(min = 1))]
    pub max_pipeline_items: u64,
}

defaults! {
    default_body_bytes_max: u64 = 1 << 20;
    default_items_max: u64 = 1_000;
}

/// Place of the current limits, which metadata set.
#[derive(Default)]
struct LimitsSlot(Mutex<Weak<Metadata>>);

#[derive(Debug)]
pub struct BatchRequests;

impl Plugin for BatchRequests {
    const NAME: &'static str = "batch-requests";
    const PRIORITY: i32 = 4010;
    const CATEGORY: Category = Category::Utility;
    const PHASES: Phases = Phases::NONE;
    type Config = Config;

    fn adjust_schema(schema: &mut Value) {
        if let Some(fields) = schema.as_object_mut() {
            fields.shift_remove("additionalProperties");
        }
    }

    fn metadata() -> Option<MetadataSpec> {
        Some(MetadataSpec::new::<Metadata>())
    }

    fn endpoints() -> &'static [PluginEndpoint] {
        &[PluginEndpoint { method: "POST", path: PATH, answer }]
    }

    fn start(
        metadata: &Value,
        services: &Arc<Services>,
    ) -> Result<Option<BackgroundWork>, ConfError> {
        let limits: Metadata =
            serde_json::from_value(metadata.clone()).map_err(|error| error.to_string())?;
        let (limits, slot) = (Arc::new(limits), slot(services));
        *slot.0.lock().unwrap_or_else(PoisonError::into_inner) = Arc::downgrade(&limits);
        Ok(Some(Box::new((limits, slot))))
    }

    fn compile(_config: Config, _scope: &Scope<'_>) -> Result<Self, ConfError> {
        Ok(Self)
    }
}

fn slot(services: &Services) -> Arc<LimitsSlot> {
    services.keep(BatchRequests::NAME, LimitsSlot::default)
}

fn limits(services: &Services) -> Arc<Metadata> {
    let slot = slot(services);
    let current = slot.0.lock().unwrap_or_else(PoisonError::into_inner).upgrade();
    current.unwrap_or_else(|| {
        let (max_body_size, max_pipeline_items) = (default_body_bytes_max(), default_items_max());
        Arc::new(Metadata { max_body_size, max_pipeline_items })
    })
}

fn answer<'a>(
    cx: &'a mut RequestContext<'_>,
    services: &'a Arc<Services>,
) -> LocalFuture<'a, Answer<'static>> {
    Box::pin(async move {
        match run(cx, services).await {
            Ok((answers, held)) => {
                // The memory is reserved until the end of the request.
                cx.remember(held);
                let body = AnswerBody::Shared(Bytes::from(answers));
                let answer = Answer { body, ..Answer::status(200) };
                answer.with_header("Content-Type", &b"application/json"[..])
            }
            Err(answer) => answer,
        }
    })
}

fn invalid(status: u16, text: &str) -> Answer<'static> {
    Answer::error_msg(status, text).refused(RefusalKind::RequestInvalid)
}

fn failed(reason: &str) -> Answer<'static> {
    let text = format!("connect to apisix failed: {reason}");
    Answer::error_msg(500, &text).refused(RefusalKind::PluginFailed)
}

impl From<NoMemory> for Answer<'static> {
    fn from(_: NoMemory) -> Self {
        let text = "the memory for bodies is exhausted";
        Answer::error_msg(503, text).refused(RefusalKind::PluginFailed)
    }
}

/// Returns the answers to all requests of a batch as JSON. The error is the answer to a bad batch.
async fn run(
    cx: &mut RequestContext<'_>,
    services: &Services,
) -> Result<(Vec<u8>, Reservation), Answer<'static>> {
    let limits = limits(services);
    let mut batch = read(cx, &limits).await?;
    let Some(address_header) = &services.client_address_header else {
        return Err(failed("real_ip.from does not contain 127.0.0.1"));
    };
    let target = own_listener(cx).ok_or_else(|| failed("the request has no port"))?;
    let reuse = Reuse::For { idle: Duration::from_secs(1), connections_max: 1 };
    let client = HttpClient::new(batch.timeout(), false.into(), reuse);
    let client = client.with_replies_up_to(REPLY_BYTES_MAX).with_written_names();
    let address = cx.remote_address().to_string().into_bytes();
    let outer = outer_headers(cx);
    let own = [(address_header.clone(), address), (MARK.to_owned(), b"1".to_vec())];
    let common = Common { outer: &outer, own: &own };
    let mut answers = Answers::new(&services.memory)?;
    let mut is_late = false;
    for mut item in std::mem::take(&mut batch.pipeline) {
        let sent = match is_late {
            true => Err(ClientError::Timeout),
            false => client.send(&target, item.call(&batch, &common)).await,
        };
        match sent {
            Ok(reply) => answers = answers.add(reply).await?,
            Err(ClientError::Timeout) => {
                is_late = true;
                answers.add_refusal(504, "upstream timeout")?;
            }
            Err(ClientError::TooLarge(_)) => {
                answers.add_refusal(502, "the answers are too long")?
            }
            Err(ClientError::Connect(error)) => return Err(failed(&error.to_string())),
            Err(error) => return Err(invalid(400, &format!("request failed: {error}"))),
        }
    }
    Ok(answers.finish()?)
}

/// Reads and checks the body.
async fn read(cx: &mut RequestContext<'_>, limits: &Metadata) -> Result<Batch, Answer<'static>> {
    if cx.header(MARK).is_some() {
        return Err(invalid(400, "a batch cannot contain batches"));
    }
    // A page of another site can send any other type without asking the gateway.
    if cx.header("Origin").is_some() && !is_json(&cx.header("Content-Type").unwrap_or_default()) {
        let text = "a request with Origin must have the Content-Type application/json";
        return Err(invalid(415, text));
    }
    match cx.read_body(limits.max_body_size).await {
        Ok([]) => {
            let text = "no request body, you should give at least one pipeline setting";
            return Err(invalid(400, text));
        }
        Ok(_) => {}
        Err(BodyError::TooLarge) => {
            let bytes_max = limits.max_body_size;
            let size = cx.header("Content-Length").map(|size| {
                // A request without it has sent more than the limit.
                format!(" {}", String::from_utf8_lossy(&size))
            });
            let size = size.unwrap_or_default();
            let text =
                format!("request size{size} is greater than the maximum size {bytes_max} allowed");
            return Err(invalid(413, &text));
        }
        Err(BodyError::Broken) => return Err(invalid(400, "the body cannot be read")),
    }
    let count_max = limits.max_pipeline_items;
    match cx.examine_body(move |body| Batch::parse(body, count_max)).await {
        Ok(batch) => batch.map_err(|text| invalid(400, &text)),
        Err(_) => Err(NoMemory.into()),
    }
}

fn is_json(content_type: &[u8]) -> bool {
    let kind = content_type.split(|byte| *byte == b';').next().unwrap_or_default();
    kind.trim_ascii().eq_ignore_ascii_case(b"application/json")
}

/// Returns the address under which this gateway serves the client.
fn own_listener(cx: &RequestContext<'_>) -> Option<Target> {
    let port = cx.variables().variable(&Variable::ServerPort)?;
    let port = std::str::from_utf8(&port).ok()?;
    let scheme = if cx.is_tls() { "https" } else { "http" };
    Target::parse(&format!("{scheme}://127.0.0.1:{port}/")).ok()
}

/// Returns the headers of the outer request that each request gets.
fn outer_headers(cx: &RequestContext<'_>) -> Vec<(String, Vec<u8>)> {
    let mut lines = Vec::new();
    cx.each_header(&mut |name, value| {
        let name = String::from_utf8_lossy(name).to_ascii_lowercase();
        if !belongs_to_outer(&name) {
            lines.push((name, value.to_vec()));
        }
    });
    lines
}

#[cfg(test)]
mod tests;
