//! Health: who has been silent for too long, and who of them expires.
//!
//! The timer wheel looks at every checked instance once an expiry time, and again when its last heartbeat
//! would make it expire; heartbeats themselves never touch it. Mass expiry is a mode of a service: while
//! expiring would leave as few healthy instances as its threshold says, silent ones are kept, since
//! then the network or the registry is more likely at fault than they are. Nobody expires for time in
//! which this process slept.

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

/// What happened to an instance's health.
#[derive(Debug, Clone)]
pub(crate) enum Transition {
    /// It fell silent.
    Expired(Arc<Instance>),
    /// It was heard of again.
    Recovered(Arc<Instance>),
}

impl Transition {
    /// The instance, as it now stands.
    pub(crate) fn instance(&self) -> &Arc<Instance> {
        match self {
            Self::Expired(instance) | Self::Recovered(instance) => instance,
        }
    }
}

/// The health of all instances; see the module.
#[derive(Debug)]
pub(crate) struct Health {
    wheel: Wheel,
    pauses: Pauses,
    losses: Losses,
    membership: Membership,
    /// Until when, exclusively, it is known whom all nodes had heard of.
    known_until_ms: u64,
    /// The threshold of services that set none; 0 switches mass expiry off.
    default_threshold: f64,
    /// Silent instances that are kept, by service.
    kept: HashMap<ServiceKey, Kept>,
}

#[derive(Debug, Default)]
struct Kept {
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

    /// Takes an instance in that was read back: it is heard of now.
    pub(crate) fn resume(&mut self, instance: &Instance, now_ms: u64) {
        instance.pulse.revive(now_ms);
        if instance.awaits_heartbeat() {
            instance.pulse.await_heartbeat();
        }
        self.follow(instance);
    }

    /// Takes in what a durable command did.
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

    /// Begins anew with a state that was read anew, whose pulses say who was heard of when.
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

    /// Takes note of who keeps the registry.
    pub(crate) fn set_membership(&mut self, state: &mut State, membership: Membership) {
        self.membership = membership;
        // Others' services are for them to keep.
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

    /// Takes note of what is known of other nodes.
    pub(crate) fn set_evidence(&mut self, known_until_ms: u64, losses: Vec<Loss>) {
        self.known_until_ms = known_until_ms;
        losses.into_iter().for_each(|loss| self.losses.add(loss));
    }

    /// Looks again soon at instances whose change of health was not made.
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

    /// Takes note that this process is awake, though so much later than it should be.
    pub(crate) fn look(&mut self, now_ms: u64, late_ms: u64) {
        self.pauses.look(now_ms, late_ms);
    }

    /// Follows an instance that may expire, even where another node decides that: it may be gone by then.
    fn follow(&mut self, instance: &Instance) {
        let Some(expiry_ms) = instance.expiry_ms().filter(|_| instance.healthy) else { return };
        self.wheel.arm(&instance.pulse, instance.pulse.alive_at_ms() + expiry_ms);
    }

    /// When somebody may expire next; `None` while nobody is watched for that.
    pub(crate) fn next_due_ms(&self) -> Option<u64> {
        self.wheel.next_due_ms()
    }

    /// Lets time pass: expires who has been silent for too long.
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

    /// Makes those healthy that were heard of again.
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
        // Another registration of the same id has a pulse of its own.
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
            // Who does is about to say that it has expired.
            self.wheel.arm(pulse, now_ms + milliseconds(HEALTH_RETRY));
            return None;
        }
        // Looked at again after a whole expiry: what keeps it now will hardly be over before.
        if self.keeps(state, &instance) {
            self.keep(state, &instance, now_ms);
            self.wheel.arm(pulse, now_ms + expiry_ms);
            return None;
        }
        self.release(state, &service, pulse.id());
        // Before the last look at its heartbeats: one that comes between the two is awaited by then, and
        // makes it healthy again.
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

    /// Whether expiring an instance would leave too few.
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
            Kept { since_ms: now_ms, ids: HashSet::new() }
        });
        kept.ids.insert(Arc::clone(&instance.id));
        let expiry = MassExpiry {
            since_ms: kept.since_ms,
            kept: u32::try_from(kept.ids.len()).unwrap_or(u32::MAX),
        };
        state.set_mass_expiry(&instance.service, Some(expiry));
    }

    /// An instance is not kept any more: it was heard of, has expired, or is gone.
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

    /// An instance is gone.
    fn forget(&mut self, state: &mut State, instance: &Instance) {
        self.release(state, &instance.service, &instance.id);
        self.wheel.forget(&instance.pulse);
    }
}
