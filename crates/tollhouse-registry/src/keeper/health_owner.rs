//! The owner of health: decides which instances expire and recover, and when that is made durable.
//! Where this process is alone, a change of health is published at once and saved lazily: only if
//! it lasts, many together, at most once a second. After a restart unhealthy instances stay
//! unhealthy until a heartbeat arrives, and revisions keep their meaning. In a cluster every change
//! of health is a commit and takes effect with it.

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
use crate::timeline::EventKind;
use unsaved::SaveQueue;

pub(super) struct HealthOwner {
    shared: Arc<Shared>,
    health: Health,
    unsaved: SaveQueue,
    /// Latest time of the next look, by the runtime's clock.
    look_due: Instant,
}

impl HealthOwner {
    /// Creates the owner; all instances read back get a full expiry time.
    pub(super) fn new(shared: Arc<Shared>, default_threshold: f64) -> Self {
        let now_ms = shared.clock.now_ms();
        let mut health = Health::new(now_ms, default_threshold);
        shared.state.load().instances().for_each(|instance| health.resume(instance, now_ms));
        Self {
            shared,
            health,
            unsaved: SaveQueue::default(),
            look_due: Instant::now() + LOOK_INTERVAL,
        }
    }

    pub(super) fn set_membership(&mut self, state: &mut State, membership: Membership) {
        self.health.set_membership(state, membership);
    }

    /// Restarts health checking with a state that was read from the store again; its pulses still
    /// hold the times of the last heartbeats.
    pub(super) fn restart(&mut self, state: &mut State, membership: Membership) {
        self.health.restart(state, membership, self.shared.clock.now_ms());
    }

    /// Records that this process is running. If the record is too late, the process was paused; a
    /// pause does not count as silence.
    pub(super) fn look(&mut self) {
        let now = Instant::now();
        let late = now.saturating_duration_since(self.look_due);
        self.look_due = now + LOOK_INTERVAL;
        let late_ms = if late >= PAUSE_MIN { milliseconds(late) } else { 0 };
        if late_ms > 0 {
            tracing::warn!(late_ms, "the registry was paused; that time does not count as silence");
        }
        self.health.look(self.shared.clock.now_ms(), late_ms);
    }

    /// Returns the latest time of the next look.
    pub(super) fn look_due(&self) -> Instant {
        self.look_due
    }

    /// Returns the time until which the keeper may sleep, at most `wake`. While no instance can
    /// expire, pauses of the process do not matter, so that the look at `wake` is early enough.
    pub(super) fn sleep_until(&mut self, wake: Instant) -> Instant {
        if self.health.next_due_ms().is_none() {
            self.look_due = wake;
        }
        wake.min(self.look_due)
    }

    /// Returns the next time at which health must be examined or saved.
    pub(super) fn next_due_ms(&self) -> Option<u64> {
        [self.health.next_due_ms(), self.unsaved.next_due_ms()].into_iter().flatten().min()
    }

    /// Updates health checking after an instance was registered, changed or removed in the store.
    pub(super) fn apply(&mut self, state: &mut State, event: &InstanceEvent, now_ms: u64) {
        if let Some(instance) = event.present() {
            self.shared.heartbeats.forget_unregistered(&instance.id);
        }
        self.shared.timeline.note_event(event, now_ms);
        self.health.apply(state, event, now_ms);
    }

    /// Returns the changes of health that are due, for a commit: instances that were silent for too
    /// long, and those of `recovered` that this node owns. The state does not change yet.
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
        // The owner learns of the heartbeat with the next round. If the owner leaves before it
        // commits the recovery, this node gets the next heartbeat.
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

    /// Counts changes of health that were committed.
    pub(super) fn count_all(&self, transitions: &[Transition]) {
        transitions.iter().for_each(|transition| self.count(transition));
    }

    /// Schedules changes of health again that could not be committed.
    pub(super) fn retry(&mut self, transitions: &[Transition]) {
        self.health.retry(transitions, self.shared.clock.now_ms());
    }

    /// Expires all instances that were silent for too long, and publishes.
    pub(super) fn expire(&mut self, applier: &Applier) {
        let now_ms = self.shared.clock.now_ms();
        if self.health.next_due_ms().is_some_and(|due_ms| due_ms <= now_ms) {
            self.change(applier, Health::advance);
        }
    }

    /// Makes instances healthy that were heard of again, and publishes.
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
                Transition::Expired(_) => EventKind::Expired,
                Transition::Recovered(_) => EventKind::Recovered,
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

    /// Takes out the instances whose health must be saved now.
    pub(super) fn due_to_save(&mut self) -> Vec<Arc<str>> {
        self.unsaved.due(self.shared.clock.now_ms())
    }

    /// Queues instances again that the store did not accept.
    pub(super) fn save_later(&mut self, ids: &[Arc<str>]) {
        let now_ms = self.shared.clock.now_ms();
        ids.iter().for_each(|id| self.unsaved.push(id, now_ms));
    }
}
