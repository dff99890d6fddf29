//! Following a store that fails, comes back, forgets and ends.

use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

use tollhouse_store::{
    BoxFuture, Committed, Listing, Location, Revision, Transaction, limits::HISTORY_COMMITS_MAX,
};
use tollhouse_telemetry::Metrics;

use super::*;

/// A store in memory whose next lists and watches fail.
struct Failing {
    inner: Arc<dyn Store>,
    lists_to_fail: AtomicU32,
    watches_to_fail: AtomicU32,
}

fn fails(count: &AtomicU32) -> bool {
    count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok()
}

fn broken() -> StoreError {
    StoreError::Io { path: "store.db".into(), reason: "it is away".to_owned() }
}

impl Store for Failing {
    fn get<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<Option<Entry>, StoreError>> {
        self.inner.get(key)
    }

    fn list<'a>(&'a self, prefix: &'a str) -> BoxFuture<'a, Result<Listing, StoreError>> {
        if fails(&self.lists_to_fail) {
            return Box::pin(async { Err(broken()) });
        }
        self.inner.list(prefix)
    }

    fn commit(&self, transaction: Transaction) -> BoxFuture<'_, Result<Committed, StoreError>> {
        self.inner.commit(transaction)
    }

    fn watch(&self, after: Revision) -> BoxFuture<'_, Result<Watch, StoreError>> {
        if fails(&self.watches_to_fail) {
            let compacted = StoreError::Compacted { after, oldest: after, newest: after };
            return Box::pin(async { Err(compacted) });
        }
        self.inner.watch(after)
    }

    fn backup<'a>(&'a self, file: &'a Path) -> BoxFuture<'a, Result<(), StoreError>> {
        self.inner.backup(file)
    }

    fn revision(&self) -> BoxFuture<'_, Result<Revision, StoreError>> {
        self.inner.revision()
    }
}

async fn followed(store: &Arc<Failing>) -> (mpsc::Receiver<Batch>, Arc<Vitals>) {
    let vitals = Arc::new(Vitals::new(Arc::new(Metrics::new())));
    let parts = StoredParts {
        store: Arc::<Failing>::clone(store),
        catalogue: Arc::new(Catalogue::empty()),
        keyring: Arc::new(Keyring::generate().expect("random numbers")),
        indexes: Arc::default(),
        vitals: Arc::clone(&vitals),
    };
    let (stored, _) = Stored::open(parts, "/apisix").await.expect("the store can be read");
    let (sender, batches) = mpsc::channel(1);
    tokio::spawn(stored.follow(sender));
    (batches, vitals)
}

fn failing() -> Arc<Failing> {
    let inner = tollhouse_store::open(&Location::Memory).expect("memory");
    let (lists_to_fail, watches_to_fail) = Default::default();
    Arc::new(Failing { inner, lists_to_fail, watches_to_fail })
}

async fn put(store: &Failing, id: &str) {
    let transaction = Transaction::new().put(format!("/apisix/routes/{id}"), "{}");
    store.commit(transaction).await.expect("memory takes it");
}

/// Changes past what the history keeps, so that the follower meets a gap.
async fn outrun(store: &Failing) {
    for _ in 0..=HISTORY_COMMITS_MAX {
        store.commit(Transaction::new().put("/other", "x")).await.expect("memory takes it");
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_that_cannot_be_read_is_asked_again_until_it_can() {
    let store = failing();
    let (mut batches, vitals) = followed(&store).await;
    put(&store, "1").await;
    assert!(matches!(batches.recv().await, Some(Batch::Changes(changes)) if changes.len() == 1));
    store.lists_to_fail.store(5, Ordering::Relaxed);
    store.watches_to_fail.store(3, Ordering::Relaxed);
    outrun(&store).await;
    put(&store, "2").await;
    let batch = batches.recv().await;
    assert!(matches!(&batch, Some(Batch::Everything(all)) if all.len() == 2), "{batch:?}");
    assert!(vitals.troubles().is_empty(), "{:?}", vitals.troubles());
    put(&store, "3").await;
    assert!(matches!(batches.recv().await, Some(Batch::Changes(changes)) if changes.len() == 1));
}

#[tokio::test(start_paused = true)]
async fn while_the_store_is_away_that_is_told() {
    let store = failing();
    let (mut batches, vitals) = followed(&store).await;
    store.lists_to_fail.store(u32::MAX, Ordering::Relaxed);
    outrun(&store).await;
    let waiting = tokio::time::timeout(std::time::Duration::from_secs(3600), batches.recv());
    assert!(waiting.await.is_err(), "nothing comes, and nothing ends");
    assert!(vitals.troubles()[&Part::Store].contains("it is away"));
}

#[test]
fn after_a_gap_what_is_not_listed_has_gone() {
    let upsert = |id: &str| Change::Upsert {
        kind: Kind::Route,
        id: Id::new(id),
        value: Ok(Value::Null),
        path: String::new(),
    };
    let mut known = Known::default();
    known.note(&[upsert("1"), upsert("2"), Change::Delete { kind: Kind::Route, id: Id::new("1") }]);
    let mut everything = vec![upsert("3")];
    known.replace_by(&mut everything);
    assert!(matches!(&everything[1], Change::Delete { id, .. } if id.as_str() == "2"));
    assert_eq!(everything.len(), 2);
}
