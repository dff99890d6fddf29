//! A stream with its read buffer: one side of an exchange.

use std::io;
use std::task::{Context, Poll};

use tollhouse_net::Stream;

use crate::buffer::{Buffer, BufferShelf};

/// One side's stream and what was read from it.
#[derive(Debug)]
pub struct Link {
    /// The socket.
    pub stream: Stream,
    /// Bytes read and not consumed; absent while idle.
    pub buffer: Buffer,
}

impl Link {
    /// An idle link.
    pub fn new(stream: Stream) -> Self {
        Self { stream, buffer: Buffer::absent() }
    }

    /// Reads once behind what the buffer holds, taking a buffer from the shelf when there is none.
    /// 0 is the end of the stream, or a buffer without room.
    #[inline]
    pub fn poll_fill(
        &mut self,
        context: &mut Context<'_>,
        shelf: &BufferShelf,
    ) -> Poll<io::Result<usize>> {
        if self.buffer.is_absent() {
            self.buffer = shelf.take();
        }
        if self.buffer.room().is_empty() {
            return Poll::Ready(Ok(0));
        }
        let read = self.stream.poll_read(context, self.buffer.room());
        if let Poll::Ready(Ok(bytes)) = &read {
            self.buffer.add(*bytes);
        } else {
            // Nothing to read yet: whoever has something may use the buffer meanwhile.
            self.rest(shelf);
        }
        read
    }

    /// Gives an empty buffer back to the shelf.
    #[inline]
    pub fn rest(&mut self, shelf: &BufferShelf) {
        if self.buffer.is_empty() && !self.buffer.is_absent() {
            shelf.give(std::mem::replace(&mut self.buffer, Buffer::absent()));
        }
    }

    /// Gives the buffer back to the shelf, whatever it holds.
    pub fn drop_buffer(&mut self, shelf: &BufferShelf) {
        shelf.give(std::mem::replace(&mut self.buffer, Buffer::absent()));
    }
}
