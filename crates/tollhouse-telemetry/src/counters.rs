//! Counters and gauges, the building blocks of metrics.
//!
//! Those of a core have a single writer, which pays a plain load, addition and store. `Shared` ones
//! may be written by any thread and cost an atomic addition. Readers sum over all cores. The
//! metrics themselves are listed in the catalogue.

use std::marker::PhantomData;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};

/// A closed set of label values.
pub trait Label: Copy + 'static {
    /// Name of the label in metrics.
    const NAME: &'static str;
    /// Values of the label, in the order of their indexes.
    const ALL: &'static [Self];

    /// Returns the index of this value in [`ALL`](Self::ALL).
    fn index(self) -> usize;

    /// Returns the text of the value in metrics.
    fn text(self) -> &'static str;
}

/// A number that only grows, with a single writer.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    #[inline]
    pub fn increment(&self) {
        self.add(1);
    }

    /// Adds `amount` by a load and a store. A second writer would lose counts, but never add any.
    #[inline]
    pub fn add(&self, amount: u64) {
        self.0.store(self.0.load(Relaxed).wrapping_add(amount), Relaxed);
    }

    pub fn value(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// A number that rises and falls, with a single writer; readers sum over the cores.
#[derive(Debug, Default)]
pub struct Gauge(AtomicI64);

impl Gauge {
    #[inline]
    pub fn increment(&self) {
        self.0.store(self.0.load(Relaxed).wrapping_add(1), Relaxed);
    }

    #[inline]
    pub fn decrement(&self) {
        self.0.store(self.0.load(Relaxed).wrapping_sub(1), Relaxed);
    }

    pub fn value(&self) -> i64 {
        self.0.load(Relaxed)
    }
}

/// A counter per value of a label, with a single writer. `N` is the number of values.
#[derive(Debug)]
pub struct Family<L, const N: usize> {
    counters: [Counter; N],
    label: PhantomData<L>,
}

impl<L: Label, const N: usize> Family<L, N> {
    /// Adds one to the counter of `label`.
    #[inline]
    pub fn increment(&self, label: L) {
        self.counters[label.index()].increment();
    }

    pub fn get(&self, label: L) -> &Counter {
        &self.counters[label.index()]
    }
}

impl<L: Label, const N: usize> Default for Family<L, N> {
    fn default() -> Self {
        const { assert!(N == L::ALL.len(), "one counter for every value of the label") };
        Self { counters: std::array::from_fn(|_| Counter::default()), label: PhantomData }
    }
}

/// A number that only grows, counted by any thread.
#[derive(Debug, Default)]
pub struct SharedCounter(AtomicU64);

impl SharedCounter {
    pub fn increment(&self) {
        self.add(1);
    }

    pub fn add(&self, amount: u64) {
        self.0.fetch_add(amount, Relaxed);
    }

    /// Raises the count to one that is maintained elsewhere and never falls.
    pub fn raise_to(&self, count: u64) {
        self.0.fetch_max(count, Relaxed);
    }

    pub fn value(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// A number that rises and falls, changed by any thread.
#[derive(Debug, Default)]
pub struct SharedGauge(AtomicI64);

impl SharedGauge {
    pub fn set(&self, value: i64) {
        self.0.store(value, Relaxed);
    }

    pub fn increment(&self) {
        self.0.fetch_add(1, Relaxed);
    }

    pub fn decrement(&self) {
        self.0.fetch_sub(1, Relaxed);
    }

    pub fn value(&self) -> i64 {
        self.0.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::labels::{ConnectionRefusal, StatusClass};

    #[test]
    fn cells_count() {
        let counter = Counter::default();
        counter.increment();
        counter.add(41);
        assert_eq!(counter.value(), 42);

        let gauge = Gauge::default();
        gauge.increment();
        gauge.decrement();
        gauge.decrement();
        assert_eq!(gauge.value(), -1);

        let shared = SharedGauge::default();
        shared.set(7);
        shared.decrement();
        assert_eq!(shared.value(), 6);
    }

    #[test]
    fn a_family_counts_every_label_apart() {
        let family = Family::<ConnectionRefusal, { ConnectionRefusal::COUNT }>::default();
        family.increment(ConnectionRefusal::Limit);
        family.increment(ConnectionRefusal::Limit);
        family.increment(ConnectionRefusal::Accept);
        assert_eq!(family.get(ConnectionRefusal::Limit).value(), 2);
        assert_eq!(family.get(ConnectionRefusal::Accept).value(), 1);
        assert_eq!(family.get(ConnectionRefusal::Draining).value(), 0);
        let classes = Family::<StatusClass, { StatusClass::COUNT }>::default();
        classes.increment(StatusClass::from_status(999));
        assert_eq!(classes.get(StatusClass::Other).value(), 1);
    }
}
