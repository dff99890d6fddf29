//! Reads request bodies whole, for plugins or for variables such as `post_arg_name`.
//!
//! The body is read into the client's buffer and stays there, to be sent on; its bytes are taken
//! from the process's budget while it is held. Looking into a long body is done elsewhere
//! (`offload.rs`); what variables find is kept, and nothing else of it.

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

/// Reads the body for variables: where it has arguments and is no longer than is looked into. Any
/// other is passed on unread, and its variables have no values.
///
/// # Errors
/// When the client breaks off, takes too long, or breaks the framing; when there is no memory.
pub(crate) async fn read_for_variables(cx: &mut Exchange<'_>) -> Result<(), GatewayError> {
    let limit = cx.worker.settings.limits.post_args_bytes as u64;
    let kind = content_type(&cx.state.head, &cx.client.link.buffer);
    let wanted = cx.state.held_body.wanted();
    let has_values = body::has_values(kind, wanted.as_deref().unwrap_or_default());
    let is_too_long = matches!(cx.state.head.body, BodyLength::Known(length) if length > limit);
    if !has_values || is_too_long {
        cx.state.held_body.leave_unread();
        return Ok(());
    }
    match read_whole(cx, limit).await {
        // Too long to be looked into, and not too long to be sent on.
        Err(error) if error.code == ErrorCode::BodyTooLarge && !cx.body.is_over_limit() => {
            cx.state.held_body.leave_unread();
            Ok(())
        }
        other => other,
    }
}

/// Reads the whole body, of at most `bytes_max` bytes without its chunk framing, and looks up what
/// variables may ask for.
///
/// # Errors
/// `BodyTooLarge` for a longer one; else as [`read_for_variables`].
pub(crate) async fn read_whole(cx: &mut Exchange<'_>, bytes_max: u64) -> Result<(), GatewayError> {
    let head_bytes = cx.state.head.head_bytes;
    // Asked for a second time, by another plugin: what is held may be longer than this one takes.
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
        // A read may bring chunk framing along, which is taken out afterwards.
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

/// Finds the values of all variables that the configuration may ask for.
async fn look_up(cx: &mut Exchange<'_>) -> Result<(), GatewayError> {
    let Some(wanted) = cx.state.held_body.wanted() else { return Ok(()) };
    let kind = content_type(&cx.state.head, &cx.client.link.buffer);
    if !body::has_values(kind, &wanted) {
        return Ok(());
    }
    let kind = kind.to_vec();
    let values = examine(cx, move |bytes: &[u8]| body::look_up(bytes, &kind, &wanted)).await?;
    cx.state.held_body.set_values(values);
    Ok(())
}

/// Lets `look` see the body that has been read: at once where it is short, else on another thread.
///
/// # Errors
/// When there is no memory for the work, or it has panicked.
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
    // What is made of a body is at most as long as that, and an outline or names beside it.
    let extra = length as u64 + length as u64 / 2;
    if !cx.state.held_body.reserve(&cx.worker.settings.limits.memory, extra) {
        return Err(ErrorCode::MemoryLimit.into());
    }
    // The body goes to the other thread and comes back: meanwhile nobody here may look at it.
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

/// How large a buffer becomes.
struct Sizes {
    /// With all of the body in it, where its length is known.
    size: Option<usize>,
    /// At most.
    size_max: usize,
}

/// Reads until the body is complete or the buffer as large as allowed.
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
            // A client that waits to be invited would wait for ever: no node is asked meanwhile.
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
        // After each read: what many clients send in small pieces adds up all the same.
        if !client.link.buffer.reserve(&limits.memory) {
            return Err(ErrorCode::MemoryLimit.into());
        }
        // A fast sender would have the core to itself for as long as its body is.
        if client.link.buffer.len() >= turn_end {
            turn_end = client.link.buffer.len() + TURN_BYTES;
            tokio::task::yield_now().await;
        }
    }
    Ok(())
}
