//! Shared limit in bytes on the memory of many holders, with guards that return their share.
//!
//! Code whose memory use can be driven by untrusted peers reserves the bytes here first and is
//! refused if the sum of all reservations would exceed the limit. The budget does not know the
//! contents.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Limit on the total number of reserved bytes.
#[derive(Debug)]
pub struct MemoryBudget {
    bytes_max: u64,
    held: AtomicU64,
}

impl MemoryBudget {
    /// Creates a budget of `bytes_max` bytes.
    pub fn new(bytes_max: u64) -> Arc<Self> {
        Arc::new(Self { bytes_max, held: AtomicU64::new(0) })
    }

    /// Creates a budget without limit, for tools that serve no clients.
    pub fn unlimited() -> Arc<Self> {
        Self::new(u64::MAX)
    }

    /// Returns the number of reserved bytes.
    pub fn held(&self) -> u64 {
        self.held.load(Ordering::Relaxed)
    }

    /// Returns the maximum number of reserved bytes.
    pub fn bytes_max(&self) -> u64 {
        self.bytes_max
    }

    /// Reserves `bytes`; `None` if the limit would be exceeded.
    pub fn take(self: &Arc<Self>, bytes: u64) -> Option<Reservation> {
        let mut reservation = Reservation { budget: Arc::clone(self), bytes: 0 };
        reservation.resize(bytes).then_some(reservation)
    }

    fn add(&self, bytes: u64) -> bool {
        let added = |held: u64| held.checked_add(bytes).filter(|sum| *sum <= self.bytes_max);
        self.held.fetch_update(Ordering::Relaxed, Ordering::Relaxed, added).is_ok()
    }
}

/// Bytes reserved in a budget; returned on drop.
#[derive(Debug)]
pub struct Reservation {
    budget: Arc<MemoryBudget>,
    bytes: u64,
}

impl Reservation {
    /// Returns the number of reserved bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Moves all bytes to a new reservation and leaves this one empty.
    pub fn split(&mut self) -> Reservation {
        let bytes = std::mem::take(&mut self.bytes);
        Reservation { budget: Arc::clone(&self.budget), bytes }
    }

    /// Changes the number of bytes; returns `false`, without a change, if the limit would be
    /// exceeded.
    #[must_use]
    pub fn resize(&mut self, bytes: u64) -> bool {
        if bytes > self.bytes && !self.budget.add(bytes - self.bytes) {
            return false;
        }
        if bytes < self.bytes {
            self.budget.held.fetch_sub(self.bytes - bytes, Ordering::Relaxed);
        }
        self.bytes = bytes;
        true
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.budget.held.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_beside_the_rest_is_refused() {
        let budget = MemoryBudget::new(100);
        let mut first = budget.take(60).expect("it fits");
        assert!(budget.take(41).is_none());
        assert!(!first.resize(101) && first.resize(90));
        assert_eq!((first.bytes(), budget.held()), (90, 90));
        assert!(first.resize(10));
        let second = budget.take(90).expect("it fits");
        let all = first.split();
        assert_eq!((first.bytes(), all.bytes(), budget.held()), (0, 10, 100));
        drop((first, all));
        assert_eq!(budget.held(), 90);
        drop(second);
        assert_eq!(budget.held(), 0);
    }

    #[test]
    fn sums_beyond_any_number_are_refused() {
        let budget = MemoryBudget::unlimited();
        let _all = budget.take(u64::MAX).expect("it fits");
        assert!(budget.take(1).is_none());
    }
}
