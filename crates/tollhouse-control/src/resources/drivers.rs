//! What changes the nodes of upstreams beside requests: health checks, slow start, the registry.

use std::sync::Arc;

use tollhouse_proxy::Compiler;
use tollhouse_upstream::{HealthSupervisor, WarmUps};

use crate::registry::RunningRegistry;
use crate::registry::nodes::RegistryNodes;

/// See the module. Each is given what every snapshot changes.
#[derive(Debug, Clone)]
pub struct Drivers {
    /// Health checks.
    pub health: Arc<HealthSupervisor>,
    /// Slow start.
    pub warm_ups: Arc<WarmUps>,
    /// Instances of the registry.
    pub registry: Arc<RegistryNodes>,
}

impl Drivers {
    /// Drivers that have nothing to drive yet.
    pub fn new(health: Arc<HealthSupervisor>) -> Self {
        Self { health, warm_ups: Arc::default(), registry: Arc::default() }
    }

    /// Brings the instances of this process' registry to the upstreams that name them, from now on.
    ///
    /// # Errors
    /// The thread for that cannot be started.
    pub fn follow(&self, registry: &RunningRegistry) -> std::io::Result<()> {
        self.registry.connect(Arc::new(registry.handle.clone()));
        self.registry.start()
    }

    /// Starts health checks and slow start, for as long as the runtime lasts.
    pub fn start(&self) {
        let Self { health, warm_ups, .. } = self.clone();
        tokio::spawn(async move { health.run().await });
        tokio::spawn(async move { warm_ups.run().await });
    }

    /// Takes what the snapshot that is about to serve changes.
    pub(super) fn take_changes(&self, compiler: &mut Compiler) {
        let changes = compiler.take_driven_changes();
        self.registry.change_upstreams(&changes);
        self.warm_ups.change_upstreams(&changes);
        self.health.change_upstreams(&changes);
    }
}
