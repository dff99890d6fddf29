//! The headers of a call: the generator's own, and the case's metadata, filled in where it holds `{{…}}`.

use std::borrow::Cow;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use http::header::{CONTENT_TYPE, TE, USER_AGENT};
use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::Value as Json;

use super::data::FillError;
use super::message::{Fill, Templates};
use crate::case::{Case, GrpcCall};
use crate::error::BenchError;
use crate::protocol::request::USER_AGENT as GENERATOR;
use go_template::{Template, TemplateError};

/// Names that belong to the protocol.
const RESERVED: [&str; 4] = ["content-type", "te", "host", "connection"];

/// Why metadata cannot be sent as headers.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum MetadataError {
    /// It is no object, nor a list of them.
    #[error("takes an object of texts, or a list of them, not {0}")]
    Shape(Json),
    /// A value is a list or an object itself.
    #[error("`{key}` takes a text, not {json}")]
    Value {
        /// Under which name.
        key: String,
        /// What stands there.
        json: Json,
    },
    /// A value is no template.
    #[error("`{key}`: {error}")]
    Template {
        /// Under which name.
        key: String,
        /// What is wrong with it.
        error: TemplateError,
    },
    /// A name belongs to the protocol.
    #[error("`{0}` belongs to the protocol and cannot be metadata")]
    Reserved(String),
    /// A name is none of a header.
    #[error("`{0}` is not a header name")]
    Name(String),
    /// A value of bytes is no base64.
    #[error("the value of `{name}` is not base64: {error}")]
    NotBase64 {
        /// Under which name.
        name: HeaderName,
        /// What is wrong with it.
        error: base64::DecodeError,
    },
    /// A value holds what no header can.
    #[error(
        "the value of `{0}` holds what headers cannot; text beyond ASCII needs a name that ends in -bin"
    )]
    Unsendable(HeaderName),
}

/// The headers of calls, by turns.
pub(super) struct Metadata {
    /// One for each object of metadata; one when there is none.
    turns: Vec<Headers>,
}

struct Headers {
    ready: HeaderMap,
    filled: Vec<(HeaderName, Template)>,
}

impl Metadata {
    /// Prepares the headers of a case.
    ///
    /// # Errors
    /// The metadata is no object of texts, or cannot be sent as headers.
    pub(super) fn prepare(case: &Case, call: &GrpcCall) -> Result<Self, BenchError> {
        let base = own_headers(case.load.timeout, call);
        let templates = Templates::from_call(call);
        let objects: Vec<&Json> = match &call.metadata {
            None => Vec::new(),
            Some(Json::Array(objects)) => objects.iter().collect(),
            Some(object) => vec![object],
        };
        let turns = objects.iter().map(|object| headers(&base, object, templates));
        let mut turns: Vec<Headers> = turns.collect::<Result<_, MetadataError>>().map_err(wrong)?;
        if turns.is_empty() {
            turns.push(Headers { ready: base, filled: Vec::new() });
        }
        Ok(Self { turns })
    }

    /// Whose turn it is with a request.
    pub(super) fn turn_of(&self, request_number: u64) -> u64 {
        request_number % self.turns.len() as u64
    }

    /// The headers of a call.
    pub(super) fn headers(&self, fill: &mut Fill<'_, '_>) -> Result<Cow<'_, HeaderMap>, FillError> {
        let headers = &self.turns[self.turn_of(fill.variables.request_number) as usize];
        if headers.filled.is_empty() {
            return Ok(Cow::Borrowed(&headers.ready));
        }
        let mut all = headers.ready.clone();
        for (name, template) in &headers.filled {
            let text = fill.render(template)?;
            all.append(name, value(name, text)?);
        }
        Ok(Cow::Owned(all))
    }
}

