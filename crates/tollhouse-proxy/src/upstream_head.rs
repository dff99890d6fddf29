//! Fills in the head for the picked node: `Host` by `pass_host`, what the gateway saw, upgrades.
//! Whoever shows others what a node gets, such as a mirror, reads it from here.

use tollhouse_http::Known;
use tollhouse_model::upstream::{PassHost, Scheme};
use tollhouse_plugin::RequestEdits;

use crate::attempt::Attempt;
use crate::client::Client;
use crate::client_address::trust;
use crate::head::request::{ClientFacts, Told, Trust, UpstreamRequest};
use crate::head::text::write_decimal;
use crate::plugins::overlay::{self, Framing};
use crate::request::Work;
use crate::worker::Worker;

/// Writes the head for `attempt` into the work's buffer.
#[inline]
pub(crate) fn write(attempt: &Attempt<'_>, client: &Client, work: &mut Work) {
    let mut out = std::mem::take(&mut work.out_up);
    let mut host = std::mem::take(&mut work.host_up);
    out.clear();
    host.clear();
    write_host(attempt, client, work, &mut host);
    let upgrade = work.head.upgrade && attempt.forward.route.websocket;
    Towards { worker: attempt.forward.worker, host: &host, upgrade }.write(client, work, &mut out);
    work.out_up = out;
    work.host_up = host;
}

/// Calls `visit` with every header line as a node would get it now, whichever node that is: without
/// a `Host` of its own and without an upgrade. Two allocations.
pub(crate) fn each_line(
    worker: &Worker,
    client: &Client,
    work: &Work,
    visit: &mut dyn FnMut(&[u8], &[u8]),
) {
    let mut out = Vec::new();
    Towards { worker, host: b"", upgrade: false }.write(client, work, &mut out);
    let end = memchr::memmem::find(&out, b"\r\n\r\n").unwrap_or(out.len());
    let lines = out[..end].split(|&byte| byte == b'\n').skip(1);
    for line in lines.map(|line| line.strip_suffix(b"\r").unwrap_or(line)) {
        if let Some(colon) = memchr::memchr(b':', line) {
            visit(&line[..colon], line[colon + 1..].trim_ascii());
        }
    }
}

/// What a head towards a node depends on besides the request.
struct Towards<'a> {
    worker: &'a Worker,
    host: &'a [u8],
    upgrade: bool,
}

impl Towards<'_> {
    #[inline]
    fn write(&self, client: &Client, work: &Work, out: &mut Vec<u8>) {
        let edits = &work.plugins.edits;
        let facts = ClientFacts {
            remote_address: work.remote_text(client),
            scheme: "http",
            host: &work.host[..work.host_bytes],
            port: client.local.port(),
            trust: trust(&self.worker.settings, client.peer.ip()),
        };
        let is_as_always = work.reported_address.is_none()
            && match facts.trust {
                Trust::Unconfigured => !work.head.fields.has(Known::XForwardedFor),
                Trust::Untrusted => true,
                Trust::Trusted => false,
            };
        UpstreamRequest {
            head: &work.head,
            bytes: client.link.buffer.filled(),
            host: self.host,
            client: facts,
            told: is_as_always.then(|| &**client.told.get_or_init(|| Box::new(Told::of(&facts)))),
            upgrade: self.upgrade,
            method: edits.method.map(str::as_bytes),
            target: edits.upstream_uri.as_deref(),
        }
        .write(out);
        if work.plugins.is_active {
            lay_edits_over(out, edits);
            extend_forwarded_for(out, edits, work.remote_text(client));
        }
    }
}

/// What plugins have changed: header lines, and the body where they replace it.
fn lay_edits_over(out: &mut Vec<u8>, edits: &RequestEdits) {
    let Some(body) = &edits.body else {
        if !edits.headers.is_empty() {
            overlay::apply(out, 0, &edits.headers, Framing::Keep);
        }
        return;
    };
    overlay::apply(out, 0, &edits.headers, Framing::Length(body.len() as u64));
    out.extend_from_slice(body);
}

/// The client belongs at the end of the chain of proxies, also where a plugin has written that.
fn extend_forwarded_for(out: &mut Vec<u8>, edits: &RequestEdits, client: &[u8]) {
    const NAME: &[u8] = b"x-forwarded-for";
    let is_written = edits.headers.find(NAME).is_some();
    if !is_written && !edits.headers.hides(NAME) {
        return;
    }
    let end = memchr::memmem::find(out, b"\r\n\r\n").unwrap_or(out.len());
    if !is_written {
        let line = [b"\r\nX-Forwarded-For: ", client].concat();
        out.splice(end..end, line);
        return;
    }
    let mut line_end = end;
    while let Some(line_start) = memchr::memrchr(b'\n', &out[..line_end]) {
        let line = &out[line_start + 1..line_end];
        let is_chain = line.get(..NAME.len()).is_some_and(|name| name.eq_ignore_ascii_case(NAME));
        if is_chain && line.get(NAME.len()) == Some(&b':') {
            let addition = [b", ", client].concat();
            out.splice(line_end..line_end, addition);
            return;
        }
        line_end = line_start.saturating_sub(1);
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

/// The node's host, with the port where it is not the scheme's own.
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
    if node.port() != default_port {
        out.push(b':');
        write_decimal(out, u64::from(node.port()));
    }
}
