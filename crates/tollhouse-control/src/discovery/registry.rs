//! Nodes from the service registry of this process: at once for a new upstream, and after each new
//! state of the registry.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::watch;
use tollhouse_model::upstream::Discovery;
use tollhouse_registry::{Instance, Registry, ServiceRef};
use tollhouse_upstream::UpstreamState;

use super::service_nodes::{
    InstanceFacts, Reach, ServiceLookup, ServiceNodes, ServiceSource, UpstreamReport,
};
use super::{Detail, NodeSource, SourceSettings};

/// Default protection threshold of a service: unhealthy instances serve only if none is healthy.
const PROTECT_THRESHOLD_DEFAULT: f64 = 0.0;

const THREAD: &str = "registry-nodes";

/// Upstreams whose nodes come from the registry.
#[derive(Debug)]
pub struct Source {
    nodes: Arc<ServiceNodes>,
    /// Set once the follower thread was started.
    has_thread: AtomicBool,
}

impl NodeSource for Source {
    fn open(settings: &SourceSettings<'_>) -> Self {
        let reach = Reach::new(settings.bootstrap, Arc::clone(settings.bound));
        Self { nodes: Arc::new(ServiceNodes::within(reach)), has_thread: AtomicBool::new(false) }
    }

    fn follow(&self, upstream: &Arc<UpstreamState>) {
        self.nodes.follow_upstream(upstream);
    }

    fn leave(&self, key: &str) {
        self.nodes.leave(key);
    }

    fn report(&self, detail: Detail) -> Vec<UpstreamReport> {
        self.nodes.report(detail)
    }
}

impl Source {
    /// Switches to this registry, and starts the follower thread on the first call. A separate
    /// thread is used because the control thread yields to workers, and removed instances must
    /// disappear even under full load.
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub fn connect(&self, registry: &Registry) -> io::Result<()> {
        self.nodes.connect(Arc::new(registry.clone()));
        if self.has_thread.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        let nodes = Arc::clone(&self.nodes);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
        let thread = std::thread::Builder::new().name(THREAD.to_owned());
        thread.spawn(move || runtime.block_on(nodes.run())).map(drop)
    }
}

impl ServiceSource for Registry {
    fn read(
        &self,
        service: &Discovery,
        known: Option<u128>,
        show: &mut dyn FnMut(&InstanceFacts<'_>),
    ) -> ServiceLookup {
        let state = self.state();
        let name = ServiceRef { namespace: &service.namespace, name: &service.service };
        let Some(found) = state.resolve(name) else { return ServiceLookup::Missing };
        let revision = found.view.revision.0;
        if known == Some(revision) {
            return ServiceLookup::Unchanged;
        }
        let now_ms = self.now_ms();
        found.view.instances().for_each(|instance| show_one(instance, now_ms, show));
        let threshold = found.view.service.protect_threshold();
        ServiceLookup::Visited {
            revision,
            protect_threshold: threshold.unwrap_or(PROTECT_THRESHOLD_DEFAULT),
        }
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.subscribe()
    }
}

fn show_one(instance: &Instance, now_ms: u64, show: &mut dyn FnMut(&InstanceFacts<'_>)) {
    let has_pair =
        |key: &str, value: &str| instance.metadata.get(key).is_some_and(|held| **held == *value);
    show(&InstanceFacts {
        host: &instance.host,
        port: u32::from(instance.port),
        weight: u32::from(instance.weight),
        is_healthy: instance.healthy,
        is_isolated: instance.isolated,
        version: &instance.version,
        has_pair: &has_pair,
        age: Duration::from_millis(now_ms.saturating_sub(instance.created_at * 1_000)),
    });
}

#[cfg(test)]
mod tests {
    use tollhouse_model::upstream::DiscoverySource;
    use tollhouse_registry::{
        Clock, Command, Keeper, ManualClock, Metadata, NewInstance, Options, ServiceChange,
        ServiceKey,
    };
    use tollhouse_store::Location;

    use super::*;

    async fn registry(clock: &Arc<ManualClock>) -> Registry {
        let store = tollhouse_store::open(&Location::Memory).expect("a store");
        let options = Options { clock: Clock::Manual(Arc::clone(clock)), ..Options::default() };
        let (keeper, registry) = Keeper::open(store, options).await.expect("it is empty");
        tokio::spawn(keeper.run(std::future::pending()));
        registry
    }

    fn instance(id: &str, port: u32) -> NewInstance {
        NewInstance {
            id: id.into(),
            service: "orders".into(),
            namespace: "prod".into(),
            host: "10.0.0.1".into(),
            port: Some(port),
            ..NewInstance::default()
        }
    }

    fn orders() -> Discovery {
        Discovery::new(DiscoverySource::Registry, "prod", "orders")
    }

    /// Result of reading the service, and the facts as text.
    fn read(registry: &Registry, known: Option<u128>) -> (ServiceLookup, Vec<String>) {
        let mut shown = Vec::new();
        let lookup = ServiceSource::read(registry, &orders(), known, &mut |facts| {
            let flags = (facts.is_healthy, facts.is_isolated, (facts.has_pair)("zone", "a"));
            let InstanceFacts { host, port, weight, version, age, .. } = *facts;
            shown.push(format!("{host}:{port} {weight} {version:?} {flags:?} {}", age.as_secs()));
        });
        shown.sort();
        (lookup, shown)
    }

    #[tokio::test]
    async fn instances_are_shown_as_the_registry_holds_them() {
        let clock = ManualClock::at_ms(1_700_000_000_000);
        let registry = registry(&clock).await;
        assert_eq!(read(&registry, None), (ServiceLookup::Missing, vec![]));
        let submit = async |command| registry.submit(command).await.expect("it is good");
        let zone: Metadata = [("zone".into(), "a".into())].into_iter().collect();
        submit(Command::Register(Box::new(instance("1", 80)))).await;
        clock.advance(Duration::from_secs(9));
        let second = NewInstance {
            weight: Some(7),
            version: "2".into(),
            isolated: Some(true),
            healthy: Some(false),
            metadata: zone,
            metadata_pairs: 1,
            ..instance("2", 81)
        };
        submit(Command::Register(Box::new(second))).await;
        let mut changes = ServiceSource::changes(&registry);
        let (lookup, shown) = read(&registry, None);
        assert_eq!(
            shown,
            [
                "10.0.0.1:80 100 \"\" (true, false, false) 9",
                "10.0.0.1:81 7 \"2\" (false, true, true) 0",
            ]
        );
        let ServiceLookup::Visited { revision, protect_threshold } = lookup else {
            panic!("{lookup:?}")
        };
        assert_eq!(protect_threshold.to_bits(), 0.0_f64.to_bits());
        assert_eq!(read(&registry, Some(revision)), (ServiceLookup::Unchanged, vec![]));
        let threshold = ("internal-service-protectthreshold".into(), "0.5".into());
        let change = ServiceChange {
            metadata: Some([threshold].into_iter().collect()),
            ..ServiceChange::default()
        };
        let orders = ServiceKey::new("prod", "orders");
        submit(Command::UpdateService(orders, Box::new(change))).await;
        assert!(changes.has_changed().expect("the registry runs"));
        changes.mark_unchanged();
        let (lookup, shown) = read(&registry, Some(revision));
        assert!(matches!(lookup, ServiceLookup::Visited { protect_threshold, .. }
            if protect_threshold.to_bits() == 0.5_f64.to_bits()));
        assert_eq!(shown.len(), 2);
    }
}
