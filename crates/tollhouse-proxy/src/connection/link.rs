//! A byte stream with its read buffer: one side of an exchange. Bytes stay in the buffer until the
//! other side has taken them, so that backpressure reaches the sender.

use std::io;
use std::task::{Context, Poll};

use tollhouse_net::Stream;
use tollhouse_net::server_tls::ServerTls;

use super::buffer::{Buffer, BufferPool};
use super::carrier::Carrier;

/// Transport and read buffer of one side.
#[derive(Debug)]
pub struct Link {
    pub stream: Carrier,
    /// Bytes read and not consumed; absent while the connection is idle.
    pub buffer: Buffer,
}

impl Link {
    pub fn new(stream: impl Into<Carrier>) -> Self {
        Self { stream: stream.into(), buffer: Buffer::absent() }
    }

    /// Returns the connection prepared for TLS, which the client opens next. The bytes in the
    /// buffer are the start of the handshake.
    pub fn expecting_tls(mut self, buffers: &BufferPool) -> Self {
        let received = self.buffer.filled().to_vec();
        self.release_buffer(buffers);
        match self.stream {
            Carrier::Socket(Stream::Plain(tcp)) => {
                Self::new(Stream::ServerTls(Box::new(ServerTls::behind(tcp, received))))
            }
            // Clients' carriers are plain sockets here; any other one is returned unchanged.
            stream => Self::new(stream),
        }
    }

    /// Reads once into the buffer, which is taken from the pool if absent. Returns 0 at the end of
    /// the stream, or if the buffer is full.
    #[inline]
    pub fn poll_fill(
        &mut self,
        context: &mut Context<'_>,
        buffers: &BufferPool,
    ) -> Poll<io::Result<usize>> {
        if !self.buffer.is_absent() && self.buffer.room().is_empty() {
            return Poll::Ready(Ok(0));
        }
        // Readability is checked first, because most polls find nothing to read and need no buffer.
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
            // Nothing to read yet, so other connections may use the buffer.
            self.release_if_empty(buffers);
        }
        read
    }

    #[inline]
    pub fn release_if_empty(&mut self, buffers: &BufferPool) {
        if self.buffer.is_empty() && !self.buffer.is_absent() {
            buffers.give(std::mem::replace(&mut self.buffer, Buffer::absent()));
        }
    }

    /// Gives the buffer back to the pool with all its content discarded.
    pub fn release_buffer(&mut self, buffers: &BufferPool) {
        buffers.give(std::mem::replace(&mut self.buffer, Buffer::absent()));
    }
}
