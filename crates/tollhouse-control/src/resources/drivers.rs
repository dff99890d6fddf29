//! What goes on beside requests about what is in service: health checks, slow start, nodes of the registry,
//! staples of certificates.

use std::sync::Arc;

use tollhouse_proxy::Compiler;
use tollhouse_registry::Registry;
use tollhouse_upstream::{HealthSupervisor, WarmUps};

use crate::registry::nodes::{Reach, RegistryNodes};
use crate::staples::Staples;

/// See the module. Each is given what every snapshot changes.
#[derive(Debug, Clone)]
pub struct Drivers {
    /// Health checks.
    pub health: Arc<HealthSupervisor>,
    /// Slow start.
    pub warm_ups: Arc<WarmUps>,
    /// Instances of the registry.
    pub registry: Arc<RegistryNodes>,
    /// What responders say of certificates.
    pub staples: Arc<Staples>,
}

impl Drivers {
    /// Drivers that have nothing to drive yet.
    pub fn new(health: Arc<HealthSupervisor>, staples: Staples, reach: Reach) -> Self {
        let (staples, registry) = (Arc::new(staples), Arc::new(RegistryNodes::within(reach)));
        Self { health, warm_ups: Arc::default(), registry, staples }
    }

    /// Brings the instances of this process' registry to the upstreams that name them, from now on.
    ///
    /// # Errors
    /// The thread for that cannot be started.
    pub fn follow(&self, registry: &Registry) -> std::io::Result<()> {
        self.registry.connect(Arc::new(registry.clone()));
        self.registry.start()
    }

    /// Starts health checks, slow start and the asking of responders, for as long as the runtime lasts.
    pub fn start(&self) {
        let Self { health, warm_ups, staples, .. } = self.clone();
        tokio::spawn(staples.run());
        tokio::spawn(async move { health.run().await });
        tokio::spawn(async move { warm_ups.run().await });
    }

    /// Takes what the snapshot that is about to serve changes.
    pub(super) fn take_changes(&self, compiler: &mut Compiler) {
        let changes = compiler.take_driven_changes();
        self.registry.change_upstreams(&changes);
        self.warm_ups.change_upstreams(&changes);
        self.health.change_upstreams(&changes);
        self.staples.take_changes(compiler);
    }
}
