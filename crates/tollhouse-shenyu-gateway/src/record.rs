//! Records of exchanges for logging plugins. They are collected during the exchange and written at
//! its end, as a line of JSON with ShenYu's member names, to the gateway's own log or to a record
//! server.

use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Map, Value};
use tollhouse_plugin::response::{BodyFilter, Effect, ResponseContext};
use tollhouse_plugin::{LogContext, RequestContext};
use tollhouse_shenyu::logging::RecordRule;
use tollhouse_shenyu::matching::CivilTime;
use tollhouse_shenyu::record_store;

use crate::engines::RecordSink;
use crate::turn::Turn;
use crate::view::civil_time;

/// Access record of a request in progress.
#[derive(Debug)]
pub(crate) struct Record {
    rule: RecordRule,
    /// Destination; `None` for the gateway's own log.
    sink: Option<Arc<dyn RecordSink>>,
    members: Map<String, Value>,
    /// Copied part of the response body.
    answer: Arc<Mutex<Seen>>,
}

/// Start of a body, as far as the record includes it.
#[derive(Debug, Default)]
struct Seen {
    bytes: Vec<u8>,
    /// Whether the body exceeds the limit.
    is_cut: bool,
}

/// Compiled rule of a logging plugin.
#[derive(Debug)]
pub(crate) struct Recorder {
    pub(crate) rule: RecordRule,
    /// Destination of records; `None` for the gateway's own log.
    pub(crate) sink: Option<Arc<dyn RecordSink>>,
    pub(crate) selector: String,
    pub(crate) id: String,
    pub(crate) namespace: String,
}

impl Record {
    /// Starts a record, if the exchange is sampled. A request body is recorded only if its length
    /// is declared and within the limit; other bodies pass without buffering.
    pub(crate) async fn begin(recorder: &Recorder, cx: &mut RequestContext<'_>, turn: &mut Turn) {
        let rule = &recorder.rule;
        if !rule.takes(cx.random()) {
            return;
        }
        let mut lines = Vec::new();
        cx.exchange().each_client_header(&mut |name, value| lines.push((text(name), text(value))));
        let header = |name: &str| cx.header(name).map(|value| text(&value)).unwrap_or_default();
        let mut members = Map::new();
        let mut set = |name: &str, value: Value| drop(members.insert(name.to_owned(), value));
        set("clientIp", cx.remote_address().to_string().into());
        set("timeLocal", written(civil_time(cx.now().unix_ms)).into());
        set("method", turn.asked().into());
        set("requestMethod", text(cx.method()).into());
        set("requestUri", text(&cx.real_request_uri()).into());
        set("queryParams", turn.query.as_deref().map(text).unwrap_or_default().into());
        set("path", turn.asked().into());
        set("host", header("host").into());
        set("userAgent", header("user-agent").into());
        set("traceId", header("x-request-id").into());
        set("rpcType", turn.facts.rpc_type.name().into());
        set("module", turn.facts.module.as_str().into());
        set("selectorId", recorder.selector.as_str().into());
        set("ruleId", recorder.id.as_str().into());
        set("namespaceId", recorder.namespace.as_str().into());
        set("requestHeader", rule.headers(lines));
        // Only a short body is read, because reading delays the request and nothing else needs it.
        let length = header("content-length").trim().parse::<usize>().unwrap_or(0);
        if (1..=rule.request_bytes_max).contains(&length)
            && cx.read_body(length as u64).await.is_ok()
            && let Some(body) = rule.body(cx.body())
        {
            members.insert("requestBody".to_owned(), body.into());
        }
        let answer = Arc::default();
        let record = Self { rule: rule.clone(), sink: recorder.sink.clone(), members, answer };
        turn.aftermath.records.push(record);
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

/// Formats a time as ShenYu does.
fn written(time: CivilTime) -> String {
    let CivilTime { year, month, day, hour, minute, second } = time;
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Body filter that copies the start of a body.
struct Watch {
    seen: Arc<Mutex<Seen>>,
    bytes_max: usize,
}

impl BodyFilter for Watch {
    fn filter(&mut self, input: &[u8], _is_last: bool, _out: &mut Vec<u8>) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.bytes.len() + input.len() > self.bytes_max {
            // A truncated body is not valid JSON, and may end inside a character.
            *seen = Seen { bytes: Vec::new(), is_cut: true };
        } else if !seen.is_cut {
            seen.bytes.extend_from_slice(input);
        }
    }
}
