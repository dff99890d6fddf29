//! Several keepers over one store, in virtual time, with a link to the store for each that can fail.

mod channel;
mod link;
mod simulation;

use std::sync::atomic::Ordering;

use tokio::task::JoinHandle;
use tollhouse_store::{Condition, Transaction};

use super::*;
use crate::alias::Alias;
use crate::cluster::ClusterOptions;
use crate::command::ServiceChange;
use crate::limits::{MEMBER_LEASE, ROUND_INTERVAL, TTLS_TO_EXPIRY};
use channel::{Channel, Server};
use link::{Engine, Faults, Link};

/// Running node.
struct Node {
    registry: Registry,
    faults: Arc<Faults>,
    task: JoinHandle<()>,
    stop: oneshot::Sender<()>,
}

impl Node {
    /// Ends the node without leaving the cluster.
    fn kill(self) {
        self.task.abort();
    }

    async fn stop(self) {
        drop(self.stop);
        self.task.await.expect("it ends");
    }

    async fn register(&self, id: &str, ttl_seconds: Option<u32>) -> Result<Outcome, Refusal> {
        self.registry.submit(Command::Register(Box::new(new(id, ttl_seconds)))).await
    }

    fn is_healthy(&self, id: &str) -> bool {
        self.registry.state().instance(id).expect("registered").healthy
    }

    fn beat(&self, id: &str) {
        assert_eq!(self.registry.heartbeat(id), HeartbeatOutcome::Recorded);
    }
}

/// Shared store with the clocks of its nodes.
struct Bench {
    engine: Arc<Engine>,
    /// Number of nodes started, so that no two use the same random numbers.
    started: std::sync::atomic::AtomicU64,
    seed: u64,
    /// Server of the heartbeat channel; `None` to send heartbeats over the store.
    server: Option<Arc<Server>>,
    /// Clock of each node that was started.
    clocks: std::sync::Mutex<Vec<Arc<ManualClock>>>,
    passed: std::sync::Mutex<Duration>,
    /// Maximum difference between the clocks.
    skew: Duration,
}

impl Bench {
    fn new() -> Self {
        Self::seeded(7)
    }

    fn seeded(seed: u64) -> Self {
        Self {
            engine: Engine::new(),
            started: Default::default(),
            seed: seed << 32,
            server: None,
            clocks: Default::default(),
            passed: Default::default(),
            skew: Duration::ZERO,
        }
    }

    /// Returns the clock of the next node, which is wrong by a part of the skew.
    fn clock(&self, salt: u64) -> Arc<ManualClock> {
        let skew_ms = u32::try_from(self.skew.as_millis()).expect("minutes");
        let wrong_ms = tollhouse_stdx::Random::seeded(salt).below(skew_ms + 1);
        let clock = ManualClock::at_ms(START_MS + u64::from(wrong_ms));
        clock.advance(*self.passed.lock().expect("nobody has panicked"));
        self.clocks.lock().expect("nobody has panicked").push(Arc::clone(&clock));
        clock
    }

    async fn start(&self, name: &str) -> Node {
        self.start_with(name, |_| {}).await
    }

    async fn start_with(&self, name: &str, change: impl FnOnce(&mut Options)) -> Node {
        let faults = Arc::<Faults>::default();
        let channel = self.server.as_ref().map(Channel::open);
        let cluster =
            ClusterOptions { name: name.into(), has_predecessor: false, channel, proof: None };
        let salt = self.seed + self.started.fetch_add(1, Ordering::Relaxed);
        let mut options = Options {
            clock: Clock::Manual(self.clock(salt)),
            cluster: Some(cluster),
            salt: Some(salt),
            ..Options::default()
        };
        change(&mut options);
        let link = Link::open(Arc::clone(&self.engine), Arc::clone(&faults));
        let (keeper, registry) = Keeper::open(link, options).await.expect("readable");
        let (stop, stopped) = oneshot::channel::<()>();
        let task = tokio::spawn(keeper.run(async { drop(stopped.await) }));
        Node { registry, faults, task, stop }
    }

