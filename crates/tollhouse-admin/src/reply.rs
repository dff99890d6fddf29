//! Replies: status, body, and specific headers.

use bytes::Bytes;
use hyper::header::{
    CONTENT_DISPOSITION, CONTENT_TYPE, HeaderName, HeaderValue, SET_COOKIE, X_CONTENT_TYPE_OPTIONS,
};
use hyper::{Response, StatusCode};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tollhouse_plugin::Brand;
use tollhouse_store::StoreError;

use crate::page;

mod wire_body;

pub use wire_body::WireBody;

/// HTTP response of the Admin API.
pub(crate) type WireResponse = Response<WireBody>;

/// A reply. Refusals are returned as `Err(Reply)`.
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

    /// Returns a reply with a JSON body and a trailing line feed.
    pub(crate) fn json(status: StatusCode, value: &Value) -> Self {
        Self::json_text(status, value.to_string())
    }

    /// Returns a reply whose body is a text that is JSON already, with a trailing line feed.
    pub(crate) fn json_text(status: StatusCode, mut text: String) -> Self {
        text.push('\n');
        Self::new(status, JSON, text)
    }

    /// Returns a reply with JSON lines, which are sent as they arrive. The response ends when the
    /// sender is dropped.
    pub(crate) fn lines(chunks: mpsc::Receiver<Bytes>) -> Self {
        let body = WireBody::chunks(chunks);
        Self { status: StatusCode::OK, kind: JSON_LINES, body, headers: Vec::new() }
    }

    /// Returns a reply with an unchanged text, but with the content type of JSON, as in APISIX.
    pub(crate) fn text(status: StatusCode, text: impl Into<Bytes>) -> Self {
        Self::new(status, JSON, text)
    }

    /// Returns a reply with a file of the console, with status 200.
    pub(crate) fn file(kind: &'static str, bytes: &'static [u8]) -> Self {
        Self::new(StatusCode::OK, kind, bytes)
    }

    /// Returns a reply with a file to download, which browsers do not display as a page.
    pub(crate) fn download(bytes: Vec<u8>) -> Self {
        Self::new(StatusCode::OK, OCTETS, bytes)
            .with(CONTENT_DISPOSITION, HeaderValue::from_static("attachment"))
            .with(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"))
    }

    /// Returns a reply with the console's HTML page. Unlike for [`page`](Self::page), the caller
    /// supplies the text.
    pub(crate) fn document(text: String) -> Self {
        Self::new(StatusCode::OK, DOCUMENT, text)
    }

    pub(crate) fn yaml(status: StatusCode, text: String) -> Self {
        Self::new(status, YAML, text)
    }

    pub(crate) fn empty(status: StatusCode) -> Self {
        Self::new(status, JSON, Bytes::new())
    }

    /// Returns a reply with a plain text for people.
    pub(crate) fn plain(status: StatusCode, text: &'static str) -> Self {
        Self::new(status, PLAIN, text)
    }

    /// Returns a reply with an empty body, whose content type is plain text, not JSON.
    pub(crate) fn bare(status: StatusCode) -> Self {
        Self::new(status, PLAIN, Bytes::new())
    }

    /// Returns a reply with an HTML error page, as nginx sends it for unknown paths.
    pub(crate) fn page(status: StatusCode) -> Self {
        // The body is set in [`into_wire`](Self::into_wire), because it contains the product name.
        Self::new(status, HTML, Bytes::new())
    }

    /// Returns the error reply `{"error_msg": …}`.
    pub(crate) fn refusal(status: StatusCode, text: impl Into<String>) -> Self {
        Self::json(status, &json!({"error_msg": text.into()}))
    }

    pub(crate) fn bad(text: impl Into<String>) -> Self {
        Self::refusal(StatusCode::BAD_REQUEST, text)
    }

    pub(crate) fn unavailable(text: impl Into<String>) -> Self {
        Self::refusal(StatusCode::SERVICE_UNAVAILABLE, text)
    }

    /// Returns the reply 404 for a missing object, in APISIX's words.
    pub(crate) fn key_not_found() -> Self {
        Self::json(StatusCode::NOT_FOUND, &json!({"message": "Key not found"}))
    }

    pub(crate) fn status(&self) -> StatusCode {
        self.status
    }

    /// Returns the value of a header that was set with [`with`](Self::with).
    pub(crate) fn header(&self, name: &HeaderName) -> Option<&HeaderValue> {
        self.headers.iter().find(|(set, _)| set == name).map(|(_, value)| value)
    }

    /// Returns the body as a value; `None` if the body is not JSON or arrives in chunks.
    pub(crate) fn value(&self) -> Option<Value> {
        serde_json::from_slice(self.body.bytes()).ok()
    }

    /// Adds a field to a JSON body; an empty body becomes an object.
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

    /// Returns the text of an error reply.
    pub(crate) fn error_text(&self) -> String {
        let value: Value = serde_json::from_slice(self.body.bytes()).unwrap_or_default();
        value.get("error_msg").and_then(Value::as_str).unwrap_or_default().to_owned()
    }

    /// Appends a header line.
    #[must_use]
    pub(crate) fn with(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.push((name, value));
        self
    }

    /// Converts the reply to an HTTP response; error pages contain the name of `brand`.
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
            // Each cookie has a line of its own (RFC 6265 §3).
            if name == SET_COOKIE {
                headers.append(name, value);
            } else {
                headers.insert(name, value);
            }
        }
        response
    }
}

impl From<StoreError> for Reply {
    fn from(error: StoreError) -> Self {
        Self::unavailable(error.to_string())
    }
}
