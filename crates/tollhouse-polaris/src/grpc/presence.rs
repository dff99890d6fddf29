//! Roster of a thread's connections: counts them and detects dead ones.
//!
//! Every [`PRESENCE_INTERVAL`] all connections are checked. A silent one is pinged. One that does
//! not answer is ended, and so is one that does not read its answers. An idle connection therefore
//! needs no timer.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::task::{Context, Waker};

use tokio::sync::Notify;

use super::limits::{PRESENCE_INTERVAL, SILENT_LOOKS_BEFORE_END, SILENT_LOOKS_BEFORE_PING};
use super::unsent::UnsentAnswers;

#[derive(Debug, Default)]
pub(super) struct Roster {
    entries: RefCell<HashMap<u64, Rc<Entry>>>,
    next_key: Cell<u64>,
    /// Number of periodic checks so far.
    looks: Rc<Cell<u32>>,
    entered: Notify,
    emptied: Notify,
}

/// State of a connection that the roster can see.
#[derive(Debug, Default)]
struct Entry {
    arrivals: Rc<Cell<u64>>,
    arrivals_seen: Cell<u64>,
    silent_looks: Cell<u32>,
    unsent: Rc<UnsentAnswers>,
    order: Cell<Option<Order>>,
    /// Whether a deadline of the protocol may pass on the connection.
    wants_looks: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

/// Command of the thread to one of its connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// Send a PING to the client.
    Ping,
    /// Check the protocol's deadlines.
    Look,
    /// Close the connection at once.
    End,
}

/// A connection's entry in the roster; removed on drop.
#[derive(Debug)]
pub(super) struct Presence {
    roster: Rc<Roster>,
    key: u64,
    entry: Rc<Entry>,
}

/// Right to end a connection from outside of its task.
#[derive(Debug)]
pub(super) struct Ending(Rc<Entry>);

impl Ending {
    pub(super) fn end(&self) {
        self.0.give(Order::End);
    }
}

impl Roster {
    pub(super) fn count(&self) -> usize {
        self.entries.borrow().len()
    }

    pub(super) fn enter(self: &Rc<Self>) -> Presence {
        let key = self.next_key.get();
        self.next_key.set(key + 1);
        let unsent = Rc::new(UnsentAnswers::new(Rc::clone(&self.looks)));
        let entry = Rc::new(Entry { unsent, ..Entry::default() });
        self.entries.borrow_mut().insert(key, Rc::clone(&entry));
        self.entered.notify_one();
        Presence { roster: Rc::clone(self), key, entry }
    }

    /// Checks all connections periodically; sleeps if the roster is empty.
    pub(super) async fn watch(&self) {
        let mut interval = tokio::time::interval(PRESENCE_INTERVAL);
        interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            if self.count() == 0 {
                self.entered.notified().await;
                // A new first connection gets a whole interval before the first check.
                interval.reset();
            }
            interval.tick().await;
            self.looks.set(self.looks.get().wrapping_add(1));
            for entry in self.entries.borrow().values() {
                entry.look();
            }
        }
    }

    pub(super) fn end_all(&self) {
        for entry in self.entries.borrow().values() {
            entry.give(Order::End);
        }
    }

    /// Waits until all connections have ended.
    pub(super) async fn until_empty(&self) {
        while self.count() > 0 {
            self.emptied.notified().await;
        }
    }
}

impl Entry {
    fn look(&self) {
        if self.unsent.has_stalled() {
            self.give(Order::End);
        }
        if self.wants_looks.get() && self.order.get().is_none() {
            self.give(Order::Look);
        }
        let arrivals = self.arrivals.get();
        if self.arrivals_seen.replace(arrivals) != arrivals {
            self.silent_looks.set(0);
            return;
        }
        let silent = self.silent_looks.get() + 1;
        self.silent_looks.set(silent);
        if silent >= SILENT_LOOKS_BEFORE_END {
            self.give(Order::End);
        } else if silent == SILENT_LOOKS_BEFORE_PING {
            self.give(Order::Ping);
        }
    }

    fn give(&self, order: Order) {
        self.order.set(Some(order));
        if let Some(waker) = &*self.waker.borrow() {
            waker.wake_by_ref();
        }
    }
}

impl Presence {
    /// Returns the counter of reads, which the connection increments.
    pub(super) fn arrivals(&self) -> Rc<Cell<u64>> {
        Rc::clone(&self.entry.arrivals)
    }

    /// Returns the register of answers that the client has not read.
    pub(super) fn unsent(&self) -> Rc<UnsentAnswers> {
        Rc::clone(&self.entry.unsent)
    }

    /// Returns the right to end the connection.
    pub(super) fn ending(&self) -> Ending {
        Ending(Rc::clone(&self.entry))
    }

    /// Sets whether the connection needs periodic checks of the protocol's deadlines.
    pub(super) fn set_wants_looks(&self, wants: bool) {
        self.entry.wants_looks.set(wants);
    }

    /// Returns a pending order; otherwise the task is woken by the next one.
    pub(super) fn order(&self, cx: &mut Context<'_>) -> Option<Order> {
        let mut waker = self.entry.waker.borrow_mut();
        if waker.is_none() {
            *waker = Some(cx.waker().clone());
        }
        self.entry.order.take()
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        let mut entries = self.roster.entries.borrow_mut();
        entries.remove(&self.key);
        if entries.is_empty() {
            self.roster.emptied.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_leads_to_a_ping_and_then_to_the_end() {
        let roster = Rc::new(Roster::default());
        let presence = roster.enter();
        let entry = Rc::clone(&presence.entry);
        let mut cx = Context::from_waker(Waker::noop());
        let mut look = |has_arrived: bool| {
            if has_arrived {
                presence.arrivals().set(presence.arrivals().get() + 1);
            }
            entry.look();
            presence.order(&mut cx)
        };
        assert_eq!([look(true), look(false), look(false)], [None, None, Some(Order::Ping)]);
        assert_eq!([look(true), look(false), look(false)], [None, None, Some(Order::Ping)]);
        assert_eq!([look(false), look(false)], [None, Some(Order::End)]);
    }

    #[test]
    fn who_gives_signs_of_life_and_does_not_read_is_ended() {
        let roster = Rc::new(Roster::default());
        let presence = roster.enter();
        let answer = presence.unsent().begin();
        let mut cx = Context::from_waker(Waker::noop());
        let mut look = || {
            presence.arrivals().set(presence.arrivals().get() + 1);
            roster.looks.set(roster.looks.get() + 1);
            presence.entry.look();
            presence.order(&mut cx)
        };
        assert_eq!([look(), look(), look(), look()], [None, None, None, Some(Order::End)]);
        drop(answer);
        assert_eq!(look(), None);
    }

    #[tokio::test]
    async fn the_roster_tells_when_it_is_empty() {
        let roster = Rc::new(Roster::default());
        let (first, second) = (roster.enter(), roster.enter());
        assert_eq!(roster.count(), 2);
        roster.end_all();
        let mut cx = Context::from_waker(Waker::noop());
        assert_eq!(first.order(&mut cx), Some(Order::End));
        drop((first, second));
        roster.until_empty().await;
    }
}
