//! Pipes of the kernel through which long transfers pass without a copy to user space (splice(2)), and
//! where a core keeps those that nobody uses.

use std::cell::{Cell, RefCell};
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::pipe::{PipeFlags, SpliceFlags, pipe_with, splice};

/// Pipes of one core, used and free. Two descriptors each; flows beyond are copied, which is slower
/// and no worse otherwise.
pub const PIPES_MAX: usize = 64;

/// Bytes asked for at a time: what a pipe of the kernel's default size holds.
pub(super) const PIPE_BYTES: usize = 64 * 1024;

/// A pipe of which nothing is left behind.
#[derive(Debug)]
pub(super) struct Pipe {
    read: OwnedFd,
    write: OwnedFd,
    /// Bytes in it.
    held: usize,
}

impl Pipe {
    /// Bytes that have been taken in and not been sent on.
    pub(super) fn held(&self) -> usize {
        self.held
    }

    /// Takes in what a socket has; 0 is its end. Only an empty pipe may be asked: of a full one
    /// nobody could tell whether the socket or the pipe is not ready.
    pub(super) fn fill(&mut self, from: &impl AsFd) -> io::Result<usize> {
        debug_assert_eq!(self.held, 0, "a pipe that holds bytes is not filled");
        let flags = SpliceFlags::MOVE | SpliceFlags::NONBLOCK;
        let moved = splice(from, None, &self.write, None, PIPE_BYTES, flags)?;
        self.held = moved;
        Ok(moved)
    }

    /// Sends on what it holds, as far as the socket takes it.
    pub(super) fn drain(&mut self, to: &impl AsFd) -> io::Result<usize> {
        let flags = SpliceFlags::MOVE | SpliceFlags::NONBLOCK;
        let moved = splice(&self.read, None, to, None, self.held, flags)?;
        self.held -= moved.min(self.held);
        Ok(moved)
    }
}

/// The pipes of one core.
#[derive(Debug, Default)]
pub(crate) struct PipePool {
    free: RefCell<Vec<Pipe>>,
    made: Cell<usize>,
}

impl PipePool {
    /// An empty pipe; `None` where all are in use, or the system has none.
    pub(super) fn take(&self) -> Option<Pipe> {
        if let Some(pipe) = self.free.borrow_mut().pop() {
            return Some(pipe);
        }
        if self.made.get() >= PIPES_MAX {
            return None;
        }
        let (read, write) = pipe_with(PipeFlags::NONBLOCK | PipeFlags::CLOEXEC).ok()?;
        self.made.set(self.made.get() + 1);
        Some(Pipe { read, write, held: 0 })
    }

    /// Takes a pipe back; one that still holds bytes of a broken connection is closed.
    pub(super) fn give(&self, pipe: Pipe) {
        if pipe.held == 0 {
            self.free.borrow_mut().push(pipe);
        } else {
            self.made.set(self.made.get() - 1);
        }
    }
}
