//! Record of the parts of the process that are down, for the log, the metrics, the control API and
//! probes. It does not stop or restart anything.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tollhouse_telemetry::Metrics;
use tollhouse_telemetry::counters::SharedGauge;

/// A part of the process that can fail while requests are served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// The configuration store: changes cannot be read.
    Store,
    /// The contents of a shared store: it answers, but its contents are implausible or incomplete.
    StoreContents,
    Admin,
    Registry,
    /// Ordering of certificates with ACME.
    Certificates,
    ShenyuAdmin,
}

impl Part {
    /// Returns the name in answers and in the log.
    pub fn name(self) -> &'static str {
        match self {
            Part::Store => "store",
            Part::StoreContents => "store_contents",
            Part::Admin => "admin",
            Part::Registry => "registry",
            Part::Certificates => "certificates",
            Part::ShenyuAdmin => "shenyu_admin",
        }
    }

    /// Whether the process is unready without this part. The configuration in service needs neither
    /// a store nor an Admin API, but clients of a failed registry must use another node.
    pub fn is_needed(self) -> bool {
        self == Part::Registry
    }
}

/// Parts that are down, with reasons.
#[derive(Debug)]
pub struct Outages {
    metrics: Arc<Metrics>,
    down: Mutex<BTreeMap<Part, String>>,
}

impl Outages {
    pub fn new(metrics: Arc<Metrics>) -> Self {
        Self { metrics, down: Mutex::default() }
    }

    /// Records that a part is down, and logs each reason once.
    pub fn report(&self, part: Part, reason: impl Display) {
        let reason = reason.to_string();
        self.gauge(part).set(1);
        let before = self.lock().insert(part, reason.clone());
        if before.as_ref() != Some(&reason) {
            let part = part.name();
            tracing::error!(reason, "{part} is down; everything else keeps serving");
        }
    }

    /// Records that a part works again, and logs the recovery.
    pub fn clear(&self, part: Part) {
        self.gauge(part).set(0);
        let was_down = self.lock().remove(&part).is_some();
        if was_down {
            tracing::info!("{} works again", part.name());
        }
    }

    /// Returns the parts that are down, with reasons.
    pub fn list(&self) -> BTreeMap<Part, String> {
        self.lock().clone()
    }

    fn gauge(&self, part: Part) -> &SharedGauge {
        let process = self.metrics.process();
        match part {
            Part::Store => &process.store_down,
            Part::StoreContents => &process.store_doubtful,
            Part::Admin => &process.admin_down,
            Part::Registry => &process.registry_down,
            Part::Certificates => &process.acme_down,
            Part::ShenyuAdmin => &process.shenyu_admin_down,
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Part, String>> {
        // Every statement leaves the map consistent, so that a poisoned lock can be used.
        self.down.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outage_is_listed_until_the_part_works_again() {
        let metrics = Arc::new(Metrics::new());
        let outages = Outages::new(Arc::clone(&metrics));
        outages.report(Part::Registry, "the port is taken");
        outages.report(Part::Registry, "the disk is gone");
        let expected = BTreeMap::from([(Part::Registry, "the disk is gone".to_owned())]);
        assert_eq!(outages.list(), expected);
        assert_eq!(metrics.process().registry_down.value(), 1);
        outages.clear(Part::Registry);
        assert!(outages.list().is_empty());
        assert_eq!(metrics.process().registry_down.value(), 0);
    }
}
