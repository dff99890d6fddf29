//! The keeper over a store in memory and on disk, in virtual time.

mod cluster;
mod refused;
mod time;

use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::oneshot;
use tollhouse_store::Location;

use super::*;
use crate::clock::ManualClock;
use crate::command::{Command, NewContract, NewInstance, Outcome};
use crate::key::{ServiceKey, ServiceRef};
use crate::limits::{COMMANDS_QUEUED_BYTES_MAX, HEALTH_TICK, INSTANCE_ID_CHARS_MAX, LOOK_INTERVAL};
use crate::refusal::Refusal;
use crate::registry::HeartbeatOutcome;

/// Some second of Unix time.
const START_MS: u64 = 1_700_000_000_000;

/// Running registry with its clock.
struct Running {
    registry: Registry,
    clock: Arc<ManualClock>,
}

impl Running {
    async fn over(store: Arc<dyn Store>) -> Self {
        Self::cleaning(store, CleanUp::default()).await
    }

    async fn cleaning(store: Arc<dyn Store>, clean_up: CleanUp) -> Self {
        Self::by_clock(store, clean_up, ManualClock::at_ms(START_MS)).await
    }

    async fn by_clock(store: Arc<dyn Store>, clean_up: CleanUp, clock: Arc<ManualClock>) -> Self {
        let options = Options {
            clock: Clock::Manual(Arc::clone(&clock)),
            salt: Some(7),
            clean_up,
            ..Options::default()
        };
        let (keeper, registry) = Keeper::open(store, options).await.expect("readable");
        tokio::spawn(keeper.run(std::future::pending()));
        Self { registry, clock }
    }

    async fn register(&self, id: &str, ttl_seconds: Option<u32>) -> Result<Outcome, Refusal> {
        self.registry.submit(Command::Register(Box::new(new(id, ttl_seconds)))).await
    }

    /// Advances the clock and the runtime by the same duration.
    async fn pass(&self, time: Duration) {
        for _ in 0..time.as_millis() / HEALTH_TICK.as_millis() {
            self.clock.advance(HEALTH_TICK);
            tokio::time::advance(HEALTH_TICK).await;
            tokio::task::yield_now().await;
        }
    }

    /// Stops the process for this duration: no task runs, and then all run at once.
    async fn sleep(&self, time: Duration) {
        self.clock.advance(time);
        tokio::time::advance(time).await;
        self.pass(HEALTH_TICK).await;
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
    assert_eq!(running.registry.heartbeat("a"), HeartbeatOutcome::Recorded);
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
    let beats: Vec<HeartbeatOutcome> = (0..6).map(|_| running.registry.heartbeat("x")).collect();
    let expected = [
        HeartbeatOutcome::Tolerated,
        HeartbeatOutcome::Tolerated,
        HeartbeatOutcome::Tolerated,
        HeartbeatOutcome::Tolerated,
    ];
    assert_eq!(
        (&beats[..4], &beats[4..]),
        (&expected[..], &[HeartbeatOutcome::Unknown, HeartbeatOutcome::Unknown][..])
    );
    running.register("x", Some(5)).await.expect("good");
    assert_eq!(running.registry.heartbeat("x"), HeartbeatOutcome::Recorded);
    assert_eq!(running.registry.last_heartbeat("x").map(|beat| beat.count), Some(1));
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

#[tokio::test(start_paused = true)]
async fn ids_that_no_instance_can_have_leave_nothing() {
    let running = Running::over(memory()).await;
    let long = "x".repeat(4 * 1024 * 1024);
    let bad = "x".repeat(INSTANCE_ID_CHARS_MAX + 1);
    let wide = "é".repeat(INSTANCE_ID_CHARS_MAX);
    let beats = [&long, &bad, &wide].map(|id| running.registry.heartbeat(id));
    assert_eq!(
        beats,
        [HeartbeatOutcome::BadId, HeartbeatOutcome::BadId, HeartbeatOutcome::Tolerated]
    );
    let last = [&long, &bad].map(|id| running.registry.last_heartbeat(id));
    assert_eq!(last, [None, None]);
}

#[tokio::test]
async fn commands_that_wait_are_bounded_in_bytes() {
    // The keeper does not run: everything waits.
    let (_keeper, registry) = Keeper::open(memory(), Options::default()).await.expect("readable");
    let body = bytes::Bytes::from(vec![0; 1024 * 1024]);
    let waiting = COMMANDS_QUEUED_BYTES_MAX / body.len();
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    let mut held = Vec::new();
    let mut refused = 0;
    for number in 0..2 * waiting {
        let contract = NewContract {
            id: number.to_string().into(),
            service: ServiceKey::new("ns", "svc"),
            kind: "".into(),
            protocol: "".into(),
            version: "".into(),
            over: None,
            body: body.clone(),
        };
        let mut submitted = Box::pin(registry.submit(Command::PutContract(Box::new(contract))));
        match submitted.as_mut().poll(&mut context) {
            std::task::Poll::Pending => held.push(submitted),
            std::task::Poll::Ready(outcome) => {
                assert_eq!(outcome.err(), Some(Refusal::Busy));
                refused += 1;
            }
        }
    }
    assert_eq!((held.len(), refused), (waiting - 1, waiting + 1));
}
