//! Implementation of [`Store`] on etcd.

use crate::endpoints::Endpoints;
use crate::failure::Failure;
use crate::keys::Keys;
use crate::lag::WatchLags;
use crate::leases::Leases;
use crate::listing::Reader;
use crate::member::TXN;
use crate::options::EtcdOptions;
use crate::transaction::{self, LIMITS};
use crate::watch::{EtcdWatch, QUIET};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tollhouse_store::{
    BoxFuture, Committed, Entry, LeaseId, Limits, Listing, Operation, Revision, Store, StoreError,
    Transaction, Watch,
};

/// A store in etcd, shared by several gateways.
pub struct EtcdStore {
    shared: Arc<StoreState>,
    closed: watch::Sender<bool>,
}

/// State shared between the store and its watches.
pub(crate) struct StoreState {
    pub(crate) endpoints: Endpoints,
    pub(crate) keys: Keys,
    pub(crate) lags: WatchLags,
    pub(crate) runtime: tokio::runtime::Handle,
    /// Time without events after which a watch checks its stream.
    pub(crate) quiet: Duration,
}

impl EtcdStore {
    /// Opens a store in this etcd, which need not be running yet: the first request connects. Must
    /// be called in the runtime that will run the watches.
    ///
    /// # Errors
    ///
    /// [`StoreError::Unreachable`] if an address or certificate is invalid.
    pub fn open(options: &EtcdOptions) -> Result<Self, StoreError> {
        Self::open_quiet(options, QUIET)
    }

    /// Opens a store whose watches check their streams after the time `quiet` without events.
    pub(crate) fn open_quiet(options: &EtcdOptions, quiet: Duration) -> Result<Self, StoreError> {
        let shared = StoreState {
            endpoints: Endpoints::new(options)?,
            keys: Keys::new(options),
            lags: WatchLags::default(),
            runtime: tokio::runtime::Handle::current(),
            quiet,
        };
        Ok(Self { shared: Arc::new(shared), closed: watch::Sender::new(false) })
    }

    /// Returns a receiver of the current reason why etcd does not answer; `None` while it answers.
    #[must_use]
    pub fn outages(&self) -> watch::Receiver<Option<String>> {
        self.shared.endpoints.outages.subscribe()
    }

    /// Returns the lags of the store's watches.
    #[must_use]
    pub fn watch_lags(&self) -> WatchLags {
        self.shared.lags.clone()
    }

    fn reader(&self) -> Reader<'_> {
        Reader { endpoints: &self.shared.endpoints, keys: &self.shared.keys }
    }

    fn leases(&self) -> Leases<'_> {
        Leases { endpoints: &self.shared.endpoints, keys: &self.shared.keys }
    }

    fn failed(&self, failure: Failure) -> StoreError {
        failure.into_read_error(self.shared.endpoints.place())
    }

    async fn commit_checked(&self, transaction: &Transaction) -> Result<Committed, StoreError> {
        let StoreState { endpoints, keys, .. } = &*self.shared;
        let request = transaction::to_request(keys, transaction);
        match endpoints.write(&TXN, &request).await {
            Ok(answer) => transaction::to_committed(keys, transaction, answer),
            Err(failure @ Failure::Unanswered(_)) => {
                let found = self.find_commit(transaction).await;
                found.ok_or_else(|| failure.into_write_error(endpoints.place()))
            }
            Err(failure) => match transaction::first_lease(transaction) {
                Some(lease) if failure.is_lease_gone() => Err(StoreError::Fenced { lease }),
                _ => Err(failure.into_write_error(endpoints.place())),
            },
        }
    }

    /// Returns an unconfirmed commit if it is found in etcd. If it is not found, it may still be
    /// made later.
    pub(crate) async fn find_commit(&self, transaction: &Transaction) -> Option<Committed> {
        let request = transaction::to_look(&self.shared.keys, transaction)?;
        let answer = self.shared.endpoints.read(&TXN, &request).await.ok()?;
        transaction::found_commit(transaction, &answer)
    }
}

impl Drop for EtcdStore {
    fn drop(&mut self) {
        self.closed.send_replace(true);
    }
}

impl Store for EtcdStore {
    fn limits(&self) -> Limits {
        LIMITS
    }

    fn get<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<Option<Entry>, StoreError>> {
        Box::pin(async move { self.reader().entry(key).await.map_err(|it| self.failed(it)) })
    }

    fn list<'a>(&'a self, prefix: &'a str) -> BoxFuture<'a, Result<Listing, StoreError>> {
        Box::pin(async move { self.reader().listing(prefix).await.map_err(|it| self.failed(it)) })
    }

    fn list_page<'a>(
        &'a self,
        prefix: &'a str,
        after: &'a str,
        entries_max: usize,
    ) -> BoxFuture<'a, Result<Listing, StoreError>> {
        Box::pin(async move {
            let page = self.reader().listing_after(prefix, after, entries_max).await;
            page.map_err(|failure| self.failed(failure))
        })
    }

    fn commit(&self, transaction: Transaction) -> BoxFuture<'_, Result<Committed, StoreError>> {
        Box::pin(async move {
            transaction.check(&LIMITS)?;
            let takes_all = |it: &Operation| {
                matches!(it, Operation::DeletePrefix { prefix }
                    if self.shared.keys.outside(prefix).is_empty())
            };
            // Refused, because an etcd contains more than this store.
            if transaction.operations.iter().any(takes_all) {
                return Err(StoreError::EmptyKey);
            }
            let committed = self.commit_checked(&transaction).await?;
            let puts = transaction.operations.iter().filter_map(|operation| match operation {
                Operation::Put { key, .. } => Some(&**key),
                _ => None,
            });
            self.shared.lags.note_commit(committed.revision, puts);
            Ok(committed)
        })
    }

    fn watch(&self, prefix: &str, after: Revision) -> Watch {
        let shared = Arc::clone(&self.shared);
        let source = EtcdWatch::new(shared, prefix, after, self.closed.subscribe());
        Watch::new(Box::new(source), after)
    }

    fn revision(&self) -> BoxFuture<'_, Result<Revision, StoreError>> {
        Box::pin(async move { self.reader().revision().await.map_err(|it| self.failed(it)) })
    }

    fn grant(&self, ttl: Duration) -> BoxFuture<'_, Result<LeaseId, StoreError>> {
        Box::pin(async move { self.leases().grant(ttl).await })
    }

    fn keep_alive(&self, lease: LeaseId) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async move { self.leases().keep_alive(lease).await })
    }

    fn revoke(&self, lease: LeaseId) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async move { self.leases().revoke(lease).await })
    }
}

#[cfg(test)]
impl EtcdStore {
    /// Members of the etcd cluster that requests are sent to.
    pub(crate) fn endpoints(&self) -> &Endpoints {
        &self.shared.endpoints
    }
}
