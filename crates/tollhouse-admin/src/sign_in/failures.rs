//! Wrong keys that were tried to sign in, counted by address. Whose keys are right is nothing to it.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Wrong keys that an address may try in [`WINDOW`].
const FAILURES_MAX: u32 = 5;

/// How long failures count.
const WINDOW: Duration = Duration::from_secs(60);

/// Addresses whose failures are counted at a time, so that nobody makes this grow. While there are more, nobody who
/// has not failed before is let in by a wrong key anyway; right keys always are.
const ADDRESSES_MAX: usize = 4096;

/// Who has tried wrong keys of late.
#[derive(Debug, Default)]
pub(crate) struct Failures(Mutex<HashMap<IpAddr, (Instant, u32)>>);

impl Failures {
    /// Whether this address has tried too often.
    pub(super) fn are_too_many(&self, peer: SocketAddr, now: Instant) -> bool {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let found = known.get(&peer.ip());
        found.is_some_and(|(since, count)| *count >= FAILURES_MAX && now - *since < WINDOW)
    }

    pub(super) fn note(&self, peer: SocketAddr, now: Instant) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= ADDRESSES_MAX {
            known.retain(|_, (since, _)| now - *since < WINDOW);
        }
        if known.len() >= ADDRESSES_MAX && !known.contains_key(&peer.ip()) {
            return;
        }
        let (since, count) = known.entry(peer.ip()).or_insert((now, 0));
        if now - *since >= WINDOW {
            (*since, *count) = (now, 0);
        }
        *count += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_guesses_has_to_wait_and_others_have_not() {
        let failures = Failures::default();
        let peer = |last: u8| SocketAddr::from(([10, 0, 0, last], 1));
        let start = Instant::now();
        for _ in 0..FAILURES_MAX {
            assert!(!failures.are_too_many(peer(1), start));
            failures.note(peer(1), start);
        }
        assert!(failures.are_too_many(peer(1), start));
        assert!(!failures.are_too_many(peer(2), start));
        assert!(!failures.are_too_many(peer(1), start + WINDOW));
    }
}
