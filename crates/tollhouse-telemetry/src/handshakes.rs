//! Failed TLS handshakes of one core, by cause and server name, for operators. The number of kinds
//! is fixed and names are cut, so that clients decide nothing about memory.

use std::sync::{Mutex, PoisonError};

use crate::labels::HandshakeFailure;
use crate::recent::{ShortText, with};

/// Limit of kinds per core. The kind that failed longest ago makes room for a new one, so that names
/// that scanners make up disappear.
pub const KINDS_MAX: usize = 64;

/// Failed handshakes with one cause, for one server name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FailedHandshake {
    pub failure: HandshakeFailure,
    /// Server name that the client asked for; empty without one.
    pub name: ShortText<128>,
    /// Number since the kind was first seen, or since it made room for others.
    pub count: u64,
    /// First of them, in milliseconds since 1970.
    pub first_ms: u64,
    /// Latest of them, in milliseconds since 1970.
    pub last_ms: u64,
}

/// Failed handshakes of one core.
#[derive(Debug, Default)]
pub struct FailedHandshakes(Mutex<Vec<FailedHandshake>>);

impl FailedHandshakes {
    /// Counts a failure; one that coincides with a reader is not counted. Costs a pass over the
    /// kinds.
    #[cold]
    pub fn note(&self, failure: HandshakeFailure, name: ShortText<128>, unix_ms: u64) {
        with(&self.0, |kinds| {
            let known = kinds.iter_mut().find(|it| it.failure == failure && it.name == name);
            if let Some(kind) = known {
                kind.count += 1;
                kind.last_ms = unix_ms;
                return;
            }
            if kinds.len() == KINDS_MAX {
                let stalest = kinds.iter().enumerate().min_by_key(|(_, kind)| kind.last_ms);
                if let Some((index, _)) = stalest {
                    kinds.swap_remove(index);
                }
            }
            let (first_ms, last_ms) = (unix_ms, unix_ms);
            kinds.push(FailedHandshake { failure, name, count: 1, first_ms, last_ms });
        });
    }

    pub fn kinds(&self) -> Vec<FailedHandshake> {
        // Each push leaves the list consistent, so that a poisoned lock can be used.
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handshakes_are_counted_by_cause_and_name_and_made_up_names_make_room() {
        let failed = FailedHandshakes::default();
        let note = |failure, name: &str, unix_ms| {
            failed.note(failure, ShortText::new(name.as_bytes()), unix_ms);
        };
        note(HandshakeFailure::NoCertificate, "a.test", 1);
        note(HandshakeFailure::NoCertificate, "b.test", 2);
        note(HandshakeFailure::RefusedByClient, "a.test", 3);
        note(HandshakeFailure::NoCertificate, "a.test", 4);
        let counts: Vec<u64> = failed.kinds().iter().map(|kind| kind.count).collect();
        assert_eq!(counts, [2, 1, 1]);
        let kinds = 3 * KINDS_MAX as u64;
        for at in 0..kinds {
            note(HandshakeFailure::NoCertificate, &at.to_string(), 10 + at);
            note(HandshakeFailure::NoCertificate, "a.test", 10 + at);
        }
        assert_eq!(failed.kinds().len(), KINDS_MAX);
        let real = failed.kinds().into_iter().find(|kind| kind.name.as_bytes() == b"a.test");
        assert_eq!(real.map(|kind| kind.count), Some(2 + kinds));
    }
}
