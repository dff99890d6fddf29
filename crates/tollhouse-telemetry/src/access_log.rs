//! The access log: one line a request, in a format the operator chose.
//!
//! A core formats lines into a buffer of its own and hands full buffers to one writer thread over
//! a bounded channel; when the channel or the disk cannot keep up, lines are dropped and counted,
//! and no core waits. This file has the parts' owner; what is known of a request is said by a `Source`
//! (`variable`, `entry`), a line's shape by `layout`; the hand-over is in `core_log`, the disk in `writer`.

mod core_log;
mod entry;
mod escape;
mod layout;
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
pub use entry::{Attempt, Entry};
pub use layout::{COMBINED, Escape, FORMAT_BYTES_MAX, FormatError, JSON_FIELDS, Layout};
pub use sink::{FileSink, Sink, StdoutSink, Target};
pub use variable::{Source, Value, Variable};

use crate::catalogue::ProcessMetrics;
use writer::{Command, Control, Writer};

/// Full buffers that may wait for the writer: with [`BUFFER_BYTES`] two megabytes, some
/// seconds of a disk that stalls at ten thousand requests a second.
pub const QUEUE_BUFFERS: usize = 64;

/// The access log of the process: the writer thread and what cores need to reach it.
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
    /// When the file cannot be opened or the thread cannot start.
    pub fn start(
        layout: Layout,
        target: &Target,
        metrics: Arc<ProcessMetrics>,
    ) -> io::Result<Self> {
        Self::with_sink(layout, target.open()?, metrics, QUEUE_BUFFERS)
    }

    /// Starts the writer over any sink, with room for `queue_buffers` full buffers.
    ///
    /// # Errors
    /// When the thread cannot start.
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

    /// The end of the log that one core writes to.
    pub fn core(&self) -> CoreLog {
        CoreLog::new(Arc::clone(&self.layout), self.sender.clone(), Arc::clone(&self.metrics))
    }

    /// Has the writer open the file anew, after it was moved away; does not wait for it.
    pub fn reopen(&self) {
        self.control.reopen.store(true, Ordering::Release);
        // A full channel will get the writer's attention as well as a message in it.
        let _ = self.sender.try_send(Command::Wake);
    }

    /// Writes what was handed over and ends the writer. Cores flush before this is called; what
    /// they log afterwards is dropped.
    pub fn shutdown(mut self) {
        self.stop();
    }

    fn stop(&mut self) {
        let Some(writer) = self.writer.take() else { return };
        self.control.stop.store(true, Ordering::Release);
        // An error means that the writer has ended already.
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
