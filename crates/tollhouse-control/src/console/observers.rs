//! Observers of the data plane, whose records the console shows, and the load tests that it starts.

use std::sync::Arc;

use tollhouse_config::Bootstrap;
use tollhouse_proxy::SnapshotCell;
use tollhouse_telemetry::Metrics;

use super::bench::{Bench, BenchSettings};
use super::node_history::NodeHistory;
use super::object_rates::ObjectRates;
use super::sampler::Sampler;

/// Records of the running process. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Observers {
    /// Traffic of the last 15 minutes, per second.
    pub sampler: Arc<Sampler>,
    pub object_rates: Arc<ObjectRates>,
    pub node_history: Arc<NodeHistory>,
    /// Load tests started from the console.
    pub bench: Bench,
}

impl Observers {
    pub fn new(bootstrap: &Bootstrap, metrics: &Arc<Metrics>) -> Self {
        let settings = BenchSettings {
            is_on: bootstrap.console.bench,
            targets: bootstrap.console.bench_targets.clone(),
        };
        let program = std::env::current_exe().unwrap_or_else(|_| "tollhouse".into());
        Self {
            sampler: Arc::new(Sampler::new(Arc::clone(metrics))),
            object_rates: Arc::default(),
            node_history: Arc::default(),
            bench: Bench::new(settings, &bootstrap.data_dir, program),
        }
    }

    /// Starts the periodic observers; they run as long as the runtime.
    pub fn start(&self, snapshots: &Arc<SnapshotCell>, metrics: &Arc<Metrics>) {
        tokio::spawn(Arc::clone(&self.sampler).run());
        tokio::spawn(Arc::clone(&self.node_history).run(Arc::clone(snapshots)));
        let rates = Arc::clone(&self.object_rates);
        tokio::spawn(rates.run(Arc::clone(snapshots), Arc::clone(metrics)));
    }
}
