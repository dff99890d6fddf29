//! Health: detects silent instances and decides which of them expire.
//!
//! The timer wheel examines every checked instance once per expiry time, and again at the time when
//! its last heartbeat would make it expire. Heartbeats never touch the wheel. Mass expiry is a mode
//! of a service. If expiring its silent instances would leave as few healthy ones as the threshold
//! or fewer, the silent ones are kept, because the network or the registry is then more likely at
//! fault than the instances. Time during which this process was suspended does not count as
//! silence.

mod losses;
mod pauses;
mod wheel;

use std::sync::Arc;

use hashbrown::{HashMap, HashSet};

use crate::clock::milliseconds;
use crate::cluster::evidence::Loss;
use crate::event::InstanceEvent;
use crate::instance::Instance;
use crate::key::ServiceKey;
use crate::limits::HEALTH_RETRY;
use crate::membership::Membership;
use crate::pulse::Pulse;
use crate::state::State;
use crate::view::MassExpiry;

use losses::Losses;
use pauses::Pauses;
pub(crate) use wheel::Wheel;

/// Change of an instance's health, to be committed.
#[derive(Debug, Clone)]
pub(crate) enum Transition {
    /// The instance sent no heartbeat in time.
    Expired(Arc<Instance>),
    /// A heartbeat of the unhealthy instance arrived.
    Recovered(Arc<Instance>),
}

impl Transition {
    /// Returns the instance after the change.
    pub(crate) fn instance(&self) -> &Arc<Instance> {
        match self {
            Self::Expired(instance) | Self::Recovered(instance) => instance,
        }
    }
}

#[derive(Debug)]
pub(crate) struct Health {
    wheel: Wheel,
    pauses: Pauses,
    losses: Losses,
    membership: Membership,
    /// Time up to which, exclusively, the heartbeats of all nodes are known.
    known_until_ms: u64,
    /// Mass expiry threshold of services that set none; 0 disables mass expiry.
    default_threshold: f64,
    /// Silent instances kept by mass expiry, by service.
    kept: HashMap<ServiceKey, MassExpiryState>,
}

#[derive(Debug, Default)]
struct MassExpiryState {
    since_ms: u64,
    ids: HashSet<Arc<str>>,
}

impl Health {
    pub(crate) fn new(now_ms: u64, default_threshold: f64) -> Self {
        Self {
            wheel: Wheel::new(now_ms),
            pauses: Pauses::new(now_ms),
            losses: Losses::default(),
            membership: Membership::Alone,
            known_until_ms: u64::MAX,
            default_threshold,
            kept: HashMap::new(),
        }
    }

    /// Adds an instance that was read back from the store; its silence is counted from now.
    pub(crate) fn resume(&mut self, instance: &Instance, now_ms: u64) {
        instance.pulse.revive(now_ms);
        if instance.awaits_heartbeat() {
            instance.pulse.await_heartbeat();
        }
        self.follow(instance);
    }

    /// Updates health checking after an instance was registered, changed or removed in the store:
    /// starts, adjusts or ends its wait for heartbeats.
    pub(crate) fn apply(&mut self, state: &mut State, event: &InstanceEvent, now_ms: u64) {
        match event {
            InstanceEvent::Registered(instance, before) => {
                if let Some(before) = before {
                    self.release(state, &before.service, &before.id);
                }
                self.resume(instance, now_ms);
            }
            InstanceEvent::Changed(instance, before) => {
                if instance.ttl_seconds != before.ttl_seconds {
                    instance.pulse.revive(now_ms);
                }
                if instance.awaits_heartbeat() {
                    instance.pulse.await_heartbeat();
                }
                self.follow(instance);
            }
            InstanceEvent::Deregistered(instance) => self.forget(state, instance),
        }
    }

