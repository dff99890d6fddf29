//! The moving parts of one exchange: request bytes up, response bytes down, both at once.
//!
//! Each part is a poll function over the two streams, so that one task drives both directions
//! without splitting or sharing them. What to send is decided elsewhere.

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

/// The two sides of an exchange, and where their buffers come from.
#[derive(Debug)]
pub(crate) struct Sides<'a> {
    /// The client's.
    pub downstream: &'a mut Link,
    /// The node's.
    pub upstream: &'a mut Link,
    /// The buffers of the core.
    pub buffers: &'a BufferPool,
}

impl<'a> Sides<'a> {
    /// Both sides.
    #[inline]
    pub(crate) fn new(
        buffers: &'a BufferPool,
        downstream: &'a mut Link,
        upstream: &'a mut Link,
    ) -> Self {
        Self { downstream, upstream, buffers }
    }
}

/// Which side an exchange is waiting for; it decides which time-out applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Waiting {
    /// The client, to send more of the request.
    DownstreamRead,
    /// The client, to take more of the response.
    DownstreamWrite,
    /// The node, to take more of the request.
    UpstreamWrite,
    /// The node, to send more of the response.
    UpstreamRead,
}
