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
//! - 200 with a list of `{"status", "reason", "headers", "body"}`; a request that gets no answer
//!   within `timeout`, and those after it, have 504 `upstream timeout`
//! - 400 `no request body, you should give at least one pipeline setting`, 400 `bad request body:
//!   …`, 400 `too many pipeline requests, …`
//! - 413 when the body exceeds `max_body_size`
//! - 500 `connect to apisix failed: …` also if the gateway does not trust itself (see Notes)
//!
//! # Notes
//! The body is `{"query": {}, "headers": {}, "timeout": 30000, "pipeline": [{"method": "GET", "path":
//! "/a", "query": {}, "headers": {}, "body": ""}]}`. Headers of the outer request, except those of
//! its body and `X-Forwarded-*`, are added to each request. The requests arrive from 127.0.0.1 with
//! the client's address in `real_ip.header`, so that `real_ip.from` must contain 127.0.0.1, as it
//! does by default. A batch within a batch is refused. `plugin_attr.batch-requests.uri` names
//! another path; limits are in the plugin's metadata.

use std::sync::{Arc, LazyLock, Mutex, PoisonError, Weak};
use std::time::Duration;

use bytes::Bytes;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tollhouse_model::json::Document;
use tollhouse_model::schema::{Schema, Subject};
use tollhouse_model::variable::Variable;
use tollhouse_plugin::{
    Answer, BackgroundWork, BodyError, Category, ConfError, LocalFuture, MetadataSpec, Phases,
    Plugin, PluginEndpoint, RefusalKind, RequestContext, Scope, Services,
};

use crate::http_client::{Call, ClientError, HttpClient, Repeat, Reply, Reuse, Target};
use crate::request_validation::undecodable;
use crate::shared::confs::defaults::defaults;
use crate::shared::confs::headers::text_of;
use crate::shared::messages::uri::append_query;

const PATH: &str = "/apisix/batch-requests";

/// Header of requests within a batch.
const MARK: &str = "x-batch-request";

/// Largest sum of the bodies of all answers, in bytes; they are held until the last one.
const ANSWERS_BYTES_MAX: usize = 64 << 20;

/// Schema of the body.
static BODY: LazyLock<Schema> = LazyLock::new(|| {
    let methods =
        ["GET", "POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS", "CONNECT", "TRACE", "PURGE"];
    let document = json!({
        "type": "object",
        "properties": {
            "query": {"type": "object"},
            "headers": {"type": "object"},
            "timeout": {"type": "integer", "minimum": 1, "default": 30_000},
            "pipeline": {
                "type": "array",
                "minItems": 1,
                "items": {
                    "type": "object",
                    "additionalProperties": false,
                    "properties": {
                        "version": {"type": "number", "enum": [1.0, 1.1], "default": 1.1},
                        "method": {"type": "string", "enum": methods, "default": "GET"},
                        "path": {"type": "string", "minLength": 1},
                        "query": {"type": "object"},
                        "headers": {"type": "object"},
                        "body": {"type": "string"},
                        "ssl_verify": {"type": "boolean", "default": false},
                    },
                    "required": ["path"],
                },
            },
        },
        "anyOf": [{"required": ["pipeline"]}],
    });
    Schema::compile_for(&document, Subject::Traffic).expect("the schema is tested")
});

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

/// Body of a batch.
#[derive(Deserialize)]
struct Batch {
    #[serde(default)]
    query: Map<String, Value>,
    #[serde(default)]
    headers: Map<String, Value>,
    timeout: u64,
    pipeline: Vec<Item>,
}

/// Request in a batch.
#[derive(Deserialize)]
struct Item {
    method: String,
    path: String,
    #[serde(default)]
    query: Map<String, Value>,
    #[serde(default)]
    headers: Map<String, Value>,
    body: Option<String>,
}

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
            Ok(answers) => Answer::json(200, Value::Array(answers)),
            Err(answer) => answer,
        }
    })
}

fn invalid(status: u16, text: &str) -> Answer<'static> {
    Answer::error_msg(status, text).refused(RefusalKind::RequestInvalid)
}

