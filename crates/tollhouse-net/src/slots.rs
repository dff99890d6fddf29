//! Limits on the connections of a listener, over all its threads: in total and per address.
//!
//! Each connection holds a [`Slot`]. One address gets three quarters of the slots, so that a faulty
//! client leaves room for others. Its further connections are closed at once.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tollhouse_stdx::LogLimit;

use crate::failed_logins::client_of;

/// Minimum interval between log lines about refused or failed connections.
pub const LOG_INTERVAL: Duration = Duration::from_secs(10);

/// Connection slots of a listener, shared by clones.
#[derive(Debug, Clone)]
pub struct Slots(Arc<SlotTable>);

#[derive(Debug)]
struct SlotTable {
    /// Name of the listener in the log.
    name: &'static str,
    max: usize,
    per_client_max: usize,
    free: Arc<Semaphore>,
    clients: Mutex<Clients>,
}

#[derive(Debug)]
struct Clients {
    counts: HashMap<IpAddr, usize>,
    refusals: LogLimit,
}

/// Slot that no connection has yet.
pub type FreeSlot = OwnedSemaphorePermit;

/// Slot of a connection, released on drop.
#[derive(Debug)]
pub struct Slot {
    table: Arc<SlotTable>,
    client: IpAddr,
    _free: FreeSlot,
}

impl Slots {
    /// Creates `max` slots for the listener `name`.
    pub fn new(name: &'static str, max: usize) -> Self {
        Self(Arc::new(SlotTable {
            name,
            max,
            per_client_max: max.div_ceil(4) * 3,
            free: Arc::new(Semaphore::new(max)),
            clients: Mutex::new(Clients {
                counts: HashMap::new(),
                refusals: LogLimit::new(LOG_INTERVAL),
            }),
        }))
    }

    /// Takes a slot for a connection from `address`; `None` if none is free or the address has its
    /// share.
    pub fn take(&self, address: IpAddr) -> Option<Slot> {
        match Arc::clone(&self.0.free).try_acquire_owned() {
            Ok(permit) => self.assign(permit, address),
            Err(_) => {
                self.warn(&self.0.clients(), address);
                None
            }
        }
    }

    /// Waits for a free slot, for listeners whose further clients wait in the kernel's queue.
    pub async fn free(&self) -> Option<FreeSlot> {
        Arc::clone(&self.0.free).acquire_owned().await.ok()
    }

    /// Assigns a slot to a connection from `address`; `None` if the address has its share.
    pub fn assign(&self, slot: FreeSlot, address: IpAddr) -> Option<Slot> {
        let client = client_of(address);
        let mut clients = self.0.clients();
        let count = clients.counts.get(&client).copied().unwrap_or(0);
        if count >= self.0.per_client_max {
            self.warn(&clients, address);
            return None;
        }
        clients.counts.insert(client, count + 1);
        Some(Slot { table: Arc::clone(&self.0), client, _free: slot })
    }

    /// Logs a refused connection, at a limited rate.
    fn warn(&self, clients: &Clients, address: IpAddr) {
        if let Some(suppressed) = clients.refusals.admit(Instant::now()) {
            let SlotTable { name, max, .. } = *self.0;
            let client_count = clients.counts.get(&client_of(address)).copied().unwrap_or(0);
            tracing::warn!(listener = name, %address, client_count, max, suppressed,
                "too many connections; further ones are closed");
        }
    }
}

impl SlotTable {
    fn clients(&self) -> MutexGuard<'_, Clients> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut clients = self.table.clients();
        if let Some(count) = clients.counts.get_mut(&self.client) {
            *count -= 1;
            if *count == 0 {
                clients.counts.remove(&self.client);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[tokio::test]
    async fn slots_are_limited_in_total_and_for_each_address() {
        let slots = Slots::new("test", 4);
        let greedy = address("10.0.0.1");
        let mut held: Vec<_> = (0..3).map(|_| slots.take(greedy).expect("a slot")).collect();
        let free = slots.free().await.expect("never closed");
        assert!(slots.assign(free, greedy).is_none(), "the rest is for others");
        held.push(slots.clone().take(address("10.0.0.2")).expect("a slot"));
        assert!(slots.take(address("10.0.0.3")).is_none(), "none is left");
        held.clear();
        assert!(slots.0.clients().counts.is_empty());
        assert!(slots.take(greedy).is_some());
    }
}
