//! Following a store that others write: emptied, replaced, imported into, and telling less than it holds.

use super::*;
use crate::feed::cluster_id::{self, ClusterId};
use crate::feed::import_marker::ImportMarker;

type Events = mpsc::Receiver<StoreReading>;

/// A store of a cluster, with these routes.
async fn store_with(routes: &[&str]) -> Arc<Failing> {
    let store = failing();
    name(&store, "ours").await;
    for id in routes {
        put(&store, id).await;
    }
    store
}

async fn name(store: &Failing, cluster: &str) {
    commit(
        store,
        Transaction::new().put(cluster_id::key("/apisix"), format!("{{\"id\": \"{cluster}\"}}")),
    )
    .await;
}

async fn commit(store: &Failing, transaction: Transaction) {
    store.commit(transaction).await.expect("memory takes it");
}

async fn watched(store: &Arc<Failing>) -> (Events, Arc<Outages>, Arc<Metrics>) {
    let metrics = Arc::new(Metrics::new());
    let shared = SharedStore {
        cluster: ClusterId::named("ours"),
        metrics: Arc::clone(&metrics),
        copy: None,
    };
    let (events, outages) = follow(store, Arc::clone(&metrics), Some(shared)).await;
    (events, outages, metrics)
}

/// How many objects there are all in all; `None` for changes.
fn all(event: Option<StoreReading>) -> Option<usize> {
    match event {
        Some(StoreReading { event: FeedEvent::Everything(all), .. }) => Some(all.len()),
        _ => None,
    }
}

async fn nothing_comes(events: &mut Events, within: Duration) {
    let event = tokio::time::timeout(within, events.recv()).await;
    assert!(event.is_err(), "{event:?}");
}

/// Removes objects behind the back of whoever watches, who then meets a gap.
async fn lose(store: &Failing, transaction: Transaction) {
    store.commits_to_lose.store(u32::MAX, Ordering::Relaxed);
    commit(store, transaction).await;
    outrun(store).await;
    tokio::task::yield_now().await;
    store.commits_to_lose.store(0, Ordering::Relaxed);
}

const MINUTE: Duration = Duration::from_secs(60);

