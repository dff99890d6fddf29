//! Output waiting to be written to the socket: one buffer with many frames.

use crate::frame::{self, PREFACE};
use crate::{Connection, ConnectionError, Role, Settings};

/// Capacity kept when everything is written and memory is to be freed.
const CAPACITY_KEPT: usize = 0;

/// Bytes in order; those before `start` are already written.
#[derive(Default)]
pub(super) struct Output {
    pub(super) bytes: Vec<u8>,
    start: usize,
    /// Control frames since the output was last empty.
    control_frames: u32,
}

impl Output {
    /// Writes the preface (as a client) and the first SETTINGS, with which every connection begins.
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
    /// Returns the bytes to write to the transport next.
    #[inline]
    pub fn output(&self) -> &[u8] {
        &self.output.bytes[self.output.start..]
    }

    /// Drops the first `count` bytes of the output, which have been written.
    ///
    /// # Panics
    /// If `count` is larger than the output.
    pub fn written(&mut self, count: usize) {
        assert!(count <= self.output.len(), "more bytes written than pending");
        self.output.start += count;
        if self.output.len() == 0 {
            self.output.bytes.clear();
            self.output.start = 0;
            self.output.control_frames = 0;
        } else if self.output.start >= self.output.bytes.len() / 2 {
            // On average each byte moves at most once.
            self.output.bytes.drain(..self.output.start);
            self.output.start = 0;
        }
    }

    /// Whether the caller should keep reading from the socket. False while so much output is
    /// pending that there would be no room for replies to further input (CVE-2019-9517).
    pub fn wants_input(&self) -> bool {
        self.failure.is_none() && self.output.len() <= self.limits.output_bytes_max
    }

    /// Returns the room for DATA in the output, in bytes.
    #[inline]
    pub(super) fn output_room(&self) -> usize {
        self.limits.output_bytes.saturating_sub(self.output.len())
    }

    /// Counts a reply frame that is about to be written.
    pub(super) fn count_control(&mut self) -> Result<(), ConnectionError> {
        self.output.control_frames += 1;
        let count = self.output.control_frames;
        let most = &mut self.counters.queued_control_frames_max;
        *most = count.max(*most);
        if count > self.limits.queued_control_frames {
            return Err(ConnectionError::calm("too many replies are pending"));
        }
        Ok(())
    }
}
