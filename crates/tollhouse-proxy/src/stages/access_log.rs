//! Access log line of a finished request.
//!
//! Lines are formatted on the core into a buffer of that core. Without a log, the cost is one
//! branch.

use smallvec::SmallVec;
use tollhouse_http::Known;
use tollhouse_telemetry::access_log::{Attempt, CoreLog, ListedValues, Source, Value, Variable};

use crate::connection::handshake::TlsPeer;
use crate::exchange::Exchange;
use crate::exchange::record::AttemptRecord;
use crate::head::text::write_endpoint;

/// Attempts listed without allocation; more than two are rare.
const ATTEMPTS_INLINE: usize = 2;

/// Capacity reserved for a node's address; a longer IPv6 address grows the buffer.
const ADDRESS_CHARS: usize = "255.255.255.255:65535".len();

/// Maximum number of bytes of a refused head that the log shows as the request line.
const REFUSED_LINE_BYTES_MAX: usize = 256;

/// Writes the line of a served request.
#[inline]
pub(crate) fn write_served(cx: &Exchange<'_>) {
    if let Some(log) = &cx.worker.log {
        write(log, cx);
    }
}

fn write(log: &CoreLog, cx: &Exchange<'_>) {
    let record = &cx.state.record;
    // Formats without attempts skip their texts, which cost the most.
    if !log.shows_attempts() || record.attempts.is_empty() {
        return log.write(&LogSource { cx, sent_uri: &cx.sent_uri(), attempts: &[] });
    }
    // One buffer holds all addresses, so that a line costs one allocation.
    let mut texts = Vec::with_capacity(record.attempts.len() * ADDRESS_CHARS);
    let mut ends: SmallVec<[usize; ATTEMPTS_INLINE]> = SmallVec::new();
    for attempt in &record.attempts {
        write_endpoint(&mut texts, attempt.address);
        ends.push(texts.len());
    }
    let attempts = attempts(&record.attempts, record.upstream_response_ms, &texts, &ends);
    log.write(&LogSource { cx, sent_uri: &cx.sent_uri(), attempts: &attempts });
}

/// A served request as the source of its log line.
struct LogSource<'a, 'e> {
    cx: &'a Exchange<'e>,
    /// Path and query as the client sent them.
    sent_uri: &'a [u8],
    /// Nodes tried; empty if the format does not show them.
    attempts: &'a [Attempt<'a>],
}

impl LogSource<'_, '_> {
    #[inline]
    fn field(&self, known: Known, name: &str) -> Value<'_> {
        let masked = self.cx.state.plugins.masked.as_deref();
        if let Some(value) = masked.and_then(|masked| masked.header(name.as_bytes())) {
            return Value::Text(value.unwrap_or_default());
        }
        let value = self.cx.state.head.fields.first(known).unwrap_or_default();
        Value::Text(value.bytes_in(self.cx.request_bytes()))
    }

    #[inline]
    fn tls(&self) -> Option<&TlsPeer> {
        self.cx.client.tls.as_deref()
    }

    /// Returns subject and serial number of the client certificate; empty without one.
    fn subject_and_serial(&self) -> (&str, &str) {
        self.tls().map(TlsPeer::subject_and_serial).unwrap_or_default()
    }

    /// Returns the time since the request began, in milliseconds.
    #[inline]
    fn elapsed_ms(&self) -> u64 {
        self.cx.worker.clock.now_ms().saturating_sub(self.cx.state.record.started_ms)
    }

    #[inline]
    fn target(&self) -> &[u8] {
        if let Some(uri) = self.masked_uri() {
            return uri;
        }
        self.cx.state.head.target.bytes_in(self.cx.request_bytes())
    }

    /// Returns path and query if a plugin has masked them.
    #[inline]
    fn masked_uri(&self) -> Option<&[u8]> {
        self.cx.state.plugins.masked.as_deref()?.uri.as_deref()
    }

    /// Path and query towards the node.
    #[inline]
    fn upstream_uri(&self) -> &[u8] {
        let masked = self.cx.state.plugins.masked.as_deref();
        if let Some(uri) = masked.and_then(|masked| masked.upstream_uri(self.cx)) {
            return uri;
        }
        self.cx.state.plugins.edits.upstream_uri().unwrap_or(self.sent_uri)
    }

    #[inline]
    fn host(&self) -> &[u8] {
        let masked = self.cx.state.plugins.masked.as_deref();
        if let Some(host) = masked.and_then(|masked| masked.header(b"host")) {
            return host.unwrap_or_default();
        }
        let state = &self.cx.state;
        &state.host[..state.host_bytes.min(state.host.len())]
    }

    /// `value` if a node was tried, else nothing.
    #[inline]
    fn when_a_node_was_asked<'v>(&self, value: Value<'v>) -> Value<'v> {
        if self.cx.state.record.attempts.is_empty() { Value::Nothing } else { value }
    }
}

impl Source for LogSource<'_, '_> {
    #[inline]
    fn unix_ms(&self) -> u64 {
        self.cx.worker.clock.unix_ms()
    }

