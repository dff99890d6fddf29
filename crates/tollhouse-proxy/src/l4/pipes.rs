//! Kernel pipes that move long transfers without a copy to user space (`splice(2)`), and a pool of
//! unused ones per core.

use std::cell::{Cell, RefCell};
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::pipe::{PipeFlags, SpliceFlags, pipe_with, splice};

/// Maximum number of pipes per core, used and free. Each needs two file descriptors; further flows
/// are copied in user space, which is only slower.
pub const PIPES_MAX: usize = 64;

/// Bytes requested per call: the default capacity of a kernel pipe.
pub(super) const PIPE_BYTES: usize = 64 * 1024;

/// An empty pipe when it is taken from the pool.
#[derive(Debug)]
pub(super) struct Pipe {
    read: OwnedFd,
    write: OwnedFd,
    /// Number of bytes in the pipe.
    held: usize,
}

impl Pipe {
    /// Returns the number of bytes received and not sent on yet.
    pub(super) fn held(&self) -> usize {
        self.held
    }

    /// Fills the pipe from a socket; 0 is the end of the stream. The pipe must be empty, because
    /// with a full one it would be unclear whether the socket or the pipe is not ready.
    pub(super) fn fill(&mut self, from: &impl AsFd) -> io::Result<usize> {
        debug_assert_eq!(self.held, 0, "a pipe that holds bytes is not filled");
        let flags = SpliceFlags::MOVE | SpliceFlags::NONBLOCK;
        let moved = splice(from, None, &self.write, None, PIPE_BYTES, flags)?;
        self.held = moved;
        Ok(moved)
    }

    /// Sends the content on, as far as the socket takes it.
    pub(super) fn drain(&mut self, to: &impl AsFd) -> io::Result<usize> {
        let flags = SpliceFlags::MOVE | SpliceFlags::NONBLOCK;
        let moved = splice(&self.read, None, to, None, self.held, flags)?;
        self.held -= moved.min(self.held);
        Ok(moved)
    }
}

/// Kernel pipes of one core that wait for reuse.
#[derive(Debug, Default)]
pub(crate) struct PipePool {
    free: RefCell<Vec<Pipe>>,
    made: Cell<usize>,
}

impl PipePool {
    /// Returns an empty pipe; `None` if `PIPES_MAX` are in use or the system provides none.
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

    /// Returns a pipe to the pool; one that still holds bytes of a broken connection is closed.
    pub(super) fn give(&self, pipe: Pipe) {
        if pipe.held == 0 {
            self.free.borrow_mut().push(pipe);
        } else {
            self.made.set(self.made.get() - 1);
        }
    }
}
