//! Request head for a node.
//!
//! Hop-by-hop fields are removed, and `Host` follows `pass_host`. Forwarding headers state what the
//! gateway saw, unless the peer is trusted. The framing is the gateway's own, independent of the
//! client's.

use tollhouse_http::element::{Authority, FieldName, FieldValue, Method, OriginForm};
use tollhouse_http::writer::{Lines, TraceIds};
use tollhouse_http::{Field, Framing, HeadWriter, Known, RequestHead};
use tollhouse_plugin::HeaderEdits;
use tollhouse_trace::RequestTrace;

use super::write_switch;

const X_REAL_IP: FieldName<'_> = FieldName::literal("X-Real-IP");
const X_FORWARDED_FOR: FieldName<'_> = FieldName::literal("X-Forwarded-For");
const X_FORWARDED_PROTO: FieldName<'_> = FieldName::literal("X-Forwarded-Proto");
const X_FORWARDED_HOST: FieldName<'_> = FieldName::literal("X-Forwarded-Host");
const X_FORWARDED_PORT: FieldName<'_> = FieldName::literal("X-Forwarded-Port");

/// Facts about the client for the forwarding headers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ClientFacts<'a> {
    /// Address of the client after real-ip processing, as text.
    pub remote_address: FieldValue<'a>,
    /// Scheme of the request: `http` or `https`.
    pub scheme: FieldValue<'static>,
    /// Host requested by the client, without port.
    pub host: FieldValue<'a>,
    /// Port on which the request arrived.
    pub port: u16,
}

/// Trust in the peer's forwarding headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trust {
    /// Trusted addresses are not configured. `X-Forwarded-For` is extended, the other headers are
    /// overwritten.
    Unconfigured,
    /// The peer is a trusted address: its headers are kept.
    Trusted,
    /// Trusted addresses are configured and the peer is not among them: all forwarding headers are
    /// replaced.
    Untrusted,
}

/// Forwarding headers of a client's last request, reused for further requests to its host.
#[derive(Debug, Default)]
pub struct ForwardingLines {
    /// Host of the request for which the lines were written.
    host: Vec<u8>,
    lines: Lines,
}

impl ForwardingLines {
    /// Maximum length in bytes of a host for which lines are cached; equals the longest DNS name.
    pub(crate) const HOST_BYTES_MAX: usize = 255;

    /// Whether the lines apply to a request for `host`.
    #[inline]
    pub(crate) fn are_for(&self, host: &[u8]) -> bool {
        self.host == host && !host.is_empty()
    }

    /// Rewrites the lines for a client that sent no forwarding headers.
    pub(crate) fn write_anew(&mut self, client: &ClientFacts<'_>) {
        self.host.clear();
        self.host.extend_from_slice(client.host.as_bytes());
        self.lines.write_anew(|out| {
            out.field(X_REAL_IP, client.remote_address);
            out.field(X_FORWARDED_FOR, client.remote_address);
            out.field(X_FORWARDED_PROTO, client.scheme);
            out.number(X_FORWARDED_PORT, u64::from(client.port));
            out.field(X_FORWARDED_HOST, client.host);
        });
    }
}

/// Source of the forwarding headers of a request.
#[derive(Debug)]
pub(crate) enum About<'a> {
    /// Cached lines of this client and host.
    Always(&'a ForwardingLines),
    /// Facts from which the lines are written for this request.
    Now(ClientFacts<'a>),
}

/// Parameters of a request head for a node.
#[derive(Debug)]
pub(crate) struct UpstreamRequest<'a> {
    /// Request head as parsed from the client.
    pub head: &'a RequestHead,
    /// Bytes that `head` was parsed from.
    pub bytes: &'a [u8],
    /// Method that the node receives.
    pub method: Method<'a>,
    /// Path and query sent to the node.
    pub target: OriginForm<'a>,
    /// Value of `Host` that the node receives.
    pub host: Authority<'a>,
    pub about: About<'a>,
    /// Trust in the peer's forwarding headers.
    pub trust: Trust,
    /// Header edits of plugins; only those of `X-Forwarded-For` matter here.
    pub edits: &'a HeaderEdits,
    /// Framing of the body towards the node.
    pub framing: Framing,
    /// Whether the node receives `Upgrade`.
    pub upgrade: bool,
    /// Trace whose context the node receives in the place of the client's; `None` without one.
    pub trace: Option<&'a RequestTrace>,
}

