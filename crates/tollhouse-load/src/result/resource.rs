//! Resource use of processes and the kernel, as series over a case.

use serde::{Deserialize, Serialize};

/// Resource use of a process, or of a group such as a server with its workers.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ProcessSeries {
    /// Role in the case: `generator`, `target`, `upstream`.
    pub role: String,
    /// Command line of the process.
    pub command: String,
    /// IDs of the processes in the sums.
    pub pids: Vec<u32>,
    /// Cores available to the first process, in the kernel's list format: `0-3,8`. Empty if
    /// unknown.
    pub cores: String,
    /// CPU seconds in user mode during the measurement.
    pub user_seconds: f64,
    /// CPU seconds in the kernel during the measurement.
    pub system_seconds: f64,
    /// Resident memory at the start of the measurement, in bytes.
    pub rss_bytes_at_start: u64,
    /// Maximum resident memory of the process in bytes.
    pub rss_bytes_max: u64,
    /// Voluntary context switches during the measurement.
    pub voluntary_switches: u64,
    /// Involuntary context switches during the measurement.
    pub involuntary_switches: u64,
    pub samples: Vec<ResourceSample>,
}

impl ProcessSeries {
    /// Returns the CPU seconds during the measurement, user and system.
    pub fn cpu_seconds(&self) -> f64 {
        self.user_seconds + self.system_seconds
    }
}

/// Resource use of a process at an instant.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ResourceSample {
    /// Time in nanoseconds since the measurement began.
    pub at_ns: u64,
    /// CPU use since the last sample, in cores (1.0 is one fully used core).
    pub cpu_cores: f64,
    pub rss_bytes: u64,
    pub threads: u64,
    /// Open file descriptors; 0 if access is denied.
    pub descriptors: u64,
    /// Context switches since the last sample, of both kinds.
    pub switches: u64,
}

/// Machine-wide kernel figures over a case.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct KernelSeries {
    /// Memory of TCP sockets at the start of the measurement, in bytes.
    pub tcp_memory_bytes_at_start: u64,
    /// Memory of kernel objects at the start of the measurement, in bytes.
    pub slab_bytes_at_start: u64,
    /// Times in nanoseconds since the measurement began, one for each value below.
    pub at_ns: Vec<u64>,
    /// Memory of TCP sockets in bytes.
    pub tcp_memory_bytes: Vec<u64>,
    /// Number of TCP sockets in use.
    pub tcp_sockets: Vec<u64>,
    /// Memory of kernel objects in bytes. It includes the sockets, but not their buffers, which
    /// `tcp_memory_bytes` holds.
    pub slab_bytes: Vec<u64>,
    /// Retransmitted segments since the last sample.
    pub retransmits: Vec<u64>,
    /// Connections that overflowed a listen queue since the last sample.
    pub listen_overflows: Vec<u64>,
    /// CPU use of the whole machine, in cores.
    pub cpu_cores: Vec<f64>,
    /// CPU the host withheld from this virtual machine (steal), in cores.
    pub stolen_cores: Vec<f64>,
}
