//! Instances: the members of a service, as they stand and as they are made durable.

use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::key::ServiceKey;
use crate::pulse::Pulse;
use crate::revision::Revision;

/// Pairs of an object's metadata, by key.
pub type Metadata = std::collections::BTreeMap<Box<str>, Box<str>>;

/// A member of a service, as it stands at one version.
#[derive(Debug, Clone)]
pub struct Instance {
    /// Its id: given, or what the dialect makes of its address.
    pub id: Arc<str>,
    /// The service.
    pub service: ServiceKey,
    /// A name or address.
    pub host: Box<str>,
    /// The port; 0 is one too.
    pub port: u16,
    /// The virtual private cloud, or empty.
    pub vpc_id: Box<str>,
    /// What it speaks, or empty.
    pub protocol: Box<str>,
    /// Its version, or empty.
    pub version: Box<str>,
    /// Kept for clients; nothing here reads it.
    pub priority: u32,
    /// Share of the traffic; 0 gets none.
    pub weight: u16,
    /// Seconds between two heartbeats; `None` where health is not checked.
    pub ttl_seconds: Option<u8>,
    /// Whether it counts as healthy.
    pub healthy: bool,
    /// Whether an operator keeps traffic from it.
    pub isolated: bool,
    /// Where it stands; `None` when nobody said.
    pub location: Option<Location>,
    /// Pairs that its owner gave.
    pub metadata: Metadata,
    /// The logic set, or empty.
    pub logic_set: Box<str>,
    /// Registered at this second of Unix time.
    pub created_at: u64,
    /// Changed at this second of Unix time, be it by health.
    pub modified_at: u64,
    /// Changes with every change.
    pub revision: Revision,
    /// While unhealthy because it fell silent: the second of its last heartbeat, 0 if there was none.
    pub expired_after_beat: Option<u64>,
    /// Fields of a newer protocol, as they came.
    pub unknown: Bytes,
    /// Its heartbeats.
    pub pulse: Arc<Pulse>,
}

/// Where an instance stands; parts may be empty.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Location {
    /// The region.
    pub region: Box<str>,
    /// The zone in it.
    pub zone: Box<str>,
    /// The campus in that.
    pub campus: Box<str>,
}

/// What is made durable of an instance: as it stands, so that a revision means the same after a
/// restart. Its heartbeats are not, and a restart gives who was healthy a full expiry time.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct StoredInstance {
    /// Its id.
    pub id: Arc<str>,
    /// The service.
    pub service: ServiceKey,
    /// A name or address.
    pub host: Box<str>,
    /// The port.
    pub port: u16,
    /// The virtual private cloud, or empty.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub vpc_id: Box<str>,
    /// What it speaks, or empty.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub protocol: Box<str>,
    /// Its version, or empty.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub version: Box<str>,
    /// Kept for clients.
    #[serde(default)]
    pub priority: u32,
    /// Share of the traffic.
    pub weight: u16,
    /// Seconds between two heartbeats, where health is checked.
    pub ttl_seconds: Option<u8>,
    /// Whether it counted as healthy.
    pub healthy: bool,
    /// Whether an operator keeps traffic from it.
    pub isolated: bool,
    /// Where it stands.
    pub location: Option<Location>,
    /// Pairs that its owner gave.
    pub metadata: Metadata,
    /// The logic set, or empty.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub logic_set: Box<str>,
    /// Registered at this second of Unix time.
    pub created_at: u64,
    /// Changed at this second of Unix time.
    pub modified_at: u64,
    /// Changes with every change.
    pub revision: Revision,
    /// See [`Instance::expired_after_beat`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expired_after_beat: Option<u64>,
    /// Fields of a newer protocol, as they came.
    #[serde(default, with = "crate::base64_bytes", skip_serializing_if = "Bytes::is_empty")]
    pub unknown: Bytes,
}

impl StoredInstance {
    /// What of this instance is kept.
    pub(crate) fn from_instance(instance: &Instance) -> Self {
        let kept = instance.clone();
        Self {
            id: kept.id,
            service: kept.service,
            host: kept.host,
            port: kept.port,
            vpc_id: kept.vpc_id,
            protocol: kept.protocol,
            version: kept.version,
            priority: kept.priority,
            weight: kept.weight,
            ttl_seconds: kept.ttl_seconds,
            healthy: kept.healthy,
            isolated: kept.isolated,
            location: kept.location,
            metadata: kept.metadata,
            logic_set: kept.logic_set,
            created_at: kept.created_at,
            modified_at: kept.modified_at,
            revision: kept.revision,
            expired_after_beat: kept.expired_after_beat,
            unknown: kept.unknown,
        }
    }

    /// The id of the instance.
    pub(crate) fn id(&self) -> &Arc<str> {
        &self.id
    }

    /// The instance, with this pulse of its id.
    pub(crate) fn with_pulse(self, pulse: Arc<Pulse>) -> Instance {
        Instance {
            id: Arc::clone(pulse.id()),
            service: self.service,
            host: self.host,
            port: self.port,
            vpc_id: self.vpc_id,
            protocol: self.protocol,
            version: self.version,
            priority: self.priority,
            weight: self.weight,
            ttl_seconds: self.ttl_seconds,
            healthy: self.healthy,
            isolated: self.isolated,
            location: self.location,
            metadata: self.metadata,
            logic_set: self.logic_set,
            created_at: self.created_at,
            modified_at: self.modified_at,
            revision: self.revision,
            expired_after_beat: self.expired_after_beat,
            unknown: self.unknown,
            pulse,
        }
    }
}

impl Instance {
    /// How long it may be silent, in milliseconds; `None` where health is not checked.
    pub fn expiry_ms(&self) -> Option<u64> {
        self.ttl_seconds.map(|ttl| u64::from(ttl) * 1_000 * crate::limits::TTLS_TO_EXPIRY)
    }

    /// Whether its next heartbeat makes it healthy.
    pub(crate) fn awaits_heartbeat(&self) -> bool {
        !self.healthy && self.ttl_seconds.is_some()
    }
}
