//! Blocks of finished spans, written by the threads that made them and read by exporters: single
//! spans, which this file writes, and the requests of `request_spans.rs`.
//!
//! A span costs a copy of its texts and no allocation. The format is private to this crate and
//! never leaves the process.

use crate::context::{SpanContext, SpanId, TraceId};
use crate::key::Key;
use crate::request::RequestTrace;
use crate::request_spans::{AddedAttributes, AttemptOutcome, RequestEntries, RequestFacts};

/// Longest text of an attribute in bytes; the rest is cut off. Paths and user agents rarely exceed
/// it, and it bounds what a client can make a span hold.
pub const TEXT_BYTES_MAX: usize = 1024;

/// Largest number of attributes of a span, the default limit of OpenTelemetry's SDKs.
pub const ATTRIBUTES_MAX: u16 = 128;

/// Role of a span in its trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum SpanKind {
    Internal = 1,
    Server = 2,
    Client = 3,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpanStatus<'a> {
    Unset,
    /// Failure with its description, which may be empty.
    Error(&'a str),
}

/// Fixed part of a span.
#[derive(Debug, Clone, Copy)]
pub struct SpanHead<'a> {
    pub context: SpanContext,
    pub parent: Option<SpanId>,
    /// Whether the parent is a span of another process.
    pub is_parent_remote: bool,
    pub kind: SpanKind,
    pub name: &'a [u8],
    /// Nanoseconds since 1970.
    pub start_ns: u64,
    pub end_ns: u64,
    pub status: SpanStatus<'a>,
    /// Value of `tracestate` that the request carried; empty without one.
    pub trace_state: &'a [u8],
}

/// Finished spans.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct SpanBlock {
    /// Single spans, in the order written.
    bytes: Vec<u8>,
    requests: RequestEntries,
    /// Number of single spans and of those of requests.
    spans: usize,
}

/// Destination of finished spans.
pub trait SpanSink: Send + Sync + std::fmt::Debug {
    /// Takes a block without blocking; drops and counts it if too much is waiting.
    fn take(&self, block: SpanBlock);
}

const IS_PARENT_REMOTE: u8 = 1;
const IS_SAMPLED: u8 = 2;
const HAS_FAILED: u8 = 4;

const TEXT: u8 = 1;
const NUMBER: u8 = 2;
const FLAG: u8 = 3;
const REAL: u8 = 4;

impl SpanBlock {
    /// Returns a block with room for this number of requests of usual size.
    pub fn for_requests(requests: usize) -> Self {
        Self { requests: RequestEntries::with_capacity(requests), ..Self::default() }
    }

    /// Number of spans.
    #[inline]
    pub fn spans(&self) -> usize {
        self.spans
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.spans == 0
    }

    /// Size in bytes.
    #[inline]
    pub fn bytes(&self) -> usize {
        self.bytes.len() + self.requests.bytes()
    }

