//! Expiry in time, pauses of the process, restarts, and cleaning.

use super::refused::{Mood, Moody};
use super::*;
use crate::command::{NamespaceChange, NewRule};
use crate::rule::RuleKind;

/// Starts another keeper over the same store, as after a restart.
async fn again(store: &Arc<Moody>) -> Running {
    Running::over(Arc::clone(store) as Arc<dyn Store>).await
}

#[tokio::test(start_paused = true)]
async fn nobody_expires_because_this_process_was_stopped() {
    let running = Running::over(memory()).await;
    for id in ["beats", "silent"] {
        running.register(id, Some(5)).await.expect("good");
    }
    running.pass(Duration::from_secs(3)).await;
    running.registry.heartbeat("beats");
    for _ in 0..3 {
        running.sleep(Duration::from_secs(60)).await;
        assert!(running.is_healthy("beats") && running.is_healthy("silent"));
    }
    // Twelve seconds were left of the fifteen, and a tick after each sleep has passed.
    running.pass(Duration::from_millis(11_500)).await;
    assert!(running.is_healthy("silent"));
    running.pass(Duration::from_millis(500)).await;
    assert!(running.is_healthy("beats") && !running.is_healthy("silent"));
    running.pass(Duration::from_secs(3)).await;
    assert!(!running.is_healthy("beats"));
}

#[tokio::test(start_paused = true)]
async fn a_beat_that_is_heard_before_the_keeper_wakes_up_counts_from_when_it_came() {
    let running = Running::over(memory()).await;
    running.register("a", Some(5)).await.expect("good");
    running.clock.advance(Duration::from_secs(40));
    running.registry.heartbeat("a");
    tokio::time::advance(Duration::from_secs(40)).await;
    running.pass(Duration::from_millis(14_900)).await;
    assert!(running.is_healthy("a"));
    running.pass(Duration::from_millis(300)).await;
    assert!(!running.is_healthy("a"));
}

#[tokio::test(start_paused = true)]
async fn beats_are_heard_during_a_long_commit_and_silence_is_silence() {
    let store = Moody::new(Mood::Takes);
    let running = again(&store).await;
    for id in ["beats", "silent"] {
        running.register(id, Some(3)).await.expect("good");
    }
    store.set(Mood::Slow);
    let registry = running.registry.clone();
    let slow = Command::Register(Box::new(new("late", None)));
    let waiting = tokio::spawn(async move { registry.submit(slow).await });
    for _ in 0..10 {
        running.pass(Duration::from_secs(2)).await;
        running.registry.heartbeat("beats");
    }
    assert!(running.is_healthy("silent"), "nothing is published during a commit");
    store.set(Mood::Takes);
    store.go_on.notify_one();
    waiting.await.expect("runs").expect("good");
    running.pass(HEALTH_TICK).await;
    assert!(running.is_healthy("beats") && !running.is_healthy("silent"));
}

#[tokio::test(start_paused = true)]
async fn a_process_that_is_stopped_during_a_commit_expires_nobody() {
    let store = Moody::new(Mood::Takes);
    let running = again(&store).await;
    running.register("a", Some(3)).await.expect("good");
    store.set(Mood::Slow);
    let registry = running.registry.clone();
    let slow = Command::Register(Box::new(new("late", None)));
    let waiting = tokio::spawn(async move { registry.submit(slow).await });
    running.pass(Duration::from_secs(1)).await;
    running.sleep(Duration::from_secs(100)).await;
    store.set(Mood::Takes);
    store.go_on.notify_one();
    waiting.await.expect("runs").expect("good");
    running.pass(Duration::from_secs(1)).await;
    assert!(running.is_healthy("a"));
}

