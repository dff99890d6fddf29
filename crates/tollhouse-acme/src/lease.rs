//! Lease of the node that orders certificates. Every write is conditional on the lease, so that a
//! node that was suspended until its lease expired cannot write.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tollhouse_store::{LeaseId, Store, StoreError, Transaction};

use crate::keys;
use crate::records::to_json;

/// Time after which the lease expires if it is not renewed. A gap of this length without a holder
/// does no harm, because certificates are renewed days before they expire.
const TTL: Duration = Duration::from_secs(30);

/// Interval between renewals of the lease.
const RENEWED_EVERY: Duration = Duration::from_secs(10);

/// Interval at which a waiting node checks whether the holder has released the lease.
const LOOKED_EVERY: Duration = Duration::from_secs(10);

/// Node that holds the lease, as stored.
#[derive(Debug, Serialize, Deserialize)]
struct Holder {
    node: String,
    lease: u64,
}

/// Acquires the lease; waits while another node holds it.
///
/// # Errors
/// If the store fails.
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
    // A lease of this node's own name is replaced at once. It was left behind by a killed process,
    // because a node has only one process.
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
    // The former lease is revoked, so that all further writes of its holder are refused.
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

/// Renews the lease while possible; returns the reason for its end.
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
