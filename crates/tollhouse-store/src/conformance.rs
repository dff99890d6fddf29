//! The suite that every backend must pass: what a store does, whatever holds its entries.
//!
//! A backend's test calls [`run`] with a function that opens an empty store. Each case gets a store of its
//! own. An engine outside of this process, whose time nobody moves and which many share, passes
//! [`run_shared`]: all but the cases that need a clock moved by hand, or the end of the store itself.
//! Nothing here knows which numbers revisions have, only that they rise; what only some backends do
//! (last over a restart, make a backup) is tested beside them.

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

/// A store under test, and the ways to do to it what the trait cannot.
pub trait Subject: Send + Sync {
    /// The store, which was empty when it was opened.
    fn store(&self) -> &Arc<dyn Store>;

    /// Lets time pass, as far as the store knows.
    fn pass(&self, time: Duration) -> BoxFuture<'_, ()>;

    /// Has the store forget which commits were made so far, though not what they did.
    fn compact(&self) -> BoxFuture<'_, ()>;
}

type Case = fn(Fixture) -> BoxFuture<'static, ()>;

/// A store and what a case does with it.
struct Fixture {
    subject: Box<dyn Subject>,
}

/// Opens an empty store.
pub type Open<'a> = dyn Fn() -> Box<dyn Subject> + Sync + 'a;

/// Runs all cases, one after the other.
///
/// # Panics
///
/// When the backend does not do what a store must.
pub async fn run(open: &Open<'_>) {
    run_shared(open).await;
    run_cases(&[watching::EMBEDDED, expiry::CASES, leases::EMBEDDED], open).await;
}

/// Runs the cases that hold for an engine outside of this process too.
///
/// # Panics
///
/// As [`run`].
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

    /// Puts a key under a lease of its own.
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

    /// A watch of everything from now on.
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

/// The next commit of a watch.
async fn next(watch: &mut Watch) -> Changes {
    loop {
        match watch.next().await {
            WatchEvent::Commit(changes) => return changes,
            WatchEvent::Progress(_) => {}
            WatchEvent::Lost(lost) => panic!("{lost}"),
        }
    }
}

/// How a watch ends, whatever it still has to say before.
async fn end(watch: &mut Watch) -> Lost {
    loop {
        if let WatchEvent::Lost(lost) = watch.next().await {
            return lost;
        }
    }
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
