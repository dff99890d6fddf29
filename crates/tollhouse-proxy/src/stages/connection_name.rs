//! Whether a request may come over the connection that it comes over: whether the client has opened TLS for
//! its host, or may take the connection for one of it (RFC 9110 §7.4).
//!
//! Over HTTP/2 clients ask many hosts over one connection, those that its certificate stands for by name or address
//! (RFC 9113 §9.1.1). What else comes is a client's mistake, or somebody's attempt to reach a host by
//! another's name; either way the client is told to open a connection for it. Whether it has shown a
//! certificate itself is looked at in `client_certificate.rs`.

use std::net::IpAddr;

use tollhouse_telemetry::ErrorCode;

use crate::connection::handshake::TlsPeer;
use crate::error::GatewayError;
use crate::exchange::Exchange;
use crate::snapshot::Snapshot;

/// Refuses a request of HTTP/2 for a host that the certificate of its connection does not stand for.
/// Costs one branch in clear text and over HTTP/1.1, and a comparison where the host is the one that the
/// connection was opened for.
///
/// # Errors
/// The connection is one of another host.
#[inline]
pub(crate) fn check(cx: &Exchange<'_>, snapshot: &Snapshot) -> Result<(), GatewayError> {
    let Some(peer) = cx.client.tls.as_deref().filter(|_| cx.client.link.stream.is_shared()) else {
        return Ok(());
    };
    let host = &cx.state.host[..cx.state.host_bytes];
    // Who names no host means the one of the connection.
    if host.is_empty() || (peer.is_named && peer.name.as_bytes() == host) {
        return Ok(());
    }
    match std::str::from_utf8(host).is_ok_and(|host| is_reached(peer, host, snapshot)) {
        true => Ok(()),
        false => Err(ErrorCode::MisdirectedRequest.into()),
    }
}

fn is_reached(peer: &TlsPeer, host: &str, snapshot: &Snapshot) -> bool {
    peer.host.covers(host) || (!peer.is_named && is_nobodys(peer, host, snapshot))
}

/// Whether no other certificate stands for the host. A client that named none when it connected has no
/// other way to ask for an address or a name without a certificate; what has one must be asked for by name.
fn is_nobodys(peer: &TlsPeer, host: &str, snapshot: &Snapshot) -> bool {
    let is_address = host.trim_matches(['[', ']']).parse::<IpAddr>().is_ok();
    is_address || snapshot.certificates.find(host).is_none_or(|other| other.id == peer.host.id)
}
