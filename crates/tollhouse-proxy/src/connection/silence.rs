//! Connections to TLS listeners that have not sent a complete ClientHello. They are cheap and any
//! client can open them, so their number is limited separately from handshakes. At the limit, the
//! connection that has been silent longest is closed.

use std::cell::RefCell;
use std::net::IpAddr;
use std::task::Waker;

use tollhouse_stdx::{ArrivalQueue, Ticket};

use crate::worker::Worker;

/// Silent connections of one core, by client address.
#[derive(Debug, Default)]
pub(crate) struct SilentConnections(RefCell<ArrivalQueue<IpAddr, Waker>>);

/// Place of a connection in the queue of silent ones; released on drop.
#[derive(Debug)]
pub(crate) struct Silence<'w> {
    worker: &'w Worker,
    ticket: Ticket,
}

impl<'w> Silence<'w> {
    /// Adds a connection to the queue. `task` is woken when a newer connection displaces it.
    pub(crate) fn begin(worker: &'w Worker, client: IpAddr, task: Waker) -> Self {
        let limits = &worker.settings.limits;
        let mut queue = worker.silent.0.borrow_mut();
        let displaced = if queue.len_of(&client) >= limits.silent_connections_per_address {
            queue.pop_oldest_of(&client)
        } else if queue.len() >= limits.silent_connections_per_worker {
            queue.pop_oldest()
        } else {
            None
        };
        let ticket = queue.push(client, task);
        drop(queue);
        if let Some(task) = displaced {
            task.wake();
        }
        Self { worker, ticket }
    }

    /// Whether a newer connection has displaced this one.
    pub(crate) fn is_displaced(&self) -> bool {
        !self.worker.silent.0.borrow().contains(&self.ticket)
    }
}

impl Drop for Silence<'_> {
    fn drop(&mut self) {
        self.worker.silent.0.borrow_mut().remove(&self.ticket);
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;
    use crate::settings::Limits;
    use crate::testing;

    #[test]
    fn the_oldest_silent_connection_makes_room_and_never_the_newest() {
        let limits = Limits {
            silent_connections_per_worker: 3,
            silent_connections_per_address: 2,
            ..Limits::default()
        };
        let worker = testing::worker(limits);
        let begin = |last| {
            let client = IpAddr::from(Ipv4Addr::new(192, 0, 2, last));
            Silence::begin(&worker, client, Waker::noop().clone())
        };
        let places = [begin(1), begin(2), begin(2)];
        let displaced = |places: &[Silence<'_>]| -> Vec<bool> {
            places.iter().map(Silence::is_displaced).collect()
        };
        // An address at its own limit loses its oldest connection.
        let newest = begin(2);
        assert_eq!(displaced(&places), [false, true, false]);
        // At the limit of the core, the oldest connection of all is closed.
        let other = begin(3);
        assert_eq!(displaced(&places), [true, true, false]);
        assert!(!newest.is_displaced() && !other.is_displaced());
        drop((places, newest, other));
        assert!(worker.silent.0.borrow().is_empty());
    }
}
