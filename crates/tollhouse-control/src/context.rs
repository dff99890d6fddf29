//! State shared by all parts of the control side.

use std::sync::Arc;

use tokio::sync::watch;
use tollhouse_config::{Bootstrap, Fingerprints};
use tollhouse_plugin::{Catalogue, Services};
use tollhouse_stdx::MemoryBudget;
use tollhouse_telemetry::Metrics;
use tollhouse_upstream::HealthSupervisor;

use crate::audit::Audit;
use crate::configuration::Configuration;
use crate::console::bench::{Bench, BenchSettings};
use crate::console::bound::BoundAddresses;
use crate::console::node_history::NodeHistory;
use crate::console::object_rates::ObjectRates;
use crate::console::sampler::Sampler;
use crate::console::shenyu::ShenyuAccess;
use crate::discovery::{NodeSources, SourceSettings};
use crate::identity::Identity;
use crate::metrics::MetricsPage;
use crate::outages::Outages;
use crate::plugins::{self, endpoints};
use crate::registry::database::SharedDatabase;
use crate::resources::Drivers;
use crate::secret_managers::SecretManagers;
use crate::settings::descriptors::Descriptors;
use crate::shenyu_local::LocalChannel;
use crate::staples::{Asking, Staples};

/// State that all parts of the control side share. Cheap to clone.
#[derive(Debug, Clone)]
pub struct ControlContext {
    /// The bootstrap file, with command line settings.
    pub bootstrap: Arc<Bootstrap>,
    pub identity: Arc<Identity>,
    /// Audit log of the Admin API.
    pub audit: Arc<Audit>,
    pub metrics: Arc<Metrics>,
    /// Traffic of the last 15 minutes, per second.
    pub sampler: Arc<Sampler>,
    /// Load tests started from the console.
    pub bench: Bench,
    pub object_rates: Arc<ObjectRates>,
    pub node_history: Arc<NodeHistory>,
    /// Addresses that listeners are bound to, with the ports that the system chose for port 0.
    pub bound: Arc<BoundAddresses>,
    /// The metrics page with all counters.
    pub metrics_page: MetricsPage,
    /// Parts that change nodes independently of requests, such as health checks.
    pub drivers: Drivers,
    /// State of the configuration in service, for the control API.
    pub configuration: Arc<Configuration>,
    /// The document in service, if the source is a file or documents.
    pub documents: Arc<watch::Sender<Arc<Fingerprints>>>,
    pub catalogue: Arc<Catalogue>,
    /// Services of the process that plugins may use.
    pub services: Arc<Services>,
    /// Resolvers of secret references in plugin configurations.
    pub secret_managers: Arc<SecretManagers>,
    /// Parts of the process that are down.
    pub outages: Arc<Outages>,
    /// The shared registry database, if one is configured.
    pub registry_database: Arc<SharedDatabase>,
    /// File descriptor limits of each part.
    pub descriptors: Descriptors,
    /// Local channel from the data plane to ShenYu's admin.
    pub local_channel: Arc<LocalChannel>,
    /// Channel from the console to ShenYu's admin.
    pub shenyu_access: Arc<ShenyuAccess>,
}

impl ControlContext {
    /// State of a process without a configuration in service. Its data folder must exist.
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
        services.endpoints =
            endpoints::for_plugins(&catalogue, &identity.id, &metrics, &metrics_page);
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
            secret_managers,
            bootstrap: Arc::new(bootstrap.clone()),
            identity,
            audit: Arc::new(Audit::in_folder(&bootstrap.data_dir, Arc::clone(&metrics))),
            outages: Arc::new(Outages::new(Arc::clone(&metrics))),
            sampler: Arc::new(Sampler::new(Arc::clone(&metrics))),
            bound,
            object_rates: Arc::default(),
            node_history: Arc::default(),
            bench: Bench::new(
                BenchSettings {
                    is_on: bootstrap.console.bench,
                    targets: bootstrap.console.bench_targets.clone(),
                },
                &bootstrap.data_dir,
                std::env::current_exe().unwrap_or_else(|_| "tollhouse".into()),
            ),
            metrics,
            metrics_page,
            drivers: Drivers::new(health, staples, sources),
            configuration: Arc::default(),
            documents: Arc::new(watch::Sender::new(Arc::default())),
            catalogue,
            services: Arc::new(services),
            descriptors,
            local_channel: Arc::new(LocalChannel::new()),
            shenyu_access: Arc::default(),
        })
    }

    /// Prefix of object keys in a store, without a slash at the end.
    pub fn store_prefix(&self) -> &str {
        self.bootstrap.admin.prefix.trim_end_matches('/')
    }
}
