//! Fills in the head for the picked node: `Host` by `pass_host`, what the gateway saw, upgrades.

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

/// Writes the head for `attempt` into the work's buffer.
#[inline]
pub(crate) fn write(attempt: &Attempt<'_>, client: &Client, work: &mut Work) {
    let mut out = std::mem::take(&mut work.out_up);
    let mut host = std::mem::take(&mut work.host_up);
    let edits = &work.plugins.edits;
    out.clear();
    host.clear();
    write_host(attempt, client, work, &mut host);
    let facts = ClientFacts {
        remote_address: work.remote_text(client),
        scheme: "http",
        host: &work.host[..work.host_bytes],
        port: client.local.port(),
        trust: trust(&attempt.forward.worker.settings, client.peer.ip()),
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
        host: &host,
        client: facts,
        told: is_as_always.then(|| &**client.told.get_or_init(|| Box::new(Told::of(&facts)))),
        upgrade: work.head.upgrade && attempt.forward.route.websocket,
        method: edits.method.map(str::as_bytes),
        target: edits.upstream_uri.as_deref(),
    }
    .write(&mut out);
    if work.plugins.is_active {
        lay_edits_over(&mut out, edits);
    }
    work.out_up = out;
    work.host_up = host;
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