#[tokio::test(start_paused = true)]
async fn an_instance_that_was_registered_unhealthy_recovers_after_a_restart() {
    let store = Moody::new(Mood::Takes);
    let ill = || NewInstance { healthy: Some(false), ..new("a", Some(5)) };
    for beats_before in [true, false] {
        let running = again(&store).await;
        running.registry.submit(Command::Register(Box::new(ill()))).await.expect("good");
        if beats_before {
            running.registry.heartbeat("a");
            running.pass(HEALTH_TICK).await;
            assert!(running.is_healthy("a"));
        }
        let running = again(&store).await;
        assert!(!running.is_healthy("a"), "what nobody saved is as it was written");
        assert_eq!(running.registry.heartbeat("a"), HeartbeatOutcome::Recorded);
        running.pass(HEALTH_TICK).await;
        assert!(running.is_healthy("a"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_long_read_at_the_start_takes_time_from_nobody() {
    let store = Moody::new(Mood::Takes);
    again(&store).await.register("a", Some(5)).await.expect("good");
    let clock = ManualClock::at_ms(START_MS);
    store.read_slowly(&clock, Duration::from_secs(100));
    let store = Arc::clone(&store) as Arc<dyn Store>;
    let running = Running::by_clock(store, CleanUp::default(), clock).await;
    running.pass(Duration::from_millis(14_500)).await;
    assert!(running.is_healthy("a"), "its whole time begins when it can be heard");
    running.pass(Duration::from_secs(1)).await;
    assert!(!running.is_healthy("a"));
}

#[tokio::test(start_paused = true)]
async fn who_stays_silent_is_unhealthy_after_a_restart_until_it_beats() {
    let store = Moody::new(Mood::Takes);
    let running = again(&store).await;
    for id in ["dead", "late", "alive"] {
        running.register(id, Some(2)).await.expect("good");
    }
    for _ in 0..18 {
        running.pass(Duration::from_secs(1)).await;
        running.registry.heartbeat("alive");
    }
    let revision =
        |running: &Running, id| running.registry.state().instance(id).expect("registered").revision;
    let before = revision(&running, "dead");
    let again_running = again(&store).await;
    let health = ["dead", "late", "alive"].map(|id| again_running.is_healthy(id));
    assert_eq!(health, [false, false, true]);
    assert_eq!(revision(&again_running, "dead"), before, "the same contents, the same revision");
    again_running.registry.heartbeat("late");
    again_running.pass(HEALTH_TICK).await;
    let health = ["dead", "late", "alive"].map(|id| again_running.is_healthy(id));
    assert_eq!(health, [false, true, true]);
}

#[tokio::test(start_paused = true)]
async fn a_short_silence_is_not_written_down() {
    let store = Moody::new(Mood::Takes);
    let running = again(&store).await;
    running.register("a", Some(1)).await.expect("good");
    running.pass(Duration::from_secs(8)).await;
    assert!(!running.is_healthy("a"));
    let running = again(&store).await;
    assert!(running.is_healthy("a"), "a process that ends keeps others from beating");
    running.pass(Duration::from_secs(4)).await;
    assert!(!running.is_healthy("a"));
}

#[tokio::test(start_paused = true)]
async fn what_nobody_needs_any_more_is_deleted_where_that_is_wished() {
    let minute = Some(Duration::from_secs(60));
    let clean_up = CleanUp { unhealthy_after: minute, empty_services_after: minute };
    for (clean_up, instances_left, services_left) in [(CleanUp::default(), 2, 3), (clean_up, 1, 2)]
    {
        let running = Running::cleaning(memory(), clean_up).await;
        running.register("alive", Some(9)).await.expect("good");
        let dead = NewInstance { service: "dead".into(), ..new("dead", Some(9)) };
        running.registry.submit(Command::Register(Box::new(dead))).await.expect("good");
        let written = crate::command::ServiceChange {
            metadata: Some([("a".into(), "b".into())].into()),
            ..Default::default()
        };
        let key = ServiceKey::new("ns", "written");
        let create = Command::CreateService(key, Box::new(written));
        running.registry.submit(create).await.expect("good");
        for _ in 0..50 {
            running.registry.heartbeat("alive");
            running.pass(Duration::from_secs(5)).await;
        }
        let totals = running.registry.state().totals();
        let left = (totals.instances.total, totals.services);
        assert_eq!(left, (instances_left, services_left), "{clean_up:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn namespaces_and_contracts_go_after_the_services_that_they_came_with() {
    let minute = Some(Duration::from_secs(60));
    let clean_up = CleanUp { unhealthy_after: minute, empty_services_after: minute };
    for (clean_up, namespaces_left, contracts_left) in
        [(CleanUp::default(), 7, 3), (clean_up, 5, 1)]
    {
        let running = Running::cleaning(memory(), clean_up).await;
        let submit = async |command| drop(running.registry.submit(command).await.expect("good"));
        let contract = |namespace: &str, name: &str| {
            let id = format!("{namespace}/{name}").into();
            let service = ServiceKey::new(namespace, name);
            let [kind, protocol, version] = ["", "", ""].map(Into::into);
            let body = bytes::Bytes::from_static(b"{}");
            Command::PutContract(Box::new(NewContract {
                id,
                service,
                kind,
                protocol,
                version,
                over: None,
                body,
            }))
        };
        for (id, namespace) in [("alive", "used"), ("dead", "left"), ("gone", "ruled")] {
            let instance = NewInstance { namespace: namespace.into(), ..new(id, Some(9)) };
            submit(Command::Register(Box::new(instance))).await;
        }
        submit(contract("used", "svc")).await;
        submit(contract("left", "svc")).await;
        submit(contract("nowhere", "never-there")).await;
        let written = NamespaceChange { comment: Some("ours".to_owned()), ..Default::default() };
        submit(Command::CreateNamespace("written".into(), written)).await;
        submit(Command::CreateNamespace("made-up".into(), NamespaceChange::default())).await;
        let rule = NewRule {
            kind: RuleKind::Routing,
            id: "".into(),
            name: "rule".into(),
            namespace: "ruled".into(),
            targets: Vec::new(),
            priority: 0,
            enabled: true,
            body: bytes::Bytes::new(),
        };
        submit(Command::CreateRule(Box::new(rule))).await;
        for _ in 0..80 {
            running.registry.heartbeat("alive");
            running.pass(Duration::from_secs(5)).await;
        }
        let totals = running.registry.state().totals();
        let left = (totals.namespaces, totals.contracts);
        assert_eq!(left, (namespaces_left, contracts_left), "{clean_up:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_idle_registry_sleeps_until_something_is_due() {
    let clock = ManualClock::at_ms(START_MS);
    let options = Options { clock: Clock::Manual(Arc::clone(&clock)), ..Options::default() };
    let (mut keeper, registry) = Keeper::open(memory(), options).await.expect("readable");
    let sleeps = |keeper: &mut Keeper| keeper.wake_at() - Instant::now();
    assert_eq!(sleeps(&mut keeper), CLIENTS_SWEEP_INTERVAL);
    for (id, ttl_seconds, expected) in
        [("unchecked", None, CLIENTS_SWEEP_INTERVAL), ("checked", Some(5), LOOK_INTERVAL)]
    {
        let command = Command::Register(Box::new(new(id, ttl_seconds)));
        let mut submitted = Box::pin(registry.submit(command));
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(submitted.as_mut().poll(&mut context).is_pending());
        let mut requests = Vec::new();
        keeper.requests.recv_many(&mut requests, COMMANDS_BATCHED_MAX).await;
        keeper.health.look();
        keeper.work(&mut requests).await;
        submitted.await.expect("good");
        assert_eq!(sleeps(&mut keeper), expected, "{id}");
    }
    clock.advance(Duration::from_millis(14_700));
    assert_eq!(sleeps(&mut keeper), Duration::from_millis(300), "it expires after fifteen seconds");
}

#[tokio::test(start_paused = true)]
async fn the_timeline_tells_who_came_fell_silent_was_heard_of_again_and_went() {
    let running = Running::over(memory()).await;
    running.register("a", Some(5)).await.expect("good");
    running.register("a", Some(5)).await.expect("good");
    running.registry.heartbeat("a");
    running.pass(Duration::from_secs(16)).await;
    assert!(!running.is_healthy("a"));
    running.registry.heartbeat("a");
    running.pass(HEALTH_TICK).await;
    assert!(running.is_healthy("a"));
    let told = || {
        let (lines, kept) = running.registry.timeline().newest(10, |line| &*line.instance == "a");
        assert_eq!(kept, lines.len());
        lines.iter().rev().map(|line| line.happening.name()).collect::<Vec<_>>()
    };
    assert_eq!(told(), ["registered", "replaced", "expired", "recovered"]);
    let (newest, _) = running.registry.timeline().newest(2, |_| true);
    assert!(newest[1].last_beat_s.is_some(), "when it was last heard of: {newest:?}");
}