/// Returns the answers to all requests of a batch. The error is the answer to a bad batch.
async fn run(
    cx: &mut RequestContext<'_>,
    services: &Services,
) -> Result<Vec<Value>, Answer<'static>> {
    let limits = limits(services);
    let batch = read(cx, &limits).await?;
    let failed = |reason: &str| {
        let text = format!("connect to apisix failed: {reason}");
        Answer::error_msg(500, &text).refused(RefusalKind::PluginFailed)
    };
    let Some(address_header) = &services.client_address_header else {
        return Err(failed("real_ip.from does not contain 127.0.0.1"));
    };
    let target = own_listener(cx).ok_or_else(|| failed("the request has no port"))?;
    let reuse = Reuse::For { idle: Duration::from_secs(1), connections_max: 1 };
    let client = HttpClient::new(Duration::from_millis(batch.timeout), false.into(), reuse);
    let outer = outer_headers(cx);
    let address = cx.remote_address().to_string();
    let mut answers = Vec::with_capacity(batch.pipeline.len());
    let mut room = ANSWERS_BYTES_MAX;
    let mut is_late = false;
    for item in &batch.pipeline {
        let mut call = item.call(&batch, &outer);
        call.headers.push((address_header.clone(), address.clone().into_bytes()));
        call.headers.push((MARK.into(), b"1".to_vec()));
        let sent = match is_late {
            true => Err(ClientError::Timeout),
            false => client.clone().with_replies_up_to(room).send(&target, call).await,
        };
        answers.push(match sent {
            Ok(reply) => {
                room = room.saturating_sub(reply.body.len());
                document(&reply)
            }
            Err(ClientError::Timeout) => {
                is_late = true;
                json!({"status": 504, "reason": "upstream timeout"})
            }
            Err(ClientError::Connect(error)) => return Err(failed(&error.to_string())),
            Err(ClientError::TooLarge(_)) => {
                json!({"status": 502, "reason": "the answers are too long"})
            }
            Err(error) => return Err(invalid(400, &format!("request failed: {error}"))),
        });
    }
    Ok(answers)
}

