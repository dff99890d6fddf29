//! Many seeds of random commands, beats and silences, of refused commits, of pauses of the process
//! and of restarts, against a simple model: a map of the registered instances, with the time of the
//! last heartbeat and the stored health of each.

use std::collections::BTreeMap;

use tollhouse_stdx::Random;

use super::*;
use crate::command::{InstanceChange, ServiceChange};
use crate::health::{Health, Transition};
use crate::held_bytes::MemorySize;
use crate::journal::{Before, Record};
use crate::limits::{HEALTH_TICK, TTLS_TO_EXPIRY};

const SEEDS: u64 = 256;
const STEPS: u32 = 200;
const TICK_MS: u64 = HEALTH_TICK.as_millis() as u64;

#[derive(Debug, Clone)]
struct Expected {
    service: String,
    ttl_ms: Option<u64>,
    /// Time of the last heartbeat, counted while the process was awake.
    heard_ms: u64,
    isolated: bool,
    /// Whether the instance is healthy while it sends heartbeats; false if its owner declared it
    /// unhealthy.
    is_well: bool,
    /// Health of the instance in the store.
    stored_healthy: bool,
}

struct Simulation {
    random: Random,
    bench: Bench,
    health: Health,
    model: BTreeMap<String, Expected>,
    /// Total duration for which the process slept, in milliseconds.
    slept_ms: u64,
    /// Instances whose health has changed since it was stored.
    unsaved: Vec<Arc<str>>,
}

impl Simulation {
    fn new(seed: u64) -> Self {
        let bench = Bench::new();
        let health = Health::new(bench.now_ms, 0.0);
        let random = Random::seeded(seed);
        Self { random, bench, health, model: BTreeMap::new(), slept_ms: 0, unsaved: Vec::new() }
    }

    fn any_id(&mut self) -> String {
        format!("i{}", self.random.below(40))
    }

    fn awake_ms(&self) -> u64 {
        self.bench.now_ms - self.slept_ms
    }

    fn step(&mut self) {
        match self.random.below(32) {
            0..=8 => self.register(),
            9..=11 => self.deregister(),
            12..=19 => self.beat(),
            20..=22 => self.isolate(),
            23 => self.rename(),
            24 => self.delete_service(),
            25..=28 => self.pass_time(),
            29 => self.pause(),
            30 => self.save_health(),
            _ => self.restart(),
        }
    }

    /// Executes a command, or lets its commit be refused; the state must then be unchanged.
    fn apply(&mut self, command: Command) -> Option<Outcome> {
        let prepared = self.bench.prepare(command).ok()?;
        if self.random.below(6) == 0 {
            return None;
        }
        let outcome = self.bench.commit(prepared);
        for event in std::mem::take(&mut self.bench.events) {
            self.health.apply(&mut self.bench.state, &event, self.bench.now_ms);
        }
        Some(outcome)
    }

    fn register(&mut self) {
        let id = self.any_id();
        let service = format!("s{}", self.random.below(4));
        let ttl = self.random.below(4);
        let healthy = self.random.below(4) > 0;
        let new = NewInstance {
            ttl_seconds: (ttl > 0).then_some(ttl),
            healthy: Some(healthy),
            ..instance(&id, &service)
        };
        if self.apply(Command::Register(Box::new(new))).is_none() {
            return;
        }
        let expected = Expected {
            service,
            ttl_ms: (ttl > 0).then_some(u64::from(ttl) * 1_000),
            heard_ms: self.awake_ms(),
            isolated: self.model.get(&id).is_some_and(|expected| expected.isolated),
            is_well: healthy,
            stored_healthy: healthy,
        };
        self.model.insert(id, expected);
    }

    fn deregister(&mut self) {
        let id = self.any_id();
        let outcome = self.apply(Command::Deregister(id.as_str().into()));
        let Some(outcome) = outcome else { return };
        let Outcome::Deregistered(gone) = outcome else { panic!("{outcome:?}") };
        assert_eq!(gone.is_some(), self.model.remove(&id).is_some());
    }

    fn beat(&mut self) {
        let id = self.any_id();
        let Some(known) = self.bench.state.instance(&id).cloned() else { return };
        let (now_ms, awake_ms) = (self.bench.now_ms, self.awake_ms());
        let expected = self.model.get_mut(&id).expect("registered in both");
        expected.heard_ms = awake_ms;
        expected.is_well |= expected.ttl_ms.is_some();
        if known.pulse.record_heartbeat(now_ms) {
            let recovered = self.health.recover(&mut self.bench.state, [known.id.clone()], now_ms);
            self.note(&recovered);
        }
    }

    fn isolate(&mut self) {
        let id = self.any_id();
        let isolated = self.random.below(2) == 0;
        let what = InstanceChange { isolated: Some(isolated), ..InstanceChange::default() };
        let command = Command::UpdateInstance(id.as_str().into(), Box::new(what));
        if self.apply(command).is_some() {
            let healthy = self.bench.state.instance(&id).expect("changed").healthy;
            let expected = self.model.get_mut(&id).expect("registered in both");
            (expected.isolated, expected.stored_healthy) = (isolated, healthy);
        }
    }

