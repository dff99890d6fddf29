//! Brings a request's host and path into the form that routes are matched against.

use tollhouse_router::{Normalized, normalize_path};
use tollhouse_telemetry::ErrorCode;

use crate::error::GatewayError;
use crate::request::Work;
use crate::worker::Worker;

/// Lower-cases the host into the work's buffer, its port behind it. A dot that ends the name does
/// not come along.
#[inline]
pub(crate) fn host(work: &mut Work, bytes: &[u8]) {
    work.host.clear();
    work.head.write_host(bytes, &mut work.host);
    work.host_bytes = work.head.host_bytes as usize;
}

/// Normalises the path; an ordinary one is left where it is, as is that of `OPTIONS *`.
///
/// # Errors
/// A path that escapes its root or is badly encoded.
#[inline]
pub(crate) fn path(worker: &Worker, work: &mut Work, bytes: &[u8]) -> Result<(), GatewayError> {
    let sent = work.head.parts.path.of_buffer(bytes);
    work.path.clear();
    work.path_is_rewritten = false;
    if sent == b"*" {
        return Ok(());
    }
    if sent.is_empty() {
        work.path.push(b'/');
        work.path_is_rewritten = true;
        return Ok(());
    }
    let normalized = normalize_path(sent, &worker.settings.normalize, &mut work.path)
        .map_err(|_| ErrorCode::BadPath)?;
    work.path_is_rewritten = matches!(normalized, Normalized::InOut);
    Ok(())
}
