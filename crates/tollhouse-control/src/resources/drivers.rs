//! Background parts that work on the configuration in service: health checks, slow start, discovery
//! and OCSP staples.

use std::sync::Arc;

use tollhouse_proxy::Compiler;
use tollhouse_registry::Registry;
use tollhouse_upstream::{HealthSupervisor, WarmUps};

use crate::discovery::NodeSources;
use crate::staples::Staples;

/// The background parts. Each is notified of every snapshot's changes.
#[derive(Debug, Clone)]
pub struct Drivers {
    pub health: Arc<HealthSupervisor>,
    /// Upstreams with nodes in slow start, whose weights rise with time.
    pub warm_ups: Arc<WarmUps>,
    /// Upstreams with discovered nodes.
    pub sources: Arc<NodeSources>,
    /// OCSP staples of certificates, renewed before they expire.
    pub staples: Arc<Staples>,
}

impl Drivers {
    pub fn new(health: Arc<HealthSupervisor>, staples: Staples, sources: NodeSources) -> Self {
        let (staples, sources) = (Arc::new(staples), Arc::new(sources));
        Self { health, warm_ups: Arc::default(), sources, staples }
    }

    /// Supplies upstreams that name registry services with nodes of this process's registry.
    ///
    /// # Errors
    /// If the follower thread cannot be started.
    pub fn follow(&self, registry: &Registry) -> std::io::Result<()> {
        self.sources.registry.connect(registry)
    }

    /// Starts health checks, slow start and OCSP requests; they run as long as the runtime.
    pub fn start(&self) {
        let Self { health, warm_ups, staples, .. } = self.clone();
        tokio::spawn(staples.run());
        tokio::spawn(async move { health.run().await });
        tokio::spawn(async move { warm_ups.run().await });
    }

    /// Passes on the changes of the snapshot that is about to go into service.
    pub(super) fn take_changes(&self, compiler: &mut Compiler) {
        let changes = compiler.take_driven_changes();
        self.sources.change_upstreams(&changes);
        self.warm_ups.change_upstreams(&changes);
        self.health.change_upstreams(&changes);
        self.staples.take_changes(compiler);
    }
}
