//! What all parts of the control side share.

use std::sync::Arc;

use tokio::sync::watch;
use tollhouse_config::{Bootstrap, Fingerprints};
use tollhouse_plugin::{Catalogue, Services};
use tollhouse_stdx::MemoryBudget;
use tollhouse_telemetry::Metrics;
use tollhouse_upstream::HealthSupervisor;

use crate::audit::Audit;
use crate::configuration::Configuration;
use crate::console::bench::Bench;
use crate::console::bound::BoundAddresses;
use crate::console::node_history::NodeHistory;
use crate::console::object_rates::ObjectRates;
use crate::console::sampler::Sampler;
use crate::console::shenyu::ShenyuDesk;
use crate::identity::Identity;
use crate::keepers::Keepers;
use crate::metrics::MetricsPage;
use crate::outages::Outages;
use crate::plugins::{self, endpoints};
use crate::registry::database::SharedDatabase;
use crate::registry::nodes::Reach;
use crate::resources::Drivers;
use crate::settings::descriptors::Descriptors;
use crate::shenyu_local::LocalDoor;
use crate::staples::{Asking, Staples};

/// See the module. Cheap to clone.
#[derive(Debug, Clone)]
pub struct ControlContext {
    /// What the process was told at its start.
    pub bootstrap: Arc<Bootstrap>,
    /// Who this gateway is.
    pub identity: Arc<Identity>,
    /// The audit of the Admin API.
    pub audit: Arc<Audit>,
    /// Counters.
    pub metrics: Arc<Metrics>,
    /// What they grew by, second by second.
    pub sampler: Arc<Sampler>,
    /// The load generator, for the console.
    pub bench: Bench,
    /// How many requests objects take.
    pub object_rates: Arc<ObjectRates>,
    /// How the state of nodes has changed of late.
    pub node_history: Arc<NodeHistory>,
    /// Where the parts of the process listen.
    pub bound: Arc<BoundAddresses>,
    /// The page of them and of everything else that is counted.
    pub metrics_page: MetricsPage,
    /// What changes nodes beside requests.
    pub drivers: Drivers,
    /// What the control API shows of the configuration in service.
    pub configuration: Arc<Configuration>,
    /// The document in service, where resources come as documents.
    pub documents: Arc<watch::Sender<Arc<Fingerprints>>>,
    /// The plugins that may be used.
    pub catalogue: Arc<Catalogue>,
    /// What the process offers them.
    pub services: Arc<Services>,
    /// Who keeps what confs refer to.
    pub keepers: Arc<Keepers>,
    /// Which parts of the process are down.
    pub outages: Arc<Outages>,
    /// The database that nodes share for the registry, if one is named.
    pub registry_database: Arc<SharedDatabase>,
    /// How many files each part may open.
    pub descriptors: Descriptors,
    /// The way from the data plane to whoever writes ShenYu's objects.
    pub local_door: Arc<LocalDoor>,
    /// The way from the console to the same.
    pub shenyu_desk: Arc<ShenyuDesk>,
}

impl ControlContext {
    /// Of a process that has nothing in service yet. Its data folder exists.
    ///
    /// # Errors
    /// The data folder cannot be used, or the bootstrap file names a plugin that does not exist.
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
        // Endpoints of plugins show metrics, so they come after the page that collects those.
        let mut services = plugins::services(bootstrap, memory);
        let metrics_page = MetricsPage::new(Arc::clone(&metrics), Arc::clone(&health), &services);
        services.endpoints =
            endpoints::for_plugins(&catalogue, &identity.id, &metrics, &metrics_page);
        let environment = tollhouse_config::environment_secrets(&bootstrap.secrets.env);
        let keepers = Arc::new(Keepers::new(Box::new(environment)));
        services.secrets = Some(Arc::<Keepers>::clone(&keepers));
        let registry_database = Arc::new(SharedDatabase::new(&identity));
        let asking = if bootstrap.tls.ocsp_stapling { Asking::On } else { Asking::Off };
        let staples = Staples::new(asking, &bootstrap.data_dir, Arc::clone(&metrics));
        let bound = Arc::<BoundAddresses>::default();
        let reach = Reach::new(bootstrap, Arc::clone(&bound));
        Ok(Self {
            registry_database,
            keepers,
            bootstrap: Arc::new(bootstrap.clone()),
            identity,
            audit: Arc::new(Audit::in_folder(&bootstrap.data_dir, Arc::clone(&metrics))),
            outages: Arc::new(Outages::new(Arc::clone(&metrics))),
            sampler: Arc::new(Sampler::new(Arc::clone(&metrics))),
            bound,
            object_rates: Arc::default(),
            node_history: Arc::default(),
            bench: Bench::new(
                bootstrap.console.bench,
                bootstrap.console.bench_targets.clone(),
                &bootstrap.data_dir,
                std::env::current_exe().unwrap_or_else(|_| "tollhouse".into()),
            ),
            metrics,
            metrics_page,
            drivers: Drivers::new(health, staples, reach),
            configuration: Arc::default(),
            documents: Arc::new(watch::Sender::new(Arc::default())),
            catalogue,
            services: Arc::new(services),
            descriptors,
            local_door: Arc::new(LocalDoor::new()),
            shenyu_desk: Arc::default(),
        })
    }

    /// What the keys of objects begin with in a store.
    pub fn store_prefix(&self) -> &str {
        self.bootstrap.admin.prefix.trim_end_matches('/')
    }
}
