//! Leases: a claim that ends unless its holder renews it.
//!
//! What is put under a lease goes when the lease ends, and a transaction can ask that a lease still stands
//! ([`Condition::LeaseHeld`](crate::Condition::LeaseHeld)): so a holder that was stopped for longer than it
//! knows writes nothing once somebody else may have taken its place.

use std::fmt;

/// The number of a lease. A store gives none of them twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaseId(pub u64);

impl fmt::Display for LeaseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
