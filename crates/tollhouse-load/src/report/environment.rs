//! The machine and the versions that a report was made with.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// What is needed to judge or repeat a measurement.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Environment {
    /// The short label, cores and memory: `2C4G`.
    pub label: String,
    /// CPU model as the kernel shows it.
    pub cpu: String,
    /// Cores this process may use.
    pub cores: u64,
    /// Memory in bytes, the container's limit when that is lower.
    pub memory_bytes: u64,
    /// Operating system and kernel.
    pub kernel: String,
    /// Versions of the programs involved, by name.
    pub versions: BTreeMap<String, String>,
    /// Limits and settings that matter, by name: `nofile`, `somaxconn`, `port range`, `governor`, ….
    pub limits: BTreeMap<String, String>,
}
