//! Refuses what is too large before anything is spent on it. Limits of the head are the parser's.

use tollhouse_http::BodyLength;
use tollhouse_telemetry::ErrorCode;

use crate::error::GatewayError;
use crate::exchange::Exchange;

/// Checks the body that the head declares, and what of it came along with the head.
///
/// # Errors
/// For a body that is longer than allowed, or breaks its framing.
#[inline]
pub(crate) fn check(cx: &mut Exchange<'_>) -> Result<(), GatewayError> {
    let limit = cx.worker.settings.limits.body_bytes;
    if matches!(cx.state.head.body, BodyLength::Known(bytes) if bytes > limit) {
        return Err(ErrorCode::BodyTooLarge.into());
    }
    Ok(cx.body.admit(&mut cx.client.link.buffer)?)
}
