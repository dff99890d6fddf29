//! Tunnel after an upgrade: relays bytes in both directions until both have ended.
//!
//! Used only after the node answered 101; bytes that a side sent early are in its buffer.

use std::io::{self, IoSlice};
use std::task::{Context, Poll, ready};

use super::Sides;
use crate::connection::buffer::BufferPool;
use crate::connection::carrier::Carrier;
use crate::connection::link::Link;
use crate::turn::{self, TURN_BYTES};

/// State of one direction of a tunnel.
#[derive(Debug, Default)]
struct Flow {
    bytes: u64,
    ended: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Tunnel {
    up: Flow,
    down: Flow,
}

impl Tunnel {
    /// Returns the numbers of bytes relayed to the node and to the client.
    pub(crate) fn bytes(&self) -> (u64, u64) {
        (self.up.bytes, self.down.bytes)
    }

    /// Relays the available bytes. Ready once both directions have ended, each with a separate end
    /// of stream, so that a half-closed connection still delivers.
    ///
    /// # Errors
    /// The first failure of either side, which ends both.
    pub(crate) fn poll(
        &mut self,
        context: &mut Context<'_>,
        sides: &mut Sides<'_>,
    ) -> Poll<io::Result<()>> {
        let Sides { downstream, upstream, buffers } = sides;
        let up = self.up.poll(context, downstream, &mut upstream.stream, buffers)?;
        let down = self.down.poll(context, upstream, &mut downstream.stream, buffers)?;
        if up.is_ready() && down.is_ready() { Poll::Ready(Ok(())) } else { Poll::Pending }
    }
}

impl Flow {
    fn poll(
        &mut self,
        context: &mut Context<'_>,
        from: &mut Link,
        to: &mut Carrier,
        buffers: &BufferPool,
    ) -> Poll<io::Result<()>> {
        let turn_end = self.bytes + TURN_BYTES as u64;
        while !self.ended {
            while !from.buffer.is_empty() {
                let parts = [IoSlice::new(from.buffer.filled())];
                let written = ready!(to.poll_write(context, &parts))?;
                if written == 0 {
                    return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
                }
                from.buffer.consume(written);
                self.bytes += written as u64;
            }
            ready!(to.poll_flush(context))?;
            // An idle tunnel holds no buffers.
            from.release_if_empty(buffers);
            if self.bytes >= turn_end {
                return turn::give_way(context);
            }
            if ready!(from.poll_fill(context, buffers))? == 0 {
                ready!(to.poll_shutdown(context))?;
                self.ended = true;
            }
        }
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests;
