//! The keeper over a store in memory and on disk, in virtual time.

use std::time::Duration;

use tollhouse_store::{BoxFuture, Committed, Entry, Listing, Location, Transaction, Watch};

use super::*;
use crate::clock::ManualClock;
use crate::command::NewInstance;
use crate::key::ServiceRef;
use crate::registry::Beat;

/// Some second of Unix time.
const START_MS: u64 = 1_700_000_000_000;

/// A registry at work, with its clock.
struct Running {
    registry: Registry,
    clock: Arc<ManualClock>,
}

impl Running {
    async fn over(store: Arc<dyn Store>) -> Self {
        let clock = ManualClock::at_ms(START_MS);
        let options = Options {
            clock: Clock::Manual(Arc::clone(&clock)),
            salt: Some(7),
            mass_expiry_threshold: 0.0,
        };
        let (keeper, registry) = Keeper::open(store, options).await.expect("readable");
        tokio::spawn(keeper.run(std::future::pending()));
        Self { registry, clock }
    }

    async fn register(&self, id: &str, ttl_seconds: Option<u32>) -> Result<Outcome, Refusal> {
        self.registry.submit(Command::Register(Box::new(new(id, ttl_seconds)))).await
    }

    /// Lets time pass for the clock and the runtime alike.
    async fn pass(&self, time: Duration) {
        for _ in 0..time.as_millis() / HEALTH_TICK.as_millis() {
            self.clock.advance(HEALTH_TICK);
            tokio::time::advance(HEALTH_TICK).await;
            tokio::task::yield_now().await;
        }
    }

    fn is_healthy(&self, id: &str) -> bool {
        self.registry.state().instance(id).expect("registered").healthy
    }
}

fn new(id: &str, ttl_seconds: Option<u32>) -> NewInstance {
    NewInstance {
        id: id.into(),
        service: "svc".into(),
        namespace: "ns".into(),
        host: "10.0.0.1".into(),
        port: Some(80),
        ttl_seconds,
        ..NewInstance::default()
    }
}

fn memory() -> Arc<dyn Store> {
    tollhouse_store::open(&Location::Memory).expect("memory opens")
}

#[tokio::test(start_paused = true)]
async fn what_is_answered_is_visible_and_brings_its_service_along() {
    let running = Running::over(memory()).await;
    let versions = running.registry.subscribe();
    running.register("a", None).await.expect("good");
    assert!(versions.has_changed().expect("kept"));
    let state = running.registry.state();
    let view = state.service(ServiceRef { namespace: "ns", name: "svc" }).expect("created");
    assert_eq!(view.counts.total, 1);
    assert_eq!(state.totals().namespaces, 3, "two are built in");
}

#[tokio::test(start_paused = true)]
async fn a_silent_instance_expires_after_three_intervals_and_comes_back_with_its_beat() {
    let running = Running::over(memory()).await;
    running.register("a", Some(3)).await.expect("good");
    running.pass(Duration::from_secs(2)).await;
    assert_eq!(running.registry.heartbeat("a"), Beat::Taken);
    running.pass(Duration::from_millis(8_900)).await;
    assert!(running.is_healthy("a"));
    running.pass(Duration::from_millis(300)).await;
    assert!(!running.is_healthy("a"));
    let expired = running.registry.state().instance("a").expect("kept").expired_after_beat;
    assert_eq!(expired, Some(START_MS / 1_000 + 2));
    running.registry.heartbeat("a");
    running.pass(Duration::from_millis(200)).await;
    assert!(running.is_healthy("a"));
    running.pass(Duration::from_millis(8_500)).await;
    assert!(running.is_healthy("a"));
    running.pass(Duration::from_secs(1)).await;
    assert!(!running.is_healthy("a"));
}

#[tokio::test(start_paused = true)]
async fn beats_keep_an_instance_healthy_and_one_that_never_beats_expires() {
    let running = Running::over(memory()).await;
    running.register("beats", Some(1)).await.expect("good");
    running.register("silent", Some(1)).await.expect("good");
    running.register("unchecked", None).await.expect("good");
    for _ in 0..20 {
        running.registry.heartbeat("beats");
        running.pass(Duration::from_secs(1)).await;
    }
    assert!(running.is_healthy("beats"));
    assert!(!running.is_healthy("silent"));
    assert!(running.is_healthy("unchecked"));
    assert_eq!(running.registry.statistics().expired.load(Ordering::Relaxed), 1);
}