#[tokio::test(start_paused = true)]
async fn a_store_that_was_emptied_takes_nothing_out_of_service() {
    let store = store_with(&["1", "2", "3"]).await;
    let (mut events, outages, metrics) = watched(&store).await;
    lose(&store, Transaction::new().delete_prefix("/apisix/")).await;
    nothing_comes(&mut events, 60 * MINUTE).await;
    let reason = outages.list().remove(&Part::StoreContents).expect("it is reported");
    assert!(reason.contains("it was emptied or replaced"), "{reason}");
    assert_eq!(metrics.process().store_doubtful.value(), 1);
    // Somebody puts it back as it was.
    put(&store, "1").await;
    put(&store, "2").await;
    name(&store, "ours").await;
    assert_eq!(all(events.recv().await), Some(2));
    assert!(outages.list().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_store_of_another_cluster_is_not_served() {
    let store = store_with(&["1"]).await;
    let (mut events, outages, _) = watched(&store).await;
    put(&store, "2").await;
    let _ = events.recv().await;
    lose(
        &store,
        Transaction::new()
            .put(cluster_id::key("/apisix"), "{\"id\": \"another\"}")
            .put("/apisix/routes/3", "{}"),
    )
    .await;
    nothing_comes(&mut events, 60 * MINUTE).await;
    assert!(outages.list()[&Part::StoreContents].contains("of cluster another now"));
}

#[tokio::test(start_paused = true)]
async fn most_objects_missing_without_a_deletion_are_asked_for_once_more() {
    let store = store_with(&["1", "2", "3"]).await;
    let (mut events, outages, _) = watched(&store).await;
    lose(&store, Transaction::new().delete("/apisix/routes/1").delete("/apisix/routes/2")).await;
    nothing_comes(&mut events, Duration::from_secs(5)).await;
    assert!(outages.list()[&Part::StoreContents].contains("no longer lists 2 of 3 objects"));
    assert_eq!(all(events.recv().await), Some(1));
    assert!(outages.list().is_empty());
    // One of many is no reason to wait.
    put(&store, "2").await;
    put(&store, "3").await;
    put(&store, "4").await;
    for _ in 0..3 {
        let _ = tokio::time::timeout(MINUTE, events.recv()).await;
    }
    lose(&store, Transaction::new().delete("/apisix/routes/4")).await;
    let began = tokio::time::Instant::now();
    assert_eq!(all(events.recv().await), Some(2));
    assert!(began.elapsed() < Duration::from_secs(5));
}

#[tokio::test(start_paused = true)]
async fn changes_that_nobody_was_told_of_are_found_and_mended() {
    let store = store_with(&["1", "2"]).await;
    let (mut events, _, metrics) = watched(&store).await;
    store.commits_to_lose.store(2, Ordering::Relaxed);
    commit(&store, Transaction::new().put("/apisix/routes/1", "{\"uri\": \"/\"}")).await;
    commit(&store, Transaction::new().delete("/apisix/routes/2")).await;
    assert_eq!(all(events.recv().await), Some(1));
    assert_eq!(metrics.process().store_differences.value(), 2);
    nothing_comes(&mut events, 60 * MINUTE).await;
    assert_eq!(metrics.process().store_differences.value(), 2, "what agrees is not counted");
}

#[tokio::test(start_paused = true)]
async fn an_import_serves_as_a_whole_or_not_at_all() {
    let store = store_with(&["1"]).await;
    let marker = ImportMarker::new("/apisix");
    let (mut events, outages, _) = watched(&store).await;
    let lease = marker.begin(store.as_ref()).await.expect("nobody else imports");
    let refused = marker.begin(store.as_ref()).await;
    assert!(matches!(refused, Err(StoreError::Conflict { .. })), "{refused:?}");
    put(&store, "2").await;
    commit(&store, Transaction::new().while_held(lease).delete("/apisix/routes/1")).await;
    nothing_comes(&mut events, Duration::from_secs(20)).await;
    store.keep_alive(lease).await.expect("it is held");
    // A gap in the midst of it is no reason to show half of it.
    outrun(&store).await;
    nothing_comes(&mut events, Duration::from_secs(20)).await;
    put(&store, "3").await;
    marker.end(store.as_ref(), lease).await.expect("it is held");
    assert_eq!(all(events.recv().await), Some(2));
    assert!(outages.list().is_empty(), "{:?}", outages.list());
    put(&store, "4").await;
    assert!(
        matches!(events.recv().await, Some(StoreReading { event: FeedEvent::Changes(it), .. }) if it.len() == 1)
    );
}

#[tokio::test(start_paused = true)]
async fn an_import_that_was_broken_off_may_be_taken_up_again_for_a_minute() {
    let store = store_with(&["1"]).await;
    let marker = ImportMarker::new("/apisix");
    let (mut events, outages, _) = watched(&store).await;
    let lease = marker.begin(store.as_ref()).await.expect("nobody else imports");
    put(&store, "2").await;
    store.revoke(lease).await.expect("memory");
    nothing_comes(&mut events, Duration::from_secs(50)).await;
    let lease = marker.begin(store.as_ref()).await.expect("nobody else imports any more");
    put(&store, "3").await;
    nothing_comes(&mut events, Duration::from_secs(20)).await;
    store.revoke(lease).await.expect("memory");
    assert_eq!(all(events.recv().await), Some(3), "what there is, for want of the rest");
    assert!(outages.list()[&Part::StoreContents].contains("repeat the import"));
    let lease = marker.begin(store.as_ref()).await.expect("nobody else imports any more");
    put(&store, "4").await;
    marker.end(store.as_ref(), lease).await.expect("it is held");
    assert_eq!(all(events.recv().await), Some(4));
    assert!(outages.list().is_empty());
}

#[tokio::test(start_paused = true)]
async fn half_an_import_is_nothing_to_start_with() {
    let store = store_with(&["1"]).await;
    let marker = ImportMarker::new("/apisix");
    let lease = marker.begin(store.as_ref()).await.expect("nobody else imports");
    let parts = |outages: &Arc<Outages>| StoredParts {
        store: Arc::<Failing>::clone(&store),
        catalogue: Arc::new(Catalogue::empty()),
        keyring: Arc::new(Keyring::generate().expect("random numbers")),
        indexes: Arc::default(),
        outages: Arc::clone(outages),
        shared: Some(SharedStore {
            cluster: ClusterId::named("ours"),
            metrics: Arc::new(Metrics::new()),
            copy: None,
        }),
    };
    let outages = Arc::new(Outages::new(Arc::new(Metrics::new())));
    let opened = StoreFollower::open(parts(&outages), "/apisix").await;
    let Err(error) = opened else { panic!("it is half of something") };
    assert!(error.to_string().contains("an import is under way"), "{error}");
    // Its importer is gone for good, for all that anybody knows.
    store.revoke(lease).await.expect("memory");
    let (_, all) =
        StoreFollower::open(parts(&outages), "/apisix").await.expect("it is taken as it is");
    assert_eq!(all.len(), 1);
    assert!(outages.list().contains_key(&Part::StoreContents));
}
