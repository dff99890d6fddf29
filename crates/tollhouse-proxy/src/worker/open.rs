//! Open connections of one core: their number, their addresses, and the wakers of their tasks.

use std::cell::{Cell, RefCell};
use std::net::IpAddr;
use std::task::Waker;

use hashbrown::HashMap;
use tokio::sync::Notify;

/// Number of open connections of one core, in total and per client address.
#[derive(Debug)]
pub(crate) struct OpenConnections {
    /// Number of connections, including those whose task has not begun.
    count: Cell<usize>,
    /// Wakers of the tasks by number, woken when a drain begins.
    tasks: RefCell<HashMap<u64, Waker, foldhash::fast::RandomState>>,
    next_number: Cell<u64>,
    /// Connections by address; counted only if a limit is set.
    per_address: RefCell<HashMap<IpAddr, usize, foldhash::fast::RandomState>>,
    per_address_max: usize,
    changed: Notify,
}

impl OpenConnections {
    /// Creates an empty set; a `per_address_max` of 0 means unlimited.
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

    pub(crate) fn len(&self) -> usize {
        self.count.get()
    }

    /// Counts an accepted connection; undone by [`Self::exit`].
    pub(crate) fn begin(&self) {
        self.count.set(self.count.get() + 1);
    }

    /// Counts a connection from `address`; returns `false` if the address has too many.
    pub(crate) fn admit(&self, address: IpAddr) -> bool {
        if self.per_address_max == 0 {
            return true;
        }
        let mut per_address = self.per_address.borrow_mut();
        let count = per_address.entry(address).or_insert(0);
        *count += 1;
        *count <= self.per_address_max
    }

    /// Undoes [`Self::admit`] when a connection ends.
    pub(crate) fn leave(&self, address: IpAddr) {
        let mut per_address = self.per_address.borrow_mut();
        if let Some(count) = per_address.get_mut(&address) {
            *count -= 1;
            if *count == 0 {
                per_address.remove(&address);
            }
        }
    }

    /// Registers the task of a connection; returns its number for [`Self::exit`].
    pub(crate) fn enter(&self, task: Waker) -> u64 {
        let number = self.next_number.get();
        self.next_number.set(number + 1);
        self.tasks.borrow_mut().insert(number, task);
        number
    }

    /// Removes a connection, and its task if that has begun.
    pub(crate) fn exit(&self, number: Option<u64>) {
        self.count.set(self.count.get() - 1);
        if let Some(number) = number {
            self.tasks.borrow_mut().remove(&number);
        }
        self.changed.notify_waiters();
    }

    pub(crate) fn wake_all(&self) {
        for task in self.tasks.borrow().values() {
            task.wake_by_ref();
        }
    }

    /// Waits until no connection is open.
    pub(crate) async fn none_left(&self) {
        while self.len() > 0 {
            self.changed.notified().await;
        }
    }
}
