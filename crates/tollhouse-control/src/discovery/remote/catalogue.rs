//! Services of a registry outside of this process, as last read.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tollhouse_model::upstream::Discovery;

use crate::discovery::service_nodes::{
    InstanceFacts, NEVER_PROTECTED, ServiceLookup, ServiceSource, SourceFailure,
};

/// Age of instances that were there when their service was read first: slow start takes them for
/// old ones.
const OLD: Duration = Duration::from_secs(24 * 3600);

/// Name of a service.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ServiceName {
    pub(crate) namespace: String,
    pub(crate) group: String,
    pub(crate) service: String,
}

/// Instance of a service, as its registry describes it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct RemoteInstance {
    pub(crate) host: String,
    pub(crate) port: u32,
    pub(crate) weight: u32,
    pub(crate) is_healthy: bool,
    /// Whether an operator has taken it out of traffic.
    pub(crate) is_isolated: bool,
    pub(crate) metadata: BTreeMap<String, String>,
}

/// Services that upstreams name, with their instances.
#[derive(Debug, Default)]
pub struct Catalogue {
    state: Mutex<State>,
    /// Counter that changes when services must be read by [`ServiceSource`] again.
    published: watch::Sender<u64>,
    /// Counter that changes when other services are followed.
    wanted: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct State {
    /// Service of each followed upstream, by the upstream's key.
    followed: BTreeMap<String, ServiceName>,
    services: BTreeMap<ServiceName, Service>,
    revision: u128,
}

#[derive(Debug, Default)]
struct Service {
    /// Last successful reading.
    reading: Option<Reading>,
    /// Failure since then.
    failure: Option<(String, Instant)>,
}

#[derive(Debug)]
struct Reading {
    revision: u128,
    /// Instances with the time at which they were seen first; `None` if the service is unknown.
    instances: Option<Vec<(RemoteInstance, Option<Instant>)>>,
}

impl ServiceName {
    fn from_discovery(discovery: &Discovery) -> Self {
        let Discovery { namespace, group, service, .. } = discovery;
        let (namespace, group) = (namespace.clone(), group.clone());
        Self { namespace, group, service: service.clone() }
    }
}

impl Catalogue {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Follows the service of the upstream `key`.
    pub(super) fn follow(&self, key: &str, discovery: &Discovery) {
        let name = ServiceName::from_discovery(discovery);
        let mut state = self.state();
        state.services.entry(name.clone()).or_default();
        let before = state.followed.insert(key.to_owned(), name.clone());
        if before.as_ref() == Some(&name) {
            return;
        }
        state.drop_unused();
        drop(state);
        self.wanted.send_modify(|version| *version += 1);
    }

    /// Stops following the service of the upstream `key`.
    pub(super) fn leave(&self, key: &str) {
        let mut state = self.state();
        if state.followed.remove(key).is_none() {
            return;
        }
        state.drop_unused();
        drop(state);
        self.wanted.send_modify(|version| *version += 1);
    }

    /// Returns the followed services.
    pub(crate) fn services(&self) -> BTreeSet<ServiceName> {
        self.state().services.keys().cloned().collect()
    }

    pub(crate) fn service_count(&self) -> usize {
        self.state().services.len()
    }

    /// Returns the counter of changes of the followed services.
    pub(crate) fn wanted(&self) -> watch::Receiver<u64> {
        self.wanted.subscribe()
    }

    /// Stores what was read about a service: its instances, or `None` if the registry has no such
    /// service.
    pub(crate) fn put(&self, name: &ServiceName, instances: Option<Vec<RemoteInstance>>) {
        let mut state = self.state();
        let revision = state.revision + 1;
        let Some(service) = state.services.get_mut(name) else { return };
        let failure = service.failure.take();
        let has_recovered = failure.is_some();
        let is_same = service.reading.as_ref().is_some_and(|reading| reading.has(&instances));
        if !is_same {
            let reading = Reading::after(service.reading.take(), instances, revision);
            service.reading = Some(reading);
            state.revision = revision;
        }
        let are_all_good = has_recovered && state.failing() == 0;
        drop(state);
        // One line for the registry, not one for each service.
        if are_all_good {
            tracing::info!(service = name.service, "a registry of nodes can be read again");
        }
        if has_recovered || !is_same {
            self.published.send_modify(|version| *version += 1);
        }
    }

    /// Notes that a service could not be read. Its last instances stay.
    pub(crate) fn fail(&self, name: &ServiceName, reason: &str) {
        let mut state = self.state();
        let Some(service) = state.services.get_mut(name) else { return };
        let since = service.failure.as_ref().map_or_else(Instant::now, |(_, since)| *since);
        let is_news = service.failure.is_none();
        service.failure = Some((reason.to_owned(), since));
        let is_first = is_news && state.failing() == 1;
        drop(state);
        if is_first {
            tracing::warn!(service = name.service, reason, "a registry of nodes cannot be read");
        }
        if is_news {
            self.published.send_modify(|version| *version += 1);
        }
    }
}

impl State {
    /// Number of services that cannot be read now.
    fn failing(&self) -> usize {
        self.services.values().filter(|service| service.failure.is_some()).count()
    }

    fn drop_unused(&mut self) {
        let used: BTreeSet<&ServiceName> = self.followed.values().collect();
        self.services.retain(|name, _| used.contains(name));
    }
}

impl Reading {
    fn has(&self, instances: &Option<Vec<RemoteInstance>>) -> bool {
        match (&self.instances, instances) {
            (None, None) => true,
            (Some(known), Some(new)) => known.iter().map(|(instance, _)| instance).eq(new),
            (Some(_), None) | (None, Some(_)) => false,
        }
    }

