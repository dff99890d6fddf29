//! Normalises a request's host, path and client address, which all later stages use.

use tollhouse_router::{Normalized, normalize_path};
use tollhouse_telemetry::ErrorCode;

use super::client_address;
use crate::error::GatewayError;
use crate::exchange::Exchange;
use crate::exchange::state::{RequestState, is_idempotent};
use crate::head::text::AddressText;
use crate::worker::Worker;

/// Fills in the request's properties for matching and forwarding.
///
/// # Errors
/// If the path escapes its root or is badly encoded.
#[inline]
pub(crate) fn request(cx: &mut Exchange<'_>) -> Result<(), GatewayError> {
    let bytes = cx.client.request_bytes();
    let state = &mut *cx.state;
    state.is_idempotent = is_idempotent(state.head.method.bytes_in(bytes));
    host(state, bytes);
    path(cx.worker, state, bytes)?;
    let real_ip = &cx.worker.settings.real_ip;
    let reported =
        client_address::reported(real_ip, cx.client.peer.address.ip(), &state.head.fields, bytes);
    state.reported_address = reported.map(|address| (address, AddressText::new(address)));
    Ok(())
}

/// Writes the host in lower case into the request's buffer, with its port. A final dot of the name
/// is removed.
#[inline]
fn host(state: &mut RequestState, bytes: &[u8]) {
    state.host.clear();
    state.head.write_host(bytes, &mut state.host);
    state.host_bytes = state.head.host_bytes as usize;
}

/// Normalises the path; an ordinary one stays in place, as does that of `OPTIONS *`.
#[inline]
fn path(worker: &Worker, state: &mut RequestState, bytes: &[u8]) -> Result<(), GatewayError> {
    let sent = state.head.parts.path.bytes_in(bytes);
    state.path.clear();
    state.path_is_rewritten = false;
    if sent == b"*" {
        return Ok(());
    }
    if sent.is_empty() {
        state.path.push(b'/');
        state.path_is_rewritten = true;
        return Ok(());
    }
    let normalized = normalize_path(sent, &worker.settings.normalize, &mut state.path)
        .map_err(|_| ErrorCode::BadPath)?;
    state.path_is_rewritten = matches!(normalized, Normalized::InOut);
    Ok(())
}
