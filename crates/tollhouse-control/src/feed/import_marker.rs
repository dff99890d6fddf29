//! What tells the gateways of a shared store that many commits belong together: the keys that an import puts
//! before its first object and takes away behind its last one. Which objects it writes is not known here.
//!
//! One key says that an import has begun; the other, under the importer's lease, that it still goes on. An
//! importer that dies leaves the first behind, so that whoever comes later knows that half of it is missing.

use std::time::Duration;

use tollhouse_store::{LeaseId, Store, StoreError, Transaction};

/// How long an importer counts as alive after it was last heard of.
const LEASE: Duration = Duration::from_secs(30);

/// Keys hold an object, as all of APISIX's do; gateways take a key without a value for a deleted one.
const VALUE: &str = "{}";

/// The keys of imports of objects under one prefix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportMarker {
    /// There from before the first object to behind the last.
    pub begun: Box<str>,
    /// There while somebody writes.
    pub alive: Box<str>,
}

impl ImportMarker {
    /// Those of this prefix.
    pub fn new(prefix: &str) -> Self {
        Self {
            begun: format!("{prefix}/tollhouse/import/begun").into(),
            alive: format!("{prefix}/tollhouse/import/alive").into(),
        }
    }

    /// Says that many commits follow, each of which has to be made [while](Transaction::while_held) the lease
    /// is held. What another import left half is now this one's to finish.
    ///
    /// # Errors
    /// [`StoreError::Conflict`] while another import goes on; the store cannot be written.
    pub async fn begin(&self, store: &dyn Store) -> Result<LeaseId, StoreError> {
        let lease = store.grant(LEASE).await?;
        let begin = Transaction::new()
            .when_absent(&*self.alive)
            .put(&*self.begun, VALUE)
            .put_under(lease, &*self.alive, VALUE);
        match store.commit(begin).await {
            Ok(_) => Ok(lease),
            Err(error) => {
                // It would end by itself.
                let _ = store.revoke(lease).await;
                Err(error)
            }
        }
    }

    /// Says that all is there, in the commit that makes it so.
    ///
    /// # Errors
    /// The lease has ended, or the store cannot be written.
    pub async fn end(&self, store: &dyn Store, lease: LeaseId) -> Result<(), StoreError> {
        let end = Transaction::new().while_held(lease).delete(&*self.begun).delete(&*self.alive);
        store.commit(end).await?;
        // Nothing hangs on it any more, and it ends by itself.
        let _ = store.revoke(lease).await;
        Ok(())
    }

    /// The transaction, if no import goes on meanwhile.
    #[must_use]
    pub fn alone(&self, transaction: Transaction) -> Transaction {
        transaction.when_absent(&*self.alive)
    }
}
