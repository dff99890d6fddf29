//! The lease of the node that orders certificates. Every write requires the lease, so that a node
//! that was suspended for too long cannot write.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tollhouse_store::{LeaseId, Store, StoreError, Transaction};

use crate::keys;
use crate::records::to_json;

/// Duration of the lease without renewal; negligible compared with the time for a certificate's
/// renewal.
const TTL: Duration = Duration::from_secs(30);

/// Interval between renewals of the lease.
const RENEWED_EVERY: Duration = Duration::from_secs(10);

/// Interval between checks whether another node has released the lease.
const LOOKED_EVERY: Duration = Duration::from_secs(10);

/// Node that holds the lease, as stored.
#[derive(Debug, Serialize, Deserialize)]
struct Holder {
    node: String,
    lease: u64,
}

/// Takes the lease; waits while another node holds it.
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
    // A killed process leaves its lease behind. A node has a single process, so this one may
    // replace it at once.
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
    // Revoking the former lease fences all further writes of its holder.
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