    fn rename(&mut self) {
        let key = ServiceKey::new("ns", &format!("s{}", self.random.below(4)));
        let value = self.random.next_u64().to_string();
        let metadata = Some([("k".into(), value.into())].into());
        let what = ServiceChange { metadata, ..ServiceChange::default() };
        // Services that were never registered in are refused.
        self.apply(Command::UpdateService(key, Box::new(what)));
    }

    fn delete_service(&mut self) {
        let name = format!("s{}", self.random.below(4));
        // Refused while it has instances.
        self.apply(Command::DeleteService(ServiceKey::new("ns", &name)));
    }

    fn pass_time(&mut self) {
        for _ in 0..self.random.below(30) {
            self.bench.now_ms += TICK_MS;
            self.health.look(self.bench.now_ms, 0);
            self.advance();
        }
    }

    /// Stops the process for up to a minute. Other threads may receive heartbeats before the keeper
    /// wakes up.
    fn pause(&mut self) {
        let slept_ms = 1_000 + u64::from(self.random.below(60_000));
        let due_in_ms = u64::from(self.random.below(1_000));
        self.bench.now_ms += due_in_ms + slept_ms;
        // The time between the last look and the due time of the next counts as sleep, because the
        // keeper cannot tell.
        self.slept_ms += due_in_ms + slept_ms;
        for _ in 0..self.random.below(8) {
            self.beat();
        }
        self.health.look(self.bench.now_ms, slept_ms);
    }

    fn advance(&mut self) {
        let transitions = self.health.advance(&mut self.bench.state, self.bench.now_ms);
        self.note(&transitions);
    }

    fn note(&mut self, transitions: &[Transition]) {
        self.unsaved.extend(transitions.iter().map(|it| Arc::clone(&it.instance().id)));
    }

    fn save_health(&mut self) {
        let mut journal = Journal::default();
        for id in std::mem::take(&mut self.unsaved) {
            let Some(known) = self.bench.state.instance(&id) else { continue };
            journal.put(Record::instance(known).expect("small"), Before::Present);
            self.model.get_mut(&*id).expect("registered in both").stored_healthy = known.healthy;
        }
        self.bench.write(journal);
    }

    /// Restarts the process. Instances come back as they are stored; healthy ones get a full expiry
    /// time.
    fn restart(&mut self) {
        self.bench.state = self.bench.restarted();
        self.health = Health::new(self.bench.now_ms, 0.0);
        for known in self.bench.state.instances() {
            self.health.resume(known, self.bench.now_ms);
        }
        self.unsaved.clear();
        let awake_ms = self.awake_ms();
        for expected in self.model.values_mut() {
            (expected.heard_ms, expected.is_well) = (awake_ms, expected.stored_healthy);
        }
    }

    fn check(&self) {
        let state = &self.bench.state;
        assert_eq!(state.totals().instances.total as usize, self.model.len());
        for (id, expected) in &self.model {
            let known = state.instance(id).expect("registered");
            assert_eq!(&*known.service.name, expected.service);
            assert_eq!(known.isolated, expected.isolated);
            self.check_health(known, expected);
        }
        self.check_views();
        self.check_bytes();
    }

    /// Checks that an instance expires after three silent intervals of waking time, within a tick
    /// of the last look.
    fn check_health(&self, known: &Instance, expected: &Expected) {
        let Some(ttl_ms) = expected.ttl_ms else {
            return assert_eq!(known.healthy, expected.is_well);
        };
        let silent_ms = self.awake_ms() - expected.heard_ms;
        if !expected.is_well || silent_ms > ttl_ms * TTLS_TO_EXPIRY + TICK_MS {
            assert!(!known.healthy, "{} after {silent_ms} ms of {ttl_ms}", known.id);
        } else if silent_ms < ttl_ms * TTLS_TO_EXPIRY {
            assert!(known.healthy, "{} after {silent_ms} ms of {ttl_ms}", known.id);
        }
    }

    fn check_bytes(&self) {
        let state = &self.bench.state;
        let held = state.instances().map(|known| known.held_bytes()).sum::<usize>()
            + state.services().map(|view| view.service.held_bytes()).sum::<usize>()
            + state.namespaces().map(|view| view.namespace.held_bytes()).sum::<usize>();
        assert_eq!(state.totals().held_bytes, held);
    }

