//! What loggers write of an exchange: gathered while it is under way, written once it is over, as one line of JSON
//! with ShenYu's names, to the gateway's own log or to a server that takes such records.

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

/// What is gathered.
#[derive(Debug)]
pub(crate) struct Record {
    rule: RecordRule,
    /// Where it goes; `None` for the gateway's own log.
    sink: Option<Arc<dyn RecordSink>>,
    members: Map<String, Value>,
    /// Of the answer's body, what has passed so far.
    answer: Arc<Mutex<Seen>>,
}

/// The beginning of a body.
#[derive(Debug, Default)]
struct Seen {
    bytes: Vec<u8>,
    /// Whether there was more than is kept.
    is_cut: bool,
}

/// What a rule takes down, and whose it is.
#[derive(Debug)]
pub(crate) struct Recorder {
    pub(crate) rule: RecordRule,
    /// Where records go; `None` for the gateway's own log.
    pub(crate) sink: Option<Arc<dyn RecordSink>>,
    pub(crate) selector: String,
    pub(crate) id: String,
    pub(crate) namespace: String,
}

impl Record {
    /// Begins to gather, where the exchange is among those that are written. A body is read of which the length
    /// is known and is small enough: others pass as they come, and are not written.
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
        // Nothing else of the request waits for its body, so that only what is short is read.
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

    /// Takes the answer's headers down, and watches its body.
    pub(crate) fn see_answer(&mut self, cx: &mut ResponseContext<'_>) {
        let mut lines = Vec::new();
        cx.each_header(&mut |name, value| lines.push((text(name), text(value))));
        self.members.insert("responseHeader".to_owned(), self.rule.headers(lines));
        if self.rule.answer_bytes_max > 0 && cx.header("content-encoding").is_none() {
            let (seen, bytes_max) = (Arc::clone(&self.answer), self.rule.answer_bytes_max);
            cx.filter_body(Effect::Observes, Box::new(Watch { seen, bytes_max }));
        }
    }

    /// Writes it.
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

    /// What is written.
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

/// As ShenYu writes times.
fn written(time: CivilTime) -> String {
    let CivilTime { year, month, day, hour, minute, second } = time;
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Copies the beginning of a body while it passes.
struct Watch {
    seen: Arc<Mutex<Seen>>,
    bytes_max: usize,
}

impl BodyFilter for Watch {
    fn filter(&mut self, input: &[u8], _is_last: bool, _out: &mut Vec<u8>) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.bytes.len() + input.len() > self.bytes_max {
            // Half of a body is neither JSON nor, perhaps, text.
            *seen = Seen { bytes: Vec::new(), is_cut: true };
        } else if !seen.is_cut {
            seen.bytes.extend_from_slice(input);
        }
    }
}
