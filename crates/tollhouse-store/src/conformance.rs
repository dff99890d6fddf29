//! Conformance suite that every backend must pass.
//!
//! The test of a backend calls [`run`] with a function that opens an empty store; each case opens a
//! separate one. For a shared engine outside this process, whose clock cannot be moved,
//! [`run_shared`] leaves out the cases that move the clock or close the store. The suite assumes
//! only that revisions rise, not their numbers. Features of single backends (durability over a
//! restart, backups) are tested beside them.

mod expiry;
mod leases;
mod room;
mod transactions;
mod values;
mod watching;

pub use self::room::{REMOVALS, removals_are_taken};

use crate::changes::Changes;
use crate::entry::{Entry, Revision};
use crate::error::StoreError;
use crate::future::BoxFuture;
use crate::lease::LeaseId;
use crate::store::Store;
use crate::transaction::{Committed, Transaction};
use crate::watch::{Lost, Watch, WatchEvent};
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

/// A store under test, and operations on it that the trait does not offer.
pub trait Subject: Send + Sync {
    /// The store, which was empty when it was opened.
    fn store(&self) -> &Arc<dyn Store>;

    /// Advances the time of the store.
    fn pass(&self, time: Duration) -> BoxFuture<'_, ()>;

    /// Makes the store drop its history of commits, but not its entries.
    fn compact(&self) -> BoxFuture<'_, ()>;
}

type Case = fn(Fixture) -> BoxFuture<'static, ()>;

/// A store under test with helpers for the cases.
struct Fixture {
    subject: Box<dyn Subject>,
}

pub type Open<'a> = dyn Fn() -> Box<dyn Subject> + Sync + 'a;

/// Runs all cases in sequence.
///
/// # Panics
///
/// If the backend does not conform.
pub async fn run(open: &Open<'_>) {
    run_shared(open).await;
    run_cases(&[watching::EMBEDDED, expiry::CASES, leases::EMBEDDED], open).await;
}

/// Runs the cases that an external engine can pass too.
///
/// # Panics
///
/// If the backend does not conform.
pub async fn run_shared(open: &Open<'_>) {
    run_cases(&[values::CASES, transactions::CASES, watching::CASES, leases::CASES], open).await;
}

async fn run_cases(groups: &[&[Case]], open: &Open<'_>) {
    for case in groups.concat() {
        case(Fixture { subject: open() }).await;
    }
}

impl Fixture {
    fn store(&self) -> &dyn Store {
        &**self.subject.store()
    }

    async fn commit(&self, transaction: Transaction) -> Committed {
        self.store().commit(transaction).await.expect("the transaction is done")
    }

    async fn refused(&self, transaction: Transaction) -> StoreError {
        self.store().commit(transaction).await.expect_err("the transaction is refused")
    }

    async fn put(&self, key: &str, value: &str) -> Revision {
        self.commit(put(key, value)).await.revision
    }

    async fn grant(&self, seconds: u64) -> LeaseId {
        self.store().grant(Duration::from_secs(seconds)).await.expect("there is room for it")
    }

    /// Puts a key under a new lease.
    async fn put_for(&self, seconds: u64, key: &str) -> LeaseId {
        let lease = self.grant(seconds).await;
        self.commit(Transaction::new().put_under(lease, key, "v")).await;
        lease
    }

    async fn get(&self, key: &str) -> Option<Entry> {
        self.store().get(key).await.expect("the store reads")
    }

    async fn value(&self, key: &str) -> Option<String> {
        self.get(key).await.map(|entry| String::from_utf8_lossy(&entry.value).into_owned())
    }

    async fn keys(&self, prefix: &str) -> Vec<String> {
        let listing = self.store().list(prefix).await.expect("the store lists");
        listing.entries.into_iter().map(|entry| entry.key.into()).collect()
    }

    async fn revision(&self) -> Revision {
        self.store().revision().await.expect("the store knows its revision")
    }

    /// Watches all keys from the current revision on.
    async fn watch(&self) -> Watch {
        let revision = self.revision().await;
        self.store().watch("", revision)
    }

    async fn pass(&self, seconds: u64) {
        self.subject.pass(Duration::from_secs(seconds)).await;
    }
}

fn put(key: &str, value: &str) -> Transaction {
    Transaction::new().put(key, value.to_owned())
}

/// Returns the next commit of a watch; skips progress.
async fn next(watch: &mut Watch) -> Changes {
    loop {
        match watch.next().await {
            WatchEvent::Commit(changes) => return changes,
            WatchEvent::Progress(_) => {}
            WatchEvent::Lost(lost) => panic!("{lost}"),
        }
    }
}

/// Returns the reason for the end of a watch; skips all earlier events.
async fn end(watch: &mut Watch) -> Lost {
    loop {
        if let WatchEvent::Lost(lost) = watch.next().await {
            return lost;
        }
    }
}

/// Polls futures concurrently until all have completed; results are in the order of the futures.
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
