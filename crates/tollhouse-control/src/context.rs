//! State shared by all parts of the control side, grouped by its readers. A part that needs one
//! group takes that group.

use std::sync::Arc;

use tollhouse_admin::AuditSink;
use tollhouse_config::Bootstrap;
use tollhouse_stdx::MemoryBudget;
use tollhouse_telemetry::Metrics;
use tollhouse_upstream::HealthSupervisor;

use crate::audit::Audit;
use crate::console::bound::BoundAddresses;
use crate::console::observers::Observers;
use crate::discovery::{NodeSources, SourceSettings};
use crate::identity::Identity;
use crate::metrics::MetricsPage;
use crate::outages::Outages;
use crate::plugins::{self, PluginParts, endpoints};
use crate::registry::database::SharedDatabase;
use crate::registry::observers::CallObservers;
use crate::resources::drivers::Drivers;
use crate::resources::serving::Serving;
use crate::secret_managers::SecretManagers;
use crate::settings::descriptors::Descriptors;
use crate::settings::spans::Spans;
use crate::shenyu_local::ShenyuChannels;
use crate::staples::{Asking, Staples};

/// State that all parts of the control side share. Cheap to clone.
#[derive(Debug, Clone)]
pub struct ControlContext {
    /// The bootstrap file, with command line settings.
    pub bootstrap: Arc<Bootstrap>,
    pub identity: Arc<Identity>,
    /// Audit log of the Admin API, and of reads of the registry's tokens.
    pub audit: Arc<Audit>,
    pub metrics: Arc<Metrics>,
    /// Addresses that listeners are bound to, with the ports that the system chose for port 0.
    pub bound: Arc<BoundAddresses>,
    /// The metrics page with all counters.
    pub metrics_page: MetricsPage,
    /// Parts of the process that are down.
    pub outages: Arc<Outages>,
    /// The shared registry database, if one is configured.
    pub registry_database: Arc<SharedDatabase>,
    /// File descriptor limits of each part.
    pub descriptors: Descriptors,
    pub plugins: PluginParts,
    /// Tracing of the process.
    pub spans: Spans,
    /// The configuration in service.
    pub serving: Serving,
    /// Observers of the data plane, for the console.
    pub console: Observers,
    /// Channels to ShenYu's admin.
    pub shenyu: ShenyuChannels,
}

impl ControlContext {
    /// Returns the observers of calls to the registry.
    pub fn registry_observers(&self) -> CallObservers {
        let audit: Arc<dyn AuditSink> = Arc::<Audit>::clone(&self.audit);
        CallObservers { tracer: self.spans.tracer(), audit: Some(audit) }
    }

    /// Returns the state of a process without a configuration in service. Its data folder must
    /// exist.
    ///
    /// # Errors
    /// If the data folder cannot be used, or the bootstrap file names an unknown plugin.
    pub fn new(
        bootstrap: &Bootstrap,
        memory: &Arc<MemoryBudget>,
        descriptors: Descriptors,
    ) -> anyhow::Result<Self> {
        let identity = Arc::new(Identity::in_folder(&bootstrap.data_dir)?);
        let catalogue =
            plugins::enabled(bootstrap).map_err(|problem| anyhow::anyhow!("{problem}"))?;
        let metrics = Arc::new(Metrics::new());
        let health = Arc::new(HealthSupervisor::new());
        // Some plugin endpoints show metrics, so that the metrics page must exist first.
        let mut services = plugins::services(bootstrap, memory);
        let metrics_page = MetricsPage::new(Arc::clone(&metrics), Arc::clone(&health), &services);
        let sources =
            endpoints::Sources { id: &identity.id, metrics: &metrics, page: &metrics_page };
        services.endpoints = endpoints::for_plugins(&catalogue, &services, &sources);
        let environment = tollhouse_config::environment_secrets(&bootstrap.secrets.env);
        let secret_managers = Arc::new(SecretManagers::new(Box::new(environment)));
        services.secrets = Some(Arc::<SecretManagers>::clone(&secret_managers));
        let registry_database = Arc::new(SharedDatabase::new(&identity));
        let asking = if bootstrap.tls.ocsp_stapling { Asking::On } else { Asking::Off };
        let staples = Staples::new(asking, &bootstrap.data_dir, Arc::clone(&metrics));
        let bound = Arc::<BoundAddresses>::default();
        let sources = NodeSources::open(&SourceSettings { bootstrap, bound: &bound });
        Ok(Self {
            registry_database,
            bootstrap: Arc::new(bootstrap.clone()),
            identity,
            audit: Arc::new(Audit::in_folder(&bootstrap.data_dir, Arc::clone(&metrics))),
            outages: Arc::new(Outages::new(Arc::clone(&metrics))),
            bound,
            descriptors,
            spans: Spans::open(&bootstrap.tracing, &services)?,
            plugins: PluginParts { catalogue, services: Arc::new(services), secret_managers },
            serving: Serving::new(Drivers::new(health, staples, sources)),
            console: Observers::new(bootstrap, &metrics),
            shenyu: ShenyuChannels::new(),
            metrics,
            metrics_page,
        })
    }

    /// Returns the prefix of object keys in a store, without a slash at the end.
    pub fn store_prefix(&self) -> &str {
        self.bootstrap.admin.prefix.trim_end_matches('/')
    }
}
