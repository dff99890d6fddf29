//! Request bodies that are read whole, for plugins or for variables such as `post_arg_name`.
//!
//! The body is read into the client's buffer and stays there, to be sent on; its bytes are taken from
//! the process's budget while it is held. Looking into a long body is done elsewhere (`offload.rs`);
//! what variables find is kept, and nothing else of it.

use std::borrow::Cow;
use std::cell::Cell;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use tollhouse_http::{BodyLength, Known};
use tollhouse_model::body::{self, BodyKind};
use tollhouse_model::variable::Variable;
use tollhouse_stdx::Reservation;
use tollhouse_telemetry::ErrorCode;

use crate::buffer::{BUFFER_BYTES, Buffer};
use crate::client::Client;
use crate::error::GatewayError;
use crate::exchange::{PumpError, RequestPump};
use crate::offload::{self, INLINE_BYTES_MAX};
use crate::request::Work;
use crate::worker::{TURN_BYTES, Worker};

/// A body that has been read whole, and what variables find in it.
#[derive(Debug, Default)]
pub struct RequestBody {
    /// Where the body ends in the client's buffer, once it has been read; it begins behind the head.
    end: Option<usize>,
    /// The variables of the configuration that look into bodies; none where it has none, or the
    /// request has no body.
    wanted: Option<Arc<[Variable]>>,
    /// Their values, in the same order, once the body has been looked into.
    values: Option<Vec<Option<Vec<u8>>>>,
    /// Whether somebody has asked for a variable before the body was read.
    is_asked: Cell<bool>,
    /// Room that work on the body takes, and the body that it may bring.
    reservation: Option<Reservation>,
}

impl RequestBody {
    /// Says what variables may ask for.
    pub(crate) fn want(&mut self, variables: &Arc<[Variable]>) {
        self.wanted = Some(Arc::clone(variables));
    }

    /// Whether a variable was asked for that only the body can tell.
    pub(crate) fn is_asked(&self) -> bool {
        self.is_asked.get() && self.end.is_none()
    }

    /// The body, once it has been read; `buffer` is the client's.
    pub(crate) fn bytes<'a>(&'a self, head_bytes: usize, buffer: &'a Buffer) -> Option<&'a [u8]> {
        buffer.filled().get(head_bytes..self.end?)
    }

    /// The body's bytes, once it has been read; without chunk framing.
    #[inline]
    pub(crate) fn length(&self, head_bytes: usize) -> Option<u64> {
        Some((self.end? - head_bytes) as u64)
    }

    /// Forgets the body.
    #[inline]
    pub(crate) fn finish(&mut self) {
        if self.wanted.is_some() || self.end.is_some() || self.is_asked.get() {
            *self = Self::default();
        }
    }

    /// What a variable finds in the body.
    pub(crate) fn value<'a>(
        &'a self,
        work: &'a Work,
        buffer: &'a Buffer,
        variable: &Variable,
    ) -> Option<Cow<'a, [u8]>> {
        if work.head.body == BodyLength::None {
            return None;
        }
        if let (Some(wanted), Some(values)) = (&self.wanted, &self.values)
            && let Some(place) = wanted.iter().position(|other| other == variable)
        {
            return values[place].as_deref().map(Cow::Borrowed);
        }
        let Some(bytes) = self.bytes(work.head.head_bytes, buffer) else {
            self.is_asked.set(self.values.is_none());
            return None;
        };
        // Of no object that has a conf: templates of the process's own, such as formats of logs.
        let content_type = content_type(work, buffer)?;
        let found = body::look_up(bytes, content_type, std::slice::from_ref(variable));
        found.into_iter().next().flatten().map(Cow::Owned)
    }
}

fn content_type<'a>(work: &Work, buffer: &'a Buffer) -> Option<&'a [u8]> {
    let span = work.head.fields.first(Known::ContentType)?;
    Some(span.of_buffer(buffer.filled()))
}