    /// Advances the clocks and the runtime by the same duration.
    async fn pass(&self, time: Duration) {
        for _ in 0..time.as_millis() / HEALTH_TICK.as_millis() {
            *self.passed.lock().expect("nobody has panicked") += HEALTH_TICK;
            for clock in &*self.clocks.lock().expect("nobody has panicked") {
                clock.advance(HEALTH_TICK);
            }
            tokio::time::advance(HEALTH_TICK).await;
            self.settle_down().await;
            self.engine.end_leases(MEMBER_LEASE).await;
        }
    }

    /// Lets all nodes finish their pending work.
    async fn settle_down(&self) {
        for _ in 0..64 {
            tokio::task::yield_now().await;
        }
    }
}

const SECOND: Duration = Duration::from_secs(1);

/// Instances with their revisions and health, and the revisions of all services and namespaces.
type Digest = (Vec<(Arc<str>, crate::Revision, bool)>, crate::Revision, crate::Revision);

/// Returns the part of a node's state that clients can compare.
fn digest(node: &Node) -> Digest {
    let state = node.registry.state();
    let mut instances: Vec<_> = state
        .instances()
        .map(|instance| (Arc::clone(&instance.id), instance.revision, instance.healthy))
        .collect();
    instances.sort_by(|first, second| first.0.cmp(&second.0));
    (instances, state.services_revision(), state.namespaces_revision())
}

#[tokio::test(start_paused = true)]
async fn what_is_registered_on_one_node_is_found_on_all_at_the_same_revision() {
    let bench = Bench::new();
    let [a, b] = [bench.start("a").await, bench.start("b").await];
    a.register("one", None).await.expect("good");
    b.register("two", Some(5)).await.expect("good");
    b.registry.submit(Command::Deregister("one".into())).await.expect("it was there");
    a.register("three", None).await.expect("good");
    let late = bench.start("late").await;
    bench.settle_down().await;
    assert_eq!(digest(&a), digest(&b));
    assert_eq!(digest(&a), digest(&late));
    let ids: Vec<_> = digest(&late).0.into_iter().map(|(id, ..)| id).collect();
    assert_eq!(ids, ["three".into(), "two".into()] as [Arc<str>; 2]);
    let service = ServiceRef { namespace: "ns", name: "svc" };
    let revision = |node: &Node| node.registry.state().service(service).map(|view| view.revision);
    assert_eq!(revision(&a), revision(&late));
    let names = late.registry.members().expect("it has others");
    let mut names: Vec<_> = names.iter().map(|member| &*member.name).collect();
    names.sort_unstable();
    assert_eq!(names, ["a", "b", "late"]);
}

