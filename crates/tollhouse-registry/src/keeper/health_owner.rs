//! The owner of health: decides who has expired and who has recovered, and when that is made durable:
//! lazily, what still stands after a while, many together, at most once a second. After a restart who
//! was unhealthy is, until it is heard of, and revisions mean what they meant before. Where several nodes keep the
//! registry, every change of health is a commit, and counts from there.

mod unsaved;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::time::Instant;

use super::applier::Applier;
use crate::clock::milliseconds;
use crate::cluster::evidence::Evidence;
use crate::event::InstanceEvent;
use crate::health::{Health, Transition};
use crate::limits::{LOOK_INTERVAL, PAUSE_MIN};
use crate::membership::Membership;
use crate::registry::Shared;
use crate::state::State;
use crate::timeline::Happening;
use unsaved::Unsaved;

pub(super) struct HealthOwner {
    shared: Arc<Shared>,
    health: Health,
    unsaved: Unsaved,
    /// When the next look is due at the latest, by the runtime's own clock.
    look_due: Instant,
}

impl HealthOwner {
    /// The owner of the health of all instances that were read back: each was heard of now.
    pub(super) fn new(shared: Arc<Shared>, default_threshold: f64) -> Self {
        let now_ms = shared.clock.now_ms();
        let mut health = Health::new(now_ms, default_threshold);
        shared.state.load().instances().for_each(|instance| health.resume(instance, now_ms));
        Self {
            shared,
            health,
            unsaved: Unsaved::default(),
            look_due: Instant::now() + LOOK_INTERVAL,
        }
    }

    /// Takes note of who keeps the registry.
    pub(super) fn set_membership(&mut self, state: &mut State, membership: Membership) {
        self.health.set_membership(state, membership);
    }

    /// Begins anew with a state that was read anew. Pulses say who was heard of when.
    pub(super) fn restart(&mut self, state: &mut State, membership: Membership) {
        self.health.restart(state, membership, self.shared.clock.now_ms());
    }

    /// Takes note that this process is awake: if it was not when it should have been, nobody expires for
    /// that.
    pub(super) fn look(&mut self) {
        let now = Instant::now();
        let late = now.saturating_duration_since(self.look_due);
        self.look_due = now + LOOK_INTERVAL;
        let late_ms = if late >= PAUSE_MIN { milliseconds(late) } else { 0 };
        if late_ms > 0 {
            tracing::warn!(late_ms, "the registry was held up; nobody expires for that time");
        }
        self.health.look(self.shared.clock.now_ms(), late_ms);
    }

    /// When the next look is due at the latest.
    pub(super) fn look_due(&self) -> Instant {
        self.look_due
    }

    /// Until when the keeper may sleep that has nothing else to do before `wake`. While nobody can expire
    /// no pause matters, and the look that comes with the next wake-up is early enough.
    pub(super) fn sleep_until(&mut self, wake: Instant) -> Instant {
        if self.health.next_due_ms().is_none() {
            self.look_due = wake;
        }
        wake.min(self.look_due)
    }

    /// When something is to be decided or written next.
    pub(super) fn next_due_ms(&self) -> Option<u64> {
        [self.health.next_due_ms(), self.unsaved.next_due_ms()].into_iter().flatten().min()
    }

    /// Takes in what a durable command did.
    pub(super) fn apply(&mut self, state: &mut State, event: &InstanceEvent, now_ms: u64) {
        if let Some(instance) = event.present() {
            self.shared.heartbeats.forget_unregistered(&instance.id);
        }
        self.shared.timeline.note_event(event, now_ms);
        self.health.apply(state, event, now_ms);
    }

    /// What is due by now, for others to agree to: who has been silent for too long, and who of these was heard of
    /// again. Nothing has changed yet.
    pub(super) fn propose(
        &mut self,
        recovered: Vec<Arc<str>>,
        applier: &Applier,
        evidence: &Evidence,
    ) -> Vec<Transition> {
        let now_ms = self.shared.clock.now_ms();
        self.health.set_evidence(evidence.complete_until_ms(now_ms), evidence.take_losses());
        let (current, mut draft) = (applier.current(), applier.draft());
        let mut transitions = self.health.advance(&mut draft, now_ms);
        let (own, others): (Vec<_>, Vec<_>) = recovered
            .iter()
            .filter_map(|id| draft.instance(id).cloned())
            .partition(|instance| self.health.owns(instance));
        // Their owner hears of the beat; should it go before it says so, this node hears of the next.
        others.iter().filter(|instance| !instance.healthy).for_each(|instance| {
            instance.pulse.await_heartbeat();
        });
        let own = own.into_iter().map(|instance| Arc::clone(&instance.id));
        transitions.extend(self.health.recover(&mut draft, own, now_ms));
        if draft.differs_in_mass_expiry(&current) {
            let mut state = applier.draft();
            state.copy_mass_expiries(&draft);
            applier.publish(state);
        }
        transitions
    }

    /// Takes note of changes of health that were agreed to.
    pub(super) fn count_all(&self, transitions: &[Transition]) {
        transitions.iter().for_each(|transition| self.count(transition));
    }

    /// Takes note of changes of health that were not made.
    pub(super) fn retry(&mut self, transitions: &[Transition]) {
        self.health.retry(transitions, self.shared.clock.now_ms());
    }

    /// Lets time pass: who has been silent for too long expires.
    pub(super) fn expire(&mut self, applier: &Applier) {
        let now_ms = self.shared.clock.now_ms();
        if self.health.next_due_ms().is_some_and(|due_ms| due_ms <= now_ms) {
            self.change(applier, Health::advance);
        }
    }

    /// Makes those healthy that were heard of again.
    pub(super) fn recover(&mut self, ids: Vec<Arc<str>>, applier: &Applier) {
        self.change(applier, |health, state, now_ms| health.recover(state, ids, now_ms));
    }

    fn change(
        &mut self,
        applier: &Applier,
        change: impl FnOnce(&mut Health, &mut State, u64) -> Vec<Transition>,
    ) {
        let (current, mut state) = (applier.current(), applier.draft());
        let now_ms = self.shared.clock.now_ms();
        let transitions = change(&mut self.health, &mut state, now_ms);
        for transition in &transitions {
            self.count(transition);
            let happening = match transition {
                Transition::Expired(_) => Happening::Expired,
                Transition::Recovered(_) => Happening::Recovered,
            };
            self.shared.timeline.note(happening, transition.instance(), now_ms);
            self.unsaved.push(&transition.instance().id, now_ms);
        }
        if !transitions.is_empty() || state.differs_in_mass_expiry(&current) {
            applier.publish(state);
        }
    }

    fn count(&self, transition: &Transition) {
        let statistics = &self.shared.statistics;
        let (counter, health) = match transition {
            Transition::Expired(_) => (&statistics.expired, "unhealthy"),
            Transition::Recovered(_) => (&statistics.recovered, "healthy"),
        };
        counter.fetch_add(1, Ordering::Relaxed);
        let instance = transition.instance();
        tracing::debug!(service = %instance.service, host = %instance.host, port = instance.port,
            "instance is {health}");
    }

    /// Takes out those whose health is to be made durable now.
    pub(super) fn due_to_save(&mut self) -> Vec<Arc<str>> {
        self.unsaved.due(self.shared.clock.now_ms())
    }

    /// Puts them back: the store did not take them.
    pub(super) fn save_later(&mut self, ids: &[Arc<str>]) {
        let now_ms = self.shared.clock.now_ms();
        ids.iter().for_each(|id| self.unsaved.push(id, now_ms));
    }
}
