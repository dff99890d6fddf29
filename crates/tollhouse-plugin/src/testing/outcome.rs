//! Results of a plugin run, as text that tests compare.

use std::fmt::Write;
use std::time::Duration;

use bytes::Bytes;

use super::fake::FakeHead;
use crate::answer::{Answer, AnswerBody};
use crate::edits::{HeaderEdits, RequestEdits};
use crate::response::{BodyFilter, Effect, FilterFailure, Piece};

/// Outcome of all request phases, with the edits of plugins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// Answer of the plugin; `None` if the request goes on.
    pub answer: Option<Reply>,
    /// Name of the consumer, if the plugin identified one.
    pub consumer: Option<String>,
    /// Changes to the request, one per line: `+Name: value`, `-Name`, `uri /x`, `host x`, `method
    /// X`, `remote 1.2.3.4`, `body …`, `time_max 1s`, `upstream 0`.
    pub edits: String,
    /// Total time that the plugin waited.
    pub slept: Duration,
}

impl Outcome {
    /// Whether no plugin answered the request.
    pub fn passes(&self) -> bool {
        self.answer.is_none()
    }

    /// Returns the answer's status; 0 if the request goes on.
    pub fn status(&self) -> u16 {
        self.answer.as_ref().map_or(0, |reply| reply.status)
    }

    /// Returns the answer's body; empty if the request goes on.
    pub fn body(&self) -> &str {
        self.answer.as_ref().map_or("", |reply| &reply.body)
    }

    /// Returns a header of the answer.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.answer.as_ref()?.header(name)
    }
}

/// Answer of a plugin, or of a node after the response phase.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// HTTP status of the reply.
    pub status: u16,
    /// Header lines of the reply in order.
    pub headers: Vec<(String, String)>,
    /// Body as text; invalid UTF-8 is replaced.
    pub body: String,
    /// Body of the reply as bytes.
    pub bytes: Vec<u8>,
    /// Body as shared bytes, if the plugin sends it without a copy.
    pub shared: Option<Bytes>,
}

impl Reply {
    /// Returns the value of the first line of a header; the name's case is ignored.
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(other, _)| other.eq_ignore_ascii_case(name))?;
        Some(&found.1)
    }

    pub(super) fn from_answer(answer: &Answer<'_>) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let shared = answer.shared_headers.iter().flat_map(|lines| lines.iter());
        let shared = shared.map(|(name, value)| (name.to_string(), text(value)));
        let headers = answer.headers.iter().map(|(name, value)| (name.to_string(), text(value)));
        let headers = shared.chain(headers);
        let left_out = match &answer.body {
            AnswerBody::LeftOut(length) => *length,
            _ => None,
        };
        let length = left_out.map(|length| ("Content-Length".to_owned(), length.to_string()));
        let headers = headers.chain(length);
        let bytes = match &answer.body {
            AnswerBody::None | AnswerBody::Empty | AnswerBody::LeftOut(_) => Vec::new(),
            AnswerBody::Text(bytes) => bytes.to_vec(),
            AnswerBody::Json(value) => format!("{value}\n").into_bytes(),
            AnswerBody::Shared(bytes) => bytes.to_vec(),
        };
        let shared = match &answer.body {
            AnswerBody::Shared(bytes) => Some(bytes.clone()),
            _ => None,
        };
        let headers = headers.collect();
        Self { status: answer.status, headers, body: text(&bytes), bytes, shared }
    }

    pub(super) fn from_head(
        status: u16,
        head: &FakeHead,
        edits: &HeaderEdits,
        bytes: Vec<u8>,
    ) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let kept = head.headers.iter().filter(|(name, _)| !edits.hides(name.as_bytes())).cloned();
        let added = edits.lines().map(|(name, value)| (text(name), text(value)));
        let headers = kept.chain(added).collect();
        Self { status, headers, body: text(&bytes), bytes, shared: None }
    }

    /// Returns the answer that the client gets if a filter cannot pass the body on.
    pub(super) fn refused(failure: FilterFailure) -> Self {
        let (status, code) = match failure {
            FilterFailure::NoMemory => (503, "memory_limit"),
            FilterFailure::Unreadable => (502, "answer_unreadable"),
        };
        Self { status, headers: Vec::new(), body: code.into(), bytes: code.into(), shared: None }
    }
}

/// Describes the changes to a request, one per line.
pub(super) fn describe_edits(edits: &RequestEdits) -> String {
    let mut out = String::new();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    for (name, value) in edits.headers.lines() {
        let _ = writeln!(out, "+{}: {}", text(name), text(value));
    }
    for name in edits.headers.hidden_names() {
        if edits.headers.find(name).is_none() {
            let _ = writeln!(out, "-{}", text(name));
        }
    }
    if let Some(uri) = edits.upstream_uri() {
        let _ = writeln!(out, "uri {}", text(uri));
    }
    if let Some(host) = &edits.host {
        let _ = writeln!(out, "host {}", text(host));
    }
    if let Some(method) = edits.method {
        let _ = writeln!(out, "method {method}");
    }
    if let Some((address, _)) = edits.remote {
        let _ = writeln!(out, "remote {address}");
    }
    if let Some(body) = &edits.body {
        let _ = writeln!(out, "body {}", text(body));
    }
    if let Some(bytes) = edits.body_bytes_max {
        let _ = writeln!(out, "body_bytes_max {bytes}");
    }
    if let Some(time) = edits.time_max {
        let _ = writeln!(out, "time_max {time:?}");
    }
    if let Some(index) = edits.upstream {
        let _ = writeln!(out, "upstream {index}");
    }
    out
}

/// Sends the pieces of a body, and its trailers, through filters, which may add to `edits`.
pub(super) fn filtered(
    filters: &mut [(Effect, Box<dyn BodyFilter>)],
    pieces: &[&str],
    trailers: &str,
    edits: &mut HeaderEdits,
) -> Result<Vec<u8>, FilterFailure> {
    let mut body = Vec::new();
    let lines = trailers.lines().map(|line| format!("{line}\r\n"));
    let mut section: Vec<u8> = lines.collect::<String>().into_bytes();
    if !section.is_empty() {
        section.extend_from_slice(b"\r\n");
    }
    let last = pieces.len().saturating_sub(1);
    for index in 0..pieces.len().max(1) {
        let piece = pieces.get(index).map_or(&b""[..], |piece| piece.as_bytes());
        let mut piece = piece.to_vec();
        for (effect, filter) in filters.iter_mut() {
            let mut out = Vec::new();
            if index >= last {
                filter.trailers(&mut section);
            }
            let place = if index >= last { Piece::Last } else { Piece::Middle };
            filter.filter(&piece, place, &mut out);
            if let Some(failure) = filter.failure() {
                return Err(failure);
            }
            if *effect == Effect::Rewrites {
                piece = out;
            }
        }
        body.extend_from_slice(&piece);
    }
    for late in filters.iter().filter_map(|(_, filter)| filter.late_head_edits()) {
        late.hidden_names().for_each(|name| edits.remove(&String::from_utf8_lossy(name)));
        late.lines().for_each(|(name, value)| edits.add(&String::from_utf8_lossy(name), value));
    }
    Ok(body)
}
