//! Reads whole request bodies, for plugins or for variables such as `post_arg_name`.
//!
//! The body is read into the client's buffer and stays there until it is sent on; meanwhile its
//! bytes are reserved in the memory budget. Long bodies are parsed on other threads (`offload.rs`);
//! only the values of the variables are kept.

use std::future::poll_fn;
use std::task::Poll;

use tollhouse_http::BodyLength;
use tollhouse_model::body;
use tollhouse_telemetry::ErrorCode;

use crate::connection::buffer::{BUFFER_BYTES, Buffer};
use crate::error::GatewayError;
use crate::exchange::Exchange;
use crate::exchange::held_body::content_type;
use crate::offload::{self, INLINE_BYTES_MAX};
use crate::turn::TURN_BYTES;

/// Reads the body for variables, if its content type has arguments and it is not too long. Any
/// other body is passed on unread, and its variables have no values.
///
/// # Errors
/// If the client breaks off, is too slow or breaks the framing, or if the memory budget is
/// exhausted.
pub(crate) async fn read_for_variables(cx: &mut Exchange<'_>) -> Result<(), GatewayError> {
    let limits = cx.worker.settings.limits.variables;
    let kind = content_type(&cx.state.head, &cx.client.link.buffer);
    let wanted = cx.state.held_body.wanted();
    let longest = limits.longest(kind, wanted.as_deref().unwrap_or_default());
    let limit = longest.unwrap_or_default() as u64;
    let is_too_long = matches!(cx.state.head.body, BodyLength::Known(length) if length > limit);
    if longest.is_none() || is_too_long {
        cx.state.held_body.leave_unread();
        return Ok(());
    }
    match read_whole(cx, limit).await {
        // Too long for variables, but not too long to be forwarded.
        Err(error) if error.code == ErrorCode::BodyTooLarge && !cx.body.is_over_limit() => {
            cx.state.held_body.leave_unread();
            Ok(())
        }
        other => other,
    }
}

/// Reads the whole body, of at most `bytes_max` bytes without chunk framing, and looks up the
/// configured variables.
///
/// # Errors
/// `BodyTooLarge` for a longer body; otherwise like [`read_for_variables`].
pub(crate) async fn read_whole(cx: &mut Exchange<'_>, bytes_max: u64) -> Result<(), GatewayError> {
    let head_bytes = cx.state.head.head_bytes;
    // Another plugin may have read the body already, with a larger limit.
    if let Some(bytes) = cx.state.held_body.length(head_bytes) {
        return if bytes <= bytes_max { Ok(()) } else { Err(ErrorCode::BodyTooLarge.into()) };
    }
    let declared = match cx.state.head.body {
        BodyLength::Known(length) if length > bytes_max => {
            return Err(ErrorCode::BodyTooLarge.into());
        }
        BodyLength::Known(length) => usize::try_from(length).ok(),
        _ => None,
    };
    let limit = usize::try_from(bytes_max).unwrap_or(usize::MAX);
    let sizes = Sizes {
        size: declared.map(|length| length.saturating_add(head_bytes)),
        // A read may include chunk framing, which is removed afterwards.
        size_max: head_bytes.saturating_add(limit.saturating_add(BUFFER_BYTES)),
    };
    collect(cx, sizes).await?;
    let end = cx.body.end_in_buffer();
    if !cx.body.is_received() || end - head_bytes > limit {
        return Err(ErrorCode::BodyTooLarge.into());
    }
    cx.state.held_body.hold(end);
    cx.body.send_plainly();
    look_up(cx).await
}

/// Looks up the values of all body variables of the configuration.
async fn look_up(cx: &mut Exchange<'_>) -> Result<(), GatewayError> {
    let Some(wanted) = cx.state.held_body.wanted() else { return Ok(()) };
    let kind = content_type(&cx.state.head, &cx.client.link.buffer);
    let limits = cx.worker.settings.limits.variables;
    if limits.longest(kind, &wanted).is_none() {
        return Ok(());
    }
    let kind = kind.to_vec();
    let look = move |bytes: &[u8]| body::look_up(bytes, &kind, &wanted, limits);
    let values = examine(cx, look).await?;
    cx.state.held_body.set_values(values);
    Ok(())
}

