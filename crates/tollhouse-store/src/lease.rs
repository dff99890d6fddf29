//! Leases: claims that end unless their holder renews them.
//!
//! Entries under a lease are removed when the lease ends, and a transaction can require that a
//! lease has not ended ([`Condition::LeaseHeld`](crate::Condition::LeaseHeld)). A holder that was
//! suspended for too long therefore cannot write after another one may have taken over.

use std::fmt;

/// Number of a lease. A store never reuses one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaseId(pub u64);

impl fmt::Display for LeaseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
