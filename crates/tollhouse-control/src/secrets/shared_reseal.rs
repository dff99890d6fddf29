//! Re-encryption of a shared store's secrets with the first key of the keyring, so that older keys
//! can be removed. Gateways may serve from the store and write to it meanwhile.
//!
//! The work is split into many commits of some objects each. Each commit requires that the objects
//! and the key record are unchanged, and that no other re-encryption has begun; changed objects are
//! scanned again. An interrupted run leaves objects under both keys, which all gateways can open.
//! The next run skips objects that are already re-encrypted.

use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use tollhouse_config::Bootstrap;
use tollhouse_model::encryption::Keyring;
use tollhouse_plugin::Catalogue;
use tollhouse_shenyu::KEY_PREFIX;
use tollhouse_store::{
    Batches, Condition, Entry, LeaseId, Limits, Operation, Store, StoreError, Transaction,
};

use super::sealed_store::{ScanReport, look_through, look_through_shenyu};
use super::shared_keyring;

/// Limit of objects per commit: each also needs a condition, and etcd accepts 128 operations and
/// conditions.
const OBJECTS_MAX: usize = 50;

/// Bytes of a commit reserved for its conditions: as many keys, of 1 KiB each.
const CONDITIONS_BYTES: usize = 64 * 1024;

/// Duration after which another run may start if this one is killed.
const LEASE: Duration = Duration::from_secs(10);

/// Interval between renewals of the lease.
const RENEWAL: Duration = Duration::from_secs(2);

/// Limit of scans. A further scan normally finds little, because only concurrent writers with the
/// older key in front cause more work.
const LOOKS_MAX: usize = 8;

/// Store and keys of a re-encryption.
pub struct SharedSecrets<'a> {
    /// The store, joined as one of its gateways.
    pub store: &'a dyn Store,
    /// Bootstrap configuration with the store's prefix and the encryption settings.
    pub bootstrap: &'a Bootstrap,
    /// Keyring: the first key encrypts, all keys decrypt.
    pub keyring: &'a Keyring,
    /// Known plugins, which define the secret fields.
    pub catalogue: &'a Catalogue,
}

/// Presence of APISIX nodes that read the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApisixNodes {
    /// APISIX nodes may read the store; values that they can read must stay readable for them.
    Respected,
    /// The store is not read by APISIX nodes.
    None,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub struct ResealReport {
    /// Number of objects written.
    pub written: usize,
    /// Number of values that needed no change.
    pub sealed: usize,
    /// Objects with a value that no key opens.
    pub lost: Vec<String>,
    /// Keys of objects with an expiry, which are left unchanged.
    pub ending: Vec<Box<str>>,
    /// Whether other writers still used an older key at the end.
    pub is_outrun: bool,
}

impl ResealReport {
    /// Whether the older keys are no longer needed.
    pub fn is_complete(&self) -> bool {
        self.lost.is_empty() && self.ending.is_empty() && !self.is_outrun
    }
}