    /// Restarts health checking with a state that was read from the store again; its pulses still
    /// hold the times of the last heartbeats.
    pub(crate) fn restart(&mut self, state: &mut State, membership: Membership, now_ms: u64) {
        self.wheel = Wheel::new(now_ms);
        self.kept.clear();
        self.membership = membership;
        for instance in state.instances() {
            instance.pulse.set_due_at_ms(0);
            if instance.awaits_heartbeat() {
                instance.pulse.await_heartbeat();
            }
            self.follow(instance);
        }
    }

    /// Sets the cluster's members, and with them the services that this node decides about.
    pub(crate) fn set_membership(&mut self, state: &mut State, membership: Membership) {
        self.membership = membership;
        // Other nodes now decide about mass expiry of these services.
        let lost: Vec<_> =
            self.kept.keys().filter(|key| !self.membership.owns(key.borrowed())).cloned().collect();
        for key in lost {
            self.kept.remove(&key);
            state.set_mass_expiry(&key, None);
        }
    }

    /// Whether this process decides about the health of an instance.
    pub(crate) fn owns(&self, instance: &Instance) -> bool {
        self.membership.owns(instance.service.borrowed())
    }

    /// Sets the time up to which the heartbeats of all nodes are known, and adds the periods for
    /// which heartbeats were lost.
    pub(crate) fn set_evidence(&mut self, known_until_ms: u64, losses: Vec<Loss>) {
        self.known_until_ms = known_until_ms;
        losses.into_iter().for_each(|loss| self.losses.add(loss));
    }

    /// Examines instances again soon, because their change of health could not be committed.
    pub(crate) fn retry(&mut self, transitions: &[Transition], now_ms: u64) {
        for transition in transitions {
            let pulse = &transition.instance().pulse;
            match transition {
                Transition::Expired(_) => {
                    self.wheel.arm(pulse, now_ms + milliseconds(HEALTH_RETRY))
                }
                Transition::Recovered(_) => pulse.await_heartbeat(),
            }
        }
    }

    /// Records that this process is running. The record was due `late_ms` earlier; a long delay is
    /// a pause of the process.
    pub(crate) fn look(&mut self, now_ms: u64, late_ms: u64) {
        self.pauses.look(now_ms, late_ms);
    }

    /// Starts the timer of a healthy, checked instance. This node follows instances of other nodes
    /// too, because it may become their owner.
    fn follow(&mut self, instance: &Instance) {
        let Some(expiry_ms) = instance.expiry_ms().filter(|_| instance.healthy) else { return };
        self.wheel.arm(&instance.pulse, instance.pulse.alive_at_ms() + expiry_ms);
    }

    /// Returns the next time at which an instance may expire; `None` if no instance is followed.
    pub(crate) fn next_due_ms(&self) -> Option<u64> {
        self.wheel.next_due_ms()
    }

    /// Expires all instances that were silent for too long.
    pub(crate) fn advance(&mut self, state: &mut State, now_ms: u64) -> Vec<Transition> {
        let mut transitions = Vec::new();
        let now_ms = now_ms.min(self.known_until_ms);
        for pulse in self.wheel.due(now_ms) {
            if let Some(expired) = self.examine(state, &pulse, now_ms) {
                transitions.push(Transition::Expired(expired));
            }
        }
        transitions
    }

    /// Makes unhealthy instances healthy that were heard of again.
    pub(crate) fn recover(
        &mut self,
        state: &mut State,
        ids: impl IntoIterator<Item = Arc<str>>,
        now_ms: u64,
    ) -> Vec<Transition> {
        let mut transitions = Vec::new();
        for id in ids {
            if let Some(instance) = state.recover(&id, now_ms) {
                self.follow(&instance);
                transitions.push(Transition::Recovered(instance));
            }
        }
        transitions
    }

