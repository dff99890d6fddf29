//! The connections that are open on one core: how many, from where, and how to wake them.

use std::cell::{Cell, RefCell};
use std::net::IpAddr;
use std::task::Waker;

use hashbrown::HashMap;
use tokio::sync::Notify;

/// The open connections of one core.
#[derive(Debug)]
pub(crate) struct OpenConnections {
    /// How many there are, those included whose task has not begun yet.
    count: Cell<usize>,
    /// The tasks by number, to be woken when a drain begins.
    tasks: RefCell<HashMap<u64, Waker, foldhash::fast::RandomState>>,
    next_number: Cell<u64>,
    /// Counted only where a limit is set.
    per_address: RefCell<HashMap<IpAddr, usize, foldhash::fast::RandomState>>,
    per_address_max: usize,
    changed: Notify,
}

impl OpenConnections {
    /// None open; `per_address_max` of 0 is without limit.
    pub(crate) fn new(per_address_max: usize) -> Self {
        Self {
            count: Cell::new(0),
            tasks: RefCell::default(),
            next_number: Cell::new(0),
            per_address: RefCell::default(),
            per_address_max,
            changed: Notify::new(),
        }
    }

    /// How many are open.
    pub(crate) fn len(&self) -> usize {
        self.count.get()
    }

    /// Counts one that was accepted; [`Self::exit`] takes it out again.
    pub(crate) fn begin(&self) {
        self.count.set(self.count.get() + 1);
    }

    /// Counts a connection from `address`; `false` when it has too many.
    pub(crate) fn admit(&self, address: IpAddr) -> bool {
        if self.per_address_max == 0 {
            return true;
        }
        let mut per_address = self.per_address.borrow_mut();
        let count = per_address.entry(address).or_insert(0);
        *count += 1;
        *count <= self.per_address_max
    }

    /// Forgets what [`Self::admit`] counted.
    pub(crate) fn leave(&self, address: IpAddr) {
        let mut per_address = self.per_address.borrow_mut();
        if let Some(count) = per_address.get_mut(&address) {
            *count -= 1;
            if *count == 0 {
                per_address.remove(&address);
            }
        }
    }

    /// Registers the task of a connection; the number takes it out again.
    pub(crate) fn enter(&self, task: Waker) -> u64 {
        let number = self.next_number.get();
        self.next_number.set(number + 1);
        self.tasks.borrow_mut().insert(number, task);
        number
    }

    /// Takes out a connection, and its task if that has begun.
    pub(crate) fn exit(&self, number: Option<u64>) {
        self.count.set(self.count.get() - 1);
        if let Some(number) = number {
            self.tasks.borrow_mut().remove(&number);
        }
        self.changed.notify_waiters();
    }

    /// Wakes every connection's task.
    pub(crate) fn wake_all(&self) {
        for task in self.tasks.borrow().values() {
            task.wake_by_ref();
        }
    }

    /// Waits until none is open.
    pub(crate) async fn none_left(&self) {
        while self.len() > 0 {
            self.changed.notified().await;
        }
    }
}
