//! Memory held on behalf of clients: bounded per connection by [`HELD_BYTES_MAX`], and per thread
//! by [`THREAD_HELD_BYTES_MAX`].
//!
//! The budget counts messages that are incomplete or unanswered, calls that wait, and long answers
//! for one client. Bytes are held by a [`Share`], and released when it is dropped.

use std::cell::Cell;
use std::rc::Rc;

use super::limits::{CALLS_WAITING_MAX, HELD_BYTES_MAX, THREAD_HELD_BYTES_MAX, WAITING_CALL_BYTES};
use super::pinned::SharedAnswers;
use super::status::{Code, Status};
use super::unsent::UnsentAnswers;

/// Budget of all connections of a thread.
#[derive(Debug, Clone, Default)]
pub(super) struct ThreadBudget {
    held_bytes: Rc<Cell<usize>>,
    /// Shared answers that are being sent.
    pinned: Rc<SharedAnswers>,
}

/// Budget of a connection, for one thread; a clone shares it.
#[derive(Debug, Clone, Default)]
pub(super) struct Budget(Rc<BudgetState>);

#[derive(Debug, Default)]
struct BudgetState {
    of_thread: ThreadBudget,
    bytes: Cell<usize>,
    calls: Cell<usize>,
    unsent: Rc<UnsentAnswers>,
}

/// A part of a [`Budget`], released on drop.
#[derive(Debug)]
pub(super) struct Share {
    budget: Budget,
    bytes: usize,
}

/// A call that waits for its message, for the registry, or for the client to read.
#[derive(Debug)]
pub(super) struct Waiting {
    share: Share,
}

impl Budget {
    /// Creates the budget of a new connection.
    pub(super) fn new(of_thread: ThreadBudget, unsent: Rc<UnsentAnswers>) -> Self {
        Self(Rc::new(BudgetState { of_thread, unsent, ..BudgetState::default() }))
    }

    pub(super) fn share(&self) -> Share {
        Share { budget: self.clone(), bytes: 0 }
    }

    /// Admits a waiting call whose head has `head_bytes` bytes.
    ///
    /// # Errors
    /// `RESOURCE_EXHAUSTED` if too many calls wait already.
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

    /// Returns the thread's shared answers that are being sent.
    pub(super) fn pinned(&self) -> &Rc<SharedAnswers> {
        &self.0.of_thread.pinned
    }

    /// Returns the answers that the client has not read yet.
    pub(super) fn unsent(&self) -> &Rc<UnsentAnswers> {
        &self.0.unsent
    }
}

impl Share {
    /// Adds `bytes` to the share.
    ///
    /// # Errors
    /// `RESOURCE_EXHAUSTED` if the connection or the thread holds too much already.
    pub(super) fn take(&mut self, bytes: usize) -> Result<(), Status> {
        let BudgetState { of_thread, bytes: of_connection, .. } = &*self.budget.0;
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

    /// Moves all bytes into a new share.
    pub(super) fn split(&mut self) -> Self {
        Self { budget: self.budget.clone(), bytes: std::mem::take(&mut self.bytes) }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let BudgetState { of_thread, bytes: of_connection, .. } = &*self.budget.0;
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
