//! Relays bytes in both directions between a client and its node until both have ended. The end of
//! one direction is passed on, so that a client that has sent everything still receives the
//! response.
//!
//! Bytes are written before more are read. A slow reader therefore stops the writer on the other
//! side and occupies at most one buffer or pipe.

use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::Interest;
use tollhouse_net::Stream;
use tollhouse_telemetry::ErrorCode;

use super::connection::Connection;
use super::pipes::{Pipe, PipePool};
use crate::connection::buffer::{BUFFER_BYTES, BufferPool};
use crate::connection::carrier::Carrier;
use crate::connection::link::Link;
use crate::turn::{self, TURN_BYTES};
use crate::worker::Worker;

#[derive(Debug, Clone, Copy)]
pub(super) struct Times {
    /// Maximum time without a byte in either direction.
    pub idle: Duration,
    /// Maximum time without a byte after one direction has ended.
    pub half_closed: Duration,
}

/// Relays until both directions have ended.
///
/// # Errors
/// If one side breaks, or no byte moves before the timeout.
pub(super) async fn run(
    connection: &mut Connection<'_>,
    client: &mut Link,
    node: &mut Link,
    times: Times,
) -> Result<(), ErrorCode> {
    let worker = connection.worker;
    let (mut up, mut down) = (Flow::new(&worker.pipes), Flow::new(&worker.pipes));
    let mut armed_at = (u64::MAX, false);
    let ended = poll_fn(|context| {
        let means = Means { buffers: &worker.buffers, is_last: false };
        let polled_up = up.poll(context, client, &mut node.stream, means.beside(&down));
        let polled_down = down.poll(context, node, &mut client.stream, means.beside(&up));
        note(worker, connection, &up, &down);
        if let Some(code) = failure(&polled_up, &polled_down) {
            return Poll::Ready(Err(code));
        }
        if polled_up.is_ready() && polled_down.is_ready() {
            return Poll::Ready(Ok(()));
        }
        let state = (up.bytes + down.bytes, up.is_ended || down.is_ended);
        if state != armed_at {
            armed_at = state;
            connection.arm(if state.1 { times.half_closed } else { times.idle });
            return Poll::Pending;
        }
        if connection.is_late() { Poll::Ready(Err(ErrorCode::StreamIdle)) } else { Poll::Pending }
    });
    ended.await
}

/// Adds the bytes relayed since the last call to the record and the metrics.
fn note(worker: &Worker, connection: &mut Connection<'_>, up: &Flow<'_>, down: &Flow<'_>) {
    let record = &mut connection.record;
    worker.metrics.stream_received_bytes.add(up.bytes - record.bytes_received);
    worker.metrics.stream_sent_bytes.add(down.bytes - record.bytes_sent);
    record.bytes_received = up.bytes;
    record.bytes_sent = down.bytes;
}

/// Returns the error code for the side that broke, if any.
fn failure(
    up: &Poll<Result<(), FailedSide>>,
    down: &Poll<Result<(), FailedSide>>,
) -> Option<ErrorCode> {
    match (up, down) {
        (Poll::Ready(Err(FailedSide::Sender)), _) | (_, Poll::Ready(Err(FailedSide::Receiver))) => {
            Some(ErrorCode::DownstreamGone)
        }
        (Poll::Ready(Err(FailedSide::Receiver)), _) | (_, Poll::Ready(Err(FailedSide::Sender))) => {
            Some(ErrorCode::UpstreamReset)
        }
        _ => None,
    }
}

/// Failed socket of a relay direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FailedSide {
    Sender,
    Receiver,
}

/// Resources of the core for polling one direction.
#[derive(Clone, Copy)]
struct Means<'w> {
    buffers: &'w BufferPool,
    /// Whether the other direction has ended, so that the connections close when this one ends.
    is_last: bool,
}

impl Means<'_> {
    /// Returns the resources for a direction whose opposite is `other`.
    fn beside(self, other: &Flow<'_>) -> Self {
        Self { is_last: other.is_ended, ..self }
    }
}

/// State of one direction of a relay.
struct Flow<'w> {
    bytes: u64,
    /// The sender has ended, which the receiver has not been told yet.
    is_ending: bool,
    is_ended: bool,
    /// Pipe that moves the bytes while the flow is busy.
    pipe: Option<Pipe>,
    pipes: &'w PipePool,
}

