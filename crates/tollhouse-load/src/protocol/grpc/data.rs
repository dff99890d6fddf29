//! Messages of a case, from JSON, a JSON file or a file of encoded messages, and their selection
//! for a call. Constant messages are encoded and framed once.

use std::path::Path;

use bytes::Bytes;
use prost_reflect::{DynamicMessage, MessageDescriptor, MethodDescriptor};
use serde_json::Value as Json;
use tollhouse_stdx::Random;

use super::frame::{Encoding, frame};
use super::message::{Fill, Message, MessageError, Templates, compile};
use super::metadata::MetadataError;
use crate::case::{GrpcCall, GrpcData};
use crate::error::BenchError;
use go_template::{Template, TemplateError, Variables};

/// Messages of a case, used in turn.
pub(super) struct Data {
    source: Source,
    encoding: Encoding,
}

enum Source {
    /// Messages without templates, framed once in advance.
    Ready(Vec<Bytes>),
    /// Messages with some values expanded per request.
    Compiled(Vec<Message>),
    /// Text that is valid JSON only after template expansion.
    Text(Box<TextSource>),
}

struct TextSource {
    template: Template,
    descriptor: MessageDescriptor,
}

/// Error while building a call's message or headers.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum FillError {
    #[error(transparent)]
    Template(#[from] TemplateError),
    /// The expanded text is not a valid message.
    #[error(transparent)]
    Message(#[from] MessageError),
    /// A message in a list is invalid.
    #[error("message {place}: {error}")]
    Listed {
        /// Number of the message, from 1.
        place: usize,
        error: MessageError,
    },
    /// The text is not JSON, and is not expanded.
    #[error("is not JSON: {0}")]
    NotJson(String),
    /// The expanded text is not JSON.
    #[error("the filled-in text is not JSON: {0}")]
    NotJsonFilledIn(String),
    /// The list of messages is empty, but the call needs one.
    #[error("the list of messages is empty")]
    None,
    #[error(transparent)]
    Header(#[from] MetadataError),
}

impl Data {
    /// Reads and compiles the messages of a case.
    ///
    /// # Errors
    /// If a file cannot be read, or a text is not a message of the method; the message names the
    /// place.
    pub(super) fn prepare(call: &GrpcCall, method: &MethodDescriptor) -> Result<Self, BenchError> {
        let encoding = if call.compression { Encoding::Gzip } else { Encoding::Identity };
        let source = match &call.data {
            None => Source::Ready(vec![ready(encoding, &[])]),
            Some(GrpcData::Json(text)) => {
                let error = |error: FillError| BenchError::Case {
                    key: "grpc.data".into(),
                    why: error.to_string(),
                };
                json_source(text, call, method, encoding).map_err(error)?
            }
            Some(GrpcData::JsonFile(path)) => {
                let error = |why: String| BenchError::File { path: path.clone(), why };
                let text = std::fs::read_to_string(path).map_err(|io| error(io.to_string()))?;
                json_source(&text, call, method, encoding)
                    .map_err(|failed| error(failed.to_string()))?
            }
            Some(GrpcData::BinaryFile(path)) => binary_source(path, method, encoding)?,
        };
        Ok(Self { source, encoding })
    }

    /// Returns the number of compiled messages; 0 for a text source.
    fn len(&self) -> u64 {
        match &self.source {
            Source::Ready(messages) => messages.len() as u64,
            Source::Compiled(messages) => messages.len() as u64,
            Source::Text(_) => 0,
        }
    }

    /// Returns the framed message for `turn`; the messages are used in turn.
    pub(super) fn message(&self, turn: u64, fill: &mut Fill<'_, '_>) -> Result<Bytes, FillError> {
        let at = |count: usize| (turn % count as u64) as usize;
        match &self.source {
            Source::Ready(messages) if messages.is_empty() => Err(FillError::None),
            Source::Ready(messages) => Ok(messages[at(messages.len())].clone()),
            Source::Compiled(messages) => {
                let message = &messages[at(messages.len())];
                Ok(frame(self.encoding, |out| message.write(fill, out))?)
            }
            Source::Text(source) => {
                let messages = source.fill(fill)?;
                let message = messages.get(at(messages.len().max(1)));
                let message = message.ok_or(FillError::None)?;
                Ok(ready(self.encoding, message))
            }
        }
    }

    /// Returns all messages once each, for a stream.
    pub(super) fn all(&self, fill: &mut Fill<'_, '_>) -> Result<Vec<Bytes>, FillError> {
        if let Source::Text(source) = &self.source {
            let messages = source.fill(fill)?;
            return Ok(messages.iter().map(|message| ready(self.encoding, message)).collect());
        }
        (0..self.len()).map(|turn| self.message(turn, fill)).collect()
    }
}

impl TextSource {
    /// Expands the text and encodes its messages.
    fn fill(&self, fill: &mut Fill<'_, '_>) -> Result<Vec<Vec<u8>>, FillError> {
        let text = fill.render(&self.template)?;
        let json: Json = serde_json::from_str(text)
            .map_err(|error| FillError::NotJsonFilledIn(error.to_string()))?;
        let compiled = compile_all(&json, &self.descriptor, Templates::AsWritten)?;
        let bytes = |message: &Message| message.as_static().unwrap_or_default().to_vec();
        Ok(compiled.iter().map(bytes).collect())
    }
}

fn ready(encoding: Encoding, message: &[u8]) -> Bytes {
    let write = |out: &mut Vec<u8>| {
        out.extend_from_slice(message);
        Ok::<(), std::convert::Infallible>(())
    };
    match frame(encoding, write) {
        Ok(framed) => framed,
        Err(never) => match never {},
    }
}

/// Compiles a text. Valid JSON is compiled once. A text that needs expansion first (`{"n": {{…}}}`,
/// `{{if …}}` around fields) is expanded and parsed anew for every request.
fn json_source(
    text: &str,
    call: &GrpcCall,
    method: &MethodDescriptor,
    encoding: Encoding,
) -> Result<Source, FillError> {
    let templates = Templates::from_call(call);
    let descriptor = method.input();
    let json =
        serde_json::from_str::<Json>(text).map_err(|error| FillError::NotJson(error.to_string()));
    let is_json = json.is_ok();
    let first = match json.and_then(|json| compile_all(&json, &descriptor, templates)) {
        Ok(messages) => return Ok(source_of(messages, encoding)),
        Err(first) => first,
    };
    let Templates::Filled(functions) = templates else { return Err(first) };
    if !text.contains("{{") {
        return Err(first);
    }
    // A sample expansion distinguishes a template from invalid JSON.
    let template = Template::parse_with(text, functions).map_err(FillError::from);
    let source = template.map(|template| TextSource { template, descriptor });
    match source.and_then(|source| source.sample().map(|()| source)) {
        Ok(source) => Ok(Source::Text(Box::new(source))),
        Err(_) if is_json => Err(first),
        Err(second) => Err(second),
    }
}

impl TextSource {
    /// Checks that the expanded text is valid, with sample values.
    fn sample(&self) -> Result<(), FillError> {
        let method = go_template::Method::default();
        let mut random = Random::seeded(0);
        let variables = Variables::now("sample", 0, &method, &mut random);
        let text = &mut String::new();
        self.fill(&mut Fill { variables: &variables, random: &mut random, text }).map(drop)
    }
}

/// Compiles an object as one message, a list as one message per item.
fn compile_all(
    json: &Json,
    descriptor: &MessageDescriptor,
    templates: Templates,
) -> Result<Vec<Message>, FillError> {
    let one = |json: &Json| compile(json, descriptor, templates);
    match json {
        Json::Array(values) => {
            let numbered = values.iter().enumerate();
            let compiled = numbered.map(|(index, json)| {
                one(json).map_err(|error| FillError::Listed { place: index + 1, error })
            });
            compiled.collect()
        }
        json => Ok(vec![one(json)?]),
    }
}

fn source_of(messages: Vec<Message>, encoding: Encoding) -> Source {
    let all_ready: Option<Vec<Bytes>> = messages
        .iter()
        .map(|message| message.as_static().map(|bytes| ready(encoding, bytes)))
        .collect();
    all_ready.map_or(Source::Compiled(messages), Source::Ready)
}

/// Reads a file of length-prefixed messages, or of a single message without prefix.
fn binary_source(
    path: &Path,
    method: &MethodDescriptor,
    encoding: Encoding,
) -> Result<Source, BenchError> {
    let error = |why: String| BenchError::File { path: path.to_owned(), why };
    let bytes = std::fs::read(path).map_err(|io| error(io.to_string()))?;
    let is_message =
        |part: &[u8]| DynamicMessage::decode(method.input(), part).map_err(|e| e.to_string());
    let parts = match delimited(&bytes).filter(|parts| parts.iter().all(|p| is_message(p).is_ok()))
    {
        Some(parts) => parts,
        None => {
            let wrong = |why| error(format!("is not a {}: {why}", method.input().full_name()));
            is_message(&bytes).map_err(wrong)?;
            vec![bytes.as_slice()]
        }
    };
    Ok(Source::Ready(parts.into_iter().map(|part| ready(encoding, part)).collect()))
}

/// Splits messages with varint length prefixes; `None` if the lengths do not match the data.
fn delimited(bytes: &[u8]) -> Option<Vec<&[u8]>> {
    let mut parts = Vec::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        let length = prost::encoding::decode_varint(&mut rest).ok()?;
        let (part, after) = rest.split_at_checked(usize::try_from(length).ok()?)?;
        parts.push(part);
        rest = after;
    }
    (!parts.is_empty()).then_some(parts)
}

#[cfg(test)]
mod tests;