    /// Adds a span; its attributes are added to the returned writer.
    pub fn add(&mut self, head: &SpanHead<'_>) -> SpanWriter<'_> {
        let out = &mut self.bytes;
        let (has_failed, message) = match head.status {
            SpanStatus::Unset => (0, ""),
            SpanStatus::Error(message) => (HAS_FAILED, message),
        };
        let mut flags = has_failed;
        if head.is_parent_remote {
            flags |= IS_PARENT_REMOTE;
        }
        if head.context.is_sampled {
            flags |= IS_SAMPLED;
        }
        let mut fixed = [0; 50];
        fixed[0] = head.kind as u8;
        fixed[1] = flags;
        fixed[2..18].copy_from_slice(&head.context.trace_id.bytes());
        fixed[18..26].copy_from_slice(&head.context.span_id.bytes());
        fixed[26..34].copy_from_slice(&head.parent.map_or([0; 8], SpanId::bytes));
        fixed[34..42].copy_from_slice(&head.start_ns.to_le_bytes());
        fixed[42..50].copy_from_slice(&head.end_ns.max(head.start_ns).to_le_bytes());
        out.extend_from_slice(&fixed);
        write_text(out, head.name);
        write_text(out, message.as_bytes());
        write_text(out, head.trace_state);
        let count_at = out.len();
        out.extend_from_slice(&[0; 2]);
        self.spans += 1;
        SpanWriter { out, count_at: Some(count_at), count: 0 }
    }

    /// Adds the spans of a request that is recorded. `outcome` returns the outcome of an attempt.
    #[inline]
    pub fn add_request(
        &mut self,
        trace: &RequestTrace,
        facts: &RequestFacts<'_>,
        outcome: impl Fn(usize) -> AttemptOutcome,
    ) {
        self.spans += self.requests.add(trace, facts, outcome);
    }

    /// Calls `visit` with every span: single ones first, then those of each request, its own first.
    pub fn each(&self, mut visit: impl FnMut(&SpanView<'_>)) {
        let mut rest = Reader(&self.bytes);
        while let Some(span) = rest.span() {
            visit(&span);
        }
        self.requests.each(&mut visit);
    }
}

#[inline]
fn write_text(out: &mut Vec<u8>, text: &[u8]) {
    let text = &text[..text.len().min(TEXT_BYTES_MAX)];
    out.extend_from_slice(&(text.len() as u16).to_le_bytes());
    out.extend_from_slice(text);
}

/// Writer of a span's attributes.
#[derive(Debug)]
pub struct SpanWriter<'b> {
    out: &'b mut Vec<u8>,
    /// Position of the number of attributes; `None` for attributes that are kept apart.
    count_at: Option<usize>,
    count: u16,
}

impl<'b> SpanWriter<'b> {
    /// Writes attributes that are added to a span later.
    pub(crate) fn apart(attributes: &'b mut Attributes) -> SpanWriter<'b> {
        let Attributes { bytes, count } = attributes;
        let count = *count;
        SpanWriter { out: bytes, count_at: None, count }
    }

    #[inline]
    pub fn text(&mut self, key: Key, value: &[u8]) -> &mut Self {
        let value = &value[..value.len().min(TEXT_BYTES_MAX)];
        if self.count_one() {
            let [low, high] = (value.len() as u16).to_le_bytes();
            self.out.extend_from_slice(&[key.code(), TEXT, low, high]);
            self.out.extend_from_slice(value);
        }
        self
    }

    /// Adds a text, unless it is empty.
    #[inline]
    pub fn text_if_any(&mut self, key: Key, value: &[u8]) -> &mut Self {
        if value.is_empty() { self } else { self.text(key, value) }
    }

    #[inline]
    pub fn number(&mut self, key: Key, value: u64) -> &mut Self {
        if self.count_one() {
            let mut bytes = [0; 10];
            bytes[0] = key.code();
            bytes[1] = NUMBER;
            bytes[2..].copy_from_slice(&value.to_le_bytes());
            self.out.extend_from_slice(&bytes);
        }
        self
    }

    /// Adds an attribute with a name that is not a [`Key`].
    pub fn named(&mut self, name: &str, value: AttributeValue<'_>) -> &mut Self {
        if self.count >= ATTRIBUTES_MAX {
            return self;
        }
        self.count += 1;
        self.out.push(0);
        write_text(self.out, name.as_bytes());
        match value {
            AttributeValue::Text(text) => {
                self.out.push(TEXT);
                write_text(self.out, text);
            }
            AttributeValue::Number(number) => {
                self.out.push(NUMBER);
                self.out.extend_from_slice(&number.to_le_bytes());
            }
            AttributeValue::Flag(flag) => self.out.extend_from_slice(&[FLAG, u8::from(flag)]),
            AttributeValue::Real(real) => {
                self.out.push(REAL);
                self.out.extend_from_slice(&real.to_le_bytes());
            }
        }
        self
    }

    #[inline]
    fn count_one(&mut self) -> bool {
        let has_room = self.count < ATTRIBUTES_MAX;
        self.count += u16::from(has_room);
        has_room
    }

    pub(crate) fn count(&self) -> u16 {
        self.count
    }
}

impl Drop for SpanWriter<'_> {
    #[inline]
    fn drop(&mut self) {
        if let Some(at) = self.count_at {
            self.out[at..at + 2].copy_from_slice(&self.count.to_le_bytes());
        }
    }
}

/// Attributes without a span.
#[derive(Debug, Default, Clone)]
pub(crate) struct Attributes {
    bytes: Vec<u8>,
    count: u16,
}

impl Attributes {
    /// Adds attributes.
    pub(crate) fn write(&mut self, write: impl FnOnce(&mut SpanWriter<'_>)) {
        let mut writer = SpanWriter::apart(self);
        write(&mut writer);
        let count = writer.count();
        drop(writer);
        self.count = count;
    }

    /// Copies the attributes to `out`.
    #[inline]
    pub(crate) fn copy(&self, out: &mut Vec<u8>) -> AddedAttributes {
        if self.count > 0 {
            out.extend_from_slice(&self.bytes);
        }
        AddedAttributes { bytes: self.bytes.len() as u32, count: self.count }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Attribute<'_>> {
        attributes_in(&self.bytes, self.count)
    }

    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.count = 0;
    }
}

/// Reads attributes that [`Attributes::copy`] wrote.
pub(crate) fn attributes_in(bytes: &[u8], count: u16) -> impl Iterator<Item = Attribute<'_>> {
    let mut rest = Reader(bytes);
    (0..count).map_while(move |_| rest.attribute())
}

