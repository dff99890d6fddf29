//! What was sampled last, for whoever shows it while a case runs.

use std::sync::{Arc, Mutex, PoisonError};

use crate::result::ResourceSample;

/// What a watched group used in its last sample.
#[derive(Debug, Clone, PartialEq)]
pub struct Usage {
    /// Its part in the case.
    pub role: String,
    /// CPU, in cores.
    pub cpu_cores: f64,
    /// Resident memory in bytes.
    pub rss_bytes: u64,
}

/// The last samples; clones show the same.
#[derive(Debug, Clone, Default)]
pub struct Latest(Arc<Mutex<Vec<Usage>>>);

impl Latest {
    /// The last samples, one a group.
    pub fn get(&self) -> Vec<Usage> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn set<'a>(&self, samples: impl Iterator<Item = (&'a str, &'a ResourceSample)>) {
        let usage = |(role, sample): (&str, &ResourceSample)| Usage {
            role: role.to_owned(),
            cpu_cores: sample.cpu_cores,
            rss_bytes: sample.rss_bytes,
        };
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = samples.map(usage).collect();
    }
}
