//! The word that a thread's calls are to end, and who waits for it.
//!
//! Cheaper than a channel: a call that waits for its next message looks at one flag, and is entered in
//! the list of those to be woken once in its life, since a task's waker stays the same.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::task::{Context, Waker};

/// Whether the end has begun. One thread.
#[derive(Debug, Default)]
pub(super) struct Stopping {
    has_begun: Cell<bool>,
    next_key: Cell<u64>,
    waiting: RefCell<HashMap<u64, Waker>>,
}

/// One who waits for the word, from within one task.
#[derive(Debug)]
pub(super) struct Listener {
    stopping: Rc<Stopping>,
    key: Option<u64>,
}

impl Stopping {
    /// Begins the end and wakes all who wait for it.
    pub(super) fn begin(&self) {
        self.has_begun.set(true);
        for (_, waker) in self.waiting.borrow_mut().drain() {
            waker.wake();
        }
    }

    /// Someone who will wait.
    pub(super) fn listener(self: &Rc<Self>) -> Listener {
        Listener { stopping: Rc::clone(self), key: None }
    }
}

impl Listener {
    /// Whether the end has begun; if not, the task is woken when it does.
    pub(super) fn has_begun(&mut self, cx: &mut Context<'_>) -> bool {
        let stopping = &self.stopping;
        if stopping.has_begun.get() {
            return true;
        }
        if self.key.is_none() {
            let key = stopping.next_key.get();
            stopping.next_key.set(key + 1);
            stopping.waiting.borrow_mut().insert(key, cx.waker().clone());
            self.key = Some(key);
        }
        false
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            self.stopping.waiting.borrow_mut().remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Waker};

    use super::*;

    #[test]
    fn listeners_hear_it_and_leave_nothing_behind() {
        let stopping = Rc::new(Stopping::default());
        let mut cx = Context::from_waker(Waker::noop());
        let mut first = stopping.listener();
        let mut second = stopping.listener();
        assert!(!first.has_begun(&mut cx) && !first.has_begun(&mut cx));
        assert!(!second.has_begun(&mut cx));
        assert_eq!(stopping.waiting.borrow().len(), 2);
        drop(second);
        assert_eq!(stopping.waiting.borrow().len(), 1);
        stopping.begin();
        assert!(first.has_begun(&mut cx));
        assert!(stopping.waiting.borrow().is_empty());
    }
}