    fn check_views(&self) {
        let state = &self.bench.state;
        let mut total = Counts::default();
        for view in state.services() {
            let mut counts = Counts::default();
            let mut revision = view.service.revision;
            for known in view.instances() {
                assert!(Arc::ptr_eq(known, state.instance(&known.id).expect("indexed")));
                revision = revision.with(known.revision);
                counts.total += 1;
                counts.isolated += u32::from(known.isolated);
                let is_healthy = known.healthy && !known.isolated;
                counts.healthy += u32::from(is_healthy);
                counts.unchecked += u32::from(is_healthy && known.ttl_seconds.is_none());
            }
            assert_eq!((view.counts, view.revision), (counts, revision));
            total.total += counts.total;
            total.isolated += counts.isolated;
            total.healthy += counts.healthy;
            total.unchecked += counts.unchecked;
        }
        assert_eq!(state.totals().instances, total);
        for namespace in state.namespaces() {
            let name = &namespace.namespace.name;
            let own = state.services().filter(|view| view.service.key.namespace == *name);
            let own: Vec<_> = own.collect();
            let revisions = own.iter().map(|view| view.service.revision);
            let sum = revisions.fold(Revision::default(), Revision::with);
            assert_eq!(namespace.services_revision, sum);
            assert_eq!(namespace.services.len() as usize, own.len());
            for view in own {
                let listed = namespace.services.iter().nth(view.place as usize);
                assert!(listed.is_some_and(|listed| Arc::ptr_eq(listed, &view.service)));
            }
        }
        let sum =
            state.namespaces().fold(Revision::default(), |sum, it| sum.with(it.services_revision));
        assert_eq!(state.services_revision(), sum);
        let sum =
            state.namespaces().fold(Revision::default(), |sum, it| sum.with(it.namespace.revision));
        assert_eq!(state.namespaces_revision(), sum);
        assert_eq!(state.namespace("ns").map_or(total, |view| view.counts), total);
    }

    /// Checks that a restart brings back the registered instances as they are stored.
    fn check_restart(&self) {
        let restarted = self.bench.restarted();
        assert_eq!(restarted.totals().instances.total as usize, self.model.len());
        for known in self.bench.state.instances() {
            let back = restarted.instance(&known.id).expect("durable");
            assert_eq!(back.healthy, self.model[&*known.id].stored_healthy);
            // One revision never stands for two contents.
            assert!(back.revision != known.revision || back.healthy == known.healthy);
            let facts = |instance: &Instance| {
                (
                    instance.service.clone(),
                    instance.isolated,
                    instance.ttl_seconds,
                    instance.created_at,
                )
            };
            assert_eq!(facts(back), facts(known));
        }
    }
}

#[test]
fn random_lives_agree_with_the_model() {
    for seed in 0..SEEDS {
        let mut simulation = Simulation::new(seed);
        for _ in 0..STEPS {
            simulation.step();
            // The wheel advances before each check, so that the model holds at every step.
            simulation.advance();
            simulation.check();
        }
        simulation.check_restart();
    }
}

#[test]
fn under_a_threshold_the_silent_are_kept_until_enough_beat_again() {
    let mut bench = Bench::new();
    let mut health = Health::new(bench.now_ms, 0.5);
    for number in 0..10 {
        let new = NewInstance { ttl_seconds: Some(1), ..instance(&format!("i{number}"), "s") };
        bench.register(new);
    }
    for event in std::mem::take(&mut bench.events) {
        health.apply(&mut bench.state, &event, bench.now_ms);
    }
    let beat = |bench: &mut Bench, health: &mut Health, numbers: std::ops::Range<u32>| {
        for number in numbers {
            let known = bench.state.instance(&format!("i{number}")).expect("registered").clone();
            if known.pulse.record_heartbeat(bench.now_ms) {
                health.recover(&mut bench.state, [known.id.clone()], bench.now_ms);
            }
        }
    };
    let healthy = |bench: &Bench| bench.state.totals().instances.healthy;
    for _ in 0..10 {
        bench.now_ms += 1_000;
        beat(&mut bench, &mut health, 0..3);
        health.advance(&mut bench.state, bench.now_ms);
    }
    assert_eq!(healthy(&bench), 6, "four expired, and then no more");
    let kept: Vec<u32> = bench.state.mass_expiries().map(|(_, expiry)| expiry.kept).collect();
    assert_eq!(kept, [3]);
    for _ in 0..10 {
        bench.now_ms += 1_000;
        beat(&mut bench, &mut health, 0..6);
        health.advance(&mut bench.state, bench.now_ms);
    }
    assert_eq!(bench.state.mass_expiries().count(), 0);
}

#[test]
fn one_that_is_kept_and_registers_elsewhere_is_not_kept_any_more() {
    let mut bench = Bench::new();
    let mut health = Health::new(bench.now_ms, 0.9);
    for service in ["old", "new"] {
        bench.register(NewInstance { ttl_seconds: Some(1), ..instance("i", service) });
        for event in std::mem::take(&mut bench.events) {
            health.apply(&mut bench.state, &event, bench.now_ms);
        }
        bench.now_ms += 3_100;
        health.advance(&mut bench.state, bench.now_ms);
        let kept: Vec<_> = bench.state.mass_expiries().map(|(key, _)| &*key.name).collect();
        assert_eq!(kept, [service]);
    }
}
