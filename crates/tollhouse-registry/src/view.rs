//! Views: precomputed results of look-ups. The state updates them with each change; readers never
//! build them.

use std::sync::Arc;

use tollhouse_stdx::CowMap;

use crate::alias::Alias;
use crate::chunked::Chunked;
use crate::config::ConfigGroupView;
use crate::encoded::Encoded;
use crate::instance::Instance;
use crate::namespace::Namespace;
use crate::revision::Revision;
use crate::rule::Rule;
use crate::service::Service;

/// Number of instances, in total and by state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    pub total: u32,
    /// Number of instances that are healthy and not isolated.
    pub healthy: u32,
    /// Number of the healthy instances whose health is not checked.
    pub unchecked: u32,
    pub isolated: u32,
}

impl Counts {
    /// Returns the number of instances that are unhealthy and not isolated.
    pub fn unhealthy(self) -> u32 {
        self.total - self.healthy - self.isolated
    }

    fn add(&mut self, instance: &Instance) {
        self.total += 1;
        self.isolated += u32::from(instance.isolated);
        self.healthy += u32::from(instance.healthy && !instance.isolated);
        self.unchecked += u32::from(is_unchecked(instance));
    }

    fn remove(&mut self, instance: &Instance) {
        debug_assert!(self.total > 0, "what goes was counted when it came");
        self.total -= 1;
        self.isolated -= u32::from(instance.isolated);
        self.healthy -= u32::from(instance.healthy && !instance.isolated);
        self.unchecked -= u32::from(is_unchecked(instance));
    }
}

/// True if the instance counts as healthy only because its health is not checked.
fn is_unchecked(instance: &Instance) -> bool {
    instance.healthy && !instance.isolated && instance.ttl_seconds.is_none()
}

#[derive(Debug, Clone)]
pub struct ServiceView {
    pub service: Arc<Service>,
    /// Revision that differs after any change of the service or of its instances.
    pub revision: Revision,
    pub counts: Counts,
    /// Cached head of the answer that lists the service's instances.
    pub encoded: Encoded,
    pub members: Chunked<Instance>,
    /// Index of the service in its namespace's list.
    pub(crate) place: u32,
}

impl ServiceView {
    pub(crate) fn new(service: Arc<Service>, place: u32) -> Self {
        Self {
            revision: service.revision,
            service,
            counts: Counts::default(),
            encoded: Encoded::default(),
            members: Chunked::new(),
            place,
        }
    }

    /// Iterates over the instances; the order is unspecified, but fixed while the revision is.
    pub fn instances(&self) -> impl Iterator<Item = &Arc<Instance>> {
        self.members.iter()
    }

    /// Replaces the service and keeps its instances.
    pub(crate) fn set_service(&mut self, service: Arc<Service>) {
        self.revision = self.revision.without(self.service.revision).with(service.revision);
        self.service = service;
        self.encoded = Encoded::default();
    }

    /// Adds an instance and returns its slot.
    pub(crate) fn push(&mut self, instance: Arc<Instance>) -> u32 {
        self.counts.add(&instance);
        self.revision = self.revision.with(instance.revision);
        self.members.push(instance)
    }

    /// Replaces the instance of a slot.
    pub(crate) fn replace(&mut self, slot: u32, instance: Arc<Instance>) {
        self.counts.add(&instance);
        self.revision = self.revision.with(instance.revision);
        let replaced = self.members.set(slot, instance);
        self.forget(&replaced);
    }

    /// Removes the instance of a slot. The last instance moves into the slot and is returned.
    pub(crate) fn remove(&mut self, slot: u32) -> Option<Arc<Instance>> {
        let (removed, moved) = self.members.remove(slot)?;
        self.forget(&removed);
        moved
    }

    fn forget(&mut self, instance: &Instance) {
        self.counts.remove(instance);
        self.revision = self.revision.without(instance.revision);
    }
}

/// A namespace with its services and counts.
#[derive(Debug, Clone)]
pub struct NamespaceView {
    pub namespace: Arc<Namespace>,
    /// Revision that changes when a service in the namespace is created, changed or deleted, but
    /// not when only instances change.
    pub services_revision: Revision,
    /// Revision that changes when an alias in the namespace is created, changed or deleted.
    pub aliases_revision: Revision,
    pub services: Chunked<Service>,
    pub aliases: Chunked<Alias>,
    /// Numbers of instances of all services in the namespace.
    pub counts: Counts,
    /// Groups of configuration files by name.
    pub(crate) config_groups: CowMap<Arc<str>, Arc<ConfigGroupView>>,
    /// Changes when a group of configuration files is created, changed or deleted.
    pub config_revision: Revision,
}

impl NamespaceView {
    /// Returns the revision of the list of all names of services, aliases included.
    pub fn names_revision(&self) -> Revision {
        self.services_revision.with(self.aliases_revision)
    }

    /// Iterates over the groups of configuration files, in no defined order.
    pub fn config_groups(&self) -> impl Iterator<Item = &Arc<ConfigGroupView>> {
        self.config_groups.values()
    }
}

/// Service that a name refers to, and the alias if the name is one.
#[derive(Debug, Clone, Copy)]
pub struct Resolved<'a> {
    pub view: &'a Arc<ServiceView>,
    /// Alias that was followed; `None` if the name is the service's own.
    pub alias: Option<&'a Arc<Alias>>,
}

/// Mass expiry of a service: silent instances are kept instead of expired.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MassExpiry {
    /// Start, in milliseconds of Unix time.
    pub since_ms: u64,
    /// Number of silent instances that are kept.
    pub kept: u32,
}

/// Rules of one kind for the clients of one service.
#[derive(Debug, Clone, Default)]
pub struct RuleSet {
    /// Rules, sorted by priority, then creation time, then id.
    pub rules: Vec<Arc<Rule>>,
    /// Revision that differs after any change of these rules.
    pub revision: Revision,
}

impl RuleSet {
    pub(crate) fn sort(&mut self) {
        self.rules.sort_by(|first, second| {
            let order = |rule: &Rule| (rule.priority, rule.created_at);
            order(first).cmp(&order(second)).then_with(|| first.id.cmp(&second.id))
        });
        self.rules.dedup_by(|second, first| second.id == first.id);
        self.revision =
            self.rules.iter().fold(Revision::default(), |sum, rule| sum.with(rule.revision));
    }
}
