//! Stores that refuse commits: which commands are then refused, and which are not.

use std::sync::Mutex;

use tokio::sync::Notify;
use tollhouse_store::{
    BoxFuture, Committed, Entry, LeaseId, Limits, Listing, Operation, Revision, StoreError,
    Transaction, Watch,
};

use super::*;
use crate::command::InstanceChange;
use crate::limits::STORE_PROBE_INTERVAL;

/// Store in memory that refuses or delays commits on request.
pub(super) struct Moody {
    inner: Arc<dyn Store>,
    mood: Mutex<Mood>,
    pub(super) go_on: Notify,
    /// Clock to advance while a page is read, and the duration.
    reading: Mutex<Option<(Arc<ManualClock>, Duration)>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mood {
    Takes,
    /// The disk is full: commits that add data are refused.
    Full,
    /// All commits are refused.
    Broken,
    /// Keys with this suffix are refused.
    Dislikes(&'static str),
    /// A commit waits until it is told to go on.
    Slow,
}

impl Moody {
    pub(super) fn new(mood: Mood) -> Arc<Self> {
        let (mood, reading) = (Mutex::new(mood), Mutex::default());
        Arc::new(Self { inner: memory(), mood, go_on: Notify::new(), reading })
    }

    /// Lets the clock advance by this duration with each page read from now on.
    pub(super) fn read_slowly(&self, clock: &Arc<ManualClock>, time: Duration) {
        *self.reading.lock().expect("nobody panicked") = Some((Arc::clone(clock), time));
    }

    fn begin_to_read(&self) {
        if let Some((clock, time)) = &*self.reading.lock().expect("nobody panicked") {
            clock.advance(*time);
        }
    }

    pub(super) fn set(&self, mood: Mood) {
        *self.mood.lock().expect("nobody panicked") = mood;
    }

    fn refusal(&self, transaction: &Transaction) -> Option<StoreError> {
        let is_put = |operation: &Operation| matches!(operation, Operation::Put { .. });
        let path = "store.db".into();
        match *self.mood.lock().expect("nobody panicked") {
            Mood::Takes | Mood::Slow => None,
            Mood::Full => {
                transaction.operations.iter().any(is_put).then_some(StoreError::Full { path })
            }
            Mood::Broken => Some(StoreError::Io { path, reason: "broken".to_owned() }),
            Mood::Dislikes(end) => {
                let is_disliked = |operation: &Operation| match operation {
                    Operation::Put { key, .. } => key.ends_with(end),
                    Operation::Delete { .. } | Operation::DeletePrefix { .. } => false,
                };
                let what = "the value in bytes";
                let refusal = StoreError::TooLarge { what, actual: 2, max: 1 };
                transaction.operations.iter().any(is_disliked).then_some(refusal)
            }
        }
    }
}

impl Store for Moody {
    fn get<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<Option<Entry>, StoreError>> {
        self.inner.get(key)
    }
    fn list<'a>(&'a self, prefix: &'a str) -> BoxFuture<'a, Result<Listing, StoreError>> {
        self.begin_to_read();
        self.inner.list(prefix)
    }
    fn limits(&self) -> Limits {
        self.inner.limits()
    }
    fn list_page<'a>(
        &'a self,
        prefix: &'a str,
        after: &'a str,
        entries_max: usize,
    ) -> BoxFuture<'a, Result<Listing, StoreError>> {
        self.begin_to_read();
        self.inner.list_page(prefix, after, entries_max)
    }
    fn commit(&self, transaction: Transaction) -> BoxFuture<'_, Result<Committed, StoreError>> {
        if let Some(refusal) = self.refusal(&transaction) {
            return Box::pin(async { Err(refusal) });
        }
        let is_slow = *self.mood.lock().expect("nobody panicked") == Mood::Slow;
        Box::pin(async move {
            if is_slow {
                self.go_on.notified().await;
            }
            self.inner.commit(transaction).await
        })
    }
    fn watch(&self, prefix: &str, after: Revision) -> Watch {
        self.inner.watch(prefix, after)
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

fn ids(registry: &Registry) -> Vec<String> {
    let mut ids: Vec<_> =
        registry.state().instances().map(|instance| instance.id.to_string()).collect();
    ids.sort();
    ids
}

/// Submits all commands before the keeper sees the first.
async fn together(running: &Running, commands: Vec<Command>) -> Vec<Result<Outcome, Refusal>> {
    let tasks: Vec<_> = commands
        .into_iter()
        .map(|command| {
            let registry = running.registry.clone();
            tokio::spawn(async move { registry.submit(command).await })
        })
        .collect();
    let mut outcomes = Vec::new();
    for task in tasks {
        outcomes.push(task.await.expect("runs"));
    }
    outcomes
}

fn register(id: &str) -> Command {
    Command::Register(Box::new(new(id, Some(5))))
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_made_durable_is_refused_and_seen_by_nobody() {
    let running = Running::over(Moody::new(Mood::Full)).await;
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
async fn a_command_that_cannot_be_kept_takes_no_other_with_it() {
    let running = Running::over(Moody::new(Mood::Dislikes("/bad"))).await;
    let names = ["a", "bad", "b", "c"];
    let outcomes = together(&running, names.iter().map(|id| register(id)).collect()).await;
    let refused: Vec<bool> = outcomes.iter().map(Result::is_err).collect();
    assert_eq!(refused, [false, true, false, false]);
    assert_eq!(ids(&running.registry), ["a", "b", "c"]);
    let too_long = Command::PutContract(Box::new(NewContract {
        id: "c".into(),
        service: ServiceKey::new("ns", "svc"),
        kind: "k".repeat(900_000).into(),
        protocol: "".into(),
        version: "".into(),
        over: None,
        body: vec![0; 1024 * 1024].into(),
    }));
    let outcomes = together(&running, vec![register("d"), too_long, register("e")]).await;
    let refused: Vec<_> = outcomes.into_iter().map(Result::err).collect();
    assert_eq!(refused, [None, Some(Refusal::Parameter("type")), None]);
}

#[tokio::test(start_paused = true)]
async fn a_full_disk_takes_what_makes_room() {
    let store = Moody::new(Mood::Takes);
    let running = Running::over(Arc::clone(&store) as Arc<dyn Store>).await;
    together(&running, ["a", "b"].map(register).into()).await;
    store.set(Mood::Full);
    let commands = vec![register("c"), Command::Deregister("a".into()), register("d")];
    let refused: Vec<bool> =
        together(&running, commands).await.iter().map(Result::is_err).collect();
    assert_eq!(refused, [true, false, true]);
    assert_eq!(ids(&running.registry), ["b"]);
}

#[tokio::test(start_paused = true)]
async fn a_registration_that_was_refused_leaves_the_next_beat_awaited() {
    for mood in [Mood::Full, Mood::Broken] {
        let store = Moody::new(Mood::Takes);
        let running = Running::over(Arc::clone(&store) as Arc<dyn Store>).await;
        running.register("a", Some(1)).await.expect("good");
        running.pass(Duration::from_millis(3_200)).await;
        assert!(!running.is_healthy("a"));
        store.set(mood);
        running.register("a", Some(1)).await.expect_err("the store refuses");
        let off = InstanceChange { healthy: Some(true), ..InstanceChange::default() };
        let change = Command::UpdateInstance("a".into(), Box::new(off));
        running.registry.submit(change).await.expect_err("the store refuses");
        store.set(Mood::Takes);
        assert!(!running.is_healthy("a"), "{mood:?}");
        assert_eq!(running.registry.heartbeat("a"), HeartbeatOutcome::Recorded);
        running.pass(HEALTH_TICK).await;
        assert!(running.is_healthy("a"), "{mood:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn who_is_silent_expires_while_the_store_refuses() {
    let store = Moody::new(Mood::Takes);
    let running = Running::over(Arc::clone(&store) as Arc<dyn Store>).await;
    running.register("a", Some(1)).await.expect("good");
    store.set(Mood::Broken);
    for _ in 0..40 {
        running.register("b", Some(1)).await.expect_err("the store refuses");
        running.pass(HEALTH_TICK).await;
    }
    assert!(!running.is_healthy("a"));
    running.pass(Duration::from_secs(20)).await;
    store.set(Mood::Takes);
    running.pass(Duration::from_secs(20)).await;
    let kept = store.get("/instances/a").await.expect("readable").expect("kept");
    let text = String::from_utf8_lossy(&kept.value).into_owned();
    assert!(text.contains("\"healthy\":false"), "saved once the store takes it: {text}");
}

#[tokio::test(start_paused = true)]
async fn who_asks_hears_that_nothing_can_be_written_until_it_can() {
    for mood in [Mood::Full, Mood::Broken] {
        let store = Moody::new(Mood::Takes);
        let running = Running::over(Arc::clone(&store) as Arc<dyn Store>).await;
        let serving = running.registry.serving();
        assert!(*serving.borrow());
        store.set(mood);
        running.register("a", None).await.expect_err("the store refuses");
        assert!(!*serving.borrow(), "{mood:?}");
        running.pass(Duration::from_secs(20)).await;
        assert!(!*serving.borrow(), "{mood:?}");
        store.set(Mood::Takes);
        // No client sends a registration to a registry that reports that it refuses them.
        running.pass(2 * STORE_PROBE_INTERVAL).await;
        assert!(*serving.borrow(), "{mood:?}");
        let listed = store.list("").await.expect("readable").entries;
        assert!(listed.is_empty(), "what was tried leaves nothing: {listed:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_command_that_cannot_be_kept_says_nothing_about_the_store() {
    let running = Running::over(Moody::new(Mood::Dislikes("/bad"))).await;
    running.register("bad", None).await.expect_err("refused");
    assert!(*running.registry.serving().borrow());
}

#[tokio::test(start_paused = true)]
async fn a_keeper_that_has_died_is_noticed() {
    let (keeper, registry) = Keeper::open(memory(), Options::default()).await.expect("readable");
    let mut serving = registry.serving();
    let keeping = tokio::spawn(keeper.run(std::future::pending()));
    keeping.abort();
    assert!(serving.changed().await.is_err(), "nobody is left to say that it serves");
    let refused = registry.submit(Command::Deregister("a".into())).await;
    assert_eq!(refused.err(), Some(Refusal::Closed));
}
