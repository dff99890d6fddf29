//! A stream with its read buffer: one side of an exchange. What is read waits here until the other
//! side has taken it: nothing is read ahead of that.

use std::io;
use std::task::{Context, Poll};

use tollhouse_net::Stream;
use tollhouse_net::server_tls::ServerTls;

use super::buffer::{Buffer, BufferPool};
use super::carrier::Carrier;

/// One side's stream and what was read from it.
#[derive(Debug)]
pub struct Link {
    pub stream: Carrier,
    /// Bytes read and not consumed; absent while idle.
    pub buffer: Buffer,
}

impl Link {
    pub fn new(stream: impl Into<Carrier>) -> Self {
        Self { stream: stream.into(), buffer: Buffer::absent() }
    }

    /// The same connection where the client is to open TLS next, of which what has been read is the
    /// beginning.
    pub fn expecting_tls(mut self, buffers: &BufferPool) -> Self {
        let received = self.buffer.filled().to_vec();
        self.release_buffer(buffers);
        match self.stream {
            Carrier::Socket(Stream::Plain(tcp)) => {
                Self::new(Stream::ServerTls(Box::new(ServerTls::behind(tcp, received))))
            }
            // Nothing else is accepted from clients.
            stream => Self::new(stream),
        }
    }

    /// Reads once behind what the buffer holds, taking a buffer from the pool when there is none.
    /// 0 is the end of the stream, or a buffer without room.
    #[inline]
    pub fn poll_fill(
        &mut self,
        context: &mut Context<'_>,
        buffers: &BufferPool,
    ) -> Poll<io::Result<usize>> {
        if !self.buffer.is_absent() && self.buffer.room().is_empty() {
            return Poll::Ready(Ok(0));
        }
        // Most of the time nothing has come yet, which is known before a buffer is taken.
        match self.stream.poll_readable(context) {
            Poll::Ready(Ok(())) => {}
            nothing => {
                self.release_if_empty(buffers);
                return nothing.map_ok(|()| 0);
            }
        }
        if self.buffer.is_absent() {
            self.buffer = buffers.take();
        }
        let read = self.stream.poll_read_readable(context, self.buffer.room());
        if let Poll::Ready(Ok(bytes)) = &read {
            self.buffer.add(*bytes);
        } else {
            // Nothing to read yet: whoever has something may use the buffer meanwhile.
            self.release_if_empty(buffers);
        }
        read
    }

    /// Gives the buffer back to the pool if it is empty.
    #[inline]
    pub fn release_if_empty(&mut self, buffers: &BufferPool) {
        if self.buffer.is_empty() && !self.buffer.is_absent() {
            buffers.give(std::mem::replace(&mut self.buffer, Buffer::absent()));
        }
    }

    /// Gives the buffer back to the pool, whatever it holds.
    pub fn release_buffer(&mut self, buffers: &BufferPool) {
        buffers.give(std::mem::replace(&mut self.buffer, Buffer::absent()));
    }
}
