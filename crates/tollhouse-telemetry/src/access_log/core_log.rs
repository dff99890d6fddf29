//! The part of the access log that belongs to one core: a buffer, and its hand-over when full.
//!
//! Nothing here waits. After warm-up nothing allocates either, because the writer returns emptied
//! buffers.

use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};

use tollhouse_stdx::civil::{CivilTime, ISO_DATE_BYTES, LOG_DATE_BYTES};

use super::layout::Layout;
use super::variable::Source;
use super::writer::{Batch, Command};
use crate::catalogue::ProcessMetrics;

/// Size in bytes at which a buffer is handed to the writer: some hundred lines, so that the costs
/// of the hand-over and of the system call are negligible, and the disk receives large writes.
pub const BUFFER_BYTES: usize = 32 * 1024;

/// Maximum number of buffers of one core, including the one being filled. Bounds memory while the
/// disk is slow.
pub const BUFFERS_A_CORE: usize = 16;

/// Space in bytes that a new buffer has beyond [`BUFFER_BYTES`], for the line that exceeds that
/// size.
const LAST_LINE_BYTES: usize = 4 * 1024;

/// Access log of one core; moves to the core's thread and stays there.
pub struct CoreLog {
    layout: Arc<Layout>,
    shows_attempts: bool,
    metrics: Arc<ProcessMetrics>,
    sender: SyncSender<Command>,
    /// Channel on which the writer returns emptied buffers.
    home: Receiver<Vec<u8>>,
    way_home: SyncSender<Vec<u8>>,
    state: RefCell<State>,
}

struct State {
    buffer: Vec<u8>,
    lines: u64,
    /// Number of existing buffers, including those with the writer.
    buffers: usize,
    times: Times,
}

impl CoreLog {
    pub(super) fn new(
        layout: Arc<Layout>,
        sender: SyncSender<Command>,
        metrics: Arc<ProcessMetrics>,
    ) -> Self {
        let (way_home, home) = sync_channel(BUFFERS_A_CORE);
        let state = State {
            buffer: new_buffer(),
            lines: 0,
            buffers: 1,
            times: Times::from_unix_seconds(0),
        };
        let shows_attempts = layout.shows_attempts();
        let state = RefCell::new(state);
        Self { layout, shows_attempts, metrics, sender, home, way_home, state }
    }

    /// Whether lines contain attempts to reach nodes. If not, they need not be recorded.
    #[inline]
    pub fn shows_attempts(&self) -> bool {
        self.shows_attempts
    }

    /// Formats the line of one request into the buffer, and hands the buffer over when it is full.
    pub fn write(&self, source: &impl Source) {
        let state = &mut *self.state.borrow_mut();
        let unix_seconds = source.unix_ms() / 1_000;
        if state.times.unix_seconds != unix_seconds {
            state.times = Times::from_unix_seconds(unix_seconds);
        }
        self.layout.write(source, &state.times, &mut state.buffer);
        state.lines += 1;
        if state.buffer.len() >= BUFFER_BYTES {
            self.hand_over(state);
        }
    }

    /// Hands over the buffer even if it is not full; called every second and when idle.
    pub fn flush(&self) {
        let state = &mut *self.state.borrow_mut();
        if !state.buffer.is_empty() {
            self.hand_over(state);
        }
    }

    fn hand_over(&self, state: &mut State) {
        let Some(spare) = self.spare_buffer(state) else {
            // All buffers are with the writer, so the disk cannot keep up.
            self.drop_lines(state);
            return;
        };
        let batch = Batch {
            bytes: std::mem::replace(&mut state.buffer, spare),
            lines: state.lines,
            home: self.way_home.clone(),
        };
        match self.sender.try_send(Command::Lines(batch)) {
            Ok(()) => state.lines = 0,
            Err(TrySendError::Full(command) | TrySendError::Disconnected(command)) => {
                if let Command::Lines(batch) = command {
                    // Cannot fail: the channel has a place for every buffer.
                    let _ =
                        self.way_home.try_send(std::mem::replace(&mut state.buffer, batch.bytes));
                }
                self.drop_lines(state);
            }
        }
    }

    fn spare_buffer(&self, state: &mut State) -> Option<Vec<u8>> {
        if let Ok(buffer) = self.home.try_recv() {
            return Some(buffer);
        }
        if state.buffers == BUFFERS_A_CORE {
            return None;
        }
        state.buffers += 1;
        Some(new_buffer())
    }

    #[cold]
    fn drop_lines(&self, state: &mut State) {
        self.metrics.access_log_lines_dropped.add(state.lines);
        state.buffer.clear();
        state.lines = 0;
    }
}

impl Drop for CoreLog {
    fn drop(&mut self) {
        self.flush();
    }
}

impl fmt::Debug for CoreLog {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("CoreLog").field("layout", &self.layout).finish_non_exhaustive()
    }
}

fn new_buffer() -> Vec<u8> {
    Vec::with_capacity(BUFFER_BYTES + LAST_LINE_BYTES)
}

/// Clears a written buffer for reuse. A buffer that grew for a very long line shrinks.
pub(super) fn emptied(mut buffer: Vec<u8>) -> Vec<u8> {
    buffer.clear();
    buffer.shrink_to(BUFFER_BYTES + LAST_LINE_BYTES);
    buffer
}

/// Texts of one second's time, formatted once for all its lines.
pub(super) struct Times {
    unix_seconds: u64,
    pub(super) local: [u8; LOG_DATE_BYTES],
    pub(super) iso: [u8; ISO_DATE_BYTES],
}

impl Times {
    pub(super) fn from_unix_seconds(unix_seconds: u64) -> Self {
        let time = CivilTime::from_unix_seconds(i64::try_from(unix_seconds).unwrap_or(i64::MAX));
        Self { unix_seconds, local: time.log_date(), iso: time.iso_date() }
    }
}
