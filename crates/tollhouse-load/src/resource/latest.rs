//! Latest samples, for display while a case runs.

use std::sync::{Arc, Mutex, PoisonError};

use crate::result::ResourceSample;

/// Resource use of a watched group in its last sample.
#[derive(Debug, Clone, PartialEq)]
pub struct Usage {
    /// Role of the group in the case.
    pub role: String,
    pub cpu_cores: f64,
    pub rss_bytes: u64,
}

/// Latest samples; clones share the data.
#[derive(Debug, Clone, Default)]
pub struct Latest(Arc<Mutex<Vec<Usage>>>);

impl Latest {
    /// Returns the latest samples, one per group.
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
