//! Sealing the secrets of a store that gateways share anew, with the first key of the keyring, while they serve from it
//! and write to it: so that the older keys can go.
//!
//! It is done in many commits of some objects each. Each asks that the objects are those that were looked at, that the
//! keys on record are, and that nobody else has begun the same meanwhile; whatever somebody else has written is looked
//! at once more. Who is killed on the way leaves objects of both keys, which all gateways open, and nothing that would
//! have to be taken up: what is sealed already is passed over the next time.

use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use tollhouse_config::Bootstrap;
use tollhouse_model::encryption::Keyring;
use tollhouse_plugin::Catalogue;
use tollhouse_shenyu::KEY_PREFIX;
use tollhouse_store::{
    Batches, Condition, Entry, LeaseId, Limits, Operation, Store, StoreError, Transaction,
};

use super::sealed_store::{Found, look_through, look_through_shenyu};
use super::shared_keyring;

/// Objects in a commit: each takes a condition too, of the 128 that etcd takes.
const OBJECTS_MAX: usize = 50;

/// Bytes of a commit that are left to its conditions: as many keys, of 1 KiB each.
const CONDITIONS_BYTES: usize = 64 * 1024;

/// How long one that has died keeps another from beginning.
const LEASE: Duration = Duration::from_secs(10);

/// How often it is renewed.
const RENEWAL: Duration = Duration::from_secs(2);

/// How often everything is looked through: what others write meanwhile is seldom so much that a second look finds as
/// much as the first, and whoever writes with an older key has it in front.
const LOOKS_MAX: usize = 8;

/// What is worked on.
pub struct SharedSecrets<'a> {
    /// The store, as whoever has joined its gateways has it.
    pub store: &'a dyn Store,
    /// Where it lies and which keys there are.
    pub bootstrap: &'a Bootstrap,
    /// Seals; all its keys open.
    pub keyring: &'a Keyring,
    /// Which fields of plugins are secret.
    pub catalogue: &'a Catalogue,
}

/// Whether secrets may be taken from APISIX nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApisixNodes {
    /// There may be some, which have to go on to read what they can read now.
    Respected,
    /// There are none.
    None,
}

/// What has come of it.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Resealed {
    /// Objects that were written.
    pub written: usize,
    /// Values that were sealed so before.
    pub sealed: usize,
    /// Objects with a value that no key opens.
    pub lost: Vec<String>,
    /// Keys of objects that end by themselves, which stay as they are.
    pub ending: Vec<Box<str>>,
    /// Whether others wrote with an older key to the end.
    pub is_outrun: bool,
}

impl Resealed {
    /// Whether nothing needs the older keys any more.
    pub fn is_complete(&self) -> bool {
        self.lost.is_empty() && self.ending.is_empty() && !self.is_outrun
    }
}

impl SharedSecrets<'_> {
    /// Seals everything anew; tells how many objects of how many are written, after each commit.
    ///
    /// # Errors
    /// APISIX nodes could not read what they read now; another one is at it; the store cannot be read or written.
    pub async fn reseal(
        &self,
        nodes: ApisixNodes,
        mut told: impl FnMut(usize, usize),
    ) -> anyhow::Result<Resealed> {
        let (found, _) = self.look().await?;
        if nodes == ApisixNodes::Respected && found.lost_to_apisix > 0 {
            bail!(
                "{} secrets lie in the clear or in APISIX's form: sealed in the form of this gateway, APISIX nodes \
                 could not read them; nothing was written. Set encryption.apisix_form where such nodes share the \
                 store; where there are none, add --no-apisix-nodes",
                found.lost_to_apisix
            );
        }
        let marker = self.marker();
        let lease = self.store.grant(LEASE).await.context("failed to write the shared store")?;
        let begin = Transaction::new().when_absent(&*marker).put_under(lease, &*marker, "{}");
        match self.store.commit(begin).await {
            Ok(_) => {}
            Err(StoreError::Conflict { .. }) => bail!(
                "somebody else seals the store anew, or was broken off less than {} seconds ago; nothing was written",
                LEASE.as_secs()
            ),
            Err(error) => return Err(error).context("failed to write the shared store"),
        }
        let resealed = self.passes(lease, &mut told).await;
        // It would end by itself.
        let _ = self.store.revoke(lease).await;
        resealed
    }

    fn prefix(&self) -> &str {
        self.bootstrap.admin.prefix.trim_end_matches('/')
    }

    /// The key that is there while somebody is at it.
    fn marker(&self) -> String {
        format!("{}/tollhouse/reseal", self.prefix())
    }

    /// All there is, and the entries of it.
    async fn look(&self) -> anyhow::Result<(Found, Vec<Entry>)> {
        let prefix = self.prefix();
        let listing = self.store.list(&format!("{prefix}/")).await;
        let mut entries = listing.context("failed to read the shared store")?.entries;
        let mut found = look_through(&entries, prefix, self.catalogue, self.keyring);
        match self.store.list(KEY_PREFIX).await {
            Ok(listing) => {
                look_through_shenyu(&listing.entries, self.keyring, &mut found);
                entries.extend(listing.entries);
            }
            // A user of etcd need not have rights on more than the folder of our own.
            Err(StoreError::Declined { .. }) => {}
            Err(error) => return Err(error).context("failed to read the shared store"),
        }
        Ok((found, entries))
    }

    async fn passes(
        &self,
        lease: LeaseId,
        told: &mut impl FnMut(usize, usize),
    ) -> anyhow::Result<Resealed> {
        let record = shared_keyring::record_key(self.bootstrap);
        let mut resealed = Resealed::default();
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
                    forgotten.await.context("failed to note which key is left")?;
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
                        "broken off after {} of {all} objects, which is no harm: all gateways open both keys; \
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

    /// The commits, each with the condition that its objects are those that were looked at; and what stays as it is.
    fn batches(
        &self,
        writes: Vec<Operation>,
        entries: &[Entry],
    ) -> (Vec<Transaction>, Vec<Box<str>>) {
        let entries: std::collections::HashMap<&str, &Entry> =
            entries.iter().map(|entry| (&*entry.key, entry)).collect();
        let found = |operation: &Operation| entries.get(operation.key()).copied();
        let limits = self.store.limits();
        let limits = Limits {
            operations_max: limits.operations_max.min(OBJECTS_MAX),
            transaction_bytes_max: limits.transaction_bytes_max - CONDITIONS_BYTES,
            ..limits
        };
        let mut batches = Batches::new(limits);
        let mut ending = Vec::new();
        for write in writes {
            // Written anew it would stay for ever.
            if let Some(entry) = found(&write).filter(|entry| entry.expires_at_ms.is_some()) {
                ending.push(entry.key.clone());
                continue;
            }
            batches.add(write);
        }
        let mut batches = batches.finish();
        for batch in &mut batches {
            let unchanged = batch.operations.iter().filter_map(found).map(|entry| {
                Condition::ModifiedAt { key: entry.key.clone(), revision: entry.mod_revision }
            });
            batch.conditions.extend(unchanged.collect::<Vec<_>>());
        }
        (batches, ending)
    }

    /// Commits, without what somebody has changed since; how many objects are written.
    async fn commit(&self, mut batch: Transaction, record: &str) -> anyhow::Result<usize> {
        while !batch.operations.is_empty() {
            match self.store.commit(batch.clone()).await {
                Ok(_) => return Ok(batch.operations.len()),
                Err(StoreError::Conflict { key }) if *key == *record => {
                    bail!("another gateway has begun to seal with a key of its own")
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