impl SharedSecrets<'_> {
    /// Re-encrypts all secrets. After each commit, `told` is called with the number of written
    /// objects and the total.
    ///
    /// # Errors
    /// If APISIX nodes would lose access to values, another run is active, or the store cannot be
    /// read or written.
    pub async fn reseal(
        &self,
        nodes: ApisixNodes,
        mut told: impl FnMut(usize, usize),
    ) -> anyhow::Result<ResealReport> {
        let (found, _) = self.look().await?;
        if nodes == ApisixNodes::Respected && found.lost_to_apisix > 0 {
            bail!(
                "{} secrets lie in the clear or in APISIX's form: sealed in the form of this gateway, APISIX nodes \
                 could not read them; nothing was written. Set encryption.apisix_form where such nodes share the \
                 store; if no such nodes exist, add --no-apisix-nodes",
                found.lost_to_apisix
            );
        }
        let marker = self.marker();
        let lease = self.store.grant(LEASE).await.context("failed to write the shared store")?;
        let begin = Transaction::new().when_absent(&*marker).put_under(lease, &*marker, "{}");
        match self.store.commit(begin).await {
            Ok(_) => {}
            Err(StoreError::Conflict { .. }) => bail!(
                "another process is sealing the store again, or was interrupted less than {} seconds ago; nothing was written",
                LEASE.as_secs()
            ),
            Err(error) => return Err(error).context("failed to write the shared store"),
        }
        let resealed = self.passes(lease, &mut told).await;
        // A lease that cannot be revoked expires by itself.
        let _ = self.store.revoke(lease).await;
        resealed
    }

    fn prefix(&self) -> &str {
        self.bootstrap.admin.prefix.trim_end_matches('/')
    }

    /// Returns the key that exists while a run is active.
    fn marker(&self) -> String {
        format!("{}/tollhouse/reseal", self.prefix())
    }

    /// Scans the store; returns the result and all entries.
    async fn look(&self) -> anyhow::Result<(ScanReport, Vec<Entry>)> {
        let prefix = self.prefix();
        let listing = self.store.list(&format!("{prefix}/")).await;
        let mut entries = listing.context("failed to read the shared store")?.entries;
        let mut report = look_through(&entries, prefix, self.catalogue, self.keyring);
        match self.store.list(KEY_PREFIX).await {
            Ok(listing) => {
                look_through_shenyu(&listing.entries, self.keyring, &mut report);
                entries.extend(listing.entries);
            }
            // A user of etcd may have rights on this cluster's folder only.
            Err(StoreError::Declined { .. }) => {}
            Err(error) => return Err(error).context("failed to read the shared store"),
        }
        Ok((report, entries))
    }

    async fn passes(
        &self,
        lease: LeaseId,
        told: &mut impl FnMut(usize, usize),
    ) -> anyhow::Result<ResealReport> {
        let record = shared_keyring::record_key(self.bootstrap);
        let mut resealed = ResealReport::default();
        let mut renewed = Instant::now();
        for _ in 0..LOOKS_MAX {
            let record =
                self.store.get(&record).await.context("failed to read the shared store")?;
            let record = record.context("the shared store has no record of its keys any more")?;
            let (found, entries) = self.look().await?;
            let (batches, ending) = self.batches(found.writes, &entries);
            (resealed.sealed, resealed.lost, resealed.ending) = (found.sealed, found.lost, ending);
            if batches.is_empty() {
                resealed.is_outrun = false;
                if resealed.is_complete() {
                    let forgotten =
                        shared_keyring::forget_others(self.store, &record, self.keyring, lease);
                    forgotten.await.context("failed to record the remaining key")?;
                }
                return Ok(resealed);
            }
            let all =
                resealed.written + batches.iter().map(|it| it.operations.len()).sum::<usize>();
            for batch in batches {
                if renewed.elapsed() > RENEWAL {
                    self.store.keep_alive(lease).await.context("failed to go on")?;
                    renewed = Instant::now();
                }
                let fence = Condition::ModifiedAt {
                    key: record.key.clone(),
                    revision: record.mod_revision,
                };
                let batch = batch.while_held(lease).when(fence);
                resealed.written += self.commit(batch, &record.key).await.with_context(|| {
                    format!(
                        "broken off after {} of {all} objects, which is harmless: all gateways open both keys; \
                         repeat it once the reason is gone",
                        resealed.written
                    )
                })?;
                told(resealed.written, all);
            }
            resealed.is_outrun = true;
        }
        Ok(resealed)
    }

    /// Splits the writes into commits, each conditional on unchanged objects. Also returns the keys
    /// of expiring objects, which are left out.
    fn batches(
        &self,
        writes: Vec<Operation>,
        entries: &[Entry],
    ) -> (Vec<Transaction>, Vec<Box<str>>) {
        let entries: std::collections::HashMap<&str, &Entry> =
            entries.iter().map(|entry| (&*entry.key, entry)).collect();
        let stored = |operation: &Operation| entries.get(operation.key()).copied();
        let limits = self.store.limits();
        let limits = Limits {
            operations_max: limits.operations_max.min(OBJECTS_MAX),
            transaction_bytes_max: limits.transaction_bytes_max - CONDITIONS_BYTES,
            ..limits
        };
        let mut batches = Batches::new(limits);
        let mut ending = Vec::new();
        for write in writes {
            // Writing it again would remove its expiry.
            if let Some(entry) = stored(&write).filter(|entry| entry.expires_at_ms.is_some()) {
                ending.push(entry.key.clone());
                continue;
            }
            batches.add(write);
        }
        let mut batches = batches.finish();
        for batch in &mut batches {
            let unchanged = batch.operations.iter().filter_map(stored).map(|entry| {
                Condition::ModifiedAt { key: entry.key.clone(), revision: entry.mod_revision }
            });
            batch.conditions.extend(unchanged.collect::<Vec<_>>());
        }
        (batches, ending)
    }

    /// Commits a batch, without objects that have changed since the scan. Returns the number of
    /// objects written.
    async fn commit(&self, mut batch: Transaction, record: &str) -> anyhow::Result<usize> {
        while !batch.operations.is_empty() {
            match self.store.commit(batch.clone()).await {
                Ok(_) => return Ok(batch.operations.len()),
                Err(StoreError::Conflict { key }) if *key == *record => {
                    bail!("another gateway has begun to seal with a different key")
                }
                Err(StoreError::Conflict { key }) => {
                    batch.operations.retain(|it| it.key() != &*key);
                    batch.conditions.retain(|it| it.key() != Some(&*key));
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(0)
    }
}

#[cfg(test)]
mod tests;
