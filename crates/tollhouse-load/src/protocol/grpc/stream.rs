//! Sending side of streaming calls: the messages of client and bidirectional streams, their pauses
//! and limits.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;

use crate::case::GrpcCall;
use crate::protocol::http2::session::Call;

/// Pauses and limits of a stream.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rhythm {
    /// Pause between two sent messages.
    pub(super) interval: Option<Duration>,
    /// Duration after which the stream ends.
    pub(super) duration: Option<Duration>,
    /// Number of messages to send or to receive.
    pub(super) count: Option<u64>,
}

impl Rhythm {
    pub(super) const NONE: Self = Self { interval: None, duration: None, count: None };

    pub(super) fn from_call(call: &GrpcCall) -> Self {
        Self {
            interval: call.stream_interval,
            duration: call.stream_call_duration,
            count: call.stream_call_count,
        }
    }
}

/// Sends messages until none are left or the time is over, then closes this side of the stream.
/// `next` creates message n; its error resets the stream.
///
/// # Errors
/// If `next` fails. A stream ended by the peer is not an error here, because its status gives the
/// reason.
pub(super) async fn send_messages<E>(
    call: &Call,
    rhythm: Rhythm,
    mut next: impl FnMut(u64) -> Option<Result<Bytes, E>>,
) -> Result<(), E> {
    let mut error = None;
    let is_open = {
        let sent = send_all(call, rhythm.interval, &mut next, &mut error);
        within(rhythm.duration, sent).await.unwrap_or(true)
    };
    if let Some(error) = error {
        return Err(error);
    }
    if is_open {
        call.end();
    }
    Ok(())
}

/// Sends all messages; returns whether the stream is still open.
async fn send_all<E>(
    call: &Call,
    interval: Option<Duration>,
    next: &mut impl FnMut(u64) -> Option<Result<Bytes, E>>,
    error: &mut Option<E>,
) -> bool {
    let mut turn = 0;
    while let Some(message) = next(turn) {
        if let Some(interval) = interval
            && turn > 0
        {
            tokio::time::sleep(interval).await;
        }
        match message {
            Ok(message) => {
                if !call.send(message).await {
                    return false;
                }
            }
            Err(wrong) => {
                *error = Some(wrong);
                return true;
            }
        }
        turn += 1;
    }
    true
}

/// Runs a future with an optional time limit; `None` if the limit is reached first.
pub(super) async fn within<T>(
    duration: Option<Duration>,
    work: impl Future<Output = T>,
) -> Option<T> {
    match duration {
        None => Some(work.await),
        Some(duration) => tokio::time::timeout(duration, work).await.ok(),
    }
}

/// Sends and receives concurrently. Completes when receiving does, even if not everything was sent.
/// An error of sending ends both.
pub(super) async fn both<T, E>(
    sending: impl Future<Output = Result<(), E>>,
    receiving: impl Future<Output = T>,
) -> Result<T, E> {
    let (mut sending, mut receiving) = (pin!(sending), pin!(receiving));
    let mut has_sent = false;
    poll_fn(|context| {
        if !has_sent && let Poll::Ready(sent) = sending.as_mut().poll(context) {
            has_sent = true;
            if let Err(error) = sent {
                return Poll::Ready(Err(error));
            }
        }
        receiving.as_mut().poll(context).map(Ok)
    })
    .await
}
