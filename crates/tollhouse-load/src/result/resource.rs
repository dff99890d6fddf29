//! What processes and the kernel used, as series over a case.

use serde::{Deserialize, Serialize};

/// One process (or a group of them, such as a server with its workers) over a case.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ProcessSeries {
    /// Its part in the case: `generator`, `target`, `upstream`.
    pub role: String,
    /// Its command, as the kernel shows it.
    pub command: String,
    /// The processes summed up.
    pub pids: Vec<u32>,
    /// The cores that the first of them may run on, as the kernel lists them: `0-3,8`. Empty when not known.
    pub cores: String,
    /// CPU seconds in user mode over the measured time.
    pub user_seconds: f64,
    /// CPU seconds in the kernel over the measured time.
    pub system_seconds: f64,
    /// Resident memory when the measurement began, in bytes.
    pub rss_bytes_at_start: u64,
    /// The largest resident memory seen, in bytes.
    pub rss_bytes_max: u64,
    /// Voluntary context switches over the measured time.
    pub voluntary_switches: u64,
    /// Involuntary context switches over the measured time.
    pub involuntary_switches: u64,
    /// The samples.
    pub samples: Vec<ResourceSample>,
}

impl ProcessSeries {
    /// CPU seconds over the measured time, user and system.
    pub fn cpu_seconds(&self) -> f64 {
        self.user_seconds + self.system_seconds
    }
}

/// What a process used up to an instant.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ResourceSample {
    /// In nanoseconds since the measurement began.
    pub at_ns: u64,
    /// CPU since the last sample, in cores (1.0 is one core busy all the time).
    pub cpu_cores: f64,
    /// Resident memory in bytes.
    pub rss_bytes: u64,
    /// Threads.
    pub threads: u64,
    /// Open file descriptors; 0 when they may not be looked at.
    pub descriptors: u64,
    /// Context switches since the last sample, of both kinds.
    pub switches: u64,
}

/// The kernel's own counters over a case, machine-wide.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct KernelSeries {
    /// Memory of TCP sockets when the measurement began, in bytes.
    pub tcp_memory_bytes_at_start: u64,
    /// Memory of the kernel's objects when the measurement began, in bytes.
    pub slab_bytes_at_start: u64,
    /// In nanoseconds since the measurement began, one for each value below.
    pub at_ns: Vec<u64>,
    /// Memory of TCP sockets in bytes.
    pub tcp_memory_bytes: Vec<u64>,
    /// TCP sockets in use.
    pub tcp_sockets: Vec<u64>,
    /// Memory of the kernel's objects in bytes; sockets live there, beside their buffers above.
    pub slab_bytes: Vec<u64>,
    /// Segments sent again since the last sample.
    pub retransmits: Vec<u64>,
    /// Connections that overflowed a listen queue since the last sample.
    pub listen_overflows: Vec<u64>,
    /// CPU of the whole machine, in cores.
    pub cpu_cores: Vec<f64>,
    /// CPU that the machine's host gave to others although it was wanted here, in cores.
    pub stolen_cores: Vec<f64>,
}
