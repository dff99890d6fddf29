//! Rules of logging plugins: the destination of records, and the start of each record.

use std::sync::Arc;

use serde_json::{Map, Value};
use tollhouse_plugin::RequestContext;
use tollhouse_shenyu::matching::CivilTime;

use crate::engines::RecordSink;
use crate::error::BuildError;
use crate::place::Place;
use crate::plugin::{Run, Verdict};
use crate::resources::Resources;
use crate::shared::record::{Record, text};
use crate::shared::record_rule::RecordRule;
use crate::shared::record_store::{RecordPlace, RecordStore, StoreKind};
use crate::turn::Turn;
use crate::view::civil_time;

/// Compiled rule of a logging plugin.
#[derive(Debug)]
pub(crate) struct Recorder {
    rule: RecordRule,
    /// Destination of records; `None` for the gateway's own log.
    sink: Option<Arc<dyn RecordSink>>,
    selector: String,
    id: String,
    namespace: String,
}

impl Recorder {
    /// Compiles a rule that records in `sink` or in the gateway's own log.
    pub(crate) fn new(
        place: &Place<'_>,
        rule: RecordRule,
        sink: Option<Arc<dyn RecordSink>>,
    ) -> Self {
        let (selector, id) = (place.selector.id.clone(), place.id().to_owned());
        let namespace = place.plugin.namespace_id.clone().unwrap_or_default();
        Self { rule, sink, selector, id, namespace }
    }

    /// Compiles a rule that records on a server of this kind.
    ///
    /// # Errors
    ///
    /// If the handle or the configuration is invalid, or no connections are available.
    pub(crate) fn for_store(
        kind: StoreKind,
        place: &Place<'_>,
        resources: &Resources<'_>,
    ) -> Result<Self, BuildError> {
        let store = RecordStore::read(kind, place.config())?;
        let sink = resources.engines(SERVERS)?.records(&RecordPlace::Store(store));
        let rule = RecordRule::read(place.handle(), place.config())?;
        Ok(Self::new(place, rule, Some(sink)))
    }

    /// Starts the record of a request, which always passes.
    pub(crate) async fn act<'o>(&self, run: &mut Run<'_, '_>) -> Verdict<'o> {
        begin(self, run.cx, run.turn).await;
        Verdict::Next
    }
}

/// Servers that records need connections to.
pub(crate) const SERVERS: &str = "servers of records";

/// Starts a record, if the exchange is sampled. A request body is recorded only if its length
/// is declared and within the limit; other bodies pass without buffering.
async fn begin(recorder: &Recorder, cx: &mut RequestContext<'_>, turn: &mut Turn) {
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
    set("queryParams", turn.sent_query.as_deref().map(text).unwrap_or_default().into());
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
    let record = Record::new(rule.clone(), recorder.sink.clone(), members);
    turn.aftermath.records.push(record);
}

/// Formats a time as ShenYu does.
fn written(time: CivilTime) -> String {
    let CivilTime { year, month, day, hour, minute, second } = time;
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}")
}
