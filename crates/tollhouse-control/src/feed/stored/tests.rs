//! Following a store that fails, comes back, forgets and ends.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use serde_json::json;
use tollhouse_model::encryption::Form;
use tollhouse_store::{
    BoxFuture, Committed, LeaseId, Limits, Listing, Location, Revision, Transaction, WatchSource,
    limits::HISTORY_COMMITS_MAX,
};
use tollhouse_telemetry::Metrics;

use super::*;

mod shared;

/// A store in memory whose next lists and watches fail.
struct Failing {
    inner: Arc<dyn Store>,
    lists_to_fail: AtomicU32,
    watches_to_fail: AtomicU32,
    /// Commits that watches keep to themselves.
    commits_to_lose: Arc<AtomicU32>,
}

/// A watch that loses commits.
struct Losing {
    inner: Watch,
    commits_to_lose: Arc<AtomicU32>,
}

impl Losing {
    fn is_lost(&self, event: &WatchEvent) -> bool {
        matches!(event, WatchEvent::Commit(_)) && fails(&self.commits_to_lose)
    }
}

impl WatchSource for Losing {
    fn next(&mut self) -> BoxFuture<'_, WatchEvent> {
        Box::pin(async {
            loop {
                let event = self.inner.next().await;
                if !self.is_lost(&event) {
                    return event;
                }
            }
        })
    }

    fn try_next(&mut self) -> Option<WatchEvent> {
        let event = self.inner.try_next()?;
        (!self.is_lost(&event)).then_some(event)
    }

    fn is_over(&self) -> bool {
        self.inner.is_over()
    }
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

    fn limits(&self) -> Limits {
        self.inner.limits()
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

    fn list_page<'a>(
        &'a self,
        prefix: &'a str,
        after: &'a str,
        entries_max: usize,
    ) -> BoxFuture<'a, Result<Listing, StoreError>> {
        self.inner.list_page(prefix, after, entries_max)
    }

    fn watch(&self, prefix: &str, after: Revision) -> Watch {
        if fails(&self.watches_to_fail) {
            // No store has made so many commits.
            return self.inner.watch(prefix, Revision(u64::MAX));
        }
        let (inner, commits_to_lose) =
            (self.inner.watch(prefix, after), Arc::clone(&self.commits_to_lose));
        Watch::new(Box::new(Losing { inner, commits_to_lose }), after)
    }

    fn grant(&self, ttl: Duration) -> BoxFuture<'_, Result<LeaseId, StoreError>> {
        self.inner.grant(ttl)
    }

    fn keep_alive(&self, lease: LeaseId) -> BoxFuture<'_, Result<(), StoreError>> {
        self.inner.keep_alive(lease)
    }

    fn revoke(&self, lease: LeaseId) -> BoxFuture<'_, Result<(), StoreError>> {
        self.inner.revoke(lease)
    }

    fn revision(&self) -> BoxFuture<'_, Result<Revision, StoreError>> {
        self.inner.revision()
    }
}

async fn followed(store: &Arc<Failing>) -> (mpsc::Receiver<StoreReading>, Arc<Outages>) {
    follow(store, Arc::new(Metrics::new()), None).await
}

fn parts(store: &Arc<Failing>, outages: &Arc<Outages>, shared: Option<SharedStore>) -> StoredParts {
    StoredParts {
        store: Arc::<Failing>::clone(store),
        catalogue: crate::plugins::catalogue(),
        keyring: Arc::new(Keyring::generate().expect("random numbers")),
        indexes: Arc::default(),
        outages: Arc::clone(outages),
        shared,
    }
}

async fn opened(store: &Arc<Failing>) -> (StoreFollower, Vec<Change>) {
    let outages = Arc::new(Outages::new(Arc::new(Metrics::new())));
    let opened = StoreFollower::open(parts(store, &outages, None), "/apisix").await;
    let (stored, objects) = opened.expect("the store can be read");
    (stored, objects.into_changes().collect())
}

async fn follow(
    store: &Arc<Failing>,
    metrics: Arc<Metrics>,
    shared: Option<SharedStore>,
) -> (mpsc::Receiver<StoreReading>, Arc<Outages>) {
    let outages = Arc::new(Outages::new(metrics));
    let parts = parts(store, &outages, shared);
    let (stored, _) = StoreFollower::open(parts, "/apisix").await.expect("the store can be read");
    let (sender, events) = mpsc::channel(1);
    tokio::spawn(stored.follow(sender));
    (events, outages)
}

