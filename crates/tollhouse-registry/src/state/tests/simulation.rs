//! Many seeds of random commands, beats and silences, against a model that anybody can follow:
//! a map of who is registered and when each was last heard of.

use std::collections::BTreeMap;

use tollhouse_stdx::Random;

use super::*;
use crate::command::{InstanceChange, ServiceChange};
use crate::health::{Health, Transition};
use crate::limits::{HEALTH_TICK, TTLS_TO_EXPIRY};

const SEEDS: u64 = 256;
const STEPS: u32 = 200;

#[derive(Debug, Clone)]
struct Expected {
    service: String,
    ttl_ms: Option<u64>,
    heard_ms: u64,
    isolated: bool,
}

struct Simulation {
    random: Random,
    bench: Bench,
    health: Health,
    model: BTreeMap<String, Expected>,
}

impl Simulation {
    fn new(seed: u64) -> Self {
        let bench = Bench::new();
        let health = Health::new(bench.now_ms, 0.0);
        Self { random: Random::seeded(seed), bench, health, model: BTreeMap::new() }
    }

    fn any_id(&mut self) -> String {
        format!("i{}", self.random.below(40))
    }

    fn step(&mut self) {
        match self.random.below(10) {
            0..=2 => self.register(),
            3 => self.deregister(),
            4..=6 => self.beat(),
            7 => self.isolate(),
            8 => self.rename(),
            _ => self.pass_time(),
        }
    }

    fn register(&mut self) {
        let id = self.any_id();
        let service = format!("s{}", self.random.below(4));
        let ttl = self.random.below(4);
        let new = NewInstance { ttl_seconds: (ttl > 0).then_some(ttl), ..instance(&id, &service) };
        let known = self.bench.register(new);
        self.health.follow(&known);
        let isolated = self.model.get(&id).is_some_and(|expected| expected.isolated);
        let ttl_ms = (ttl > 0).then_some(u64::from(ttl) * 1_000);
        let expected = Expected { service, ttl_ms, heard_ms: self.bench.now_ms, isolated };
        self.model.insert(id, expected);
    }

    fn deregister(&mut self) {
        let id = self.any_id();
        let outcome = self.bench.apply(Command::Deregister(id.as_str().into()));
        let Ok(Outcome::Deregistered(gone)) = outcome else { panic!("{outcome:?}") };
        assert_eq!(gone.is_some(), self.model.remove(&id).is_some());
        if let Some(gone) = gone {
            self.health.forget(&mut self.bench.state, &gone);
        }
    }

    fn beat(&mut self) {
        let id = self.any_id();
        let Some(known) = self.bench.state.instance(&id).cloned() else { return };
        let now_ms = self.bench.now_ms;
        self.model.get_mut(&id).expect("registered in both").heard_ms = now_ms;
        if known.pulse.beat(now_ms) {
            let recovered = self.health.recover(&mut self.bench.state, [known.id.clone()], now_ms);
            assert!(matches!(&recovered[..], [Transition::Recovered(_)]));
        }
    }

    fn isolate(&mut self) {
        let id = self.any_id();
        let isolated = self.random.below(2) == 0;
        let what = InstanceChange { isolated: Some(isolated), ..InstanceChange::default() };
        let command = Command::UpdateInstance(id.as_str().into(), Box::new(what));
        if self.bench.apply(command).is_ok() {
            self.model.get_mut(&id).expect("registered in both").isolated = isolated;
        }
    }

    fn rename(&mut self) {
        let key = ServiceKey::new("ns", &format!("s{}", self.random.below(4)));
        let value = self.random.next_u64().to_string();
        let metadata = Some([("k".into(), value.into())].into());
        let what = ServiceChange { metadata, ..ServiceChange::default() };
        // Services that were never registered in are refused.
        let _ = self.bench.apply(Command::UpdateService(key, Box::new(what)));
    }

    fn pass_time(&mut self) {
        self.bench.now_ms += u64::from(self.random.below(3_000));
        self.health.advance(&mut self.bench.state, self.bench.now_ms);
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
    }

    /// Expiry comes after three silent intervals, within a tick of the last look.
    fn check_health(&self, known: &Instance, expected: &Expected) {
        let Some(ttl_ms) = expected.ttl_ms else { return assert!(known.healthy) };
        let silent_ms = self.bench.now_ms - expected.heard_ms;
        if silent_ms < ttl_ms * TTLS_TO_EXPIRY {
            assert!(known.healthy, "{} after {silent_ms} ms of {ttl_ms}", known.id);
        }
        let tick_ms = HEALTH_TICK.as_millis() as u64;
        if silent_ms > ttl_ms * TTLS_TO_EXPIRY + tick_ms {
            assert!(!known.healthy, "{} after {silent_ms} ms of {ttl_ms}", known.id);
        }
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
                counts.healthy += u32::from(known.healthy && !known.isolated);
            }
            assert_eq!((view.counts, view.revision), (counts, revision));
            total.total += counts.total;
            total.isolated += counts.isolated;
            total.healthy += counts.healthy;
        }
        assert_eq!(state.totals().instances, total);
        assert_eq!(state.namespace("ns").map_or(total, |view| view.counts), total);
    }

    /// A restart brings back who was registered, as they were, alive.
    fn check_restart(&self) {
        let restarted = self.bench.restarted();
        assert_eq!(restarted.totals().instances.total as usize, self.model.len());
        for known in self.bench.state.instances() {
            let back = restarted.instance(&known.id).expect("durable");
            assert!(back.healthy);
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
            // Time has stood still unless the wheel was asked: what holds, holds at every step.
            simulation.health.advance(&mut simulation.bench.state, simulation.bench.now_ms);
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
        let known = bench.register(new);
        health.follow(&known);
    }
    let beat = |bench: &mut Bench, health: &mut Health, numbers: std::ops::Range<u32>| {
        for number in numbers {
            let known = bench.state.instance(&format!("i{number}")).expect("registered").clone();
            if known.pulse.beat(bench.now_ms) {
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
