//! Answers on their way out: a status, a body, and the few headers that are not the same for all.

use bytes::Bytes;
use hyper::header::{
    CONTENT_DISPOSITION, CONTENT_TYPE, HeaderName, HeaderValue, X_CONTENT_TYPE_OPTIONS,
};
use hyper::{Response, StatusCode};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tollhouse_plugin::Brand;
use tollhouse_store::StoreError;

use crate::page;

mod wire_body;

pub use wire_body::WireBody;

/// What goes over the wire.
pub(crate) type WireResponse = Response<WireBody>;

/// An answer; a refusal is the error of a `Result`.
#[derive(Debug)]
pub(crate) struct Reply {
    status: StatusCode,
    kind: &'static str,
    body: WireBody,
    headers: Vec<(HeaderName, HeaderValue)>,
}

const JSON: &str = "application/json";
const HTML: &str = "text/html; charset=utf-8";
const DOCUMENT: &str = "text/html";
const JSON_LINES: &str = "application/x-ndjson";
const YAML: &str = "application/yaml";
const PLAIN: &str = "text/plain";
const OCTETS: &str = "application/octet-stream";

impl Reply {
    fn new(status: StatusCode, kind: &'static str, body: impl Into<Bytes>) -> Self {
        Self { status, kind, body: WireBody::whole(body.into()), headers: Vec::new() }
    }

    /// A JSON body, ended by a line feed.
    pub(crate) fn json(status: StatusCode, value: &Value) -> Self {
        Self::json_text(status, value.to_string())
    }

    /// The same of text that is JSON already.
    pub(crate) fn json_text(status: StatusCode, mut text: String) -> Self {
        text.push('\n');
        Self::new(status, JSON, text)
    }

    /// JSON lines, sent as they come; the answer ends with the sender.
    pub(crate) fn lines(chunks: mpsc::Receiver<Bytes>) -> Self {
        let body = WireBody::chunks(chunks);
        Self { status: StatusCode::OK, kind: JSON_LINES, body, headers: Vec::new() }
    }

    /// Text as it is, which APISIX labels as JSON all the same.
    pub(crate) fn text(status: StatusCode, text: impl Into<Bytes>) -> Self {
        Self::new(status, JSON, text)
    }

    /// A file of the console's page.
    pub(crate) fn file(kind: &'static str, bytes: &'static [u8]) -> Self {
        Self::new(StatusCode::OK, kind, bytes)
    }

    /// Bytes to be kept as a file: no browser shows them as a page.
    pub(crate) fn download(bytes: Vec<u8>) -> Self {
        Self::new(StatusCode::OK, OCTETS, bytes)
            .with(CONTENT_DISPOSITION, HeaderValue::from_static("attachment"))
            .with(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"))
    }

    /// The console's page, which unlike [`page`](Self::page) has a text of its own.
    pub(crate) fn document(text: String) -> Self {
        Self::new(StatusCode::OK, DOCUMENT, text)
    }

    /// YAML text.
    pub(crate) fn yaml(status: StatusCode, text: String) -> Self {
        Self::new(status, YAML, text)
    }

    /// No body.
    pub(crate) fn empty(status: StatusCode) -> Self {
        Self::new(status, JSON, Bytes::new())
    }

    /// No body, and no claim that there were JSON.
    pub(crate) fn bare(status: StatusCode) -> Self {
        Self::new(status, PLAIN, Bytes::new())
    }

    /// The page that a web server shows for paths nobody registered.
    pub(crate) fn page(status: StatusCode) -> Self {
        // Its text shows the gateway's name, which is known where it goes out.
        Self::new(status, HTML, Bytes::new())
    }

    /// `{"error_msg": …}`.
    pub(crate) fn refusal(status: StatusCode, text: impl Into<String>) -> Self {
        Self::json(status, &json!({"error_msg": text.into()}))
    }

    /// 400 with `{"error_msg": …}`.
    pub(crate) fn bad(text: impl Into<String>) -> Self {
        Self::refusal(StatusCode::BAD_REQUEST, text)
    }

    /// 503 with `{"error_msg": …}`.
    pub(crate) fn unavailable(text: impl Into<String>) -> Self {
        Self::refusal(StatusCode::SERVICE_UNAVAILABLE, text)
    }

    /// There is no such object.
    pub(crate) fn key_not_found() -> Self {
        Self::json(StatusCode::NOT_FOUND, &json!({"message": "Key not found"}))
    }

    pub(crate) fn status(&self) -> StatusCode {
        self.status
    }

    /// A header that was set.
    pub(crate) fn header(&self, name: &HeaderName) -> Option<&HeaderValue> {
        self.headers.iter().find(|(set, _)| set == name).map(|(_, value)| value)
    }

    /// The body, where it is JSON and whole.
    pub(crate) fn value(&self) -> Option<Value> {
        serde_json::from_slice(self.body.bytes()).ok()
    }

    /// Another field of a JSON body, which may be empty yet.
    #[must_use]
    pub(crate) fn with_field(mut self, name: &str, value: Value) -> Self {
        let body = self.value().unwrap_or_else(|| json!({}));
        if let Value::Object(mut fields) = body {
            fields.insert(name.to_owned(), value);
            let text = format!("{}\n", Value::Object(fields));
            self.body = WireBody::whole(text.into());
        }
        self
    }

    /// The text of a refusal.
    pub(crate) fn error_text(&self) -> String {
        let value: Value = serde_json::from_slice(self.body.bytes()).unwrap_or_default();
        value.get("error_msg").and_then(Value::as_str).unwrap_or_default().to_owned()
    }

    /// Another header.
    #[must_use]
    pub(crate) fn with(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.push((name, value));
        self
    }

    /// As it goes out; a page shows that name.
    pub(crate) fn into_wire(mut self, brand: Brand) -> WireResponse {
        if self.kind == HTML {
            self.body = WireBody::whole(page::html(self.status, brand).into());
        }
        let mut response = Response::new(self.body);
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        if self.status != StatusCode::NO_CONTENT {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static(self.kind));
        }
        for (name, value) in self.headers {
            headers.insert(name, value);
        }
        response
    }
}

impl From<StoreError> for Reply {
    fn from(error: StoreError) -> Self {
        Self::unavailable(error.to_string())
    }
}
