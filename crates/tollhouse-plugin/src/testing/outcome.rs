//! What came out of a plugin, as text that tests compare.

use std::fmt::Write;
use std::time::Duration;

use bytes::Bytes;

use super::fake::FakeHead;
use crate::answer::{Answer, AnswerBody};
use crate::edits::{HeaderEdits, RequestEdits};
use crate::response::{BodyFilter, Effect, FilterFailure};

/// What the request phases came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// The plugin's answer; `None` when the request goes on.
    pub answer: Option<Reply>,
    /// Who asks, if the plugin found out.
    pub consumer: Option<String>,
    /// What changed about the request, a line each: `+Name: value`, `-Name`, `uri /x`, `host x`,
    /// `method X`, `remote 1.2.3.4`, `body …`, `time_max 1s`, `upstream 0`.
    pub edits: String,
    /// How long the plugin waited.
    pub slept: Duration,
}

impl Outcome {
    /// Whether the request goes on.
    pub fn passes(&self) -> bool {
        self.answer.is_none()
    }

    /// The answer's status; 0 when the request goes on.
    pub fn status(&self) -> u16 {
        self.answer.as_ref().map_or(0, |reply| reply.status)
    }

    /// The answer's body; empty when the request goes on.
    pub fn body(&self) -> &str {
        self.answer.as_ref().map_or("", |reply| &reply.body)
    }

    /// A header of the answer.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.answer.as_ref()?.header(name)
    }
}

/// An answer, a plugin's or one that went through its response phase.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// The status.
    pub status: u16,
    /// Header lines.
    pub headers: Vec<(String, String)>,
    /// The body; bytes that are no UTF-8 are replaced.
    pub body: String,
    /// The body as it is.
    pub bytes: Vec<u8>,
    /// The body where its owner lends it: what a client is sent lies in the owner's memory.
    pub shared: Option<Bytes>,
}

impl Reply {
    /// A header.
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
            AnswerBody::None | AnswerBody::LeftOut(_) => Vec::new(),
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

    /// Answer to the client in the place of a body that a filter refuses.
    pub(super) fn refused(failure: FilterFailure) -> Self {
        let (status, code) = match failure {
            FilterFailure::NoMemory => (503, "memory_limit"),
            FilterFailure::Unreadable => (502, "answer_unreadable"),
        };
        Self { status, headers: Vec::new(), body: code.into(), bytes: code.into(), shared: None }
    }
}

/// What changed about a request, a line each.
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

/// Sends the pieces of a body through filters, and the lines behind it.
pub(super) fn filtered(
    filters: &mut [(Effect, Box<dyn BodyFilter>)],
    pieces: &[&str],
    trailers: &str,
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
            filter.filter(&piece, index >= last, &mut out);
            if let Some(failure) = filter.failure() {
                return Err(failure);
            }
            if *effect == Effect::Rewrites {
                piece = out;
            }
        }
        body.extend_from_slice(&piece);
    }
    Ok(body)
}
