//! Check that the client has presented the certificate that the requested host requires.
//!
//! The handshake requested a certificate for the server name, but the request may name another
//! host. Therefore the host of each request is checked again. A host that requests certificates is
//! served only on a connection that was opened with its name (RFC 9110 §7.4).

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

/// Refuses a TLS request whose host requires a certificate that the client has not presented.
///
/// # Errors
/// If the certificate is missing or invalid, or the connection was opened for another name.
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
        // The host's object is invalid, so its clients cannot be verified; a new connection fails
        // in the handshake.
        return Err(ErrorCode::MisdirectedRequest.into());
    }
    let found = snapshot.certificates.find(host).and_then(|host| host.clients.as_ref());
    let Some(terms) = found else { return Ok(()) };
    // An exempt path must be unambiguous, and the node receives the path that was judged,
    // regardless of the setting for ambiguous paths.
    if terms.exempts(cx) && judged_path::apply_unambiguous(cx).is_ok() {
        return Ok(());
    }
    let host = host_of(cx);
    let Some(peer) = cx.client.tls.as_deref().filter(|peer| *peer.name == *host) else {
        return Err(ErrorCode::MisdirectedRequest.into());
    };
    let Some(checked) = &peer.checked else {
        // The host requested no certificate when the connection was opened.
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

/// Records a verified client certificate as an identity, for plugins that separate users.
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

/// Returns the requested host in lower case, without its port.
fn host_of<'a>(cx: &'a Exchange<'_>) -> &'a str {
    std::str::from_utf8(&cx.state.host[..cx.state.host_bytes]).unwrap_or_default()
}

/// Verifies the client certificate against terms that changed after the handshake.
#[cold]
fn check_anew(cx: &mut Exchange<'_>, terms: &ClientTerms) -> Result<(), HandshakeFailure> {
    let by = Arc::clone(&terms.verifier);
    let shown = cx.client.tls.as_deref().map_or(&[][..], |peer| &peer.certificates);
    let verdict = by.verify(shown);
    // Facts shared with other HTTP/2 streams are not updated; their requests are verified one by
    // one.
    if let Some(peer) = cx.client.tls.as_mut().and_then(Rc::get_mut) {
        peer.checked = Some(Checked { by, verdict });
    }
    verdict
}