    fn examine(
        &mut self,
        state: &mut State,
        pulse: &Arc<Pulse>,
        now_ms: u64,
    ) -> Option<Arc<Instance>> {
        let instance = state.instance(pulse.id()).cloned();
        // A new registration of the same id has its own pulse.
        let instance = instance.filter(|instance| Arc::ptr_eq(&instance.pulse, pulse))?;
        let service = instance.service.clone();
        let Some(expiry_ms) = instance.expiry_ms().filter(|_| instance.healthy) else {
            self.release(state, &service, pulse.id());
            return None;
        };
        let expires_at_ms = self.expires_at_ms(pulse, expiry_ms);
        if now_ms < expires_at_ms {
            self.release(state, &service, pulse.id());
            self.wheel.arm(pulse, expires_at_ms);
            return None;
        }
        if !self.owns(&instance) {
            // The owner is about to commit its expiry.
            self.wheel.arm(pulse, now_ms + milliseconds(HEALTH_RETRY));
            return None;
        }
        // The next examination is a whole expiry time later, because mass expiry seldom ends
        // sooner.
        if self.keeps(state, &instance) {
            self.keep(state, &instance, now_ms);
            self.wheel.arm(pulse, now_ms + expiry_ms);
            return None;
        }
        self.release(state, &service, pulse.id());
        // Set before the last check of the heartbeats, so that a heartbeat between the two lines
        // makes the instance healthy again.
        pulse.await_heartbeat();
        let expires_at_ms = self.expires_at_ms(pulse, expiry_ms);
        if expires_at_ms > now_ms {
            self.wheel.arm(pulse, expires_at_ms);
            return None;
        }
        state.expire(pulse.id(), now_ms)
    }

    fn expires_at_ms(&self, pulse: &Pulse, expiry_ms: u64) -> u64 {
        let alive_at_ms = pulse.alive_at_ms();
        let due_ms = alive_at_ms + expiry_ms + self.pauses.grace_ms(alive_at_ms);
        due_ms.max(self.losses.due_ms(alive_at_ms, expiry_ms))
    }

    /// Whether mass expiry keeps an instance because too few healthy ones would be left.
    fn keeps(&self, state: &State, instance: &Instance) -> bool {
        let Some(view) = state.service(instance.service.borrowed()) else { return false };
        let threshold = view.service.protect_threshold().unwrap_or(self.default_threshold);
        if threshold <= 0.0 || instance.isolated {
            return false;
        }
        let kept = self.kept.get(&instance.service);
        let already = kept.is_some_and(|kept| kept.ids.contains(&instance.id));
        let silent = kept.map_or(0, |kept| kept.ids.len()) + usize::from(!already);
        let heard = f64::from(view.counts.healthy) - silent as f64;
        heard / f64::from(view.counts.total.max(1)) <= threshold
    }

    fn keep(&mut self, state: &mut State, instance: &Instance, now_ms: u64) {
        let kept = self.kept.entry(instance.service.clone()).or_insert_with(|| {
            tracing::warn!(service = %instance.service, "mass expiry: silent instances are kept");
            MassExpiryState { since_ms: now_ms, ids: HashSet::new() }
        });
        kept.ids.insert(Arc::clone(&instance.id));
        let expiry = MassExpiry {
            since_ms: kept.since_ms,
            kept: u32::try_from(kept.ids.len()).unwrap_or(u32::MAX),
        };
        state.set_mass_expiry(&instance.service, Some(expiry));
    }

    /// Stops keeping an instance that was heard of, has expired, or was removed.
    fn release(&mut self, state: &mut State, service: &ServiceKey, id: &str) {
        let Some(kept) = self.kept.get_mut(service) else { return };
        if !kept.ids.remove(id) {
            return;
        }
        let (since_ms, count) = (kept.since_ms, kept.ids.len());
        if count == 0 {
            self.kept.remove(service);
            tracing::info!(%service, "mass expiry is over");
        }
        let left = u32::try_from(count).unwrap_or(u32::MAX);
        let expiry = (count > 0).then_some(MassExpiry { since_ms, kept: left });
        state.set_mass_expiry(service, expiry);
    }

    /// Drops an instance that was removed.
    fn forget(&mut self, state: &mut State, instance: &Instance) {
        self.release(state, &instance.service, &instance.id);
        self.wheel.forget(&instance.pulse);
    }
}
