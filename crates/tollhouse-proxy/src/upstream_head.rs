//! Fills in the head for the picked node: `Host` by `pass_host`, what the gateway saw, upgrades.
//! Whoever shows others what a node gets, such as a mirror, reads it from here.
//!
//! Everything that comes from plugins or from a document passes the checks of `tollhouse-http` here; a
//! request that they refuse is not sent.

use tollhouse_http::element::{Authority, FieldValue, OriginForm};
use tollhouse_http::{BodyLength, Framing, Known};
use tollhouse_model::upstream::{PassHost, Scheme};
use tollhouse_telemetry::ErrorCode;

use crate::attempt::Attempt;
use crate::client::Client;
use crate::client_address::trust;
use crate::head::request::{ClientFacts, Told, Trust, UpstreamRequest, edits_chain};
use crate::head::text::write_decimal;
use crate::plugins::overlay::{self, Side};
use crate::request::{Work, upstream_method};
use crate::snapshot::NodeHost;
use crate::worker::Worker;

const HTTP: FieldValue<'_> = FieldValue::literal("http");

/// Writes the head for `attempt` into the work's buffer.
///
/// # Errors
/// When path, query or host are none that every reader would read alike.
#[inline]
pub(crate) fn write(
    attempt: &Attempt<'_>,
    client: &Client,
    work: &mut Work,
) -> Result<(), ErrorCode> {
    let mut out = std::mem::take(&mut work.out_up);
    let mut host = std::mem::take(&mut work.host_up);
    out.clear();
    host.clear();
    write_host(attempt, client, work, &mut host);
    let worker = attempt.forward.worker;
    let upgrade = attempt.forward.asks_upgrade(work);
    let written = Authority::parse(&host).zip(target(client, work)).map(|(host, target)| {
        Towards { worker, target, host, upgrade }.write(client, work, &mut out);
    });
    work.out_up = out;
    work.host_up = host;
    written.ok_or(ErrorCode::RewriteInvalid)
}

/// Calls `visit` with every header line as a node would get it now, whichever node that is: without
/// its `Host` and without an upgrade. Two allocations.
pub(crate) fn each_line(
    worker: &Worker,
    client: &Client,
    work: &Work,
    visit: &mut dyn FnMut(&[u8], &[u8]),
) {
    let Some(host) = Authority::parse(b"node") else { return };
    let target = OriginForm::of_head(&work.head, client.link.buffer.filled());
    let mut out = Vec::new();
    Towards { worker, target, host, upgrade: false }.write(client, work, &mut out);
    let lines = out.split(|&byte| byte == b'\n').skip(2);
    for line in lines.map(|line| line.strip_suffix(b"\r").unwrap_or(line)) {
        if let Some(colon) = memchr::memchr(b':', line) {
            visit(&line[..colon], line[colon + 1..].trim_ascii());
        }
    }
}

/// Path and query for the node; `None` where plugins have made of them what cannot be sent.
#[inline]
fn target<'a>(client: &'a Client, work: &'a Work) -> Option<OriginForm<'a>> {
    match work.plugins.edits.upstream_uri() {
        Some(uri) => OriginForm::parse(uri),
        None => Some(OriginForm::of_head(&work.head, client.link.buffer.filled())),
    }
}

/// What a head towards a node depends on besides the request.
struct Towards<'a> {
    worker: &'a Worker,
    target: OriginForm<'a>,
    host: Authority<'a>,
    upgrade: bool,
}

impl Towards<'_> {
    #[inline]
    fn write(&self, client: &Client, work: &Work, out: &mut Vec<u8>) {
        let bytes = client.link.buffer.filled();
        let edits = &work.plugins.edits;
        let facts = client_facts(self.worker, client, work);
        let is_as_always = work.reported_address.is_none()
            && match facts.trust {
                Trust::Unconfigured => !work.head.fields.has(Known::XForwardedFor),
                Trust::Untrusted => true,
                Trust::Trusted => false,
            }
            && (edits.headers.is_empty() || !edits_chain(&edits.headers));
        UpstreamRequest {
            head: &work.head,
            bytes,
            method: upstream_method(edits, &work.head, bytes),
            target: self.target,
            host: self.host,
            client: facts,
            told: is_as_always.then(|| &**client.told.get_or_init(|| Box::new(Told::of(&facts)))),
            edits: &edits.headers,
            framing: framing(work),
            upgrade: self.upgrade,
        }
        .write(out);
        if work.plugins.is_active && !edits.headers.is_empty() {
            overlay::apply(out, &edits.headers, Side::Request);
        }
    }
}

fn client_facts<'a>(worker: &Worker, client: &'a Client, work: &'a Work) -> ClientFacts<'a> {
    ClientFacts {
        remote_address: FieldValue::parse(work.remote_text(client)).unwrap_or_default(),
        scheme: HTTP,
        host: FieldValue::parse(&work.host[..work.host_bytes]).unwrap_or_default(),
        port: client.local.port(),
        trust: trust(&worker.settings, client.peer.ip()),
    }
}

/// How the body is framed: as the client's was understood, or as the body needs that takes its place.
#[inline]
fn framing(work: &Work) -> Framing {
    if let Some(body) = &work.plugins.edits.body {
        return Framing::Length(body.len() as u64);
    }
    match work.head.body {
        BodyLength::Known(bytes) => Framing::Length(bytes),
        BodyLength::Chunked => match work.body.length(work.head.head_bytes) {
            // A body that was read whole for somebody is sent with its length, as nginx does.
            Some(bytes) => Framing::Length(bytes),
            None => Framing::Chunked,
        },
        BodyLength::None if work.head.fields.has(Known::ContentLength) => Framing::Length(0),
        BodyLength::None | BodyLength::UntilClose => Framing::Unsaid,
    }
}

/// The `Host` for the node (apisix.md §3.7).
#[inline]
fn write_host(attempt: &Attempt<'_>, client: &Client, work: &Work, out: &mut Vec<u8>) {
    if let Some(host) = &work.plugins.edits.host {
        return out.extend_from_slice(host);
    }
    let sent = work.head.authority.of_buffer(client.link.buffer.filled());
    match &attempt.forward.upstream.conf.pass_host {
        PassHost::Rewrite(host) => out.extend_from_slice(host.as_bytes()),
        PassHost::Pass if !sent.is_empty() => out.extend_from_slice(sent),
        // An HTTP/1.0 client may name no host; a node speaking HTTP/1.1 must get one.
        PassHost::Pass | PassHost::Node => write_node_host(attempt, out),
    }
}

/// The node's host, and its port where that is to be named.
fn write_node_host(attempt: &Attempt<'_>, out: &mut Vec<u8>) {
    let node = attempt.picked.node();
    let is_v6 = node.host().contains(':');
    if is_v6 {
        out.push(b'[');
    }
    out.extend_from_slice(node.host().as_bytes());
    if is_v6 {
        out.push(b']');
    }
    let default_port = match attempt.forward.upstream.conf.scheme {
        Scheme::Http => 80,
        Scheme::Https => 443,
    };
    let names_port = attempt.forward.upstream.node_host == NodeHost::WithPort;
    if names_port && node.port() != default_port {
        out.push(b':');
        write_decimal(out, u64::from(node.port()));
    }
}
