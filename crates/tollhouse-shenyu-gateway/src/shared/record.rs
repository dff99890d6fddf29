//! Records of exchanges for logging plugins. They are collected during the exchange and written at
//! its end, as a line of JSON with ShenYu's member names, to the gateway's own log or to a record
//! server.

use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Map, Value};
use tollhouse_plugin::response::{BodyFilter, Effect, ResponseContext};
use tollhouse_plugin::{LogContext, Piece};

use crate::engines::RecordSink;
use crate::shared::record_rule::RecordRule;
use crate::shared::record_store;

/// Access record of a request in progress.
#[derive(Debug)]
pub(crate) struct Record {
    rule: RecordRule,
    /// Destination; `None` for the gateway's own log.
    sink: Option<Arc<dyn RecordSink>>,
    members: Map<String, Value>,
    /// Copied part of the response body.
    answer: Arc<Mutex<BodyStart>>,
}

/// Start of a body, as far as the record includes it.
#[derive(Debug, Default)]
struct BodyStart {
    bytes: Vec<u8>,
    /// Whether the body exceeds the limit.
    is_cut: bool,
}

impl Record {
    pub(crate) fn new(
        rule: RecordRule,
        sink: Option<Arc<dyn RecordSink>>,
        members: Map<String, Value>,
    ) -> Self {
        Self { rule, sink, members, answer: Arc::default() }
    }

    /// Records the response headers and starts copying the body.
    pub(crate) fn see_answer(&mut self, cx: &mut ResponseContext<'_>) {
        let mut lines = Vec::new();
        cx.each_header(&mut |name, value| lines.push((text(name), text(value))));
        self.members.insert("responseHeader".to_owned(), self.rule.headers(lines));
        if self.rule.answer_bytes_max > 0 && cx.header("content-encoding").is_none() {
            let (seen, bytes_max) = (Arc::clone(&self.answer), self.rule.answer_bytes_max);
            cx.filter_body(Effect::Observes, Box::new(Watch { seen, bytes_max }));
        }
    }

    /// Writes the record to its destination.
    pub(crate) fn write(self, cx: &LogContext<'_>) {
        let sink = self.sink.clone();
        let members = self.members(cx);
        match sink {
            Some(sink) => sink.push(record_store::to_row(members)),
            None => {
                let record = Value::Object(members).to_string();
                tracing::info!(target: "shenyu::console", record, "an exchange that loggingConsole takes down");
            }
        }
    }

    /// Returns the members of the finished record.
    pub(crate) fn members(mut self, cx: &LogContext<'_>) -> Map<String, Value> {
        let transfer = cx.transfer();
        let mut set = |name: &str, value: Value| drop(self.members.insert(name.to_owned(), value));
        set("status", transfer.status.into());
        set("upstreamIp", transfer.upstream.rsplit_once(':').map_or("", |(ip, _)| ip).into());
        set("upstreamResponseTime", transfer.upstream_ms.into());
        set("responseContentLength", transfer.body_bytes_sent.into());
        let seen = std::mem::take(&mut *self.answer.lock().unwrap_or_else(PoisonError::into_inner));
        if !seen.bytes.is_empty()
            && !seen.is_cut
            && let Some(body) = self.rule.body(&seen.bytes)
        {
            self.members.insert("responseBody".to_owned(), body.into());
        }
        self.members
    }
}

/// Converts bytes to text; invalid UTF-8 is replaced.
pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Body filter that copies the start of a body.
struct Watch {
    seen: Arc<Mutex<BodyStart>>,
    bytes_max: usize,
}

impl BodyFilter for Watch {
    fn filter(&mut self, input: &[u8], _piece: Piece, _out: &mut Vec<u8>) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.bytes.len() + input.len() > self.bytes_max {
            // A truncated body is not valid JSON, and may end inside a character.
            *seen = BodyStart { bytes: Vec::new(), is_cut: true };
        } else if !seen.is_cut {
            seen.bytes.extend_from_slice(input);
        }
    }
}
