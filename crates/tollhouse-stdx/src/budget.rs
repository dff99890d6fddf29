//! A bound in bytes on what many hold at once: taken and given back by guards.
//!
//! Whoever holds memory that a stranger can make grow takes its bytes here first, and is refused
//! when the sum of all holders would pass the bound. What is held is not known here.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes that may be held by all together.
#[derive(Debug)]
pub struct MemoryBudget {
    bytes_max: u64,
    held: AtomicU64,
}

impl MemoryBudget {
    /// At most `bytes_max` bytes.
    pub fn new(bytes_max: u64) -> Arc<Self> {
        Arc::new(Self { bytes_max, held: AtomicU64::new(0) })
    }

    /// Without a bound, for tools that serve nobody.
    pub fn unlimited() -> Arc<Self> {
        Self::new(u64::MAX)
    }

    /// Bytes held now.
    pub fn held(&self) -> u64 {
        self.held.load(Ordering::Relaxed)
    }

    /// The bound.
    pub fn bytes_max(&self) -> u64 {
        self.bytes_max
    }

    /// Takes `bytes`; `None` where they do not fit beside what is held.
    pub fn take(self: &Arc<Self>, bytes: u64) -> Option<Reservation> {
        let mut reservation = Reservation { budget: Arc::clone(self), bytes: 0 };
        reservation.resize(bytes).then_some(reservation)
    }

    fn add(&self, bytes: u64) -> bool {
        let added = |held: u64| held.checked_add(bytes).filter(|sum| *sum <= self.bytes_max);
        self.held.fetch_update(Ordering::Relaxed, Ordering::Relaxed, added).is_ok()
    }
}

/// Bytes taken from a budget; dropping it gives them back.
#[derive(Debug)]
pub struct Reservation {
    budget: Arc<MemoryBudget>,
    bytes: u64,
}

impl Reservation {
    /// Bytes that it stands for.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Hands over all that it stands for; it goes on with nothing.
    pub fn split(&mut self) -> Reservation {
        let bytes = std::mem::take(&mut self.bytes);
        Reservation { budget: Arc::clone(&self.budget), bytes }
    }

    /// Makes it stand for `bytes`; `false`, and no change, where more do not fit.
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
