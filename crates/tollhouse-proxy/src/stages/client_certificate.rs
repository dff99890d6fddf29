//! Whether the client has shown the certificate that the host of its request asks for.
//!
//! The certificate was asked for by the name in the handshake; the request may name another host. So
//! the host of each request is looked at again, and one that asks for certificates is served only on
//! a connection that was opened for it by name (RFC 9110 §7.4).

use std::rc::Rc;
use std::sync::Arc;

use tollhouse_plugin::Identity;
use tollhouse_telemetry::{ErrorCode, HandshakeFailure};

use crate::connection::handshake::Checked;
use crate::error::GatewayError;
use crate::exchange::Exchange;
use crate::snapshot::Snapshot;
use crate::snapshot::certificates::ClientTerms;
use crate::stages::judged_path;

/// Refuses a request over TLS whose host asks for a certificate that the client has not shown.
///
/// # Errors
/// The certificate is missing or bad, or the connection was opened for another name.
#[inline]
pub(crate) fn check(cx: &mut Exchange<'_>, snapshot: &Snapshot) -> Result<(), GatewayError> {
    if cx.client.tls.is_none() || !snapshot.certificates.asks_clients() {
        return Ok(());
    }
    check_host(cx, snapshot)
}

fn check_host(cx: &mut Exchange<'_>, snapshot: &Snapshot) -> Result<(), GatewayError> {
    let host = host_of(cx);
    if snapshot.certificates.refuses(host) {
        // Who may come is not known; a new connection is told so in its handshake.
        return Err(ErrorCode::MisdirectedRequest.into());
    }
    let found = snapshot.certificates.find(host).and_then(|host| host.clients.as_ref());
    let Some(terms) = found else { return Ok(()) };
    // An exempt path is judged like any other: the node gets the one that was, and a path that it could
    // read in another way is not exempt, whatever the settings allow elsewhere.
    if terms.exempts(cx) && judged_path::apply_unambiguous(cx).is_ok() {
        return Ok(());
    }
    let host = host_of(cx);
    let Some(peer) = cx.client.tls.as_deref().filter(|peer| *peer.name == *host) else {
        return Err(ErrorCode::MisdirectedRequest.into());
    };
    let Some(checked) = &peer.checked else {
        // The host did not ask when the connection was opened.
        return Err(ErrorCode::MisdirectedRequest.into());
    };
    let verdict = match Arc::ptr_eq(&checked.by, &terms.verifier) {
        true => checked.verdict,
        false => check_anew(cx, terms),
    };
    verdict.map_err(|failure| match failure {
        HandshakeFailure::ClientCertificateMissing => ErrorCode::ClientCertificateMissing.into(),
        _ => ErrorCode::ClientCertificateInvalid.into(),
    })
}

/// Notes the certificate that the client has shown and that was found to be good, for plugins that keep users apart.
#[inline]
pub(crate) fn note_identity(cx: &mut Exchange<'_>) {
    let Some(peer) = cx.client.tls.as_deref() else { return };
    if peer.checked.as_ref().is_none_or(|checked| checked.verdict.is_err()) {
        return;
    }
    let (name, grant) = peer.subject_and_serial();
    let (name, grant) = (name.as_bytes(), grant.as_bytes());
    let identity = Identity { by: "client-certificate", name, grant };
    cx.state.plugins.edits.identities.note(identity);
}

/// The host of the request, in lower case and without its port.
fn host_of<'a>(cx: &'a Exchange<'_>) -> &'a str {
    std::str::from_utf8(&cx.state.host[..cx.state.host_bytes]).unwrap_or_default()
}

/// Checks what the client has shown by terms that came into service after its handshake.
#[cold]
fn check_anew(cx: &mut Exchange<'_>, terms: &ClientTerms) -> Result<(), HandshakeFailure> {
    let by = Arc::clone(&terms.verifier);
    let shown = cx.client.tls.as_deref().map_or(&[][..], |peer| &peer.certificates);
    let verdict = by.verify(shown);
    // What other streams share stays as it is: each of their requests is checked for itself.
    if let Some(peer) = cx.client.tls.as_mut().and_then(Rc::get_mut) {
        peer.checked = Some(Checked { by, verdict });
    }
    verdict
}
