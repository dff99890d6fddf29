//! Limits on the connections of a listener, over all its threads: in total and per address.
//!
//! Each connection holds a [`Slot`]. Further connections are closed at once, because a connection
//! that waits to be accepted would occupy the kernel's queue.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tollhouse_net::failed_logins::client_of;
use tollhouse_stdx::LogLimit;

/// Minimum interval between log lines about refused or failed connections.
pub(crate) const LOG_INTERVAL: Duration = Duration::from_secs(10);

/// Connection slots of a listener, shared by clones.
#[derive(Debug, Clone)]
pub struct Slots(Arc<SlotTable>);

#[derive(Debug)]
struct SlotTable {
    max: usize,
    per_client_max: usize,
    taken: Mutex<SlotCounts>,
}

#[derive(Debug)]
struct SlotCounts {
    count: usize,
    by_client: HashMap<IpAddr, usize>,
    refusals: LogLimit,
}

/// Slot of a connection, released on drop.
#[derive(Debug)]
pub struct Slot {
    places: Arc<SlotTable>,
    client: IpAddr,
}

impl Slots {
    /// Creates `max` slots. One address gets at most three quarters of the slots, so that a faulty
    /// client leaves room for others.
    pub fn new(max: usize) -> Self {
        let per_client_max = max.div_ceil(4) * 3;
        let refusals = LogLimit::new(LOG_INTERVAL);
        let taken = SlotCounts { count: 0, by_client: HashMap::new(), refusals };
        Self(Arc::new(SlotTable { max, per_client_max, taken: Mutex::new(taken) }))
    }

    /// Takes a slot for an address. If none is free, returns `None` and logs a warning at a limited
    /// rate.
    pub fn take(&self, address: IpAddr) -> Option<Slot> {
        let client = client_of(address);
        let mut taken = self.0.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let client_count = taken.by_client.get(&client).copied().unwrap_or(0);
        if taken.count >= self.0.max || client_count >= self.0.per_client_max {
            if let Some(suppressed) = taken.refusals.admit(Instant::now()) {
                let (max, open) = (self.0.max, taken.count);
                tracing::warn!(%address, client_count, open, max, suppressed,
                    "too many connections of registry clients; further ones are closed");
            }
            return None;
        }
        taken.count += 1;
        taken.by_client.insert(client, client_count + 1);
        Some(Slot { places: Arc::clone(&self.0), client })
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut taken = self.places.taken.lock().unwrap_or_else(PoisonError::into_inner);
        taken.count -= 1;
        if let Some(count) = taken.by_client.get_mut(&self.client) {
            *count -= 1;
            if *count == 0 {
                taken.by_client.remove(&self.client);
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

    #[test]
    fn places_are_counted_over_all_and_for_each_address() {
        let slots = Slots::new(4);
        let greedy = address("10.0.0.1");
        let mut held: Vec<_> = (0..3).map(|_| slots.take(greedy).expect("a place")).collect();
        assert!(slots.take(greedy).is_none(), "the rest is for others");
        held.push(slots.clone().take(address("10.0.0.2")).expect("a place"));
        assert!(slots.take(address("10.0.0.3")).is_none(), "none is left");
        held.clear();
        assert!(slots.0.taken.lock().expect("whole").by_client.is_empty());
        assert!(slots.take(greedy).is_some());
    }
}
