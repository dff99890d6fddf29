//! Keys that tell the gateways of a shared store that many commits are one import. The importer
//! writes them before its first object and deletes them after the last.
//!
//! The key `begun` says that an import has begun. The key `alive`, under the importer's lease, says
//! that it is still running. If an importer dies, `begun` remains, so that later readers know that
//! the import is incomplete.

use std::time::Duration;

use tollhouse_store::{LeaseId, Store, StoreError, Transaction};

/// Lease of an importer: it counts as dead this long after its last renewal.
const LEASE: Duration = Duration::from_secs(30);

/// Value of the marker keys: an empty JSON object, because APISIX's values are objects and APISIX
/// gateways treat a key without a value as deleted.
const VALUE: &str = "{}";

/// The keys for imports under one prefix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportMarker {
    /// Exists from before the first object until after the last.
    pub begun: Box<str>,
    /// Exists while an importer is running.
    pub alive: Box<str>,
}

impl ImportMarker {
    pub fn new(prefix: &str) -> Self {
        Self {
            begun: format!("{prefix}/tollhouse/import/begun").into(),
            alive: format!("{prefix}/tollhouse/import/alive").into(),
        }
    }

    /// Starts an import. Each of its commits must be made [while](Transaction::while_held) the
    /// returned lease is held. An incomplete import of another importer is taken over.
    ///
    /// # Errors
    /// Returns [`StoreError::Conflict`] while another import is running, or the error of a store
    /// that cannot be written.
    pub async fn begin(&self, store: &dyn Store) -> Result<LeaseId, StoreError> {
        let lease = store.grant(LEASE).await?;
        let begin = Transaction::new()
            .when_absent(&*self.alive)
            .put(&*self.begun, VALUE)
            .put_under(lease, &*self.alive, VALUE);
        match store.commit(begin).await {
            Ok(_) => Ok(lease),
            Err(error) => {
                // A lease that cannot be revoked expires by itself.
                let _ = store.revoke(lease).await;
                Err(error)
            }
        }
    }

    /// Ends an import. The commit that deletes the keys makes the import complete.
    ///
    /// # Errors
    /// If the lease has expired or the store cannot be written.
    pub async fn end(&self, store: &dyn Store, lease: LeaseId) -> Result<(), StoreError> {
        let end = Transaction::new().while_held(lease).delete(&*self.begun).delete(&*self.alive);
        store.commit(end).await?;
        // No key uses the lease any more; if this fails, it expires by itself.
        let _ = store.revoke(lease).await;
        Ok(())
    }

    /// Makes the transaction conditional: it fails while an import is running.
    #[must_use]
    pub fn alone(&self, transaction: Transaction) -> Transaction {
        transaction.when_absent(&*self.alive)
    }
}
