//! Body of a batch: its schema, its bounds, and the requests that it lists.

use std::sync::LazyLock;
use std::time::Duration;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tollhouse_model::json::Document;
use tollhouse_model::schema::{Schema, Subject};

use crate::http_client::{Call, Repeat};
use crate::request_validation::undecodable;
use crate::shared::confs::headers::text_of;
use crate::shared::messages::uri::append_query;

/// Longest wait for the answer to one request.
const TIMEOUT_MS_MAX: u64 = 60_000;

/// Largest size of a path, a list of arguments or a list of headers, in bytes. The common ones are
/// written once for each request, so that a short body could otherwise cost minutes.
const PART_BYTES_MAX: usize = 16 << 10;

/// Largest number of arguments or headers in one list.
const PART_FIELDS_MAX: usize = 100;

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

/// Body of a batch.
#[derive(Deserialize)]
pub(super) struct Batch {
    #[serde(default)]
    query: Map<String, Value>,
    #[serde(default)]
    headers: Map<String, Value>,
    timeout: u64,
    pub(super) pipeline: Vec<Item>,
}

/// Request in a batch.
#[derive(Deserialize)]
pub(super) struct Item {
    method: String,
    path: String,
    #[serde(default)]
    query: Map<String, Value>,
    #[serde(default)]
    headers: Map<String, Value>,
    #[serde(default)]
    body: String,
}

/// Headers that each request of a batch gets from the gateway.
pub(super) struct Common<'b> {
    /// Headers of the outer request.
    pub outer: &'b [(String, Vec<u8>)],
    /// Headers that only the gateway sets, such as the client's address. No list of the client can
    /// contain one of these names.
    pub own: &'b [(String, Vec<u8>)],
}

impl Batch {
    /// Parses a body with at most `count_max` requests.
    ///
    /// # Errors
    /// The text for the client.
    pub(super) fn parse(body: &[u8], count_max: u64) -> Result<Self, String> {
        let undecoded = |reason: String| {
            let body = String::from_utf8_lossy(&body[..body.len().min(PART_BYTES_MAX)]);
            format!("invalid request body: {body}, err: {reason}")
        };
        if let Err(fault) = Document::parse(body) {
            return Err(undecoded(undecodable(body, fault).into()));
        }
        let mut document: Value =
            serde_json::from_slice(body).map_err(|error| undecoded(error.to_string()))?;
        let bad = |reason: String| format!("bad request body: {reason}");
        BODY.validate_and_fill(&mut document).map_err(|violation| bad(violation.into()))?;
        let batch: Batch = serde_json::from_value(document).map_err(|it| bad(it.to_string()))?;
        let count = batch.pipeline.len();
        if count as u64 > count_max {
            let text = "too many pipeline requests";
            return Err(format!("{text}, {count} exceeds the maximum of {count_max}"));
        }
        batch.check_sizes().map_err(bad)?;
        Ok(batch)
    }

    fn check_sizes(&self) -> Result<(), String> {
        let of_items = self.pipeline.iter().flat_map(|item| [&item.query, &item.headers]);
        if ![&self.query, &self.headers].into_iter().chain(of_items).all(is_short) {
            return Err(format!(
                "a query or list of headers has more than {PART_FIELDS_MAX} fields or \
                 {PART_BYTES_MAX} bytes"
            ));
        }
        if self.pipeline.iter().any(|item| item.path.len() > PART_BYTES_MAX) {
            return Err(format!("a path is longer than {PART_BYTES_MAX} bytes"));
        }
        Ok(())
    }

    /// Returns the timeout of each request.
    pub(super) fn timeout(&self) -> Duration {
        Duration::from_millis(self.timeout.min(TIMEOUT_MS_MAX))
    }
}

fn is_short(fields: &Map<String, Value>) -> bool {
    let bytes = |(name, value): (&String, &Value)| name.len() + value.to_string().len();
    fields.len() <= PART_FIELDS_MAX && fields.iter().map(bytes).sum::<usize>() <= PART_BYTES_MAX
}

impl Item {
    /// Returns the request to send. The body is moved out.
    pub(super) fn call(&mut self, batch: &Batch, common: &Common<'_>) -> Call {
        let mut headers: Vec<(String, Vec<u8>)> = Vec::new();
        let has_page = common.outer.iter().any(|(name, _)| tells_of_page(name));
        for (name, value) in self.headers.iter().chain(&batch.headers) {
            let name = name.to_ascii_lowercase();
            let is_told = headers.iter().any(|(other, _)| *other == name);
            let is_refused = common.owns(&name)
                || tells_of_proxies(&name)
                || has_page && tells_of_page(&name);
            if let (false, false, Some(value)) = (is_told, is_refused, text_of(value)) {
                headers.push((name, value.into_bytes()));
            }
        }
        let inner = headers.len();
        for (name, value) in common.outer {
            let is_told = headers[..inner].iter().any(|(other, _)| other == name);
            if !is_told && !common.owns(name) {
                headers.push((name.clone(), value.clone()));
            }
        }
        headers.extend_from_slice(common.own);
        Call {
            method: self.method.clone().into_bytes(),
            path: self.path(&batch.query),
            headers,
            body: Bytes::from(std::mem::take(&mut self.body)),
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

impl Common<'_> {
    /// Whether a header is one of the gateway's. Servers may read `_` in a name as `-`.
    fn owns(&self, name: &str) -> bool {
        let plain = |byte: u8| if byte == b'_' { b'-' } else { byte.to_ascii_lowercase() };
        let is_equal = |other: &str| name.bytes().map(plain).eq(other.bytes().map(plain));
        self.own.iter().any(|(other, _)| is_equal(other))
    }
}

/// Whether a header of the outer request is not for the inner ones: it describes the outer body, or
/// tells of proxies before the gateway.
pub(super) fn belongs_to_outer(name: &str) -> bool {
    name.starts_with("content-") || tells_of_proxies(name)
}

fn tells_of_proxies(name: &str) -> bool {
    name.starts_with("x-forwarded-") || matches!(name, "forwarded" | "x-real-ip")
}

/// Whether a header tells of the page of a browser from which a request comes. Servers may read `_` in
/// a name as `-`.
fn tells_of_page(name: &str) -> bool {
    let name = name.replace('_', "-");
    name.starts_with("sec-fetch-") || matches!(&*name, "origin" | "referer")
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
