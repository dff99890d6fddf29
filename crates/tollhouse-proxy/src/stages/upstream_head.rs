//! Request head for the picked node: `Host` by `pass_host`, forwarding headers, upgrades. Plugins
//! that need a node's headers, such as a mirror, read them from here.
//!
//! All values from plugins or the configuration are checked by `tollhouse-http`; a request with an
//! invalid value is not sent.

use tollhouse_http::element::{Authority, FieldValue, OriginForm};
use tollhouse_http::{BodyLength, Framing, Known};
use tollhouse_model::upstream::{PassHost, Scheme};
use tollhouse_telemetry::ErrorCode;
use tollhouse_trace::TraceExtent;
use tollhouse_upstream::Picked;

use super::client_address::trust;
use super::route::Way;
use crate::exchange::Exchange;
use crate::exchange::state::{RequestState, upstream_method};
use crate::head::request::{
    About, ClientFacts, ForwardingLines, Trust, UpstreamRequest, edits_chain,
};
use crate::plugins::overlay::{self, Side};
use crate::snapshot::upstream::NodeHost;

/// Writes the head for a node of `way` into the request's buffer.
///
/// # Errors
/// If path, query or host contain bytes that readers could interpret differently.
#[inline]
pub(crate) fn write(
    cx: &mut Exchange<'_>,
    way: Way<'_>,
    picked: &Picked<'_>,
) -> Result<(), ErrorCode> {
    // Moved out while they are filled from the exchange.
    let mut out = std::mem::take(&mut cx.state.out_up);
    let mut host = std::mem::take(&mut cx.state.host_up);
    out.clear();
    host.clear();
    let upgrade = way.asks_upgrade(cx.state);
    let parts = node_authority(cx, way, picked, &mut host).zip(target(cx));
    let written = parts.map(|(host, target)| {
        NodeHead { target, host, upgrade }.write(cx, &mut out);
    });
    cx.state.out_up = out;
    cx.state.host_up = host;
    written.ok_or(ErrorCode::RewriteInvalid)
}

/// Calls `visit` with every header line as it would be sent to any node now, except `Host` and
/// upgrade headers. Costs two allocations.
pub(crate) fn each_line(cx: &Exchange<'_>, visit: &mut dyn FnMut(&[u8], &[u8])) {
    let Some(host) = Authority::parse(b"node") else { return };
    let target = OriginForm::from_head(&cx.state.head, cx.request_bytes());
    let mut out = Vec::new();
    NodeHead { target, host, upgrade: false }.write(cx, &mut out);
    // The request line and `Host` depend on the node and are skipped.
    let lines = out.split(|&byte| byte == b'\n').skip(2);
    for line in lines.map(|line| line.strip_suffix(b"\r").unwrap_or(line)) {
        if let Some(colon) = memchr::memchr(b':', line) {
            visit(&line[..colon], line[colon + 1..].trim_ascii());
        }
    }
}

/// Returns the path and query for the node; `None` if a plugin set an invalid one.
#[inline]
fn target<'a>(cx: &'a Exchange<'_>) -> Option<OriginForm<'a>> {
    match cx.state.plugins.edits.upstream_uri() {
        Some(uri) => OriginForm::parse(uri),
        None => Some(OriginForm::from_head(&cx.state.head, cx.request_bytes())),
    }
}

/// Properties of a node's request head besides the exchange.
struct NodeHead<'a> {
    target: OriginForm<'a>,
    host: Authority<'a>,
    upgrade: bool,
}

