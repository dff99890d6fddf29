//! Objects in answers of the registry's API, with only the fields that the commands need.

use std::collections::BTreeMap;

use serde::Deserialize;

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Service {
    pub namespace: String,
    pub name: String,
    pub instances: InstanceCounts,
    pub mass_expiry: Option<MassExpiry>,
    pub metadata: BTreeMap<String, String>,
}

/// Number of instances, in total and by state.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct InstanceCounts {
    pub total: u32,
    pub healthy: u32,
    pub unchecked: u32,
    pub unhealthy: u32,
    pub isolated: u32,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct MassExpiry {
    pub since_ms: u64,
    pub kept: u32,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Instance {
    pub id: String,
    pub namespace: String,
    pub service: String,
    pub host: String,
    pub port: u16,
    pub protocol: String,
    pub version: String,
    pub weight: u16,
    pub healthy: bool,
    pub isolated: bool,
    pub ttl_seconds: Option<u8>,
    pub last_beat: Option<HeartbeatCounts>,
    pub metadata: BTreeMap<String, String>,
    pub create_time: u64,
}

/// Time of the last heartbeat and number of heartbeats of an instance.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct HeartbeatCounts {
    pub at_ms: u64,
    pub count: u64,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Alias {
    pub namespace: String,
    pub name: String,
    pub target: Name,
}

/// Namespace and name of a service.
#[derive(Debug, Clone, Default, Deserialize, PartialEq, Eq, PartialOrd, Ord)]
#[serde(default)]
pub struct Name {
    pub namespace: String,
    pub name: String,
}

/// Answer of `/registry/v1/status`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Status {
    pub now_ms: u64,
    pub started_at_ms: u64,
    pub listeners: Listeners,
    pub services: usize,
    pub instances: InstanceCounts,
    pub counted: Counters,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Listeners {
    pub grpc: Vec<String>,
    pub http: Vec<String>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Counters {
    pub commits: u64,
    pub commit_us: u64,
}

impl Instance {
    /// Returns the state of the instance in one word, such as `healthy`.
    pub fn state(&self) -> &'static str {
        match (self.isolated, self.healthy) {
            (true, _) => "isolated",
            (false, true) if self.ttl_seconds.is_none() => "not checked",
            (false, true) => "healthy",
            (false, false) => "unhealthy",
        }
    }

    /// Returns `host:port`, with brackets around an IPv6 address.
    pub fn address(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }

    /// Returns the metadata of the instance on one line.
    pub fn labels(&self) -> String {
        let pairs: Vec<String> =
            self.metadata.iter().map(|(key, value)| format!("{key}={value}")).collect();
        pairs.join(",")
    }
}