/// Reads and checks the body.
async fn read(cx: &mut RequestContext<'_>, limits: &Metadata) -> Result<Batch, Answer<'static>> {
    if cx.header(MARK).is_some() {
        return Err(invalid(400, "a batch cannot contain batches"));
    }
    match cx.read_body(limits.max_body_size).await {
        Ok(_) => {}
        Err(BodyError::TooLarge) => {
            let bytes_max = limits.max_body_size;
            let text = format!("request size is greater than the maximum size {bytes_max} allowed");
            return Err(invalid(413, &text));
        }
        Err(BodyError::Broken) => return Err(invalid(400, "the body cannot be read")),
    }
    let body = cx.body();
    if body.is_empty() {
        let text = "no request body, you should give at least one pipeline setting";
        return Err(invalid(400, text));
    }
    let undecoded = |reason: String| {
        let body = String::from_utf8_lossy(body);
        invalid(400, &format!("invalid request body: {body}, err: {reason}"))
    };
    if let Err(fault) = Document::parse(body) {
        return Err(undecoded(undecodable(body, fault).into()));
    }
    let mut document: Value =
        serde_json::from_slice(body).map_err(|error| undecoded(error.to_string()))?;
    let bad = |reason: String| invalid(400, &format!("bad request body: {reason}"));
    BODY.validate_and_fill(&mut document).map_err(|violation| bad(violation.into()))?;
    let batch: Batch = serde_json::from_value(document).map_err(|error| bad(error.to_string()))?;
    let (count, count_max) = (batch.pipeline.len(), limits.max_pipeline_items);
    if count as u64 > count_max {
        let text = format!("too many pipeline requests, {count} exceeds the maximum of {count_max}");
        return Err(invalid(400, &text));
    }
    Ok(batch)
}

/// Returns the address under which this gateway serves the client.
fn own_listener(cx: &RequestContext<'_>) -> Option<Target> {
    let port = cx.variables().variable(&Variable::ServerPort)?;
    let port = std::str::from_utf8(&port).ok()?;
    let scheme = if cx.is_tls() { "https" } else { "http" };
    Target::parse(&format!("{scheme}://127.0.0.1:{port}/")).ok()
}

/// Whether a header belongs to the outer request alone, or tells of proxies before the gateway.
fn is_foreign(name: &str) -> bool {
    let starts = |prefix: &str| name.starts_with(prefix);
    starts("content-") || starts("x-forwarded-") || matches!(name, "forwarded" | "x-real-ip")
}

/// Returns the headers of the outer request that each request gets.
fn outer_headers(cx: &RequestContext<'_>) -> Vec<(String, Vec<u8>)> {
    let mut lines = Vec::new();
    cx.each_header(&mut |name, value| {
        let name = String::from_utf8_lossy(name).to_ascii_lowercase();
        if !is_foreign(&name) {
            lines.push((name, value.to_vec()));
        }
    });
    lines
}

impl Item {
    fn call(&self, batch: &Batch, outer: &[(String, Vec<u8>)]) -> Call {
        let mut headers: Vec<(String, Vec<u8>)> = Vec::new();
        for (name, value) in self.headers.iter().chain(&batch.headers) {
            let name = name.to_ascii_lowercase();
            let is_told = headers.iter().any(|(other, _)| *other == name);
            let is_foreign = is_foreign(&name) && !name.starts_with("content-");
            if let (false, false, Some(value)) = (is_told, is_foreign, text_of(value)) {
                headers.push((name, value.into_bytes()));
            }
        }
        let own = headers.len();
        for (name, value) in outer {
            if headers[..own].iter().all(|(other, _)| other != name) {
                headers.push((name.clone(), value.clone()));
            }
        }
        Call {
            method: self.method.clone().into_bytes(),
            path: self.path(&batch.query),
            headers,
            body: Bytes::from(self.body.clone().unwrap_or_default()),
            repeat: Repeat::ByMethod,
        }
    }

    fn path(&self, common: &Map<String, Value>) -> Vec<u8> {
        let common = common.iter().filter(|(name, _)| !self.query.contains_key(*name));
        let mut query = String::new();
        for (name, value) in self.query.iter().chain(common) {
            let values = match value {
                Value::Array(values) => values.as_slice(),
                value => std::slice::from_ref(value),
            };
            for value in values {
                add_argument(&mut query, name, value);
            }
        }
        let mut path = self.path.clone().into_bytes();
        if !query.is_empty() {
            append_query(&mut path, query.as_bytes());
        }
        path
    }
}

/// Appends an argument; `true` is an argument without a value, and `false` none.
fn add_argument(query: &mut String, name: &str, value: &Value) {
    let text = match value {
        Value::Bool(true) => None,
        value => match text_of(value) {
            Some(text) => Some(text),
            None => return,
        },
    };
    if !query.is_empty() {
        query.push('&');
    }
    escape(name, query);
    if let Some(text) = text {
        query.push('=');
        escape(&text, query);
    }
}

fn escape(text: &str, out: &mut String) {
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                out.push(char::from(byte));
            }
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
}

fn document(reply: &Reply) -> Value {
    let mut headers = Map::new();
    for (name, value) in &reply.headers {
        let value = Value::String(String::from_utf8_lossy(value.as_bytes()).into_owned());
        match headers.get_mut(&title_case(name.as_str())) {
            None => drop(headers.insert(title_case(name.as_str()), value)),
            Some(Value::Array(values)) => values.push(value),
            Some(first) => *first = json!([first.take(), value]),
        }
    }
    let reason = http::StatusCode::from_u16(reply.status).ok();
    let reason = reason.and_then(|status| status.canonical_reason()).unwrap_or_default();
    let mut document = json!({"status": reply.status, "reason": reason, "headers": headers});
    if !reply.body.is_empty() {
        document["body"] = String::from_utf8_lossy(&reply.body).into();
    }
    document
}

/// Returns a header's name in the form in which most servers write it, such as `Content-Type`.
fn title_case(name: &str) -> String {
    let part = |part: &str| {
        let (first, rest) = part.split_at(part.len().min(1));
        first.to_ascii_uppercase() + rest
    };
    name.split('-').map(part).collect::<Vec<_>>().join("-")
}

#[cfg(test)]
mod tests {
    use tollhouse_plugin::testing::{FakeExchange, Harness, Outcome, configure_among};
    use tollhouse_plugin::{Catalogue, PluginType};

    use super::*;
    use crate::public_api::PublicApi;
    use crate::shared::test_server::{TestServer, body, header, reply};