impl NodeHead<'_> {
    #[inline]
    fn write(&self, cx: &Exchange<'_>, out: &mut Vec<u8>) {
        let state = &*cx.state;
        let edits = &state.plugins.edits;
        let trust = trust(&cx.worker.settings, cx.client.peer.address.ip());
        let host = &state.host[..state.host_bytes];
        // Most requests of a client have the same forwarding headers, which are cached.
        let is_as_always = state.reported_address.is_none()
            && match trust {
                Trust::Unconfigured => !state.head.fields.has(Known::XForwardedFor),
                Trust::Untrusted => true,
                Trust::Trusted => false,
            }
            && (edits.headers.is_empty() || !edits_chain(&edits.headers))
            && host.len() <= ForwardingLines::HOST_BYTES_MAX;
        let mut kept = cx.client.peer.forwarding.borrow_mut();
        let about = if is_as_always {
            let kept = kept.get_or_insert_default();
            if !kept.are_for(host) {
                kept.write_anew(&client_facts(cx));
            }
            About::Always(kept)
        } else {
            About::Now(client_facts(cx))
        };
        UpstreamRequest {
            head: &state.head,
            bytes: cx.request_bytes(),
            method: upstream_method(edits, &state.head, cx.request_bytes()),
            target: self.target,
            host: self.host,
            about,
            trust,
            edits: &edits.headers,
            framing: framing(state),
            upgrade: self.upgrade,
            trace: (state.trace_extent != TraceExtent::None).then_some(&state.trace),
        }
        .write(out);
        if state.plugins.is_active {
            if !edits.headers.is_empty() {
                overlay::apply(out, &edits.headers, Side::Request);
            }
            if let Some(codings) = edits.answer_codings {
                overlay::narrow_codings(out, codings);
            }
        }
    }
}

fn client_facts<'a>(cx: &'a Exchange<'_>) -> ClientFacts<'a> {
    let state = &*cx.state;
    ClientFacts {
        remote_address: FieldValue::parse(cx.client_address_text()).unwrap_or_default(),
        scheme: cx.client.scheme(),
        host: FieldValue::parse(&state.host[..state.host_bytes]).unwrap_or_default(),
        port: cx.client.peer.local.port(),
    }
}

/// Returns the framing of the body for the node: equivalent to the client's, or that of a body set
/// by a plugin.
#[inline]
fn framing(state: &RequestState) -> Framing {
    if let Some(body) = &state.plugins.edits.body {
        return Framing::Length(body.len() as u64);
    }
    match state.head.body {
        BodyLength::Known(bytes) => Framing::Length(bytes),
        BodyLength::Chunked => match state.held_body.length(state.head.head_bytes) {
            // A body that was read whole is sent with its length, as in nginx.
            Some(bytes) => Framing::Length(bytes),
            None => Framing::Chunked,
        },
        BodyLength::None if state.head.fields.has(Known::ContentLength) => Framing::Length(0),
        BodyLength::None | BodyLength::UntilClose => Framing::Omitted,
    }
}

/// Returns the value of `Host` for the node; `None` if it is ambiguous. The value also stays in
/// `buffer`, because the TLS handshake uses it as server name.
#[inline]
fn node_authority<'a>(
    cx: &'a Exchange<'_>,
    way: Way<'_>,
    picked: &'a Picked<'_>,
    buffer: &'a mut Vec<u8>,
) -> Option<Authority<'a>> {
    if let Some(host) = &cx.state.plugins.edits.host {
        buffer.extend_from_slice(host);
        return Authority::parse(buffer);
    }
    match &way.upstream.terms.pass_host {
        PassHost::Rewrite(host) => buffer.extend_from_slice(host.as_bytes()),
        PassHost::Pass => {
            // The parser has checked the client's `Host`, so most requests need no second check.
            if let Some(sent) = Authority::from_head(&cx.state.head, cx.request_bytes()) {
                buffer.extend_from_slice(sent.as_bytes());
                return Some(sent);
            }
            // An HTTP/1.0 request may lack a host, but a node with HTTP/1.1 must receive one.
            return node_host(way, picked, buffer);
        }
        PassHost::Node => return node_host(way, picked, buffer),
    }
    Authority::parse(buffer)
}

/// Returns the node's host. A port other than the scheme's default is included.
fn node_host<'a>(
    way: Way<'_>,
    picked: &'a Picked<'_>,
    buffer: &mut Vec<u8>,
) -> Option<Authority<'a>> {
    let node = picked.node();
    let default_port = match way.upstream.conf.scheme {
        Scheme::Http | Scheme::Grpc | Scheme::Tcp | Scheme::Udp => 80,
        Scheme::Https | Scheme::Grpcs | Scheme::Tls => 443,
    };
    let names_port = way.upstream.terms.node_host == NodeHost::WithPort;
    let authority = match names_port && node.port() != default_port {
        true => node.authority_with_port()?,
        false => node.authority()?,
    };
    buffer.extend_from_slice(authority.as_bytes());
    Some(authority)
}
