//! The registry of this process as a [`ServiceSource`].

use std::time::Duration;

use tokio::sync::watch;
use tollhouse_model::upstream::RegistryService;
use tollhouse_registry::{Instance, Registry, ServiceRef};

use super::{InstanceFacts, ServiceLookup, ServiceSource};

/// Default protection threshold of a service: unhealthy instances serve only if none is healthy.
const PROTECT_THRESHOLD_DEFAULT: f64 = 0.0;

impl ServiceSource for Registry {
    fn read(
        &self,
        service: &RegistryService,
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
    use std::collections::BTreeMap;
    use std::sync::Arc;

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

    fn orders() -> RegistryService {
        RegistryService {
            namespace: "prod".into(),
            service: "orders".into(),
            metadata: BTreeMap::new(),
            version: None,
        }
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
