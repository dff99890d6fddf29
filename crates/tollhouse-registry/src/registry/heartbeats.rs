//! Where heartbeats arrive, on whichever thread: noted in the instance's pulse without a lock. Only the
//! first of an unhealthy instance is passed on, to who owns its health. Where other nodes keep the same
//! registry, they hear of it with the next round.

use std::sync::Arc;

use crate::check::is_instance_id;
use crate::cluster::Cluster;
use crate::instance::Instance;
use crate::limits::UNREGISTERED_HEARTBEATS_TOLERATED;
use crate::pulse::LastHeartbeat;
use crate::state::State;

use super::queue::RequestQueue;
use super::unregistered::UnregisteredHeartbeats;

/// What a heartbeat did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeartbeatOutcome {
    /// The instance is registered, and was heard of.
    Recorded,
    /// It is not; but it may be about to be, and its client hears so only if it goes on.
    Tolerated,
    /// It is not registered.
    Unknown,
    /// No instance can have such an id.
    BadId,
}

#[derive(Debug)]
pub(crate) struct HeartbeatRouter {
    unregistered: UnregisteredHeartbeats,
    health_owner: RequestQueue,
    cluster: Option<Arc<Cluster>>,
}

impl HeartbeatRouter {
    pub(crate) fn new(health_owner: RequestQueue, cluster: Option<Arc<Cluster>>) -> Self {
        Self { unregistered: UnregisteredHeartbeats::default(), health_owner, cluster }
    }

    /// Takes a heartbeat: a look-up and a few stores.
    pub(crate) fn record(&self, state: &State, id: &str, now_ms: u64) -> HeartbeatOutcome {
        if !is_instance_id(id) {
            return HeartbeatOutcome::BadId;
        }
        let Some(instance) = state.instance(id) else {
            let count = self.unregistered.record(id, now_ms);
            return if count <= u64::from(UNREGISTERED_HEARTBEATS_TOLERATED) {
                HeartbeatOutcome::Tolerated
            } else {
                HeartbeatOutcome::Unknown
            };
        };
        self.note(instance, now_ms);
        if let Some(cluster) = &self.cluster {
            cluster.heard.note(&instance.pulse);
        }
        HeartbeatOutcome::Recorded
    }

    /// Takes a heartbeat that another node has taken.
    pub(crate) fn record_relayed(&self, state: &State, id: &str, now_ms: u64) {
        if let Some(instance) = state.instance(id) {
            self.note(instance, now_ms);
        }
    }

    fn note(&self, instance: &Instance, now_ms: u64) {
        let is_awaited = instance.pulse.record_heartbeat(now_ms);
        if is_awaited && !self.health_owner.push_recovery(&instance.id) {
            // The keeper has much to do; the next heartbeat tries again.
            instance.pulse.await_heartbeat();
        }
    }

    /// What is known of the heartbeats of an id, registered or not.
    pub(crate) fn last(&self, state: &State, id: &str) -> Option<LastHeartbeat> {
        match state.instance(id) {
            Some(instance) => Some(instance.pulse.last_heartbeat()).filter(|last| last.count > 0),
            None => self.unregistered.get(id),
        }
    }

    /// Forgets the heartbeats of an id, registered or not; health goes on to be judged by them.
    pub(crate) fn forget(&self, state: &State, id: &str) {
        match state.instance(id) {
            Some(instance) => instance.pulse.forget_heartbeats(),
            None => self.forget_unregistered(id),
        }
    }

    /// Forgets the heartbeats of an id that was not registered.
    pub(crate) fn forget_unregistered(&self, id: &str) {
        self.unregistered.forget(id);
    }
}
