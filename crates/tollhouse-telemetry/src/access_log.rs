//! The access log: one line per request, in a format chosen by the operator.
//!
//! A core formats lines into its own buffer and sends full buffers to one writer thread over a
//! bounded channel. If the channel or the disk cannot keep up, lines are dropped and counted; no
//! core waits. This file holds the owner of the parts: a `Source` (`variable`, `listed`) provides
//! the values of a request, `layout` formats a line, `core_log` hands buffers over, and `writer`
//! writes to disk.

mod core_log;
mod escape;
mod layout;
mod listed;
pub(crate) mod number;
mod sink;
mod variable;
mod writer;

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;

pub use core_log::{BUFFER_BYTES, BUFFERS_A_CORE, CoreLog};
pub use layout::{COMBINED, Escape, FORMAT_BYTES_MAX, FormatError, JSON_FIELDS, Layout};
pub use listed::ListedValues;
pub use sink::{FileSink, Sink, StdoutSink, Target};
pub use variable::{Attempt, Source, Value, Variable};

use crate::catalogue::ProcessMetrics;
use writer::{Command, Control, Writer};

/// Maximum number of full buffers waiting for the writer: with [`BUFFER_BYTES`] two megabytes,
/// which absorbs a stalled disk for some seconds at ten thousand requests a second.
pub const QUEUE_BUFFERS: usize = 64;

/// The access log of the process: the writer thread, and the handles that cores need.
#[derive(Debug)]
pub struct AccessLog {
    layout: Arc<Layout>,
    metrics: Arc<ProcessMetrics>,
    sender: SyncSender<Command>,
    control: Arc<Control>,
    writer: Option<JoinHandle<()>>,
}

impl AccessLog {
    /// Opens the target and starts the writer.
    ///
    /// # Errors
    /// If the file cannot be opened or the thread cannot start.
    pub fn start(
        layout: Layout,
        target: &Target,
        metrics: Arc<ProcessMetrics>,
    ) -> io::Result<Self> {
        Self::with_sink(layout, target.open()?, metrics, QUEUE_BUFFERS)
    }

    /// Starts the writer with any sink, and a channel for `queue_buffers` full buffers.
    ///
    /// # Errors
    /// If the thread cannot start.
    pub fn with_sink(
        layout: Layout,
        sink: Box<dyn Sink>,
        metrics: Arc<ProcessMetrics>,
        queue_buffers: usize,
    ) -> io::Result<Self> {
        let (sender, receiver) = sync_channel(queue_buffers);
        let control = Arc::new(Control::default());
        let writer = Writer::new(sink, Arc::clone(&metrics));
        let loop_control = Arc::clone(&control);
        let thread = std::thread::Builder::new()
            .name("access-log".to_owned())
            .spawn(move || writer::run(writer, &receiver, &loop_control))?;
        let layout = Arc::new(layout);
        Ok(Self { layout, metrics, sender, control, writer: Some(thread) })
    }

    /// Creates the part of the log for one core.
    pub fn core(&self) -> CoreLog {
        CoreLog::new(Arc::clone(&self.layout), self.sender.clone(), Arc::clone(&self.metrics))
    }

    /// Tells the writer to reopen the file after it was renamed; does not wait.
    pub fn reopen(&self) {
        self.control.reopen.store(true, Ordering::Release);
        // If the channel is full, the writer is about to wake anyway.
        let _ = self.sender.try_send(Command::Wake);
    }

    /// Writes the buffers handed over so far and ends the writer. Cores must flush before; lines
    /// logged later are dropped.
    pub fn shutdown(mut self) {
        self.stop();
    }

    fn stop(&mut self) {
        let Some(writer) = self.writer.take() else { return };
        self.control.stop.store(true, Ordering::Release);
        // An error means that the writer has already ended.
        let _ = self.sender.send(Command::Wake);
        if writer.join().is_err() {
            tracing::error!("access log writer panicked");
        }
    }
}

impl Drop for AccessLog {
    fn drop(&mut self) {
        self.stop();
    }
}

#[cfg(test)]
mod tests;
