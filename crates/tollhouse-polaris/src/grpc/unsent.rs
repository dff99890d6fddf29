//! Unsent answers of a connection, counted by the check at which they last made progress. An answer
//! without progress over several checks shows that the client does not read.

use std::cell::Cell;
use std::rc::Rc;

use super::limits::{STALL_PROGRESS_BYTES, STALLED_LOOKS_MAX};

/// Number of checks that are distinguished; connections with an answer older than
/// [`STALLED_LOOKS_MAX`] are ended.
const LOOKS: usize = 8;

/// Counters of unsent answers, for one thread; see the module.
#[derive(Debug, Default)]
pub(super) struct UnsentAnswers {
    /// Number of the next check, shared by all connections of the thread.
    look: Rc<Cell<u32>>,
    by_look: [Cell<u32>; LOOKS],
}

/// Entry of an unsent answer, or of other output that waits for the client; removed on drop.
#[derive(Debug)]
pub(super) struct UnsentAnswer {
    unsent: Rc<UnsentAnswers>,
    look: u32,
    moved_bytes: usize,
}

impl UnsentAnswers {
    /// Creates empty counters; `look` is the thread's number of checks.
    pub(super) fn new(look: Rc<Cell<u32>>) -> Self {
        Self { look, by_look: Default::default() }
    }

    /// Adds an entry.
    pub(super) fn begin(self: &Rc<Self>) -> UnsentAnswer {
        let look = self.look.get();
        self.count(look, 1);
        UnsentAnswer { unsent: Rc::clone(self), look, moved_bytes: 0 }
    }

    /// Whether an entry has made no progress for too long.
    pub(super) fn has_stalled(&self) -> bool {
        let now = self.look.get();
        (STALLED_LOOKS_MAX..LOOKS as u32).any(|age| self.at(now.wrapping_sub(age)).get() > 0)
    }

    fn count(&self, look: u32, change: i32) {
        let count = self.at(look);
        count.set(count.get().wrapping_add_signed(change));
    }

    fn at(&self, look: u32) -> &Cell<u32> {
        &self.by_look[look as usize % LOOKS]
    }
}

impl UnsentAnswer {
    /// Notes that the client has taken bytes.
    pub(super) fn advance(&mut self, bytes: usize) {
        self.moved_bytes += bytes;
        let now = self.unsent.look.get();
        // Fewer bytes do not count as progress.
        if self.look != now && self.moved_bytes >= STALL_PROGRESS_BYTES {
            self.unsent.count(self.look, -1);
            self.unsent.count(now, 1);
            self.look = now;
            self.moved_bytes = 0;
        }
    }
}

impl Drop for UnsentAnswer {
    fn drop(&mut self) {
        self.unsent.count(self.look, -1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_move_stalls_and_what_moves_does_not() {
        let look = Rc::new(Cell::new(u32::MAX - 2));
        let unsent = Rc::new(UnsentAnswers::new(Rc::clone(&look)));
        let (mut moving, trickling) = (unsent.begin(), unsent.begin());
        let pass = || look.set(look.get().wrapping_add(1));
        let mut trickling = Some(trickling);
        for passed in 1..=4 * STALLED_LOOKS_MAX {
            pass();
            moving.advance(STALL_PROGRESS_BYTES);
            if let Some(trickling) = &mut trickling {
                trickling.advance(1);
            }
            assert_eq!(unsent.has_stalled(), passed == STALLED_LOOKS_MAX, "{passed}");
            if unsent.has_stalled() {
                trickling = None;
            }
        }
        drop(moving);
        assert!(unsent.by_look.iter().all(|count| count.get() == 0));
    }
}