    #[inline]
    fn value(&self, variable: Variable) -> Value<'_> {
        use Value::{Number, Own, Seconds, Text};
        let (cx, state, record) = (self.cx, &*self.cx.state, &self.cx.state.record);
        let own = |text: &'static str| Own(text.as_bytes());
        match variable {
            Variable::RemoteAddr => Own(cx.client_address_text()),
            Variable::RemotePort => Value::from_number(cx.client.peer.address.port()),
            // Plugins do not set it.
            Variable::RemoteUser => Value::Nothing,
            Variable::ServerAddr => Own(cx.client.peer.local_text.as_bytes()),
            Variable::ServerPort => Value::from_number(cx.client.peer.local.port()),
            Variable::TimeLocal => Value::TimeLocal,
            Variable::TimeIso8601 => Value::TimeIso8601,
            Variable::Msec => Seconds(self.unix_ms()),
            // Connections are not numbered.
            Variable::Connection => Number(0),
            Variable::ConnectionRequests => Number(cx.client.requests),
            Variable::Scheme => own(if cx.client.is_encrypted() { "https" } else { "http" }),
            Variable::SslProtocol => own(self.tls().map_or("", |tls| tls.protocol)),
            Variable::SslCipher => own(self.tls().map_or("", |tls| tls.cipher)),
            Variable::SslServerName => Text(self.tls().map_or("", TlsPeer::server_name).as_bytes()),
            Variable::SslSessionReused => own(self.tls().map_or("", TlsPeer::resumption)),
            Variable::SslClientVerify => Own(self.tls().map_or("", TlsPeer::verdict).as_bytes()),
            Variable::SslClientSDn => Text(self.subject_and_serial().0.as_bytes()),
            Variable::SslClientSerial => Text(self.subject_and_serial().1.as_bytes()),
            Variable::Request => Value::Request {
                method: cx.client_method(),
                target: self.target(),
                protocol: cx.client.protocol(state.head.version),
            },
            Variable::RequestMethod => Text(cx.client_method()),
            Variable::RequestUri => Value::request_uri(self.target()),
            Variable::Uri => Value::path(self.target()),
            Variable::Args | Variable::QueryString => Value::query(self.target()),
            Variable::ServerProtocol => own(cx.client.protocol(state.head.version)),
            Variable::Host => Text(self.host()),
            Variable::HttpHost => self.field(Known::Host, "host"),
            Variable::HttpReferer => self.field(Known::Referer, "referer"),
            Variable::HttpUserAgent => self.field(Known::UserAgent, "user-agent"),
            Variable::HttpXForwardedFor => self.field(Known::XForwardedFor, "x-forwarded-for"),
            Variable::RequestLength => Number(state.head.head_bytes as u64 + cx.body.received),
            Variable::RequestTime => Seconds(self.elapsed_ms()),
            Variable::RequestId => Value::Nothing,
            Variable::Status => Value::from_number(record.status),
            Variable::BytesSent => Number(record.bytes_sent),
            Variable::BodyBytesSent => Number(record.body_bytes_sent),
            Variable::ErrorCode => own(record.code.map_or("", |code| code.text())),
            Variable::ErrorPlugin => Text(state.plugins.prepared.refused_by.as_bytes()),
            Variable::UpstreamAddr
            | Variable::UpstreamStatus
            | Variable::UpstreamResponseTime
            | Variable::UpstreamConnectTime
            | Variable::UpstreamHeaderTime => Value::from_attempts(variable, self.attempts),
            Variable::UpstreamScheme => self.when_a_node_was_asked(own("http")),
            Variable::UpstreamHost => self.when_a_node_was_asked(Text(&state.host_up)),
            Variable::UpstreamUri => self.when_a_node_was_asked(Text(self.upstream_uri())),
            Variable::RouteId => Text(record.route_id.as_bytes()),
            Variable::RouteName | Variable::ServiceName => Value::Nothing,
            Variable::ServiceId => Text(record.service_id.as_bytes()),
            Variable::ConsumerName => Text(state.plugins.consumer.as_bytes()),
            Variable::TraceId => Own(state.trace.trace_id_text()),
            Variable::SpanId => Own(state.trace.span_id_text()),
            Variable::OpentelemetryContextTraceparent
            | Variable::OpentelemetryTraceId
            | Variable::OpentelemetrySpanId
            | Variable::ZipkinContextTraceparent
            | Variable::ZipkinTraceId
            | Variable::ZipkinSpanId => {
                Text(state.plugins.variable(variable.name()).unwrap_or_default())
            }
        }
    }
}

/// Method, target and protocol of a first line in the form of a request line, such as that of a
/// CONNECT, which is refused without being parsed further.
struct FirstLine<'a> {
    method: &'a [u8],
    target: &'a [u8],
    protocol: &'static str,
}