#[tokio::test(start_paused = true)]
async fn the_fifth_beat_of_an_unknown_id_is_refused_and_registering_forgives() {
    let running = Running::over(memory()).await;
    let beats: Vec<Beat> = (0..6).map(|_| running.registry.heartbeat("x")).collect();
    let expected = [Beat::Tolerated, Beat::Tolerated, Beat::Tolerated, Beat::Tolerated];
    assert_eq!((&beats[..4], &beats[4..]), (&expected[..], &[Beat::Unknown, Beat::Unknown][..]));
    running.register("x", Some(5)).await.expect("good");
    assert_eq!(running.registry.heartbeat("x"), Beat::Taken);
    assert_eq!(running.registry.last_beat("x").map(|beat| beat.count), Some(1));
}

#[tokio::test]
async fn a_restart_brings_everything_back_alive() {
    let folder = tempfile::tempdir().expect("a folder");
    let location = Location::Directory(folder.path().to_owned());
    {
        let store = tollhouse_store::open(&location).expect("opens");
        let (keeper, registry) = Keeper::open(store, Options::default()).await.expect("readable");
        let (stop, stopped) = oneshot::channel::<()>();
        let keeping = tokio::spawn(keeper.run(async { drop(stopped.await) }));
        for id in ["a", "b", "c"] {
            registry.submit(Command::Register(Box::new(new(id, Some(9))))).await.expect("good");
        }
        registry.submit(Command::Deregister("b".into())).await.expect("good");
        drop(stop);
        keeping.await.expect("ends");
        assert_eq!(
            registry.submit(Command::Deregister("a".into())).await.err(),
            Some(Refusal::Closed)
        );
    }
    let store = tollhouse_store::open(&location).expect("opens again");
    let (_keeper, registry) = Keeper::open(store, Options::default()).await.expect("readable");
    let state = registry.state();
    let mut ids: Vec<_> = state.instances().map(|instance| instance.id.to_string()).collect();
    ids.sort();
    assert_eq!(ids, ["a", "c"]);
    assert!(state.instances().all(|instance| instance.healthy && instance.ttl_seconds == Some(9)));
}

/// A store whose disk is full.
struct FullDisk(Arc<dyn Store>);

impl Store for FullDisk {
    fn get<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<Option<Entry>, StoreError>> {
        self.0.get(key)
    }
    fn list<'a>(&'a self, prefix: &'a str) -> BoxFuture<'a, Result<Listing, StoreError>> {
        self.0.list(prefix)
    }
    fn commit(&self, _: Transaction) -> BoxFuture<'_, Result<Committed, StoreError>> {
        Box::pin(async { Err(StoreError::Full { path: "store.db".into() }) })
    }
    fn watch(&self, after: tollhouse_store::Revision) -> BoxFuture<'_, Result<Watch, StoreError>> {
        self.0.watch(after)
    }
    fn backup<'a>(&'a self, file: &'a std::path::Path) -> BoxFuture<'a, Result<(), StoreError>> {
        self.0.backup(file)
    }
    fn revision(&self) -> BoxFuture<'_, Result<tollhouse_store::Revision, StoreError>> {
        self.0.revision()
    }
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_made_durable_is_refused_and_seen_by_nobody() {
    let running = Running::over(Arc::new(FullDisk(memory()))).await;
    let refused = running.register("a", None).await.expect_err("the disk is full");
    assert!(matches!(refused, Refusal::Store(_)), "{refused}");
    assert!(refused.to_string().contains("make room"), "{refused}");
    let state = running.registry.state();
    assert_eq!((state.totals().services, state.totals().instances.total), (0, 0));
    let statistics = running.registry.statistics();
    let counted = [&statistics.commands, &statistics.refused, &statistics.commits];
    assert_eq!(counted.map(|counter| counter.load(Ordering::Relaxed)), [0, 1, 0]);
}

#[tokio::test(start_paused = true)]
async fn a_hundred_registrations_of_one_id_at_once_leave_one_instance() {
    let running = Running::over(memory()).await;
    let attempts = (0..100).map(|_| {
        let registry = running.registry.clone();
        tokio::spawn(
            async move { registry.submit(Command::Register(Box::new(new("a", None)))).await },
        )
    });
    for attempt in attempts.collect::<Vec<_>>() {
        attempt.await.expect("runs").expect("good");
    }
    assert_eq!(running.registry.state().totals().instances.total, 1);
    let commits = running.registry.statistics().commits.load(Ordering::Relaxed);
    assert!(commits < 100, "{commits} commits for 100 commands that came together");
}