/// Runs `look` on the body that was read: inline if the body is short, else on another thread.
///
/// # Errors
/// If the memory budget is exhausted or `look` panicked.
pub(crate) async fn examine<T: Send + 'static>(
    cx: &mut Exchange<'_>,
    look: impl FnOnce(&[u8]) -> T + Send + 'static,
) -> Result<T, GatewayError> {
    let head_bytes = cx.state.head.head_bytes;
    let edits = &cx.state.plugins.edits;
    let own = cx.state.held_body.bytes(head_bytes, &cx.client.link.buffer).unwrap_or_default();
    let current = edits.body.as_deref().unwrap_or(own);
    let length = current.len();
    if length <= INLINE_BYTES_MAX {
        return Ok(look(current));
    }
    // Estimate of the result: at most as long as the body, plus its outline or names.
    let extra = length as u64 + length as u64 / 2;
    if !cx.state.held_body.reserve(&cx.worker.settings.limits.memory, extra) {
        return Err(ErrorCode::MemoryLimit.into());
    }
    // The body is moved to the other thread and back, so it is unavailable here meanwhile.
    let found = if let Some(bytes) = cx.state.plugins.edits.body.take() {
        let (bytes, found) =
            offload::run(bytes, |bytes| look(bytes)).await.ok_or(ErrorCode::InternalPanic)?;
        cx.state.plugins.edits.body = Some(bytes);
        found
    } else {
        let buffer = std::mem::replace(&mut cx.client.link.buffer, Buffer::absent());
        let end = head_bytes + length;
        let look = move |buffer: &mut Buffer| look(&buffer.filled()[head_bytes..end]);
        let (buffer, found) = offload::run(buffer, look).await.ok_or(ErrorCode::InternalPanic)?;
        cx.client.link.buffer = buffer;
        found
    };
    Ok(found.ok_or(ErrorCode::InternalPanic)?)
}

/// Sizes of the buffer, in bytes.
struct Sizes {
    /// Size with the whole body, if its length is known.
    size: Option<usize>,
    /// Maximum size of the body in bytes.
    size_max: usize,
}

/// Reads until the body is complete or the buffer has its maximum size.
async fn collect(
    cx: &mut Exchange<'_>,
    Sizes { size, size_max }: Sizes,
) -> Result<(), GatewayError> {
    let (worker, client, body) = (cx.worker, &mut *cx.client, &mut *cx.body);
    let limits = &worker.settings.limits;
    let mut is_first = true;
    let mut turn_end = client.link.buffer.len() + TURN_BYTES;
    client.arm(worker, limits.body_read_time);
    while !body.is_received() && client.link.buffer.len() < size_max {
        if std::mem::take(&mut is_first) {
            // No node is asked while the body is collected, so the gateway sends 100 Continue
            // itself.
            client
                .write_all(worker, body.take_invitation())
                .await
                .map_err(|_| ErrorCode::DownstreamGone)?;
            client.arm(worker, limits.body_read_time);
        }
        if client.link.buffer.room().is_empty()
            && !client.link.buffer.make_body_room(size, size_max)
        {
            return Err(ErrorCode::MemoryLimit.into());
        }
        let read = poll_fn(|context| match client.link.poll_fill(context, &worker.buffers) {
            Poll::Ready(Ok(read)) if read > 0 => Poll::Ready(Ok(())),
            Poll::Ready(_) => Poll::Ready(Err(ErrorCode::DownstreamGone)),
            Poll::Pending if client.is_late(worker) => Poll::Ready(Err(ErrorCode::BodyReadTimeout)),
            Poll::Pending => Poll::Pending,
        })
        .await;
        read?;
        client.arm(worker, limits.body_read_time);
        body.admit(&mut client.link.buffer)?;
        // Reserved after each read, because many small bodies add up.
        if !client.link.buffer.reserve(&limits.memory) {
            return Err(ErrorCode::MemoryLimit.into());
        }
        // Without a bound, a fast sender would occupy the core.
        if client.link.buffer.len() >= turn_end {
            turn_end = client.link.buffer.len() + TURN_BYTES;
            tokio::task::yield_now().await;
        }
    }
    Ok(())
}
