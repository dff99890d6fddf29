//! What waits to be written to the socket: one buffer, many frames.

use crate::frame::{self, PREFACE};
use crate::{Connection, ConnectionError, Role, Settings};

/// Capacity that is kept when everything has been written and memory is asked back.
const CAPACITY_KEPT: usize = 0;

/// Bytes in order, of which those before `start` are written.
#[derive(Default)]
pub(super) struct Output {
    pub(super) bytes: Vec<u8>,
    start: usize,
    /// Control frames since all was last written.
    control_frames: u32,
}

impl Output {
    /// What every connection begins with.
    pub(super) fn begin(&mut self, role: Role, settings: &Settings) {
        if role == Role::Client {
            self.bytes.extend_from_slice(PREFACE);
        }
        frame::write_settings(&mut self.bytes, settings);
    }

    pub(super) fn len(&self) -> usize {
        self.bytes.len() - self.start
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.bytes.capacity()
    }

    pub(super) fn shrink(&mut self) {
        if self.len() == 0 {
            self.bytes = Vec::with_capacity(CAPACITY_KEPT);
            self.start = 0;
        }
    }
}

impl Connection {
    /// The bytes that are to be written next, all frames so far.
    #[inline]
    pub fn output(&self) -> &[u8] {
        &self.output.bytes[self.output.start..]
    }

    /// Drops the first `count` bytes of the output: they were written.
    ///
    /// # Panics
    /// For more bytes than there are.
    pub fn written(&mut self, count: usize) {
        assert!(count <= self.output.len(), "no more is written than there is");
        self.output.start += count;
        if self.output.len() == 0 {
            self.output.bytes.clear();
            self.output.start = 0;
            self.output.control_frames = 0;
        } else if self.output.start >= self.output.bytes.len() / 2 {
            // Each byte moves once at most on average.
            self.output.bytes.drain(..self.output.start);
            self.output.start = 0;
        }
    }

    /// Whether the caller should go on reading from the socket: not where so much output waits that
    /// the answers to what would be read had no room (CVE-2019-9517).
    pub fn wants_input(&self) -> bool {
        self.failure.is_none() && self.output.len() <= self.limits.output_bytes_max
    }

    /// Bytes of DATA that the output has room for.
    #[inline]
    pub(super) fn output_room(&self) -> usize {
        self.limits.output_bytes.saturating_sub(self.output.len())
    }

    /// Counts a frame that answers the peer, which is about to be written.
    pub(super) fn count_control(&mut self) -> Result<(), ConnectionError> {
        self.output.control_frames += 1;
        let count = self.output.control_frames;
        let most = &mut self.counters.queued_control_frames_max;
        *most = count.max(*most);
        if count > self.limits.queued_control_frames {
            return Err(ConnectionError::calm("too many answers wait unread"));
        }
        Ok(())
    }
}
