//! What clients make this side hold: one connection against [`HELD_BYTES_MAX`], all connections of a thread
//! against [`THREAD_HELD_BYTES_MAX`].
//!
//! Counted are messages that are not whole, not ended or not answered yet, calls that wait, and long
//! answers made for one client. Whoever holds bytes holds a [`Share`]; dropping it gives them back.

use std::cell::Cell;
use std::rc::Rc;

use super::limits::{CALLS_WAITING_MAX, HELD_BYTES_MAX, THREAD_HELD_BYTES_MAX, WAITING_CALL_BYTES};
use super::pinned::Pinned;
use super::status::{Code, Status};
use super::unsent::Unsent;

/// What all connections of a thread hold.
#[derive(Debug, Clone, Default)]
pub(super) struct ThreadBudget {
    held_bytes: Rc<Cell<usize>>,
    /// Shared answers that are on their way.
    pinned: Rc<Pinned>,
}

/// What a connection holds. One thread; a clone is one more count.
#[derive(Debug, Clone, Default)]
pub(super) struct Budget(Rc<Held>);

#[derive(Debug, Default)]
struct Held {
    of_thread: ThreadBudget,
    bytes: Cell<usize>,
    calls: Cell<usize>,
    unsent: Rc<Unsent>,
}

/// A part of a [`Budget`].
#[derive(Debug)]
pub(super) struct Share {
    budget: Budget,
    bytes: usize,
}

/// A call that waits: for its message, for the registry, or for the client to read.
#[derive(Debug)]
pub(super) struct Waiting {
    share: Share,
}

impl Budget {
    /// The budget of a new connection.
    pub(super) fn new(of_thread: ThreadBudget, unsent: Rc<Unsent>) -> Self {
        Self(Rc::new(Held { of_thread, unsent, ..Held::default() }))
    }

    /// A share of nothing yet.
    pub(super) fn share(&self) -> Share {
        Share { budget: self.clone(), bytes: 0 }
    }

    /// The place of a call that waits, whose head has so many bytes.
    ///
    /// # Errors
    /// `RESOURCE_EXHAUSTED` when too many wait already.
    pub(super) fn waiting(&self, head_bytes: usize) -> Result<Waiting, Status> {
        let calls = &self.0.calls;
        if calls.get() >= CALLS_WAITING_MAX {
            let message = "this connection has too many calls under way";
            return Err(Status::new(Code::ResourceExhausted, message));
        }
        let mut share = self.share();
        share.take(WAITING_CALL_BYTES + head_bytes)?;
        calls.set(calls.get() + 1);
        Ok(Waiting { share })
    }

    /// The shared answers of the thread that are on their way.
    pub(super) fn pinned(&self) -> &Rc<Pinned> {
        &self.0.of_thread.pinned
    }

    /// The answers that the client has not taken.
    pub(super) fn unsent(&self) -> &Rc<Unsent> {
        &self.0.unsent
    }
}

impl Share {
    /// Takes `bytes` more.
    ///
    /// # Errors
    /// `RESOURCE_EXHAUSTED` when the connection, or all of them, hold too much already.
    pub(super) fn take(&mut self, bytes: usize) -> Result<(), Status> {
        let Held { of_thread, bytes: of_connection, .. } = &*self.budget.0;
        let held = of_connection.get() + bytes;
        if held > HELD_BYTES_MAX {
            let message = "this connection has too many bytes of unfinished or unread messages";
            return Err(Status::new(Code::ResourceExhausted, message));
        }
        let held_by_all = of_thread.held_bytes.get() + bytes;
        if held_by_all > THREAD_HELD_BYTES_MAX {
            let message = "the server has too many bytes of unfinished or unread messages";
            return Err(Status::new(Code::ResourceExhausted, message));
        }
        of_connection.set(held);
        of_thread.held_bytes.set(held_by_all);
        self.bytes += bytes;
        Ok(())
    }

    /// Moves all of it into a share of its own.
    pub(super) fn split(&mut self) -> Self {
        Self { budget: self.budget.clone(), bytes: std::mem::take(&mut self.bytes) }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let Held { of_thread, bytes: of_connection, .. } = &*self.budget.0;
        of_connection.set(of_connection.get() - self.bytes);
        of_thread.held_bytes.set(of_thread.held_bytes.get() - self.bytes);
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let calls = &self.share.budget.0.calls;
        calls.set(calls.get() - 1);
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
        let moved = first.split();
        drop(first);
        assert!(second.take(1).is_err(), "what was moved is held still");
        drop(moved);
        second.take(HELD_BYTES_MAX - 1).expect("room again");
        drop(second);
        assert_eq!((budget.0.bytes.get(), budget.0.of_thread.held_bytes.get()), (0, 0));
    }

    #[test]
    fn connections_of_a_thread_share_a_bound() {
        let thread = ThreadBudget::default();
        let full = THREAD_HELD_BYTES_MAX / HELD_BYTES_MAX;
        let mut shares: Vec<_> =
            (0..=full).map(|_| Budget::new(thread.clone(), Rc::default()).share()).collect();
        let taken = shares.iter_mut().filter_map(|share| share.take(HELD_BYTES_MAX).ok()).count();
        assert_eq!(taken, full);
        shares.remove(0);
        shares.last_mut().expect("there are some").take(HELD_BYTES_MAX).expect("room again");
    }

    #[test]
    fn calls_that_wait_are_counted() {
        let budget = Budget::default();
        let mut waiting: Vec<_> =
            (0..CALLS_WAITING_MAX).map(|_| budget.waiting(100).expect("room")).collect();
        let refused = budget.waiting(0).map_err(|status| status.code).err();
        assert_eq!(refused, Some(Code::ResourceExhausted));
        waiting.pop();
        drop(budget.waiting(100).expect("room again"));
        let long = budget.waiting(HELD_BYTES_MAX);
        assert!(long.is_err(), "heads count");
    }
}
