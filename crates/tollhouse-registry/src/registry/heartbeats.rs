//! Arrival of heartbeats, on any thread: recorded in the instance's pulse without a lock. Only the
//! first heartbeat of an unhealthy instance is passed on to the keeper. In a cluster the other
//! nodes learn of heartbeats with the next round.

use std::sync::Arc;

use crate::check::is_instance_id;
use crate::cluster::Cluster;
use crate::instance::Instance;
use crate::limits::UNREGISTERED_HEARTBEATS_TOLERATED;
use crate::pulse::LastHeartbeat;
use crate::state::State;

use super::queue::RequestQueue;
use super::unregistered::UnregisteredHeartbeats;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeartbeatOutcome {
    /// The instance is registered, and the heartbeat counts.
    Recorded,
    /// The instance is not registered, but may be about to be. Its client is told only after a few
    /// further heartbeats.
    Tolerated,
    /// The instance is not registered, and the client must register it.
    Unknown,
    /// The id is not a valid instance id.
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

    /// Records a heartbeat. Costs a look-up and a few stores.
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

    /// Records a heartbeat that another node received.
    pub(crate) fn record_relayed(&self, state: &State, id: &str, now_ms: u64) {
        if let Some(instance) = state.instance(id) {
            self.note(instance, now_ms);
        }
    }

    fn note(&self, instance: &Instance, now_ms: u64) {
        let is_awaited = instance.pulse.record_heartbeat(now_ms);
        if is_awaited && !self.health_owner.push_recovery(&instance.id) {
            // The keeper's queue is full; the next heartbeat tries again.
            instance.pulse.await_heartbeat();
        }
    }

    /// Returns the last heartbeat of an id, registered or not; `None` if there was none.
    pub(crate) fn last(&self, state: &State, id: &str) -> Option<LastHeartbeat> {
        match state.instance(id) {
            Some(instance) => Some(instance.pulse.last_heartbeat()).filter(|last| last.count > 0),
            None => self.unregistered.get(id),
        }
    }

    /// Clears the recorded heartbeats of an id, registered or not; its health does not change.
    pub(crate) fn forget(&self, state: &State, id: &str) {
        match state.instance(id) {
            Some(instance) => instance.pulse.forget_heartbeats(),
            None => self.forget_unregistered(id),
        }
    }

    /// Clears the heartbeats of an unregistered id.
    pub(crate) fn forget_unregistered(&self, id: &str) {
        self.unregistered.forget(id);
    }
}
