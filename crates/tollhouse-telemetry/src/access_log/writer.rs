//! The thread that writes the buffers of the cores, and its behaviour when the disk fails.
//!
//! A failure starts an outage. It is logged once; lines are dropped and counted, and the disk is
//! tried again every [`RETRY_AFTER`]. The outage ends with the first successful write.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender};
use std::time::{Duration, Instant};

use super::core_log::emptied;
use super::sink::Sink;
use crate::catalogue::ProcessMetrics;

/// Interval between attempts while the disk fails. A full disk should not cost a system call per
/// buffer, but logging must resume soon after the operator has made room.
pub(super) const RETRY_AFTER: Duration = Duration::from_secs(1);

pub(super) enum Command {
    Lines(Batch),
    /// Wakes the thread to read [`Control`].
    Wake,
}

/// Buffer of complete lines, which returns to its core after writing.
pub(super) struct Batch {
    pub(super) bytes: Vec<u8>,
    pub(super) lines: u64,
    /// Channel on which the emptied buffer is returned.
    pub(super) home: SyncSender<Vec<u8>>,
}

/// Flags that must reach the writer even when its channel is full.
#[derive(Debug, Default)]
pub(super) struct Control {
    pub(super) reopen: AtomicBool,
    pub(super) stop: AtomicBool,
}

/// Runs the thread until all buffers are written after the stop, or until no sender is left.
pub(super) fn run(mut writer: Writer, receiver: &Receiver<Command>, control: &Control) {
    while let Ok(command) = receiver.recv() {
        if control.reopen.swap(false, Ordering::AcqRel) {
            writer.reopen();
        }
        if let Command::Lines(batch) = command {
            writer.take(batch, Instant::now());
        }
        if control.stop.load(Ordering::Acquire) {
            break;
        }
    }
    for command in receiver.try_iter() {
        if let Command::Lines(batch) = command {
            writer.take(batch, Instant::now());
        }
    }
}

/// The writing side of the log, without its thread.
pub(super) struct Writer {
    sink: Box<dyn Sink>,
    metrics: Arc<ProcessMetrics>,
    /// The current outage; `None` while the disk works.
    episode: Option<Episode>,
    /// Whether a failure cut a line in two. The next line must then start with a line break.
    torn_line: bool,
}

struct Episode {
    retry_at: Instant,
    dropped_before: u64,
}

impl Writer {
    pub(super) fn new(sink: Box<dyn Sink>, metrics: Arc<ProcessMetrics>) -> Self {
        Self { sink, metrics, episode: None, torn_line: false }
    }

    /// Writes or drops a batch, and returns its buffer.
    pub(super) fn take(&mut self, batch: Batch, now: Instant) {
        let waits = self.episode.as_ref().is_some_and(|episode| now < episode.retry_at);
        let written = if waits { 0 } else { self.write(&batch, now) };
        self.metrics.access_log_lines.add(written);
        self.metrics.access_log_lines_dropped.add(batch.lines.saturating_sub(written));
        // An error means that the core has ended and needs no buffer.
        let _ = batch.home.try_send(emptied(batch.bytes));
    }

    /// Reopens the file; on failure the old one stays in use.
    pub(super) fn reopen(&mut self) {
        match self.sink.reopen() {
            Ok(()) => {
                // The outage may have concerned the old file only, so the new one is tried at once.
                if let Some(episode) = &mut self.episode {
                    episode.retry_at = Instant::now();
                }
            }
            Err(error) => {
                self.metrics.access_log_write_failures.increment();
                tracing::error!(%error, "access log cannot be reopened; the old file stays in use");
            }
        }
    }

    /// Writes as much as possible and returns the number of complete lines.
    fn write(&mut self, batch: &Batch, now: Instant) -> u64 {
        if self.torn_line {
            match write_all(&mut *self.sink, b"\n") {
                Ok(()) => self.torn_line = false,
                Err((_, error)) => {
                    self.fail(&error, now);
                    return 0;
                }
            }
        }
        match write_all(&mut *self.sink, &batch.bytes) {
            Ok(()) => {
                self.recover();
                batch.lines
            }
            Err((written, error)) => {
                let written = &batch.bytes[..written];
                self.torn_line = written.last().is_some_and(|byte| *byte != b'\n');
                self.fail(&error, now);
                written.iter().filter(|byte| **byte == b'\n').count() as u64
            }
        }
    }

    fn fail(&mut self, error: &io::Error, now: Instant) {
        self.metrics.access_log_write_failures.increment();
        let retry_at = now + RETRY_AFTER;
        if let Some(episode) = &mut self.episode {
            episode.retry_at = retry_at;
            return;
        }
        let dropped_before = self.metrics.access_log_lines_dropped.value();
        self.episode = Some(Episode { retry_at, dropped_before });
        tracing::error!(%error, "access log cannot be written; lines are dropped until it can");
    }

    fn recover(&mut self) {
        let Some(episode) = self.episode.take() else { return };
        let dropped = self.metrics.access_log_lines_dropped.value() - episode.dropped_before;
        tracing::info!(lines_dropped = dropped, "access log can be written again");
    }

    #[cfg(test)]
    pub(super) fn is_failing(&self) -> bool {
        self.episode.is_some()
    }
}

/// Writes everything, or returns the number of bytes written before the error.
fn write_all(sink: &mut dyn Sink, bytes: &[u8]) -> Result<(), (usize, io::Error)> {
    let mut written = 0;
    while written < bytes.len() {
        match sink.write(&bytes[written..]) {
            Ok(0) => return Err((written, io::ErrorKind::WriteZero.into())),
            Ok(count) => written += count.min(bytes.len() - written),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err((written, error)),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
