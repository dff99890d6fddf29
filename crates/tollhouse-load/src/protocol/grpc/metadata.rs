//! Headers of a call: the generator's own and the case's metadata, with `{{…}}` expanded.

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

/// Header names reserved by the protocol.
const RESERVED: [&str; 4] = ["content-type", "te", "host", "connection"];

/// Reason why metadata cannot be sent as headers.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum MetadataError {
    /// The metadata is neither an object nor a list of objects.
    #[error("takes an object of texts, or a list of them, not {0}")]
    Shape(Json),
    /// A value is a list or an object.
    #[error("`{key}` takes a text, not {json}")]
    Value { key: String, json: Json },
    /// A value is not a valid template.
    #[error("`{key}`: {error}")]
    Template { key: String, error: TemplateError },
    /// The name is reserved by the protocol.
    #[error("`{0}` belongs to the protocol and cannot be metadata")]
    Reserved(String),
    /// The name is not a valid header name.
    #[error("`{0}` is not a header name")]
    Name(String),
    /// The value of a binary header is not base64.
    #[error("the value of `{name}` is not base64: {error}")]
    NotBase64 { name: HeaderName, error: base64::DecodeError },
    /// A value contains characters that headers cannot carry.
    #[error(
        "the value of `{0}` holds what headers cannot; text beyond ASCII needs a name that ends in -bin"
    )]
    Unsendable(HeaderName),
}

/// Headers prepared for each metadata object; requests use them in turn.
pub(super) struct Metadata {
    /// Headers for each metadata object; a single entry without metadata.
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
    /// If the metadata is not an object of texts or a list of such objects, or cannot be sent as
    /// headers.
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

    /// Returns the index of the headers for a request.
    pub(super) fn turn_of(&self, request_number: u64) -> u64 {
        request_number % self.turns.len() as u64
    }

    /// Returns the expanded headers of a call.
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

/// Returns the headers of reflection requests.
///
/// # Errors
/// If the metadata cannot be sent as headers.
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

/// Formats a `grpc-timeout`: at most eight digits and a unit.
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
        // Constant values are built once here instead of at every call.
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

/// Converts a metadata value. Names that end in `-bin` carry base64, accepted with or without
/// padding and sent without.
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
