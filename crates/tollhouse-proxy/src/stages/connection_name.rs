//! Check that a request may use its connection: the client opened TLS for the requested host, or
//! the connection's certificate covers it (RFC 9110 §7.4).
//!
//! HTTP/2 clients request several hosts over one connection if its certificate covers them (RFC
//! 9113 §9.1.1). Any other host is a mistake of the client, or an attempt to reach a host under
//! another's name. The client is told to open a separate connection. Client certificates are
//! checked in `client_certificate.rs`.

use std::net::IpAddr;

use tollhouse_telemetry::ErrorCode;

use crate::connection::handshake::TlsPeer;
use crate::error::GatewayError;
use crate::exchange::Exchange;
use crate::snapshot::Snapshot;

/// Refuses an HTTP/2 request for a host that the connection's certificate does not cover. Costs one
/// branch without TLS or over HTTP/1.1, and a comparison if the host equals the server name.
///
/// # Errors
/// If the connection belongs to another host.
#[inline]
pub(crate) fn check(cx: &Exchange<'_>, snapshot: &Snapshot) -> Result<(), GatewayError> {
    let Some(peer) = cx.client.tls.as_deref().filter(|_| cx.client.link.stream.is_shared()) else {
        return Ok(());
    };
    let host = &cx.state.host[..cx.state.host_bytes];
    // A request without a host means the connection's host.
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

/// Whether no other certificate covers the host. A client without SNI can request an address or a
/// name without a certificate in no other way; a host with a separate certificate must be requested
/// by name.
fn is_nobodys(peer: &TlsPeer, host: &str, snapshot: &Snapshot) -> bool {
    let is_address = host.trim_matches(['[', ']']).parse::<IpAddr>().is_ok();
    is_address || snapshot.certificates.find(host).is_none_or(|other| other.id == peer.host.id)
}