impl<'w> Flow<'w> {
    fn new(pipes: &'w PipePool) -> Self {
        Self { bytes: 0, is_ending: false, is_ended: false, pipe: None, pipes }
    }

    fn poll(
        &mut self,
        context: &mut Context<'_>,
        from: &mut Link,
        to: &mut Carrier,
        means: Means<'_>,
    ) -> Poll<Result<(), FailedSide>> {
        // Without a bound, a fast sender would occupy the core.
        let turn_end = self.bytes + TURN_BYTES as u64;
        while !self.is_ended {
            ready!(self.poll_write(context, from, to)).map_err(|_| FailedSide::Receiver)?;
            if self.is_ending {
                // Closing a plain socket also signals the end, and saves a system call.
                if !(means.is_last && is_plain_socket(to)) {
                    ready!(to.poll_shutdown(context)).map_err(|_| FailedSide::Receiver)?;
                }
                self.is_ended = true;
                self.give_pipe();
                break;
            }
            if self.bytes >= turn_end {
                return turn::give_way(context);
            }
            let read = ready!(self.poll_read(context, from, to, means.buffers));
            self.is_ending = read.map_err(|_| FailedSide::Sender)? == 0;
        }
        Poll::Ready(Ok(()))
    }

    /// Writes the received bytes, until none are left or the receiver accepts no more.
    fn poll_write(
        &mut self,
        context: &mut Context<'_>,
        from: &mut Link,
        to: &mut Carrier,
    ) -> Poll<io::Result<()>> {
        while let Some(pipe) = self.pipe.as_mut().filter(|pipe| pipe.held() > 0) {
            let Carrier::Socket(Stream::Plain(tcp)) = to else { break };
            ready!(tcp.poll_write_ready(context))?;
            match tcp.try_io(Interest::WRITABLE, || pipe.drain(tcp)) {
                Ok(0) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Ok(moved) => self.bytes += moved as u64,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        while !from.buffer.is_empty() {
            let parts = [IoSlice::new(from.buffer.filled())];
            let written = ready!(to.poll_write(context, &parts))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            from.buffer.consume(written);
            self.bytes += written as u64;
        }
        to.poll_flush(context)
    }

    /// Receives some bytes; 0 is the sender's end.
    fn poll_read(
        &mut self,
        context: &mut Context<'_>,
        from: &mut Link,
        to: &Carrier,
        buffers: &BufferPool,
    ) -> Poll<io::Result<usize>> {
        if self.pipe.is_some() {
            return self.poll_fill_pipe(context, from);
        }
        // An idle connection holds no buffer.
        from.release_if_empty(buffers);
        let read = ready!(from.poll_fill(context, buffers))?;
        // A full buffer suggests that more bytes follow, so a pipe is worthwhile.
        let is_plain = is_plain_socket(&from.stream) && is_plain_socket(to);
        if read >= BUFFER_BYTES && is_plain {
            self.pipe = self.pipes.take();
        }
        Poll::Ready(Ok(read))
    }

    fn poll_fill_pipe(
        &mut self,
        context: &mut Context<'_>,
        from: &mut Link,
    ) -> Poll<io::Result<usize>> {
        let (Some(pipe), Carrier::Socket(Stream::Plain(tcp))) = (&mut self.pipe, &from.stream)
        else {
            return Poll::Ready(Ok(0));
        };
        let read = loop {
            // An idle flow returns its pipe to the pool.
            let Poll::Ready(ready) = tcp.poll_read_ready(context) else {
                self.give_pipe();
                return Poll::Pending;
            };
            ready?;
            match tcp.try_io(Interest::READABLE, || pipe.fill(tcp)) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                read => break read?,
            }
        };
        Poll::Ready(Ok(read))
    }

    fn give_pipe(&mut self) {
        if let Some(pipe) = self.pipe.take() {
            self.pipes.give(pipe);
        }
    }
}

impl Drop for Flow<'_> {
    fn drop(&mut self) {
        self.give_pipe();
    }
}

/// Whether the kernel can splice from and to the carrier: a plain socket.
fn is_plain_socket(carrier: &Carrier) -> bool {
    matches!(carrier, Carrier::Socket(Stream::Plain(_)))
}

#[cfg(test)]
mod tests;
