//! The request head that a node receives.
//!
//! Header policy of the gateway towards upstreams: hop-by-hop fields stay behind, `Host` follows
//! `pass_host`, the forwarding headers say what the gateway saw unless the peer is trusted.

use tollhouse_http::{BodyLength, Field, Known, RequestHead};

use super::{copy_lines, text, write_line};

/// What the gateway itself says about the client.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ClientFacts<'a> {
    /// The client's address after real-ip processing.
    pub remote_address: &'a [u8],
    /// `http` or `https`.
    pub scheme: &'static str,
    /// The host asked for, without port.
    pub host: &'a [u8],
    /// The port it was asked on.
    pub port: u16,
    /// How far the peer's own forwarding headers are believed.
    pub trust: Trust,
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

/// Lines about a client that stay the same from request to request, but for the host asked for.
#[derive(Debug)]
pub struct Told {
    bytes: Vec<u8>,
    /// Where the host goes.
    host_at: usize,
}

impl Told {
    /// About a client that no header of its own says anything else about.
    pub(crate) fn of(client: &ClientFacts<'_>) -> Self {
        let mut bytes = Vec::new();
        for (name, value) in [
            ("X-Real-IP", client.remote_address),
            ("X-Forwarded-For", client.remote_address),
            ("X-Forwarded-Proto", client.scheme.as_bytes()),
        ] {
            write_line(&mut bytes, name, value);
        }
        bytes.extend_from_slice(b"X-Forwarded-Host: ");
        let host_at = bytes.len();
        bytes.extend_from_slice(b"\r\nX-Forwarded-Port: ");
        text::write_decimal(&mut bytes, u64::from(client.port));
        bytes.extend_from_slice(b"\r\n");
        Self { bytes, host_at }
    }

    #[inline]
    fn write(&self, host: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(&self.bytes[..self.host_at]);
        out.extend_from_slice(host);
        out.extend_from_slice(&self.bytes[self.host_at..]);
    }
}

/// The head to be written.
#[derive(Debug)]
pub(crate) struct UpstreamRequest<'a> {
    /// The client's head.
    pub head: &'a RequestHead,
    /// The bytes it was parsed from.
    pub bytes: &'a [u8],
    /// `Host` for the node.
    pub host: &'a [u8],
    /// What the gateway says about the client.
    pub client: ClientFacts<'a>,
    /// The same, written before, where it is what every request of this client gets.
    pub told: Option<&'a Told>,
    /// Whether `Upgrade` is passed on.
    pub upgrade: bool,
    /// The method, where a plugin changes it.
    pub method: Option<&'a [u8]>,
    /// Path and query, where a plugin changes them.
    pub target: Option<&'a [u8]>,
}

impl UpstreamRequest<'_> {
    /// Appends the head to `out`.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        self.write_request_line(out);
        write_line(out, "Host", self.host);
        match self.told {
            Some(told) => told.write(self.client.host, out),
            None => self.write_client(out),
        }
        let trusted = self.client.trust == Trust::Trusted;
        let end = self.head.head_bytes - 2;
        copy_lines(out, &self.head.fields, self.bytes, end, |field| passes(field, trusted));
        if self.head.body == BodyLength::Chunked {
            out.extend_from_slice(b"Transfer-Encoding: chunked\r\n");
        }
        if self.upgrade {
            // The one protocol that is passed on, also where the client offers others.
            out.extend_from_slice(b"Upgrade: websocket\r\nConnection: upgrade\r\n");
        }
        out.extend_from_slice(b"\r\n");
    }

    /// The path and query as sent; the absolute form is reduced to the origin form.
    fn write_request_line(&self, out: &mut Vec<u8>) {
        let parts = &self.head.parts;
        out.extend_from_slice(self.method.unwrap_or(self.head.method.of_buffer(self.bytes)));
        out.push(b' ');
        if let Some(target) = self.target {
            out.extend_from_slice(target);
            out.extend_from_slice(b" HTTP/1.1\r\n");
            return;
        }
        if parts.path.is_empty() {
            out.push(b'/');
        }
        out.extend_from_slice(parts.path.of_buffer(self.bytes));
        if let Some(query) = parts.query {
            out.push(b'?');
            out.extend_from_slice(query.of_buffer(self.bytes));
        }
        out.extend_from_slice(b" HTTP/1.1\r\n");
    }

    fn write_client(&self, out: &mut Vec<u8>) {
        let client = &self.client;
        let keeps = |known| client.trust == Trust::Trusted && self.head.fields.has(known);
        out.extend_from_slice(b"X-Real-IP: ");
        out.extend_from_slice(client.remote_address);
        out.extend_from_slice(b"\r\nX-Forwarded-For: ");
        self.write_forwarded_for(out);
        out.extend_from_slice(b"\r\n");
        if !keeps(Known::XForwardedProto) {
            out.extend_from_slice(b"X-Forwarded-Proto: ");
            out.extend_from_slice(client.scheme.as_bytes());
            out.extend_from_slice(b"\r\n");
        }
        if !keeps(Known::XForwardedHost) {
            out.extend_from_slice(b"X-Forwarded-Host: ");
            out.extend_from_slice(client.host);
            out.extend_from_slice(b"\r\n");
        }
        if !keeps(Known::XForwardedPort) {
            out.extend_from_slice(b"X-Forwarded-Port: ");
            text::write_decimal(out, u64::from(client.port));
            out.extend_from_slice(b"\r\n");
        }
    }

    /// The chain so far, unless it is not to be believed, and the client at its end.
    fn write_forwarded_for(&self, out: &mut Vec<u8>) {
        if self.client.trust != Trust::Untrusted && self.head.fields.has(Known::XForwardedFor) {
            let lines = self.head.fields.iter().filter(|f| f.known == Known::XForwardedFor);
            for line in lines {
                out.extend_from_slice(line.value().of_buffer(self.bytes));
                out.extend_from_slice(b", ");
            }
        }
        out.extend_from_slice(self.client.remote_address);
    }
}

/// Whether a client's header line is copied to the node as it stands.
#[inline]
fn passes(field: &Field, trusted: bool) -> bool {
    match field.known {
        Known::Host | Known::Expect | Known::XRealIp | Known::XForwardedFor => false,
        Known::XForwardedProto
        | Known::XForwardedHost
        | Known::XForwardedPort
        | Known::Forwarded => trusted,
        known => !known.is_hop_by_hop(),
    }
}

#[cfg(test)]
mod tests;
