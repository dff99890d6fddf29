//! What one connection makes this side hold, against [`HELD_BYTES_MAX`].
//!
//! Counted are parts of messages that are not whole yet and long answers made for one client.
//! Whoever holds bytes holds a [`Share`]; dropping it gives them back.

use std::cell::Cell;
use std::rc::Rc;

use super::limits::HELD_BYTES_MAX;
use super::status::{Code, Status};

/// The bytes that a connection holds. One thread.
#[derive(Debug, Clone, Default)]
pub(super) struct Budget {
    held_bytes: Rc<Cell<usize>>,
}

/// A part of a [`Budget`].
#[derive(Debug)]
pub(super) struct Share {
    budget: Budget,
    bytes: usize,
}

impl Budget {
    /// A share of nothing yet.
    pub(super) fn share(&self) -> Share {
        Share { budget: self.clone(), bytes: 0 }
    }
}

impl Share {
    /// Takes `bytes` more.
    ///
    /// # Errors
    /// `RESOURCE_EXHAUSTED` when the connection holds too much already.
    pub(super) fn take(&mut self, bytes: usize) -> Result<(), Status> {
        let held = self.budget.held_bytes.get() + bytes;
        if held > HELD_BYTES_MAX {
            let message = "this connection has too many bytes of unfinished or unread messages";
            return Err(Status::new(Code::ResourceExhausted, message));
        }
        self.budget.held_bytes.set(held);
        self.bytes += bytes;
        Ok(())
    }

    /// Gives everything back.
    pub(super) fn clear(&mut self) {
        self.budget.held_bytes.set(self.budget.held_bytes.get() - self.bytes);
        self.bytes = 0;
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_given_back_can_be_taken_again() {
        let budget = Budget::default();
        let mut first = budget.share();
        first.take(HELD_BYTES_MAX - 1).expect("room");
        let mut second = budget.share();
        second.take(1).expect("room");
        assert_eq!(second.take(1).map_err(|status| status.code), Err(Code::ResourceExhausted));
        drop(first);
        second.take(HELD_BYTES_MAX - 1).expect("room again");
        second.clear();
        assert_eq!(budget.held_bytes.get(), 0);
    }
}