impl UpstreamRequest<'_> {
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        let mut out = HeadWriter::request(out, self.method, self.target, self.host);
        match &self.about {
            About::Always(forwarding) => {
                out.lines(&forwarding.lines);
            }
            About::Now(client) => self.write_client(&mut out, client),
        }
        let trusted = self.trust == Trust::Trusted;
        let head = &self.bytes[..self.head.head_bytes];
        match self.trace.filter(|trace| self.has_context(trace)) {
            None => {
                out.copied(&self.head.fields, head, |field| passes(field, trusted));
            }
            Some(trace) => self.copy_without_context(&mut out, trace),
        }
        if let Some(trace) = self.trace {
            write_context(&mut out, trace);
        }
        out.framing(self.framing);
        if self.upgrade {
            // Only WebSocket is passed on, even if the client offers other protocols.
            write_switch(&mut out, FieldValue::literal("websocket"));
        }
        out.end();
    }

    /// Whether the client's lines may have a context that the gateway's replaces.
    #[inline]
    fn has_context(&self, trace: &RequestTrace) -> bool {
        let fields = &self.head.fields;
        fields.has(Known::Traceparent)
            || fields.has(Known::Tracestate)
            || !trace.propagators().are_trace_context_only()
    }

    /// Copies the client's lines without its trace context.
    #[inline(never)]
    fn copy_without_context(&self, out: &mut HeadWriter<'_>, trace: &RequestTrace) {
        let trusted = self.trust == Trust::Trusted;
        let head = &self.bytes[..self.head.head_bytes];
        // A state without the context that it belongs to is dropped (W3C Trace Context §3.3).
        let has_parent = trace.parent().is_some();
        let formats = trace.propagators();
        out.copied(&self.head.fields, head, |field| {
            passes(field, trusted)
                && (has_parent || field.known != Known::Tracestate)
                && !formats.replaces(field.name().bytes_in(self.bytes))
        });
    }

    fn write_client(&self, out: &mut HeadWriter<'_>, client: &ClientFacts<'_>) {
        let keeps = |known| self.trust == Trust::Trusted && self.head.fields.has(known);
        out.field(X_REAL_IP, client.remote_address);
        out.list(X_FORWARDED_FOR, self.chain(client));
        if !keeps(Known::XForwardedProto) {
            out.field(X_FORWARDED_PROTO, client.scheme);
        }
        if !keeps(Known::XForwardedPort) {
            out.number(X_FORWARDED_PORT, u64::from(client.port));
        }
        if !keeps(Known::XForwardedHost) {
            out.field(X_FORWARDED_HOST, client.host);
        }
    }

    /// Returns the elements of `X-Forwarded-For`: those the client sent, unless untrusted, those of
    /// plugins, and the client's address last.
    fn chain<'c>(&'c self, client: &ClientFacts<'c>) -> impl Iterator<Item = FieldValue<'c>> {
        let name = X_FORWARDED_FOR.as_bytes();
        let is_believed = self.trust != Trust::Untrusted && !self.edits.hides(name);
        let fields = self.head.fields.iter();
        let sent = fields.filter(move |field| is_believed && field.known == Known::XForwardedFor);
        let sent = sent.map(|field| FieldValue::from_span(field.value(), self.bytes));
        let edited = self.edits.lines().filter(move |(other, _)| other.eq_ignore_ascii_case(name));
        let edited = edited.filter_map(|(_, value)| FieldValue::parse(value));
        sent.chain(edited).chain([client.remote_address])
    }
}

/// Writes the trace context that a node receives.
#[inline]
fn write_context(out: &mut HeadWriter<'_>, trace: &RequestTrace) {
    let Some(context) = trace.context() else { return };
    if !trace.propagators().are_trace_context_only() {
        return write_contexts(out, trace);
    }
    out.traceparent(&TraceIds {
        trace_id: context.trace_id.as_bytes(),
        span_id: trace.outgoing_span(context).as_bytes(),
        is_sampled: context.is_sampled,
    });
}

/// Writes the trace context in every format.
#[inline(never)]
fn write_contexts(out: &mut HeadWriter<'_>, trace: &RequestTrace) {
    let Some(context) = trace.outgoing() else { return };
    // The span of an attempt is a child of the request's own.
    let own = trace.context().map(|own| own.span_id).filter(|own| *own != context.span_id);
    trace.propagators().inject(&context, own.or(trace.parent()), &mut |name, value| {
        let line = FieldName::parse(name.as_bytes()).zip(FieldValue::parse(value.as_bytes()));
        if let Some((name, value)) = line {
            out.field(name, value);
        }
    });
}

/// Whether plugins change `X-Forwarded-For`.
pub(crate) fn edits_chain(edits: &HeaderEdits) -> bool {
    let name = X_FORWARDED_FOR.as_bytes();
    edits.hides(name) || edits.find(name).is_some()
}

/// Whether a client's header line is copied to the node unchanged.
#[inline]
fn passes(field: &Field, trusted: bool) -> bool {
    match field.known {
        Known::Host | Known::Expect | Known::XRealIp | Known::XForwardedFor => false,
        // Request trailers are not passed on.
        Known::Trailer => false,
        Known::XForwardedProto
        | Known::XForwardedHost
        | Known::XForwardedPort
        | Known::Forwarded => trusted,
        known => !known.is_hop_by_hop(),
    }
}

#[cfg(test)]
mod tests;
