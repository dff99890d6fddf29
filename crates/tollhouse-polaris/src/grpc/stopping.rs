//! Signal that the thread's calls must end, and the tasks that wait for it.
//!
//! Cheaper than a channel: a waiting call checks one flag, and registers its waker once, because
//! the waker of a task does not change.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::task::{Context, Waker};

/// Signal of one thread.
#[derive(Debug, Default)]
pub(super) struct Stopping {
    has_begun: Cell<bool>,
    next_key: Cell<u64>,
    waiting: RefCell<HashMap<u64, Waker>>,
}

/// A waiter for the signal, within one task.
#[derive(Debug)]
pub(super) struct Listener {
    stopping: Rc<Stopping>,
    key: Option<u64>,
}

impl Stopping {
    /// Sets the signal and wakes all waiters.
    pub(super) fn begin(&self) {
        self.has_begun.set(true);
        for (_, waker) in self.waiting.borrow_mut().drain() {
            waker.wake();
        }
    }

    pub(super) fn listener(self: &Rc<Self>) -> Listener {
        Listener { stopping: Rc::clone(self), key: None }
    }
}

impl Listener {
    /// Whether the signal is set; if not, the task is woken when it is.
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
