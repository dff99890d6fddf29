//! Who orders: the holder of a lease. Every write of it is made while the lease is held, so that one that
//! was stopped for longer than it knows writes nothing.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tollhouse_store::{LeaseId, Store, StoreError, Transaction};

use crate::keys;
use crate::records::to_json;

/// How long the lease lasts without being renewed: what a certificate's renewal can wait for many times.
const TTL: Duration = Duration::from_secs(30);

/// How often it is renewed.
const RENEWED_EVERY: Duration = Duration::from_secs(10);

/// How often it is looked whether somebody else has let go.
const LOOKED_EVERY: Duration = Duration::from_secs(10);

/// Who holds it.
#[derive(Debug, Serialize, Deserialize)]
struct Holder {
    /// The id of the node.
    node: String,
    lease: u64,
}

/// Takes the lease; waits for as long as another node holds it.
///
/// # Errors
/// The store fails.
pub(crate) async fn take(store: &dyn Store, node: &str) -> Result<LeaseId, StoreError> {
    loop {
        if let Some(lease) = try_take(store, node).await? {
            return Ok(lease);
        }
        tokio::time::sleep(LOOKED_EVERY).await;
    }
}

async fn try_take(store: &dyn Store, node: &str) -> Result<Option<LeaseId>, StoreError> {
    let entry = store.get(keys::HOLDER).await?;
    let holder: Option<Holder> =
        entry.as_ref().and_then(|entry| serde_json::from_slice(&entry.value).ok());
    // One that was killed left its lease behind. A node is one process, so this one need not wait.
    if entry.is_some() && holder.as_ref().is_none_or(|holder| holder.node != node) {
        return Ok(None);
    }
    let lease = store.grant(TTL).await?;
    let value = to_json(&Holder { node: node.to_owned(), lease: lease.0 });
    let mine = Transaction::new().put_under(lease, keys::HOLDER, value);
    let mine = match &entry {
        Some(entry) => mine.when_modified_at(keys::HOLDER, entry.mod_revision),
        None => mine.when_absent(keys::HOLDER),
    };
    let taken = store.commit(mine).await;
    // Whatever the one before still does is fenced from here.
    let ended = match (&taken, holder) {
        (Ok(_), Some(holder)) => Some(LeaseId(holder.lease)),
        (Ok(_), None) => None,
        (Err(_), _) => Some(lease),
    };
    if let Some(ended) = ended {
        store.revoke(ended).await?;
    }
    match taken {
        Ok(_) => Ok(Some(lease)),
        Err(StoreError::Conflict { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Renews the lease for as long as that can be done; returns why it no longer can.
pub(crate) async fn hold(store: &dyn Store, lease: LeaseId) -> StoreError {
    let mut failing_since = None;
    loop {
        tokio::time::sleep(RENEWED_EVERY).await;
        match store.keep_alive(lease).await {
            Ok(()) => failing_since = None,
            Err(error @ (StoreError::Fenced { .. } | StoreError::Closed)) => return error,
            Err(error) => {
                let since = *failing_since.get_or_insert_with(tokio::time::Instant::now);
                if since.elapsed() + RENEWED_EVERY >= TTL {
                    return error;
                }
            }
        }
    }
}
