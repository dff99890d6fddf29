//! Bytes both ways between a client and its node, until both have ended. One side's end is passed on as
//! such, so that a client that has said everything still hears the answer.
//!
//! No byte is read before the one before it is written: a slow reader stops the writer on the other side,
//! and holds a buffer or a pipe, whatever it is sent.

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

/// Time-outs of a relay.
#[derive(Debug, Clone, Copy)]
pub(super) struct Times {
    /// Without a byte either way.
    pub idle: Duration,
    /// The same, once one direction has ended.
    pub half_closed: Duration,
}

/// Relays until both sides have ended.
///
/// # Errors
/// One side broke off, or nothing has moved for too long.
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

/// Counts what has passed since this was asked last.
fn note(worker: &Worker, connection: &mut Connection<'_>, up: &Flow<'_>, down: &Flow<'_>) {
    let record = &mut connection.record;
    worker.metrics.stream_received_bytes.add(up.bytes - record.bytes_received);
    worker.metrics.stream_sent_bytes.add(down.bytes - record.bytes_sent);
    record.bytes_received = up.bytes;
    record.bytes_sent = down.bytes;
}

/// Whose failure ends the relay.
fn failure(up: &Poll<Result<(), Broken>>, down: &Poll<Result<(), Broken>>) -> Option<ErrorCode> {
    match (up, down) {
        (Poll::Ready(Err(Broken::Sender)), _) | (_, Poll::Ready(Err(Broken::Receiver))) => {
            Some(ErrorCode::DownstreamGone)
        }
        (Poll::Ready(Err(Broken::Receiver)), _) | (_, Poll::Ready(Err(Broken::Sender))) => {
            Some(ErrorCode::UpstreamReset)
        }
        _ => None,
    }
}

/// Which end of a direction broke off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Broken {
    Sender,
    Receiver,
}

/// What a core lends to a direction.
#[derive(Clone, Copy)]
struct Means<'w> {
    buffers: &'w BufferPool,
    /// Whether the other direction has ended, so that the connections are closed when this one has.
    is_last: bool,
}

impl Means<'_> {
    /// For a direction beside another.
    fn beside(self, other: &Flow<'_>) -> Self {
        Self { is_last: other.is_ended, ..self }
    }
}

/// One direction.
struct Flow<'w> {
    bytes: u64,
    /// The sender has ended; the receiver is to be told so.
    is_ending: bool,
    is_ended: bool,
    /// Through which bytes pass while there are many.
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
    ) -> Poll<Result<(), Broken>> {
        // A fast sender would keep the core from everybody else.
        let turn_end = self.bytes + TURN_BYTES as u64;
        while !self.is_ended {
            ready!(self.poll_write(context, from, to)).map_err(|_| Broken::Receiver)?;
            if self.is_ending {
                // Closing a socket says its end as well, and costs one call instead of two.
                if !(means.is_last && is_plain_socket(to)) {
                    ready!(to.poll_shutdown(context)).map_err(|_| Broken::Receiver)?;
                }
                self.is_ended = true;
                self.give_pipe();
                break;
            }
            if self.bytes >= turn_end {
                return turn::give_way(context);
            }
            let read = ready!(self.poll_read(context, from, to, means.buffers));
            self.is_ending = read.map_err(|_| Broken::Sender)? == 0;
        }
        Poll::Ready(Ok(()))
    }

    /// Sends on all that has been taken in.
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

    /// Takes in some bytes; 0 is the sender's end.
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
        // A quiet connection holds no buffer.
        from.release_if_empty(buffers);
        let read = ready!(from.poll_fill(context, buffers))?;
        // A full buffer shows that there is more.
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
            // Idle, the flow needs no pipe, which others may use meanwhile.
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

/// Whether the kernel itself can take bytes from there, or there.
fn is_plain_socket(carrier: &Carrier) -> bool {
    matches!(carrier, Carrier::Socket(Stream::Plain(_)))
}

#[cfg(test)]
mod tests;