    fn after(before: Option<Self>, instances: Option<Vec<RemoteInstance>>, revision: u128) -> Self {
        let Some(instances) = instances else { return Self { revision, instances: None } };
        let is_first = before.is_none();
        let known: BTreeMap<(String, u32), Option<Instant>> = before
            .and_then(|before| before.instances)
            .into_iter()
            .flatten()
            .map(|(instance, since)| ((instance.host, instance.port), since))
            .collect();
        let now = Instant::now();
        let dated = instances.into_iter().map(|instance| {
            let since = known.get(&(instance.host.clone(), instance.port)).copied();
            let since = since.unwrap_or(if is_first { None } else { Some(now) });
            (instance, since)
        });
        Self { revision, instances: Some(dated.collect()) }
    }
}

impl ServiceSource for Catalogue {
    fn read(
        &self,
        service: &Discovery,
        known: Option<u128>,
        show: &mut dyn FnMut(&InstanceFacts<'_>),
    ) -> ServiceLookup {
        let state = self.state();
        let Some(service) = state.services.get(&ServiceName::from_discovery(service)) else {
            return ServiceLookup::Pending;
        };
        let Some(reading) = &service.reading else {
            return match service.failure {
                Some(_) => ServiceLookup::Failed,
                None => ServiceLookup::Pending,
            };
        };
        let Some(instances) = &reading.instances else { return ServiceLookup::Missing };
        if known == Some(reading.revision) {
            return ServiceLookup::Unchanged;
        }
        for (instance, since) in instances {
            let metadata = &instance.metadata;
            let has_pair = |key: &str, value: &str| metadata.get(key).is_some_and(|it| it == value);
            show(&InstanceFacts {
                host: &instance.host,
                port: instance.port,
                weight: instance.weight,
                is_healthy: instance.is_healthy,
                is_isolated: instance.is_isolated,
                version: metadata.get("version").map_or("", |version| version),
                has_pair: &has_pair,
                age: since.map_or(OLD, |since| since.elapsed()),
            });
        }
        ServiceLookup::Visited { revision: reading.revision, protect_threshold: NEVER_PROTECTED }
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.published.subscribe()
    }

    fn failure(&self, service: &Discovery) -> Option<SourceFailure> {
        let state = self.state();
        let service = state.services.get(&ServiceName::from_discovery(service))?;
        let (reason, since) = service.failure.as_ref()?;
        let (reason, age) = (reason.clone(), since.elapsed());
        Some(SourceFailure { reason, age, keeps_nodes: service.reading.is_some() })
    }
}

#[cfg(test)]
mod tests {
    use tollhouse_model::upstream::DiscoverySource;

    use super::*;

    fn orders() -> Discovery {
        Discovery::new(DiscoverySource::Consul, "", "orders")
    }

    fn instance(port: u32) -> RemoteInstance {
        let host = "10.0.0.1".to_owned();
        RemoteInstance { host, port, weight: 1, is_healthy: true, ..RemoteInstance::default() }
    }

    /// Result of a reading, with the ports that were shown.
    fn read(catalogue: &Catalogue, known: Option<u128>) -> (ServiceLookup, Vec<(u32, bool)>) {
        let mut shown = Vec::new();
        let mut show = |facts: &InstanceFacts<'_>| shown.push((facts.port, facts.age >= OLD));
        (catalogue.read(&orders(), known, &mut show), shown)
    }

    #[test]
    fn a_failure_keeps_the_last_instances() {
        let catalogue = Catalogue::default();
        let name = ServiceName::from_discovery(&orders());
        catalogue.put(&name, Some(vec![instance(1)]));
        assert_eq!(read(&catalogue, None).0, ServiceLookup::Pending, "it is not followed yet");
        catalogue.follow("routes/1", &orders());
        catalogue.fail(&name, "gone");
        assert_eq!(read(&catalogue, None).0, ServiceLookup::Failed);
        catalogue.put(&name, Some(vec![instance(1)]));
        assert!(catalogue.failure(&orders()).is_none());
        let (lookup, shown) = read(&catalogue, None);
        assert_eq!(shown, [(1, true)]);
        let ServiceLookup::Visited { revision, .. } = lookup else { panic!("{lookup:?}") };
        catalogue.fail(&name, "gone");
        assert_eq!(read(&catalogue, None).1, shown);
        assert_eq!(read(&catalogue, Some(revision)).0, ServiceLookup::Unchanged);
        let failure = catalogue.failure(&orders()).expect("a failure");
        assert_eq!((&*failure.reason, failure.keeps_nodes), ("gone", true));
        catalogue.put(&name, Some(vec![instance(1), instance(2)]));
        assert_eq!(
            read(&catalogue, Some(revision)).1,
            [(1, true), (2, false)],
            "a new one is young"
        );
        catalogue.put(&name, None);
        assert_eq!(read(&catalogue, None).0, ServiceLookup::Missing);
    }

    #[test]
    fn a_service_is_followed_as_long_as_an_upstream_names_it() {
        let catalogue = Catalogue::default();
        let mut wanted = catalogue.wanted();
        for key in ["routes/1", "routes/2"] {
            catalogue.follow(key, &orders());
        }
        assert!(wanted.has_changed().expect("open"));
        wanted.mark_unchanged();
        catalogue.follow("routes/1", &orders());
        assert!(!wanted.has_changed().expect("open"), "nothing else is followed");
        catalogue.leave("routes/1");
        assert_eq!(catalogue.services().len(), 1);
        catalogue.leave("routes/2");
        assert_eq!(catalogue.services().len(), 0);
    }
}
