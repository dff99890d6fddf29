//! Conversion of records to the messages of OTLP 1.x.

use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue, any_value};
use opentelemetry_proto::tonic::logs::v1::{LogRecord, ResourceLogs, ScopeLogs};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::{
    ResourceSpans, ScopeSpans, Span, Status, span, status,
};

pub use opentelemetry_proto::tonic as messages;

use crate::span::{Attribute, AttributeValue, SpanBlock, SpanKind, SpanStatus, SpanView};

/// Bit of a span's flags: the next one is meaningful (`SPAN_FLAGS_CONTEXT_HAS_IS_REMOTE_MASK`).
const HAS_IS_REMOTE: u32 = 0x100;
const IS_REMOTE: u32 = 0x200;
const SAMPLED: u32 = 1;

/// Resource that the spans belong to, and their instrumentation scope.
#[derive(Debug, Clone, Default)]
pub struct Origin {
    resource: Resource,
    scope: InstrumentationScope,
}

impl Origin {
    /// Returns the origin with these attributes of the resource; of equal names the first counts.
    pub fn new<'a>(attributes: impl IntoIterator<Item = Attribute<'a>>) -> Self {
        let mut listed: Vec<KeyValue> = Vec::new();
        for attribute in attributes {
            if listed.iter().all(|other| other.key != attribute.name) {
                listed.push(key_value(&attribute));
            }
        }
        let scope = InstrumentationScope {
            name: "tollhouse".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            ..InstrumentationScope::default()
        };
        Self { resource: Resource { attributes: listed, ..Resource::default() }, scope }
    }

    /// Returns the request that exports these blocks.
    pub fn request<'b>(
        &self,
        blocks: impl IntoIterator<Item = &'b SpanBlock>,
    ) -> ExportTraceServiceRequest {
        let mut spans = Vec::new();
        blocks.into_iter().for_each(|block| block.each(|span| spans.push(convert(span))));
        let scope_spans =
            ScopeSpans { scope: Some(self.scope.clone()), spans, schema_url: String::new() };
        ExportTraceServiceRequest {
            resource_spans: vec![ResourceSpans {
                resource: Some(self.resource.clone()),
                scope_spans: vec![scope_spans],
                schema_url: String::new(),
            }],
        }
    }
}

impl Origin {
    /// Returns the request that exports these log records.
    pub fn logs(&self, records: Vec<LogRecord>) -> ExportLogsServiceRequest {
        let scope_logs = ScopeLogs {
            scope: Some(self.scope.clone()),
            log_records: records,
            schema_url: String::new(),
        };
        ExportLogsServiceRequest {
            resource_logs: vec![ResourceLogs {
                resource: Some(self.resource.clone()),
                scope_logs: vec![scope_logs],
                schema_url: String::new(),
            }],
        }
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn convert(view: &SpanView<'_>) -> Span {
    let kind = match view.kind {
        SpanKind::Internal => span::SpanKind::Internal,
        SpanKind::Server => span::SpanKind::Server,
        SpanKind::Client => span::SpanKind::Client,
    };
    let status = match view.status {
        SpanStatus::Unset => None,
        SpanStatus::Error(message) => {
            Some(Status { message: message.to_owned(), code: status::StatusCode::Error.into() })
        }
    };
    let remote = if view.is_parent_remote { IS_REMOTE } else { 0 };
    let sampled = if view.context.is_sampled { SAMPLED } else { 0 };
    Span {
        trace_id: view.context.trace_id.bytes().to_vec(),
        span_id: view.context.span_id.bytes().to_vec(),
        trace_state: text(view.trace_state),
        parent_span_id: view.parent.map_or_else(Vec::new, |parent| parent.bytes().to_vec()),
        flags: HAS_IS_REMOTE | remote | sampled,
        name: text(view.name),
        kind: kind.into(),
        start_time_unix_nano: view.start_ns,
        end_time_unix_nano: view.end_ns,
        attributes: view.attributes.iter().map(key_value).collect(),
        status,
        ..Span::default()
    }
}

fn key_value(attribute: &Attribute<'_>) -> KeyValue {
    let value = match attribute.value {
        AttributeValue::Text(bytes) => any_value::Value::StringValue(text(bytes)),
        AttributeValue::Number(number) => any_value::Value::IntValue(number),
        AttributeValue::Flag(flag) => any_value::Value::BoolValue(flag),
        AttributeValue::Real(real) => any_value::Value::DoubleValue(real),
    };
    KeyValue {
        key: attribute.name.to_owned(),
        value: Some(AnyValue { value: Some(value) }),
        ..KeyValue::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::{SpanContext, SpanId};
    use crate::key::Key;
    use crate::span::SpanHead;

    #[test]
    fn a_block_becomes_spans_of_one_resource() {
        let mut next = 0;
        let mut random = || {
            next += 2;
            next
        };
        let context = SpanContext::random(&mut random, true);
        let mut block = SpanBlock::default();
        let head = SpanHead {
            context,
            parent: Some(SpanId::from_random(8)),
            is_parent_remote: true,
            kind: SpanKind::Client,
            name: b"GET",
            start_ns: 1,
            end_ns: 2,
            status: SpanStatus::Error("why"),
            trace_state: b"a=b",
        };
        block.add(&head).text(Key::UrlPath, b"/\xff").number(Key::ServerPort, 80);
        let name = |value| Attribute { name: "service.name", value: AttributeValue::Text(value) };
        let origin = Origin::new([name(b"first"), name(b"second")]);
        let request = origin.request([&block, &block]);
        let [of_resource] = &request.resource_spans[..] else { panic!("one resource") };
        let attributes = &of_resource.resource.as_ref().expect("there is one").attributes;
        assert_eq!((attributes.len(), attributes[0].key.as_str()), (1, "service.name"));
        let [of_scope] = &of_resource.scope_spans[..] else { panic!("one scope") };
        let [span, _] = &of_scope.spans[..] else { panic!("two spans") };
        assert_eq!(span.trace_id, context.trace_id.bytes());
        assert_eq!(span.kind(), span::SpanKind::Client);
        assert_eq!((span.flags, span.trace_state.as_str()), (0x301, "a=b"));
        assert_eq!(span.status.as_ref().map(|it| (it.code, it.message.as_str())), Some((2, "why")));
        let attribute = |index: usize| span.attributes[index].value.clone().and_then(|it| it.value);
        assert_eq!(attribute(0), Some(any_value::Value::StringValue("/\u{fffd}".into())));
        assert_eq!(attribute(1), Some(any_value::Value::IntValue(80)));
    }
}
