//! The suite that every backend must pass: what a store does, whatever holds its entries.
//!
//! A backend's test calls [`run`] with a function that opens an empty store on a given clock. Each
//! case gets a store of its own. What only some backends do (last over a restart, make a backup) is
//! tested beside them.

mod expiry;
mod transactions;
mod values;
mod watching;

use crate::clock::{Clock, ManualClock};
use crate::entry::{Entry, Revision};
use crate::error::StoreError;
use crate::store::{BoxFuture, Store};
use crate::transaction::{Committed, Transaction};
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

/// Where the clock of a case stands first, in milliseconds of Unix time.
pub const START_MS: u64 = 1_800_000_000_000;

/// An empty store and its clock.
struct Fixture {
    store: Arc<dyn Store>,
    clock: Arc<ManualClock>,
}

type Case = fn(Fixture) -> BoxFuture<'static, ()>;

/// Runs all cases, one after the other.
///
/// # Panics
///
/// When the backend does not do what a store must.
pub async fn run(open: &(dyn Fn(Clock) -> Arc<dyn Store> + Sync)) {
    for case in [values::CASES, transactions::CASES, watching::CASES, expiry::CASES].concat() {
        let clock = ManualClock::at_ms(START_MS);
        let store = open(Clock::Manual(Arc::clone(&clock)));
        case(Fixture { store, clock }).await;
    }
}

impl Fixture {
    async fn commit(&self, transaction: Transaction) -> Committed {
        self.store.commit(transaction).await.expect("the transaction is done")
    }

    async fn refused(&self, transaction: Transaction) -> StoreError {
        self.store.commit(transaction).await.expect_err("the transaction is refused")
    }

    async fn put(&self, key: &str, value: &str) -> Revision {
        self.commit(put(key, value)).await.revision
    }

    async fn get(&self, key: &str) -> Option<Entry> {
        self.store.get(key).await.expect("the store reads")
    }

    async fn value(&self, key: &str) -> Option<String> {
        self.get(key).await.map(|entry| String::from_utf8_lossy(&entry.value).into_owned())
    }

    async fn keys(&self, prefix: &str) -> Vec<String> {
        let listing = self.store.list(prefix).await.expect("the store lists");
        listing.entries.into_iter().map(|entry| entry.key.into()).collect()
    }

    async fn revision(&self) -> Revision {
        self.store.revision().await.expect("the store knows its revision")
    }
}

fn put(key: &str, value: &str) -> Transaction {
    Transaction::new().put(key, value.to_owned())
}

/// Polls futures side by side until all have ended; results in the order of the futures.
async fn together<T>(futures: Vec<BoxFuture<'_, T>>) -> Vec<T> {
    let mut results: Vec<Option<T>> = futures.iter().map(|_| None).collect();
    let mut futures: Vec<_> = futures.into_iter().map(Some).collect();
    poll_fn(|cx| {
        for (future, result) in futures.iter_mut().zip(&mut results) {
            let polled = future.as_mut().map(|future| future.as_mut().poll(cx));
            if let Some(Poll::Ready(value)) = polled {
                *result = Some(value);
                *future = None;
            }
        }
        let is_done = futures.iter().all(Option::is_none);
        if is_done { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    results.into_iter().map(|result| result.expect("every future has ended")).collect()
}
