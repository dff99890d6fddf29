//! Instances of a service, in memory and in the store.

use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::key::ServiceKey;
use crate::pulse::Pulse;
use crate::revision::Revision;

/// Metadata of an object, sorted by key.
pub type Metadata = std::collections::BTreeMap<Box<str>, Box<str>>;

/// Instance of a service at one version.
#[derive(Debug, Clone)]
pub struct Instance {
    /// Id: given by the client, or derived by the dialect from its address.
    pub id: Arc<str>,
    pub service: ServiceKey,
    pub host: Box<str>,
    /// Port of the instance; 0 is valid.
    pub port: u16,
    /// Id of the virtual private cloud; may be empty.
    pub vpc_id: Box<str>,
    /// Protocol of the instance; may be empty.
    pub protocol: Box<str>,
    /// Version of the instance; may be empty.
    pub version: Box<str>,
    /// Stored for clients; the registry does not use it.
    pub priority: u32,
    /// Relative share of traffic; 0 means no traffic.
    pub weight: u16,
    /// Interval between heartbeats in seconds; `None` if health is not checked.
    pub ttl_seconds: Option<u8>,
    pub healthy: bool,
    /// Whether an operator keeps traffic away from the instance.
    pub isolated: bool,
    /// Location; `None` if the client gave none.
    pub location: Option<Location>,
    pub metadata: Metadata,
    /// Name of the logic set; may be empty.
    pub logic_set: Box<str>,
    /// Registration time, in seconds of Unix time.
    pub created_at: u64,
    /// Time of the last change, changes of health included, in seconds of Unix time.
    pub modified_at: u64,
    /// Revision of the instance, which differs after every change.
    pub revision: Revision,
    /// Time of the last heartbeat in seconds of Unix time, if the instance is unhealthy because it
    /// missed its heartbeats; 0 if there was no heartbeat.
    pub expired_after_beat: Option<u64>,
    /// Encoded fields of a newer protocol version, stored unchanged.
    pub unknown: Bytes,
    /// Record of its heartbeats, shared by all versions of the instance.
    pub pulse: Arc<Pulse>,
}

/// Location of an instance; parts may be empty.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Location {
    pub region: Box<str>,
    pub zone: Box<str>,
    pub campus: Box<str>,
}

/// Form of an instance in the store. It includes times and revision, so that a revision has equal
/// meaning after a restart. Heartbeats are left out: after a restart a healthy instance gets a full
/// expiry time.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct StoredInstance {
    pub id: Arc<str>,
    pub service: ServiceKey,
    pub host: Box<str>,
    pub port: u16,
    /// Id of the virtual private cloud; may be empty.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub vpc_id: Box<str>,
    /// Protocol of the instance; may be empty.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub protocol: Box<str>,
    /// Version of the instance; may be empty.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub version: Box<str>,
    /// Stored for clients; the registry does not use it.
    #[serde(default)]
    pub priority: u32,
    /// Share of traffic, relative to other instances.
    pub weight: u16,
    /// Interval between heartbeats in seconds; `None` if health is not checked.
    pub ttl_seconds: Option<u8>,
    pub healthy: bool,
    /// Whether an operator keeps traffic away from the instance.
    pub isolated: bool,
    pub location: Option<Location>,
    pub metadata: Metadata,
    /// Name of the logic set; may be empty.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub logic_set: Box<str>,
    /// Registration time, in seconds of Unix time.
    pub created_at: u64,
    /// Time of the last change, in seconds of Unix time.
    pub modified_at: u64,
    /// Revision of the instance, which differs after every change.
    pub revision: Revision,
    /// Value of [`Instance::expired_after_beat`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expired_after_beat: Option<u64>,
    /// Encoded fields of a newer protocol version, stored unchanged.
    #[serde(default, with = "crate::base64_bytes", skip_serializing_if = "Bytes::is_empty")]
    pub unknown: Bytes,
}

impl StoredInstance {
    pub(crate) fn from_instance(instance: &Instance) -> Self {
        let copy = instance.clone();
        Self {
            id: copy.id,
            service: copy.service,
            host: copy.host,
            port: copy.port,
            vpc_id: copy.vpc_id,
            protocol: copy.protocol,
            version: copy.version,
            priority: copy.priority,
            weight: copy.weight,
            ttl_seconds: copy.ttl_seconds,
            healthy: copy.healthy,
            isolated: copy.isolated,
            location: copy.location,
            metadata: copy.metadata,
            logic_set: copy.logic_set,
            created_at: copy.created_at,
            modified_at: copy.modified_at,
            revision: copy.revision,
            expired_after_beat: copy.expired_after_beat,
            unknown: copy.unknown,
        }
    }

    pub(crate) fn id(&self) -> &Arc<str> {
        &self.id
    }

    /// Converts the stored form to an instance; the ids of instance and pulse must be equal.
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
    /// Returns the silence after which the instance expires, in milliseconds; `None` if health is
    /// not checked.
    pub fn expiry_ms(&self) -> Option<u64> {
        self.ttl_seconds.map(|ttl| u64::from(ttl) * 1_000 * crate::limits::TTLS_TO_EXPIRY)
    }

    /// Whether the next heartbeat makes the instance healthy.
    pub(crate) fn awaits_heartbeat(&self) -> bool {
        !self.healthy && self.ttl_seconds.is_some()
    }
}