#[tokio::test(start_paused = true)]
async fn beats_at_any_node_keep_an_instance_healthy_and_the_silent_expire_on_all() {
    let bench = Bench::new();
    let nodes = [bench.start("a").await, bench.start("b").await, bench.start("c").await];
    for id in ["steady", "silent"] {
        nodes[0].register(id, Some(2)).await.expect("good");
    }
    bench.settle_down().await;
    for second in 0..20 {
        nodes[second % 3].beat("steady");
        bench.pass(SECOND).await;
        assert!(nodes.iter().all(|node| node.is_healthy("steady")), "after {second} s");
    }
    assert!(nodes.iter().all(|node| !node.is_healthy("silent")));
    assert_eq!(digest(&nodes[0]), digest(&nodes[1]));
    assert_eq!(digest(&nodes[0]), digest(&nodes[2]));
    let expired: u64 =
        nodes.iter().map(|node| node.registry.statistics().expired.load(Ordering::Relaxed)).sum();
    assert_eq!(expired, 1, "one node says so");

    for node in &nodes {
        bench.pass(10 * SECOND).await;
        assert!(!node.is_healthy("silent"));
        node.beat("silent");
        bench.pass(2 * ROUND_INTERVAL).await;
        assert!(nodes.iter().all(|node| node.is_healthy("silent")));
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_that_says_nothing_freezes_health_until_it_is_counted_out() {
    let bench = Bench::new();
    let [a, b] = [bench.start("a").await, bench.start("b").await];
    a.register("there", Some(1)).await.expect("good");
    bench.pass(2 * SECOND).await;
    // Heartbeats that b receives no longer reach a.
    b.faults.is_cut.store(true, Ordering::Relaxed);
    for _ in 0..7 {
        bench.pass(SECOND).await;
        assert!(a.is_healthy("there"));
    }
    assert_eq!(a.registry.members().expect("it has others").len(), 2);
    // After b is removed, instances whose heartbeats it may have received get a full expiry time.
    bench.pass(3 * SECOND).await;
    assert_eq!(a.registry.members().expect("it may have others").len(), 1);
    assert!(a.is_healthy("there"));
    bench.pass(3 * SECOND).await;
    assert!(!a.is_healthy("there"));

    b.faults.is_cut.store(false, Ordering::Relaxed);
    bench.pass(3 * SECOND).await;
    assert_eq!(a.registry.members().expect("it has others").len(), 2);
    assert_eq!(digest(&a), digest(&b));
    b.beat("there");
    bench.pass(2 * SECOND).await;
    assert!(a.is_healthy("there") && b.is_healthy("there"));
}

#[tokio::test(start_paused = true)]
async fn a_node_that_leaves_says_whom_it_has_heard_of() {
    let bench = Bench::new();
    let [a, b] = [bench.start("a").await, bench.start("b").await];
    a.register("there", Some(1)).await.expect("good");
    bench.pass(2 * SECOND).await;
    b.beat("there");
    b.stop().await;
    bench.pass(Duration::from_millis(2_800)).await;
    assert_eq!(a.registry.members().expect("it may have others").len(), 1);
    assert!(a.is_healthy("there"));
    bench.pass(Duration::from_millis(400)).await;
    assert!(!a.is_healthy("there"), "nothing is unknown, and so nobody has a grace");
}

#[tokio::test(start_paused = true)]
async fn a_node_that_was_killed_is_replaced_by_one_of_its_name_at_once() {
    let bench = Bench::new();
    let [a, b] = [bench.start("a").await, bench.start("b").await];
    a.register("there", None).await.expect("good");
    b.kill();
    let b = bench.start("b").await;
    bench.settle_down().await;
    for node in [&a, &b] {
        assert_eq!(node.registry.members().expect("it has others").len(), 2);
    }
    assert_eq!(digest(&a), digest(&b));
}

#[tokio::test(start_paused = true)]
async fn what_two_nodes_do_at_once_comes_to_what_one_after_the_other_does() {
    let bench = Bench::new();
    let [a, b] = [bench.start("a").await, bench.start("b").await];
    let key = ServiceKey::new("ns", "svc");
    for round in 0..50 {
        let create = Command::CreateService(key.clone(), Box::<ServiceChange>::default());
        let (first, second) =
            tokio::join!(a.registry.submit(create.clone()), b.registry.submit(create));
        assert_eq!([&first, &second].iter().filter(|it| it.is_ok()).count(), 1, "round {round}");
        let delete = Command::DeleteService(key.clone());
        let (registered, deleted) =
            tokio::join!(a.register("one", None), b.registry.submit(delete.clone()));
        registered.expect("the service is there, or comes into being");
        bench.settle_down().await;
        for node in [&a, &b] {
            let state = node.registry.state();
            assert_eq!(state.totals().instances.total, 1, "{deleted:?}");
            assert_eq!(state.service(key.borrowed()).expect("it has one").counts.total, 1);
        }
        b.registry.submit(Command::Deregister("one".into())).await.expect("good");
        a.registry.submit(delete).await.expect("it is empty");
        bench.settle_down().await;
        assert_eq!(digest(&a), digest(&b));
    }
}

#[tokio::test(start_paused = true)]
async fn of_an_alias_and_a_registration_under_its_name_at_once_one_is_refused() {
    let bench = Bench::new();
    let [a, b] = [bench.start("a").await, bench.start("b").await];
    let (key, target) = (ServiceKey::new("ns", "svc"), ServiceKey::new("ns", "other"));
    let create = Command::CreateService(target.clone(), Box::<ServiceChange>::default());
    a.registry.submit(create).await.expect("good");
    bench.settle_down().await;
    let mut aliases = 0;
    for round in 0..50 {
        let alias = Alias {
            id: format!("alias{round}"),
            key: key.clone(),
            target: target.clone(),
            comment: String::new(),
            owners: String::new(),
            metadata: Default::default(),
            created_at: 0,
            modified_at: 0,
            revision: Default::default(),
        };
        let alias = a.registry.submit(Command::CreateAlias(Box::new(alias)));
        let register = b.register("one", None);
        // The order of the commands alternates.
        let (aliased, registered) = if round % 2 == 0 {
            tokio::join!(alias, register)
        } else {
            let (registered, aliased) = tokio::join!(register, alias);
            (aliased, registered)
        };
        assert_ne!(aliased.is_ok(), registered.is_ok(), "{round}: {aliased:?}, {registered:?}");
        bench.settle_down().await;
        for node in [&a, &b] {
            let state = node.registry.state();
            assert_eq!(state.alias(key.borrowed()).is_some(), aliased.is_ok(), "{round}");
            assert_eq!(state.service(key.borrowed()).is_some(), registered.is_ok(), "{round}");
        }
        if aliased.is_ok() {
            aliases += 1;
            b.registry.submit(Command::DeleteAlias(key.clone())).await.expect("it is there");
        } else {
            a.registry.submit(Command::Deregister("one".into())).await.expect("it is there");
            b.registry.submit(Command::DeleteService(key.clone())).await.expect("it is empty");
        }
        bench.settle_down().await;
        assert_eq!(digest(&a), digest(&b));
    }
    assert!((1..50).contains(&aliases), "both have been first: {aliases}");
}

#[tokio::test(start_paused = true)]
async fn nodes_whose_clocks_are_wrong_by_minutes_judge_as_if_they_were_right() {
    let bench = Bench { skew: 20 * 60 * SECOND, ..Bench::new() };
    let nodes = [bench.start("a").await, bench.start("b").await, bench.start("c").await];
    nodes[0].register("beating", Some(1)).await.expect("good");
    nodes[1].register("silent", Some(1)).await.expect("good");
    for second in 0..10 {
        for node in &nodes {
            assert!(node.is_healthy("beating"), "{second}");
        }
        nodes[second % 3].beat("beating");
        bench.pass(SECOND).await;
        if second + 1 < TTLS_TO_EXPIRY as usize {
            assert!(nodes.iter().all(|node| node.is_healthy("silent")), "{second}");
        }
    }
    assert!(nodes.iter().all(|node| !node.is_healthy("silent")));
    assert_eq!(nodes[2].registry.members().expect("it has others").len(), 3);
    assert!(nodes.iter().all(|node| digest(node) == digest(&nodes[0])));
}

#[tokio::test(start_paused = true)]
async fn a_node_that_missed_commits_reads_everything_anew_and_knows_whom_it_has_heard_of() {
    let bench = Bench::new();
    let [a, b] = [bench.start("a").await, bench.start("b").await];
    a.register("there", Some(1)).await.expect("good");
    bench.pass(SECOND).await;
    b.faults.is_lost.store(true, Ordering::Relaxed);
    a.register("new", None).await.expect("good");
    for _ in 0..6 {
        b.beat("there");
        bench.pass(SECOND).await;
        assert!(a.is_healthy("there") && b.is_healthy("there"));
    }
    assert_eq!(digest(&a), digest(&b));
    bench.pass(20 * SECOND).await;
    assert!(!a.is_healthy("there") && !b.is_healthy("there"));
}

#[tokio::test(start_paused = true)]
async fn a_node_that_has_come_to_something_else_is_found_and_reads_everything_anew() {
    let bench = Bench::new();
    let nodes = [bench.start("a").await, bench.start("b").await, bench.start("c").await];
    for id in ["one", "two", "three"] {
        nodes[0].register(id, None).await.expect("good");
    }
    bench.pass(SECOND).await;
    let shared = nodes[1].registry.shared();
    let mut state = State::clone(&shared.state.load());
    let listing = bench.engine.store().list("/instances/").await.expect("memory");
    let key = listing.entries.first().expect("three are there").key.clone();
    let lost = tollhouse_store::Event::Delete { key, revision: listing.revision };
    state.fold(&[lost], START_MS, &mut Vec::new());
    shared.state.store(Arc::new(state));
    assert_ne!(digest(&nodes[0]), digest(&nodes[1]), "it has forgotten one");
    bench.pass(130 * SECOND).await;
    assert_eq!(digest(&nodes[0]), digest(&nodes[1]));
    let found =
        nodes.each_ref().map(|node| node.registry.statistics().differences.load(Ordering::Relaxed));
    assert_eq!(found, [0, 1, 0]);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_was_emptied_takes_nothing_from_what_is_known() {
    const PROOF: &str = "/tollhouse/cluster/ours";
    let bench = Bench::new();
    let prove = || bench.engine.store().commit(Transaction::new().put(PROOF, "{}"));
    prove().await.expect("memory");
    let node = bench.start_with("a", |options| {
        if let Some(cluster) = &mut options.cluster {
            cluster.proof = Some(PROOF.into());
        }
    });
    let node = node.await;
    node.register("there", None).await.expect("good");
    bench.pass(SECOND).await;
    // A store that lost its data reports no deletions.
    node.faults.is_cut.store(true, Ordering::Relaxed);
    prove().await.expect("memory");
    bench.pass(SECOND).await;
    let emptied = Transaction::new().delete_prefix("");
    bench.engine.store().commit(emptied).await.expect("memory");
    node.faults.is_lost.store(true, Ordering::Relaxed);
    node.faults.is_cut.store(false, Ordering::Relaxed);
    bench.pass(30 * SECOND).await;
    assert!(node.registry.state().instance("there").is_some(), "it is served");
    prove().await.expect("memory");
    bench.pass(5 * SECOND).await;
    assert!(node.registry.state().instance("there").is_none(), "it is theirs, and empty");
}

#[tokio::test(start_paused = true)]
async fn while_the_store_is_away_reads_and_beats_are_answered_and_nobody_expires() {
    let bench = Bench::new();
    let nodes = [bench.start("a").await, bench.start("b").await];
    nodes[0].register("there", Some(1)).await.expect("good");
    bench.pass(SECOND).await;
    for node in &nodes {
        node.faults.is_cut.store(true, Ordering::Relaxed);
    }
    let refused = nodes[1].register("new", None).await;
    assert!(matches!(refused, Err(Refusal::Store(_))), "{refused:?}");
    bench.pass(8 * SECOND).await;
    nodes[0].beat("there");
    assert!(nodes.iter().all(|node| node.is_healthy("there")));
    for node in &nodes {
        node.faults.is_cut.store(false, Ordering::Relaxed);
    }
    bench.pass(2 * SECOND).await;
    nodes[1].register("new", None).await.expect("it is back");
    assert!(nodes.iter().all(|node| node.is_healthy("there")));
}

#[tokio::test(start_paused = true)]
async fn an_unanswered_commit_is_what_the_log_says() {
    let bench = Bench::new();
    let [a, b] = [bench.start("a").await, bench.start("b").await];
    for was_made in [false, true] {
        a.faults.lose_answers.store(if was_made { 2 } else { 1 }, Ordering::Relaxed);
        let id = format!("made-{was_made}");
        let refused = a.register(&id, None).await;
        assert!(matches!(refused, Err(Refusal::Store(_))), "{refused:?}");
        a.faults.lose_answers.store(0, Ordering::Relaxed);
        a.register("after", None).await.expect("good");
        bench.settle_down().await;
        for node in [&a, &b] {
            assert_eq!(node.registry.state().instance(&id).is_some(), was_made);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn beats_go_over_the_channel_and_over_the_store_while_it_is_away() {
    let server = Arc::<Server>::default();
    let bench = Bench { server: Some(Arc::clone(&server)), ..Bench::new() };
    let [a, b] = [bench.start("a").await, bench.start("b").await];
    a.register("steady", Some(1)).await.expect("good");
    a.register("silent", Some(1)).await.expect("good");
    let steady = async |seconds: u32| {
        for _ in 0..seconds {
            b.beat("steady");
            bench.pass(SECOND).await;
            assert!(a.is_healthy("steady") && b.is_healthy("steady"));
        }
    };
    steady(3).await;
    // Three heartbeat intervals, two rounds until the silence is known, and one to commit the
    // expiry.
    steady(1).await;
    assert!(!a.is_healthy("silent") && !b.is_healthy("silent"));
    let taken = || server.taken.load(Ordering::Relaxed);
    assert!(taken() >= 20, "{} rounds", taken());

    server.is_away.store(true, Ordering::Relaxed);
    let before = taken();
    steady(8).await;
    b.beat("silent");
    steady(3).await;
    assert_eq!((a.is_healthy("silent"), taken()), (true, before));
    let is_down = || {
        let read = |node: &Node| node.registry.statistics().is_channel_down.load(Ordering::Relaxed);
        (read(&a), read(&b))
    };
    assert_eq!(is_down(), (true, true));
    steady(6).await;
    assert!(!a.is_healthy("silent") && !b.is_healthy("silent"));
    server.is_away.store(false, Ordering::Relaxed);
    server.lose();
    steady(12).await;
    assert!(taken() > before);
    assert_eq!(is_down(), (false, false));
}

#[tokio::test(start_paused = true)]
async fn one_node_keeps_the_silent_of_a_service_in_mass_expiry() {
    let bench = Bench::new();
    let threshold = |options: &mut Options| options.mass_expiry_threshold = 0.5;
    let a = bench.start_with("a", threshold).await;
    let b = bench.start_with("b", threshold).await;
    for id in ["one", "two", "three", "four"] {
        a.register(id, Some(1)).await.expect("good");
    }
    bench.pass(12 * SECOND).await;
    for node in [&a, &b] {
        let healthy = digest(node).0.iter().filter(|(.., healthy)| *healthy).count();
        assert_eq!(healthy, 3, "two of four would be too few");
    }
    let kept = |node: &Node| node.registry.state().totals().mass_expiries;
    assert_eq!(kept(&a) + kept(&b), 1);
}

#[tokio::test]
async fn a_group_of_new_services_stays_within_what_the_store_takes() {
    let engine = Engine::new();
    let mut journal = Journal::guarded();
    let mut state = State::new(7, 1 << 30);
    for number in 0..COMMANDS_BATCHED_MAX {
        let mut events = Vec::new();
        let mut change =
            crate::state::Change { now_ms: 1, journal: &mut journal, events: &mut events };
        let one = NewInstance {
            namespace: format!("ns{number}").as_str().into(),
            service: format!("svc{number}").as_str().into(),
            ..new(&format!("i{number}"), Some(5))
        };
        state.apply(Command::Register(Box::new(one)), &mut change).expect("there is room");
    }
    let transaction = journal.into_transaction(Revision::ZERO);
    assert!(transaction.conditions.iter().any(|it| matches!(it, Condition::Absent { .. })));
    transaction.check(&engine.store().limits()).expect("it fits");
    engine.store().commit(transaction).await.expect("it is taken");
}

/// Number of instances that end at the same time.
const DYING: usize = 10_000;

#[tokio::test(start_paused = true)]
async fn thousands_that_die_at_once_are_found_so_in_few_commits() {
    let bench = Bench::new();
    let nodes = [bench.start("a").await, bench.start("b").await];
    let registry = nodes[0].registry.clone();
    let mut registrations = tokio::task::JoinSet::new();
    for number in 0..DYING {
        let (registry, id) = (registry.clone(), format!("i{number}"));
        registrations.spawn(async move {
            registry.submit(Command::Register(Box::new(new(&id, Some(5))))).await
        });
    }
    while let Some(outcome) = registrations.join_next().await {
        outcome.expect("no panic").expect("good");
    }
    bench.settle_down().await;
    let store = bench.engine.store();
    let mut watch = store.watch("/instances/", store.revision().await.expect("memory works"));
    let unhealthy = |node: &Node| {
        node.registry.state().instances().filter(|instance| !instance.healthy).count()
    };
    let (mut commits, mut first, mut passed) = (0, None, Duration::ZERO);
    while nodes.iter().any(|node| unhealthy(node) < DYING) {
        assert!(
            passed < 2 * expiry(5 * SECOND),
            "{} {}",
            unhealthy(&nodes[0]),
            unhealthy(&nodes[1])
        );
        bench.pass(HEALTH_TICK).await;
        passed += HEALTH_TICK;
        while let Some(event) = watch.try_next() {
            if let tollhouse_store::WatchEvent::Commit(_) = event {
                commits += 1;
                first = first.or(Some(passed));
            }
        }
    }
    assert!(commits <= 10, "{commits} commits");
    let took = passed - first.expect("there was one");
    assert!(took <= 2 * SECOND, "{took:?} from the first to the last");
    assert_eq!(digest(&nodes[0]), digest(&nodes[1]));
}

/// Returns the expiry time of an instance with this heartbeat interval.
fn expiry(ttl: Duration) -> Duration {
    ttl * u32::try_from(TTLS_TO_EXPIRY).expect("a few")
}