impl<'a> FirstLine<'a> {
    /// Parses a line. A line of another form is returned as the target, so that the log still shows
    /// it.
    fn parse(line: &'a [u8]) -> Self {
        let mut parts = line.split(|byte| *byte == b' ');
        let protocols = ["HTTP/1.0", "HTTP/1.1", "HTTP/2.0"];
        let known = |text: &[u8]| protocols.into_iter().find(|name| name.as_bytes() == text);
        match (parts.next(), parts.next(), parts.next().and_then(known), parts.next()) {
            (Some(method), Some(target), Some(protocol), None) if !method.is_empty() => {
                Self { method, target, protocol }
            }
            _ => Self { method: b"", target: line, protocol: "" },
        }
    }
}

/// Writes the line of an invalid request, with the readable part of its first line.
pub(crate) fn write_refused(cx: &Exchange<'_>) {
    let Some(log) = &cx.worker.log else { return };
    let bytes = cx.request_bytes();
    let end = bytes.iter().position(|byte| matches!(byte, b'\r' | b'\n')).unwrap_or(bytes.len());
    let FirstLine { method, target, protocol } =
        FirstLine::parse(&bytes[..end.min(REFUSED_LINE_BYTES_MAX)]);
    let (clock, peer, record) = (&cx.worker.clock, &cx.client.peer, &cx.state.record);
    let tls = cx.client.tls.as_deref();
    let own = |text: &'static str| Value::Own(text.as_bytes());
    // The target of a CONNECT is a host with its port (RFC 9110 §9.3.6).
    let host = match target.iter().rposition(|byte| *byte == b':') {
        Some(end) if method == b"CONNECT" && !target.starts_with(b"/") => &target[..end],
        _ => b"",
    };
    let took_ms = clock.now_ms().saturating_sub(record.started_ms);
    let values = [
        (Variable::RemoteAddr, Value::Own(peer.address_text.as_bytes())),
        (Variable::RemotePort, Value::from_number(peer.address.port())),
        (Variable::ServerPort, Value::from_number(peer.local.port())),
        (Variable::Connection, Value::Number(0)),
        (Variable::ConnectionRequests, Value::Number(cx.client.requests)),
        (Variable::Scheme, own(if cx.client.is_encrypted() { "https" } else { "http" })),
        (Variable::SslProtocol, own(tls.map_or("", |tls| tls.protocol))),
        (Variable::SslCipher, own(tls.map_or("", |tls| tls.cipher))),
        (Variable::SslSessionReused, own(tls.map_or("", TlsPeer::resumption))),
        (Variable::SslClientVerify, own(tls.map_or("", TlsPeer::verdict))),
        (Variable::Request, Value::Request { method, target, protocol }),
        (Variable::RequestMethod, Value::Text(method)),
        (Variable::RequestUri, Value::request_uri(target)),
        (Variable::Uri, Value::path(target)),
        (Variable::Args, Value::query(target)),
        (Variable::QueryString, Value::query(target)),
        (Variable::ServerProtocol, own(protocol)),
        (Variable::Host, Value::Text(host)),
        (Variable::RequestLength, Value::Number(0)),
        (Variable::RequestTime, Value::Seconds(took_ms)),
        (Variable::Status, Value::from_number(record.status)),
        (Variable::BytesSent, Value::Number(record.bytes_sent)),
        (Variable::BodyBytesSent, Value::Number(record.body_bytes_sent)),
        (Variable::ErrorCode, own(record.code.map_or("", |code| code.text()))),
    ];
    log.write(&ListedValues { unix_ms: clock.unix_ms(), values: &values });
}

fn attempts<'a>(
    records: &[AttemptRecord],
    response_ms: Option<u64>,
    texts: &'a [u8],
    ends: &[usize],
) -> SmallVec<[Attempt<'a>; ATTEMPTS_INLINE]> {
    let mut start = 0;
    let last = records.len().saturating_sub(1);
    let lines = records.iter().zip(ends).enumerate();
    lines
        .map(|(index, (attempt, end))| {
            let text = &texts[start..*end];
            start = *end;
            let time = response_ms.filter(|_| index == last);
            Attempt {
                addr: text,
                status: attempt.status,
                connect_time_ms: None,
                header_time_ms: time,
                response_time_ms: time,
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_request_line_is_told_from_other_bytes() {
        for (line, expected) in [
            ("CONNECT foo:443 HTTP/1.1", ("CONNECT", "foo:443", "HTTP/1.1")),
            ("CONNECT /ws HTTP/2.0", ("CONNECT", "/ws", "HTTP/2.0")),
            ("GET /a b HTTP/1.1", ("", "GET /a b HTTP/1.1", "")),
            ("GET / HTTP/3.7", ("", "GET / HTTP/3.7", "")),
            ("\u{16}\u{3}", ("", "\u{16}\u{3}", "")),
            ("", ("", "", "")),
        ] {
            let FirstLine { method, target, protocol } = FirstLine::parse(line.as_bytes());
            let (method, target) = (method.escape_ascii(), target.escape_ascii());
            let said = (method.to_string(), target.to_string(), protocol);
            let (method, target, protocol) = expected;
            let target = target.as_bytes().escape_ascii().to_string();
            assert_eq!(said, (method.to_owned(), target, protocol));
        }
    }
}