/// Span as an exporter reads it.
#[derive(Debug, Clone)]
pub struct SpanView<'b> {
    pub context: SpanContext,
    pub parent: Option<SpanId>,
    pub is_parent_remote: bool,
    pub kind: SpanKind,
    pub name: &'b [u8],
    pub start_ns: u64,
    pub end_ns: u64,
    pub status: SpanStatus<'b>,
    pub trace_state: &'b [u8],
    pub attributes: Vec<Attribute<'b>>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Attribute<'b> {
    pub name: &'b str,
    pub value: AttributeValue<'b>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum AttributeValue<'b> {
    Text(&'b [u8]),
    Number(i64),
    Flag(bool),
    Real(f64),
}

/// Rest of a block. Every method returns `None` at its end.
struct Reader<'b>(&'b [u8]);

impl<'b> Reader<'b> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*head)
    }

    fn text(&mut self) -> Option<&'b [u8]> {
        let bytes = u16::from_le_bytes(self.take()?);
        let (text, rest) = self.0.split_at_checked(bytes.into())?;
        self.0 = rest;
        Some(text)
    }

    fn span(&mut self) -> Option<SpanView<'b>> {
        let [kind, flags] = self.take()?;
        let kind = match kind {
            2 => SpanKind::Server,
            3 => SpanKind::Client,
            _ => SpanKind::Internal,
        };
        let trace_id = TraceId::from_bytes(self.take()?)?;
        let span_id = SpanId::from_bytes(self.take()?)?;
        let context = SpanContext { trace_id, span_id, is_sampled: flags & IS_SAMPLED != 0 };
        let parent = SpanId::from_bytes(self.take()?);
        let start_ns = u64::from_le_bytes(self.take()?);
        let end_ns = u64::from_le_bytes(self.take()?);
        let (name, message, trace_state) = (self.text()?, self.text()?, self.text()?);
        let status = match flags & HAS_FAILED {
            0 => SpanStatus::Unset,
            _ => SpanStatus::Error(std::str::from_utf8(message).unwrap_or_default()),
        };
        let count = u16::from_le_bytes(self.take()?);
        let mut attributes = Vec::with_capacity(count.into());
        for _ in 0..count {
            attributes.push(self.attribute()?);
        }
        let is_parent_remote = flags & IS_PARENT_REMOTE != 0;
        Some(SpanView {
            context,
            parent,
            is_parent_remote,
            kind,
            name,
            start_ns,
            end_ns,
            status,
            trace_state,
            attributes,
        })
    }

    fn attribute(&mut self) -> Option<Attribute<'b>> {
        let [code] = self.take()?;
        let name = match Key::from_code(code) {
            Some(key) => key.name(),
            None => std::str::from_utf8(self.text()?).ok()?,
        };
        let [kind] = self.take()?;
        let value = match kind {
            TEXT => AttributeValue::Text(self.text()?),
            NUMBER => AttributeValue::Number(i64::from_le_bytes(self.take()?)),
            FLAG => AttributeValue::Flag(self.take::<1>()? != [0]),
            _ => AttributeValue::Real(f64::from_le_bytes(self.take()?)),
        };
        Some(Attribute { name, value })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head<'a>() -> SpanHead<'a> {
        let trace_id = TraceId::from_random(1, 2);
        SpanHead {
            context: SpanContext { trace_id, span_id: SpanId::from_random(4), is_sampled: true },
            parent: Some(SpanId::from_random(6)),
            is_parent_remote: true,
            kind: SpanKind::Server,
            name: b"GET /a/*",
            start_ns: 5,
            end_ns: 9,
            status: SpanStatus::Error("late"),
            trace_state: b"a=b",
        }
    }

    #[test]
    fn spans_are_read_as_they_were_written() {
        let mut block = SpanBlock::default();
        let mut writer = block.add(&head());
        writer.text(Key::UrlPath, b"/a/b").number(Key::HttpResponseStatusCode, 502);
        writer.text_if_any(Key::UserAgentOriginal, b"").named("x", AttributeValue::Text(b"y"));
        writer.named("is", AttributeValue::Flag(true)).named("n", AttributeValue::Real(0.5));
        drop(writer);
        let bare = SpanHead {
            parent: None,
            name: b"GET",
            status: SpanStatus::Unset,
            start_ns: 9,
            end_ns: 5,
            ..head()
        };
        drop(block.add(&bare));
        assert_eq!(block.spans(), 2);
        let mut rest = Reader(&block.bytes);
        let read: Vec<SpanView<'_>> = std::iter::from_fn(|| rest.span()).collect();
        assert_eq!(read.len(), 2);
        assert_eq!((read[0].name, read[0].kind), (&b"GET /a/*"[..], SpanKind::Server));
        assert_eq!((read[0].start_ns, read[0].end_ns), (5, 9));
        assert_eq!((read[0].status, read[0].trace_state), (SpanStatus::Error("late"), &b"a=b"[..]));
        assert_eq!(read[0].parent, Some(SpanId::from_random(6)));
        let attribute = |name, value| Attribute { name, value };
        let expected = [
            attribute("url.path", AttributeValue::Text(b"/a/b")),
            attribute("http.response.status_code", AttributeValue::Number(502)),
            attribute("x", AttributeValue::Text(b"y")),
            attribute("is", AttributeValue::Flag(true)),
            attribute("n", AttributeValue::Real(0.5)),
        ];
        assert_eq!(read[0].attributes, expected);
        // A clock that went back makes no negative duration.
        assert_eq!((read[1].name, read[1].start_ns, read[1].end_ns), (&b"GET"[..], 9, 9));
        assert_eq!((read[1].parent, read[1].status), (None, SpanStatus::Unset));
    }

    #[test]
    fn a_span_is_bounded_whatever_clients_send() {
        let mut block = SpanBlock::default();
        let long = vec![b'x'; 1 << 20];
        let mut writer = block.add(&SpanHead { name: &long, trace_state: &long, ..head() });
        for _ in 0..1000 {
            writer.text(Key::UrlPath, &long);
        }
        drop(writer);
        block.each(|span| assert_eq!(span.attributes.len(), usize::from(ATTRIBUTES_MAX)));
        assert!(block.bytes() < (usize::from(ATTRIBUTES_MAX) + 4) * (TEXT_BYTES_MAX + 8));
    }

    #[test]
    fn attributes_that_are_kept_apart_add_up() {
        let mut apart = Attributes::default();
        apart.write(|writer| {
            writer.named("x", AttributeValue::Text(b"y"));
        });
        apart.write(|writer| {
            writer.text(Key::UrlPath, b"/");
        });
        let mut copy = b"before".to_vec();
        let AddedAttributes { bytes, count } = apart.copy(&mut copy);
        assert_eq!(copy.len(), b"before".len() + bytes as usize);
        let names = attributes_in(&copy[b"before".len()..], count).map(|it| it.name);
        assert_eq!(names.collect::<Vec<_>>(), ["x", "url.path"]);
        apart.clear();
        assert_eq!(apart.iter().count(), 0);
    }
}
