//! Data transfer of an exchange: request bytes up and response bytes down, concurrently.
//!
//! Each part is a poll function over both streams, so that one task drives both directions without
//! splitting them. The content to send is decided elsewhere.

mod body_source;
pub(crate) mod coding;
pub(crate) mod filtered;
pub(crate) mod pump;
pub(crate) mod relay;
#[cfg(test)]
mod testing;
pub(crate) mod trailers;
pub(crate) mod tunnel;

use crate::connection::buffer::BufferPool;
use crate::connection::link::Link;

/// Both sides of an exchange, and the buffer pool.
#[derive(Debug)]
pub(crate) struct Sides<'a> {
    pub downstream: &'a mut Link,
    pub upstream: &'a mut Link,
    pub buffers: &'a BufferPool,
}

impl<'a> Sides<'a> {
    #[inline]
    pub(crate) fn new(
        buffers: &'a BufferPool,
        downstream: &'a mut Link,
        upstream: &'a mut Link,
    ) -> Self {
        Self { downstream, upstream, buffers }
    }
}

/// Side that an exchange waits for; it determines the timeout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Waiting {
    /// The client, to send more of the request.
    DownstreamRead,
    /// The client, to read more of the response.
    DownstreamWrite,
    /// The node, to read more of the request.
    UpstreamWrite,
    /// The node, to send more of the response.
    UpstreamRead,
}
