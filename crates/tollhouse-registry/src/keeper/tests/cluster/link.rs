//! Store that the nodes share, and a link to it for each node. A link can be cut, lose answers, and
//! lose the place of its watch.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use hashbrown::HashMap;
use tokio::time::Instant;
use tollhouse_store::{
    BoxFuture, Committed, Entry, LeaseId, Limits, Listing, Lost, Revision, Store, StoreError,
    Transaction, Watch, WatchEvent, WatchSource,
};

use super::*;

/// Store whose leases end by virtual time.
pub(super) struct Engine {
    store: Arc<dyn Store>,
    renewed: Mutex<HashMap<LeaseId, Instant>>,
    delays: Mutex<Random>,
}

impl Engine {
    pub(super) fn new() -> Arc<Self> {
        let delays = Mutex::new(Random::seeded(9));
        Arc::new(Self { store: memory(), renewed: Mutex::default(), delays })
    }

    pub(super) fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// Ends leases that were not renewed for `ttl`.
    pub(super) async fn end_leases(&self, ttl: Duration) {
        let over: Vec<_> = {
            let mut renewed = self.renewed.lock().unwrap_or_else(PoisonError::into_inner);
            renewed.extract_if(|_, at| at.elapsed() >= ttl).map(|(lease, _)| lease).collect()
        };
        for lease in over {
            self.store.revoke(lease).await.expect("memory works");
        }
    }

    /// Returns the number of turns for which the next commit is delayed.
    fn next_delay(&self) -> u32 {
        self.delays.lock().unwrap_or_else(PoisonError::into_inner).below(6)
    }

    fn note_renewal(&self, lease: LeaseId) {
        self.renewed.lock().unwrap_or_else(PoisonError::into_inner).insert(lease, Instant::now());
    }
}

/// Faults of a link.
#[derive(Default)]
pub(super) struct Faults {
    /// Whether the link is cut, so that nothing passes.
    pub(super) is_cut: AtomicBool,
    /// Loss of commits: 1 if commits do not arrive, 2 if they arrive but their answers do not.
    pub(super) lose_answers: AtomicU32,
    /// Whether the watch loses its place, once.
    pub(super) is_lost: AtomicBool,
}

pub(super) struct Link {
    engine: Arc<Engine>,
    faults: Arc<Faults>,
}

impl Link {
    pub(super) fn open(engine: Arc<Engine>, faults: Arc<Faults>) -> Arc<dyn Store> {
        Arc::new(Self { engine, faults })
    }

    fn pass(&self) -> Result<&Arc<dyn Store>, StoreError> {
        match self.faults.is_cut.load(Ordering::Relaxed) {
            true => {
                Err(StoreError::Unreachable { place: "the engine".into(), reason: "cut".into() })
            }
            false => Ok(&self.engine.store),
        }
    }
}

impl Store for Link {
    fn limits(&self) -> Limits {
        self.engine.store.limits()
    }

    fn get<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<Option<Entry>, StoreError>> {
        Box::pin(async move { self.pass()?.get(key).await })
    }

    fn list<'a>(&'a self, prefix: &'a str) -> BoxFuture<'a, Result<Listing, StoreError>> {
        Box::pin(async move { self.pass()?.list(prefix).await })
    }

    fn list_page<'a>(
        &'a self,
        prefix: &'a str,
        after: &'a str,
        entries_max: usize,
    ) -> BoxFuture<'a, Result<Listing, StoreError>> {
        Box::pin(async move { self.pass()?.list_page(prefix, after, entries_max).await })
    }

    fn commit(&self, transaction: Transaction) -> BoxFuture<'_, Result<Committed, StoreError>> {
        Box::pin(async move {
            // Other commits may overtake this one on its way.
            for _ in 0..self.engine.next_delay() {
                tokio::task::yield_now().await;
            }
            let lost =
                || StoreError::Unanswered { place: "the engine".into(), reason: "lost".into() };
            match self.faults.lose_answers.load(Ordering::Relaxed) {
                0 => {
                    let committed = self.pass()?.commit(transaction).await;
                    tokio::task::yield_now().await;
                    committed
                }
                1 => Err(lost()),
                _ => {
                    self.pass()?.commit(transaction).await?;
                    Err(lost())
                }
            }
        })
    }

    fn watch(&self, prefix: &str, after: Revision) -> Watch {
        let inner = self.engine.store.watch(prefix, after);
        Watch::new(Box::new(LinkWatch { inner, faults: Arc::clone(&self.faults) }), after)
    }

    fn revision(&self) -> BoxFuture<'_, Result<Revision, StoreError>> {
        Box::pin(async move { self.pass()?.revision().await })
    }

    fn grant(&self, ttl: Duration) -> BoxFuture<'_, Result<LeaseId, StoreError>> {
        Box::pin(async move {
            let lease = self.pass()?.grant(ttl).await?;
            self.engine.note_renewal(lease);
            Ok(lease)
        })
    }

    fn keep_alive(&self, lease: LeaseId) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async move {
            self.pass()?.keep_alive(lease).await?;
            self.engine.note_renewal(lease);
            Ok(())
        })
    }

    fn revoke(&self, lease: LeaseId) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async move { self.pass()?.revoke(lease).await })
    }
}

struct LinkWatch {
    inner: Watch,
    faults: Arc<Faults>,
}

impl WatchSource for LinkWatch {
    fn next(&mut self) -> BoxFuture<'_, WatchEvent> {
        Box::pin(async move {
            loop {
                match self.try_next() {
                    Some(event) => return event,
                    None if self.faults.is_cut.load(Ordering::Relaxed) => {
                        tokio::time::sleep_until(Instant::now() + HEALTH_TICK).await;
                    }
                    // A change that arrives while the link is being cut has passed.
                    None => return self.inner.next().await,
                }
            }
        })
    }

    fn try_next(&mut self) -> Option<WatchEvent> {
        if self.faults.is_cut.load(Ordering::Relaxed) {
            return None;
        }
        if self.faults.is_lost.swap(false, Ordering::Relaxed) {
            let (after, newest) = (Revision::ZERO, Revision::ZERO);
            return Some(WatchEvent::Lost(Lost::Compacted { after, oldest: newest, newest }));
        }
        self.inner.try_next()
    }

    fn is_over(&self) -> bool {
        self.inner.is_over()
    }
}