fn failing() -> Arc<Failing> {
    let inner = tollhouse_store::open(&Location::Memory).expect("memory");
    let (lists_to_fail, watches_to_fail, commits_to_lose) = Default::default();
    Arc::new(Failing { inner, lists_to_fail, watches_to_fail, commits_to_lose })
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
    let (mut events, outages) = followed(&store).await;
    put(&store, "1").await;
    assert!(
        matches!(events.recv().await, Some(StoreReading { event: FeedEvent::Changes(changes), .. }) if changes.len() == 1)
    );
    store.lists_to_fail.store(5, Ordering::Relaxed);
    store.watches_to_fail.store(3, Ordering::Relaxed);
    outrun(&store).await;
    put(&store, "2").await;
    // Once for the gap, and once more for each watch that was lost at its beginning.
    for _ in 0..4 {
        let event = events.recv().await;
        assert!(
            matches!(&event, Some(StoreReading { event: FeedEvent::Everything(all), .. }) if all.len() == 2),
            "{event:?}"
        );
    }
    assert!(outages.list().is_empty(), "{:?}", outages.list());
    put(&store, "3").await;
    assert!(
        matches!(events.recv().await, Some(StoreReading { event: FeedEvent::Changes(changes), .. }) if changes.len() == 1)
    );
}

#[tokio::test]
async fn stream_routes_begin_in_the_order_in_which_they_were_made() {
    let store = failing();
    for key in ["stream_routes/b", "routes/b", "stream_routes/a", "routes/a", "stream_routes/b"] {
        let transaction = Transaction::new().put(format!("/apisix/{key}"), "{}");
        store.commit(transaction).await.expect("memory takes it");
    }
    let (_, changes) = opened(&store).await;
    let ids: Vec<_> = changes
        .iter()
        .filter_map(|change| match change {
            Change::Upsert { path, .. } => Some(path.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(ids, ["routes/a", "routes/b", "stream_routes/b", "stream_routes/a"]);
}

#[tokio::test]
async fn what_no_key_opens_comes_into_service_marked_as_sealed_in_whatever_form_it_was() {
    let lost = || Keyring::generate().expect("random numbers");
    for lost in [lost(), lost().with_form(Form::Apisix)] {
        let hidden = |place: &str| lost.seal("a secret that nobody knows", place);
        let tls = json!({ "tls": { "client_key": hidden("upstream.tls.client_key") } });
        let carried = json!({ "upstream": tls, "plugins": {} });
        let login = json!({ "username": "jack", "password": hidden("basic-auth.password") });
        let who = json!({ "plugins": { "basic-auth": login } });
        let verifier = json!({ "key": hidden("csrf.key") });
        let plugins = json!({ "plugins": { "csrf": verifier } });
        let carried_at = "/upstream/tls/client_key";
        let who_at = "/plugins/basic-auth/password";
        let plugins_at = "/plugins/csrf/key";
        let table = [
            ("ssls/1", json!({ "key": hidden("ssl.key") }), "/key"),
            ("routes/1", carried.clone(), carried_at),
            ("stream_routes/1", carried.clone(), carried_at),
            ("services/1", carried, carried_at),
            ("upstreams/1", tls, "/tls/client_key"),
            ("secrets/vault/1", json!({ "token": hidden("secret.token") }), "/token"),
            ("consumers/jack", who.clone(), who_at),
            ("consumers/jack/credentials/1", who, who_at),
            ("global_rules/1", plugins.clone(), plugins_at),
            ("plugin_configs/1", plugins.clone(), plugins_at),
            ("consumer_groups/1", plugins, plugins_at),
        ];
        for (key, object, at) in table {
            let store = failing();
            let transaction = Transaction::new().put(format!("/apisix/{key}"), object.to_string());
            store.commit(transaction).await.expect("memory takes it");
            let (_, changes) = opened(&store).await;
            let sealed = changes.iter().find_map(|change| match change {
                Change::Upsert { value: Ok(value), .. } => value.pointer(at)?.as_str(),
                _ => None,
            });
            assert!(sealed.is_some_and(Keyring::is_marked), "{key}: {changes:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_outage_of_the_store_is_reported() {
    let store = failing();
    let (mut events, outages) = followed(&store).await;
    store.lists_to_fail.store(u32::MAX, Ordering::Relaxed);
    outrun(&store).await;
    let waiting = tokio::time::timeout(Duration::from_secs(3600), events.recv());
    assert!(waiting.await.is_err(), "nothing comes, and nothing ends");
    assert!(outages.list()[&Part::Store].contains("it is away"));
}
