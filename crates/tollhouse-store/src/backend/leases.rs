//! Leases of a store in this process.
//!
//! They exist in memory only, because their holders are in this process and end with it. Entries
//! under a lease are stored with their expiry time, so they expire after a restart too.

use crate::changes::Changes;
use crate::clock::expiry_after;
use crate::error::StoreError;
use crate::lease::LeaseId;
use crate::limits::LEASES_MAX;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

/// Leases, and the keys under each.
#[derive(Default)]
pub(super) struct Leases {
    leases: BTreeMap<LeaseId, LeaseEntry>,
    /// The lease under which a key was put.
    by_key: HashMap<Box<str>, LeaseId>,
    newest: u64,
}

struct LeaseEntry {
    ttl: Duration,
    expires_at_ms: u64,
    keys: BTreeSet<Box<str>>,
}

impl Leases {
    pub(super) fn grant(&mut self, ttl: Duration, now_ms: u64) -> Result<LeaseId, StoreError> {
        if self.leases.len() == LEASES_MAX {
            self.drop_ended(now_ms);
        }
        let actual = self.leases.len() + 1;
        if actual > LEASES_MAX {
            let what = "the number of leases";
            return Err(StoreError::TooLarge { what, actual, max: LEASES_MAX });
        }
        self.newest += 1;
        let lease = LeaseId(self.newest);
        let expires_at_ms = expiry_after(now_ms, ttl);
        self.leases.insert(lease, LeaseEntry { ttl, expires_at_ms, keys: BTreeSet::new() });
        Ok(lease)
    }

    /// Returns the expiry time of a lease.
    ///
    /// # Errors
    ///
    /// If the lease has ended.
    pub(super) fn expiry_ms(&self, lease: LeaseId, now_ms: u64) -> Result<u64, StoreError> {
        let entry = self.leases.get(&lease).filter(|entry| entry.expires_at_ms > now_ms);
        entry.map(|entry| entry.expires_at_ms).ok_or(StoreError::Fenced { lease })
    }

    /// Returns the new expiry time of a lease that is renewed now, and the keys under it.
    ///
    /// # Errors
    ///
    /// If the lease has ended.
    pub(super) fn renewal(
        &self,
        lease: LeaseId,
        now_ms: u64,
    ) -> Result<(u64, Vec<Box<str>>), StoreError> {
        self.expiry_ms(lease, now_ms)?;
        let entry = self.leases.get(&lease).ok_or(StoreError::Fenced { lease })?;
        Ok((expiry_after(now_ms, entry.ttl), entry.keys.iter().cloned().collect()))
    }

    pub(super) fn renew(&mut self, lease: LeaseId, expires_at_ms: u64) {
        if let Some(entry) = self.leases.get_mut(&lease) {
            entry.expires_at_ms = expires_at_ms;
        }
    }

    pub(super) fn keys(&self, lease: LeaseId) -> Vec<Box<str>> {
        self.leases.get(&lease).map_or_else(Vec::new, |entry| entry.keys.iter().cloned().collect())
    }

    pub(super) fn revoke(&mut self, lease: LeaseId) {
        for key in self.leases.remove(&lease).into_iter().flat_map(|entry| entry.keys) {
            self.by_key.remove(&key);
        }
    }

    /// Updates the keys under leases after a commit.
    pub(super) fn follow(&mut self, changes: &Changes, leased: Vec<(Box<str>, LeaseId)>) {
        // Most stores have no leases.
        if self.leases.is_empty() {
            return;
        }
        for event in &changes.events {
            if let Some(lease) = self.by_key.remove(event.key())
                && let Some(entry) = self.leases.get_mut(&lease)
            {
                entry.keys.remove(event.key());
            }
        }
        for (key, lease) in leased {
            if let Some(entry) = self.leases.get_mut(&lease) {
                entry.keys.insert(key.clone());
                self.by_key.insert(key, lease);
            }
        }
    }

    /// Removes leases that have ended; entries under them expire separately.
    fn drop_ended(&mut self, now_ms: u64) {
        let is_over = |entry: &LeaseEntry| entry.expires_at_ms <= now_ms;
        let over: Vec<LeaseId> = self
            .leases
            .iter()
            .filter(|(_, entry)| is_over(entry))
            .map(|(lease, _)| *lease)
            .collect();
        over.into_iter().for_each(|lease| self.revoke(lease));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leases_are_bounded_and_those_that_ended_do_not_count() {
        let mut leases = Leases::default();
        for _ in 0..LEASES_MAX {
            leases.grant(Duration::from_secs(1), 0).expect("there is room");
        }
        let refused = leases.grant(Duration::from_secs(1), 999);
        assert!(matches!(refused, Err(StoreError::TooLarge { .. })), "{refused:?}");
        let next = leases.grant(Duration::from_secs(1), 1000).expect("the others have ended");
        assert_eq!(next, LeaseId(LEASES_MAX as u64 + 1), "no number is given twice");
    }
}
