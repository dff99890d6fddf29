//! Refuses oversized requests before anything is spent on them. Limits of the head are checked by
//! the parser.

use tollhouse_http::BodyLength;
use tollhouse_telemetry::ErrorCode;

use crate::error::GatewayError;
use crate::exchange::Exchange;

/// Checks the declared length of the body and the bytes that arrived with the head.
///
/// # Errors
/// If the body is longer than allowed or its framing is invalid.
#[inline]
pub(crate) fn check(cx: &mut Exchange<'_>) -> Result<(), GatewayError> {
    let limit = cx.worker.settings.limits.body_bytes;
    if matches!(cx.state.head.body, BodyLength::Known(bytes) if bytes > limit) {
        return Err(ErrorCode::BodyTooLarge.into());
    }
    Ok(cx.body.admit(&mut cx.client.link.buffer)?)
}