/// The headers that reflection requests go with.
///
/// # Errors
/// They cannot be sent as headers.
pub(super) fn reflection_headers(case: &Case, call: &GrpcCall) -> Result<HeaderMap, BenchError> {
    let mut headers = own_headers(case.load.timeout, call);
    headers.remove("grpc-encoding");
    headers.remove("grpc-accept-encoding");
    for (key, text) in &call.reflect_metadata {
        let name = name(key).map_err(wrong)?;
        let value = value(&name, text).map_err(wrong)?;
        headers.append(name, value);
    }
    Ok(headers)
}

fn own_headers(timeout: Duration, call: &GrpcCall) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    headers.insert(TE, HeaderValue::from_static("trailers"));
    headers.insert(USER_AGENT, HeaderValue::from_static(GENERATOR));
    if call.compression {
        let gzip = HeaderValue::from_static("gzip");
        headers.insert(HeaderName::from_static("grpc-encoding"), gzip.clone());
        headers.insert(HeaderName::from_static("grpc-accept-encoding"), gzip);
    }
    if let Ok(timeout) = HeaderValue::from_str(&timeout_text(timeout)) {
        headers.insert(HeaderName::from_static("grpc-timeout"), timeout);
    }
    headers
}

/// At most eight digits and a unit.
fn timeout_text(timeout: Duration) -> String {
    const DIGITS_MAX: u128 = 99_999_999;
    let milliseconds = timeout.as_millis().max(1);
    if milliseconds <= DIGITS_MAX {
        return format!("{milliseconds}m");
    }
    format!("{}S", u128::from(timeout.as_secs()).min(DIGITS_MAX))
}

fn headers(
    base: &HeaderMap,
    object: &Json,
    templates: Templates,
) -> Result<Headers, MetadataError> {
    let Json::Object(pairs) = object else {
        return Err(MetadataError::Shape(object.clone()));
    };
    let mut all = Headers { ready: base.clone(), filled: Vec::new() };
    for (key, json) in pairs {
        let name = name(key)?;
        let text = match json {
            Json::String(text) => text.clone(),
            Json::Number(_) | Json::Bool(_) => json.to_string(),
            _ => return Err(MetadataError::Value { key: key.clone(), json: json.clone() }),
        };
        let template = match templates {
            Templates::Filled(functions) => Template::parse_with(&text, functions),
            Templates::AsWritten => Ok(Template::verbatim(&text)),
        };
        let template =
            template.map_err(|error| MetadataError::Template { key: key.clone(), error })?;
        // What no template fills is made once, here, and not at every call.
        if !template.is_static() {
            all.filled.push((name, template));
            continue;
        }
        let text = template.as_static().unwrap_or_default();
        all.ready.insert(name.clone(), value(&name, text)?);
    }
    Ok(all)
}

fn name(key: &str) -> Result<HeaderName, MetadataError> {
    let lower = key.to_ascii_lowercase();
    let is_reserved = RESERVED.contains(&lower.as_str()) || lower.starts_with("grpc-");
    if is_reserved {
        return Err(MetadataError::Reserved(key.to_owned()));
    }
    HeaderName::from_bytes(lower.as_bytes()).map_err(|_| MetadataError::Name(key.to_owned()))
}

/// Names that end in `-bin` hold bytes: base64 with or without padding, which travels without.
fn value(name: &HeaderName, text: &str) -> Result<HeaderValue, MetadataError> {
    if name.as_str().ends_with("-bin") {
        let unpadded = text.trim_end_matches('=');
        let bytes = STANDARD_NO_PAD.decode(unpadded);
        bytes.map_err(|error| MetadataError::NotBase64 { name: name.clone(), error })?;
        return HeaderValue::from_str(unpadded)
            .map_err(|_| MetadataError::Unsendable(name.clone()));
    }
    let is_sendable = text.bytes().all(|byte| (b' '..=b'~').contains(&byte));
    match HeaderValue::from_str(text) {
        Ok(value) if is_sendable => Ok(value),
        _ => Err(MetadataError::Unsendable(name.clone())),
    }
}

fn wrong(error: MetadataError) -> BenchError {
    BenchError::Case { key: "grpc.metadata".into(), why: error.to_string() }
}

#[cfg(test)]
mod tests;