    /// Sends a batch through `public-api` to a gateway that listens at the server's port.
    fn ask(port: &str, text: &str, metadata: Option<Value>) -> Outcome {
        let mut services = Services::new("APISIX/3.18.0");
        services.client_address_header = Some("X-Real-IP".into());
        let services = Arc::new(services);
        let kept = metadata.map(|metadata| BatchRequests::start(&metadata, &services));
        let catalogue = Catalogue::new([PluginType::new::<BatchRequests>()]);
        let conf = json!({"uri": PATH});
        let handler = configure_among::<PublicApi>(&conf, &services, &catalogue, None);
        let mut harness = Harness::with(handler.expect("the conf is good"), services);
        let mut exchange = FakeExchange::parse(text, 0).with_variable("server_port", port);
        let outcome = harness.run(&mut exchange);
        drop(kept);
        outcome
    }

    fn post(batch: &Value) -> String {
        format!("POST /batch HTTP/1.1\nHost: a.com\nX-Outer: 1\nX-Forwarded-For: 6.6.6.6\nContent-Type: x\n\n{batch}")
    }

    #[test]
    fn each_request_is_answered() {
        let server = TestServer::start(|request| match request.starts_with("GET /late") {
            true => String::new(),
            false => reply(201, "X-Own: 1\r\nSet-Cookie: a\r\nSet-Cookie: b\r\n", body(request)),
        });
        let batch = json!({
            "query": {"common": "x y", "own": 1},
            "headers": {"X-Common": "c", "X-Own": "outer"},
            "pipeline": [
                {"path": "/a?z=1", "query": {"own": 2, "flag": true}, "headers": {"x-own": "inner"}},
                {"path": "/b", "method": "POST", "body": "hello"},
            ],
        });
        let port = server.url("").rsplit(':').next().unwrap().to_owned();
        let outcome = ask(&port, &post(&batch), None);
        assert_eq!(outcome.status(), 200, "{}", outcome.body());
        let answers: Value = serde_json::from_str(outcome.body()).unwrap();
        assert_eq!(answers[0]["status"], 201);
        assert_eq!(answers[0]["reason"], "Created");
        assert_eq!(answers[0]["headers"]["X-Own"], "1");
        assert_eq!(answers[0]["headers"]["Set-Cookie"], json!(["a", "b"]));
        assert_eq!(answers[1]["body"], "hello");
        let first = server.next_request();
        assert!(first.starts_with("GET /a?z=1&own=2&flag&common=x%20y HTTP/1.1\r\n"), "{first}");
        for (name, value) in [
            ("x-own", Some("inner")),
            ("x-common", Some("c")),
            ("x-outer", Some("1")),
            ("host", Some("a.com")),
            ("x-real-ip", Some("127.0.0.1")),
            ("x-forwarded-for", None),
            ("content-type", None),
            (MARK, Some("1")),
        ] {
            assert_eq!(header(&first, name), value, "{name}");
        }
        assert_eq!(body(&server.next_request()), "hello");
    }

    #[test]
    fn bad_batches_are_refused() {
        let small = json!({"max_body_size": 200, "max_pipeline_items": 1});
        for (sent, status, text) in [
            ("".to_owned(), 400, "no request body, you should give at least one pipeline setting"),
            ("{".to_owned(), 400, "invalid request body: {, err: Expected"),
            ("{}".to_owned(), 400, "bad request body: object matches none of the required"),
            (json!({"pipeline": []}).to_string(), 400, "expect array to have at least 1 items"),
            (json!({"pipeline": [{"paths": "/"}]}).to_string(), 400, "bad request body: "),
            (
                json!({"pipeline": [{"path": "/"}, {"path": "/"}]}).to_string(),
                400,
                "too many pipeline requests, 2 exceeds the maximum of 1",
            ),
            ("x".repeat(201), 413, "maximum size 200 allowed"),
        ] {
            let request = format!("POST /batch HTTP/1.1\n\n{sent}");
            let outcome = ask("1", &request, Some(small.clone()));
            assert_eq!(outcome.status(), status, "{sent}");
            assert!(outcome.body().contains(text), "{}", outcome.body());
        }
        let batch = json!({"pipeline": [{"path": "/"}]});
        let nested = format!("POST /batch HTTP/1.1\nX-Batch-Request: 1\n\n{batch}");
        assert!(ask("1", &nested, None).body().contains("cannot contain batches"));
        assert_eq!(ask("1", "GET /batch HTTP/1.1\n\n", None).status(), 404);
    }
}