/// Reads the body for variables: where it has arguments and is no longer than is looked into. Any
/// other is passed on unread, and its variables have no values.
///
/// # Errors
/// When the client breaks off, takes too long, or breaks the framing; when there is no memory.
pub(crate) async fn read_for_variables(
    worker: &Worker,
    client: &mut Client,
    work: &mut Work,
    pump: &mut RequestPump,
) -> Result<(), GatewayError> {
    let limit = worker.settings.limits.post_args_bytes;
    let kind = content_type(work, &client.link.buffer).and_then(BodyKind::named);
    let is_too_long = matches!(work.head.body, BodyLength::Known(length) if length > limit as u64);
    if kind.is_none() || is_too_long {
        work.body.values = Some(Vec::new());
        work.body.wanted = None;
        return Ok(());
    }
    match read_whole(worker, client, work, pump, limit as u64).await {
        Err(error) if error.code == ErrorCode::BodyTooLarge && !pump.is_over_limit() => {
            work.body.values = Some(Vec::new());
            work.body.wanted = None;
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
pub(crate) async fn read_whole(
    worker: &Worker,
    client: &mut Client,
    work: &mut Work,
    pump: &mut RequestPump,
    bytes_max: u64,
) -> Result<(), GatewayError> {
    if let Some(bytes) = work.body.bytes(work.head.head_bytes, &client.link.buffer) {
        let fits = bytes.len() as u64 <= bytes_max;
        return if fits { Ok(()) } else { Err(ErrorCode::BodyTooLarge.into()) };
    }
    if matches!(work.head.body, BodyLength::Known(length) if length > bytes_max) {
        return Err(ErrorCode::BodyTooLarge.into());
    }
    let limit = usize::try_from(bytes_max).unwrap_or(usize::MAX);
    // A read may bring chunk framing along, which is taken out afterwards.
    let size_max = work.head.head_bytes.saturating_add(limit.saturating_add(BUFFER_BYTES));
    let size = match work.head.body {
        BodyLength::Known(length) => usize::try_from(length).ok(),
        _ => None,
    };
    let size = size.map(|length| length.saturating_add(work.head.head_bytes));
    collect(worker, client, pump, Sizes { size, size_max }).await?;
    let end = pump.end_in_buffer();
    if !pump.is_received() || end - work.head.head_bytes > limit {
        return Err(ErrorCode::BodyTooLarge.into());
    }
    work.body.end = Some(end);
    pump.send_plainly();
    look_up(worker, client, work).await
}

/// Finds the values of all variables that the configuration may ask for.
async fn look_up(
    worker: &Worker,
    client: &mut Client,
    work: &mut Work,
) -> Result<(), GatewayError> {
    let Some(wanted) = work.body.wanted.clone() else { return Ok(()) };
    let kind = content_type(work, &client.link.buffer);
    let Some(kind) = kind.filter(|kind| BodyKind::named(kind).is_some()) else { return Ok(()) };
    let kind = kind.to_vec();
    let look = move |bytes: &[u8]| body::look_up(bytes, &kind, &wanted);
    let values = examine(worker, client, work, look).await?;
    work.body.values = Some(values);
    Ok(())
}

/// Lets `look` see the body that has been read: at once where it is short, else on another thread.
///
/// # Errors
/// When there is no memory for the work, or it has panicked.
pub(crate) async fn examine<T: Send + 'static>(
    worker: &Worker,
    client: &mut Client,
    work: &mut Work,
    look: impl FnOnce(&[u8]) -> T + Send + 'static,
) -> Result<T, GatewayError> {
    let head_bytes = work.head.head_bytes;
    let replaced = work.plugins.edits.body.as_ref().map(Vec::len);
    let own = work.body.bytes(head_bytes, &client.link.buffer).unwrap_or_default();
    let length = replaced.unwrap_or(own.len());
    if length <= INLINE_BYTES_MAX {
        return Ok(look(work.plugins.edits.body.as_deref().unwrap_or(own)));
    }
    // What is made of a body is at most as long as that, and an outline or names beside it.
    let extra = length as u64 + length as u64 / 2;
    let memory = &worker.settings.limits.memory;
    // What was looked at before has left nothing that is still held.
    work.body.reservation = None;
    work.body.reservation = Some(memory.take(extra).ok_or(ErrorCode::MemoryLimit)?);
    let found = if let Some(bytes) = work.plugins.edits.body.take() {
        let (bytes, found) =
            offload::run(bytes, |bytes| look(bytes)).await.ok_or(ErrorCode::InternalPanic)?;
        work.plugins.edits.body = Some(bytes);
        found
    } else {
        let buffer = std::mem::replace(&mut client.link.buffer, Buffer::absent());
        let end = head_bytes + length;
        let look = move |buffer: &Buffer| look(&buffer.filled()[head_bytes..end]);
        let (buffer, found) = offload::run(buffer, look).await.ok_or(ErrorCode::InternalPanic)?;
        client.link.buffer = buffer;
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
    worker: &Worker,
    client: &mut Client,
    pump: &mut RequestPump,
    Sizes { size, size_max }: Sizes,
) -> Result<(), GatewayError> {
    let mut is_first = true;
    let mut turn_end = client.link.buffer.len() + TURN_BYTES;
    client.arm(worker, worker.settings.limits.body_read_time);
    while !pump.is_received() && client.link.buffer.len() < size_max {
        if std::mem::take(&mut is_first) {
            let invitation = pump.take_invitation();
            client.write_all(worker, invitation).await.map_err(|_| ErrorCode::DownstreamGone)?;
            client.arm(worker, worker.settings.limits.body_read_time);
        }
        if client.link.buffer.room().is_empty()
            && !client.link.buffer.make_body_room(size, size_max)
        {
            return Err(ErrorCode::MemoryLimit.into());
        }
        let read = poll_fn(|context| match client.link.poll_fill(context, &worker.shelf) {
            Poll::Ready(Ok(read)) if read > 0 => Poll::Ready(Ok(())),
            Poll::Ready(_) => Poll::Ready(Err(ErrorCode::DownstreamGone)),
            Poll::Pending if client.is_late(worker) => Poll::Ready(Err(ErrorCode::BodyReadTimeout)),
            Poll::Pending => Poll::Pending,
        })
        .await;
        read?;
        client.arm(worker, worker.settings.limits.body_read_time);
        pump.admit(&mut client.link.buffer).map_err(|error| match error {
            PumpError::BodyTooLarge => ErrorCode::BodyTooLarge,
            _ => ErrorCode::BadFraming,
        })?;
        if !client.link.buffer.reserve(&worker.settings.limits.memory) {
            return Err(ErrorCode::MemoryLimit.into());
        }
        if client.link.buffer.len() >= turn_end {
            turn_end = client.link.buffer.len() + TURN_BYTES;
            tokio::task::yield_now().await;
        }
    }
    Ok(())
}
