//! Moves bytes between a session and its socket.

use std::io::IoSlice;
use std::task::{Context, Poll};

use super::session::{OpenedStream, Session};
use crate::connection::link::Link;
use crate::turn::{self, TURN_BYTES};
use crate::worker::Worker;

/// State of a connection after moving bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Progress {
    /// Reading and writing are both blocked for now.
    Waiting,
    /// The session has ended and everything is written.
    Finished,
    /// The connection to the peer was lost.
    Lost,
}

/// Reads available bytes into the session; streams opened by the peer are added to `opened`.
pub(super) fn read(
    context: &mut Context<'_>,
    worker: &Worker,
    session: &Session,
    link: &mut Link,
    opened: &mut Vec<OpenedStream>,
) -> Progress {
    let now_ms = worker.clock.refresh();
    let random = || worker.random_u64();
    let mut turn = 0;
    // Bytes that were read before this session existed.
    let mut is_fed = link.buffer.is_empty();
    loop {
        if !is_fed {
            let bytes = link.buffer.filled();
            let length = bytes.len();
            let received = session.receive(bytes, now_ms, &random, opened);
            link.buffer.consume(length);
            turn += length;
            if received.is_err() {
                // Pending output of the codec, such as GOAWAY, is still written.
                return Progress::Finished;
            }
        }
        if !session.with_codec(|codec| codec.wants_input()) {
            return Progress::Waiting;
        }
        // Without a bound, a fast client would occupy the core.
        if turn >= TURN_BYTES {
            let _ = turn::give_way::<()>(context);
            return Progress::Waiting;
        }
        match link.poll_fill(context, &worker.buffers) {
            Poll::Ready(Ok(read)) if read > 0 => is_fed = false,
            Poll::Ready(_) => return Progress::Lost,
            Poll::Pending => return Progress::Waiting,
        }
    }
}

/// Writes pending output of the session.
pub(super) fn write(context: &mut Context<'_>, session: &Session, link: &mut Link) -> Progress {
    let stream = &mut link.stream;
    loop {
        let written =
            session.write_out(|output| stream.poll_write(context, &[IoSlice::new(output)]));
        match written {
            Poll::Ready(Ok(0)) => break,
            Poll::Ready(Ok(_)) => session.wake_ready(),
            Poll::Ready(Err(_)) => return Progress::Lost,
            Poll::Pending => return Progress::Waiting,
        }
    }
    match stream.poll_flush(context) {
        Poll::Ready(Err(_)) => Progress::Lost,
        Poll::Pending => Progress::Waiting,
        Poll::Ready(Ok(())) if session.with_codec(|codec| codec.is_finished()) => {
            Progress::Finished
        }
        Poll::Ready(Ok(())) => Progress::Waiting,
    }
}
