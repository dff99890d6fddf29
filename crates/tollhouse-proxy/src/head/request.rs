//! The request head that a node receives.
//!
//! Header policy of the gateway towards upstreams: hop-by-hop fields stay behind, `Host` follows
//! `pass_host`, the forwarding headers say what the gateway saw unless the peer is trusted. Framing
//! is the gateway's own, whatever the client wrote.

use tollhouse_http::element::{Authority, FieldName, FieldValue, Method, OriginForm};
use tollhouse_http::writer::Lines;
use tollhouse_http::{Field, Framing, HeadWriter, Known, RequestHead};
use tollhouse_plugin::HeaderEdits;

use super::write_switch;

const X_REAL_IP: FieldName<'_> = FieldName::literal("X-Real-IP");
const X_FORWARDED_FOR: FieldName<'_> = FieldName::literal("X-Forwarded-For");
const X_FORWARDED_PROTO: FieldName<'_> = FieldName::literal("X-Forwarded-Proto");
const X_FORWARDED_HOST: FieldName<'_> = FieldName::literal("X-Forwarded-Host");
const X_FORWARDED_PORT: FieldName<'_> = FieldName::literal("X-Forwarded-Port");

/// What the gateway itself says about the client.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ClientFacts<'a> {
    /// The client's address after real-ip processing.
    pub remote_address: FieldValue<'a>,
    /// `http` or `https`.
    pub scheme: FieldValue<'static>,
    /// The host asked for, without port.
    pub host: FieldValue<'a>,
    /// The port it was asked on.
    pub port: u16,
}

/// How far forwarding headers of the peer are believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trust {
    /// No trusted addresses are configured: `X-Forwarded-For` grows, the rest is overwritten.
    Unconfigured,
    /// The peer is a trusted address: what it sent is kept.
    Trusted,
    /// Trusted addresses are configured and the peer is none: all of it is reset.
    Untrusted,
}

/// Lines about a client as its last request had them: what asks for the same host gets the same.
#[derive(Debug, Default)]
pub struct ForwardingLines {
    /// The host asked for.
    host: Vec<u8>,
    lines: Lines,
}

impl ForwardingLines {
    /// Longest host that lines are kept for, in bytes; as long as names in the DNS are.
    pub(crate) const HOST_BYTES_MAX: usize = 255;

    /// Whether they stand for a request that asks for `host`.
    #[inline]
    pub(crate) fn are_for(&self, host: &[u8]) -> bool {
        self.host == host && !host.is_empty()
    }

    /// Writes them anew: about a client that no header of its own says anything else about.
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

/// What is said about the client.
#[derive(Debug)]
pub(crate) enum About<'a> {
    /// What every request of this client for this host gets, written before.
    Always(&'a ForwardingLines),
    /// What has to be written for this request.
    Now(ClientFacts<'a>),
}

/// The head to be written.
#[derive(Debug)]
pub(crate) struct UpstreamRequest<'a> {
    /// The client's head.
    pub head: &'a RequestHead,
    /// The bytes it was parsed from.
    pub bytes: &'a [u8],
    /// The method for the node.
    pub method: Method<'a>,
    /// Path and query for the node.
    pub target: OriginForm<'a>,
    /// `Host` for the node.
    pub host: Authority<'a>,
    /// What the gateway says about the client.
    pub about: About<'a>,
    /// How far the peer's own forwarding headers are believed.
    pub trust: Trust,
    /// What plugins change about header lines. Here, only the chain of addresses is of interest.
    pub edits: &'a HeaderEdits,
    /// How the body is framed.
    pub framing: Framing,
    /// Whether `Upgrade` is passed on.
    pub upgrade: bool,
}

impl UpstreamRequest<'_> {
    /// Appends the head to `out`.
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
        out.copied(&self.head.fields, head, |field| passes(field, trusted));
        out.framing(self.framing);
        if self.upgrade {
            // The one protocol that is passed on, also where the client offers others.
            write_switch(&mut out, FieldValue::literal("websocket"));
        }
        out.end();
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

    /// The chain so far, unless it is not to be believed, what plugins say comes next, and the
    /// client at its end.
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

/// Whether the chain of addresses is other than the gateway's own word.
pub(crate) fn edits_chain(edits: &HeaderEdits) -> bool {
    let name = X_FORWARDED_FOR.as_bytes();
    edits.hides(name) || edits.find(name).is_some()
}

/// Whether a client's header line is copied to the node as it stands.
#[inline]
fn passes(field: &Field, trusted: bool) -> bool {
    match field.known {
        Known::Host | Known::Expect | Known::XRealIp | Known::XForwardedFor => false,
        // Trailers end here.
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
