//! Views: what readers find under a name. Made by the state as it changes, never built by a reader.

use std::sync::Arc;

use crate::alias::Alias;
use crate::chunked::Chunked;
use crate::encoded::Encoded;
use crate::instance::Instance;
use crate::namespace::Namespace;
use crate::revision::Revision;
use crate::rule::Rule;
use crate::service::Service;

/// How many instances there are, and of which kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// All of them.
    pub total: u32,
    /// Those that are healthy and not isolated.
    pub healthy: u32,
    /// Those that are isolated.
    pub isolated: u32,
}

impl Counts {
    /// Those that are unhealthy and not isolated.
    pub fn unhealthy(self) -> u32 {
        self.total - self.healthy - self.isolated
    }

    fn add(&mut self, instance: &Instance) {
        self.total += 1;
        self.isolated += u32::from(instance.isolated);
        self.healthy += u32::from(instance.healthy && !instance.isolated);
    }

    fn remove(&mut self, instance: &Instance) {
        debug_assert!(self.total > 0, "what goes was counted when it came");
        self.total -= 1;
        self.isolated -= u32::from(instance.isolated);
        self.healthy -= u32::from(instance.healthy && !instance.isolated);
    }
}

/// A service with its instances.
#[derive(Debug, Clone)]
pub struct ServiceView {
    /// The service.
    pub service: Arc<Service>,
    /// Changes when the service or any instance of it does.
    pub revision: Revision,
    /// How many instances it has.
    pub counts: Counts,
    /// The encoded head of the answer to who asks for its instances.
    pub encoded: Encoded,
    /// Its instances.
    pub members: Chunked<Instance>,
    /// Its place in the list of its namespace.
    pub(crate) place: u32,
}

impl ServiceView {
    /// A service without instances.
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

    /// Its instances, in no promised order, which is the same while the revision is.
    pub fn instances(&self) -> impl Iterator<Item = &Arc<Instance>> {
        self.members.iter()
    }

    /// Replaces the service and keeps the instances.
    pub(crate) fn set_service(&mut self, service: Arc<Service>) {
        self.revision = self.revision.without(self.service.revision).with(service.revision);
        self.service = service;
        self.encoded = Encoded::default();
    }

    /// Adds an instance; tells its slot.
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

    /// Takes the instance of a slot out; the last one moves into the slot, and is told.
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

/// A namespace with what is counted of it.
#[derive(Debug, Clone)]
pub struct NamespaceView {
    /// The namespace.
    pub namespace: Arc<Namespace>,
    /// Changes when any of its services is created, changed or deleted; not with instances.
    pub services_revision: Revision,
    /// Changes when any of its aliases is created, changed or deleted.
    pub aliases_revision: Revision,
    /// Its services.
    pub services: Chunked<Service>,
    /// Its aliases.
    pub aliases: Chunked<Alias>,
    /// Of all instances of its services.
    pub counts: Counts,
}

impl NamespaceView {
    /// Revision of the list of all names of services, aliases included.
    pub fn names_revision(&self) -> Revision {
        self.services_revision.with(self.aliases_revision)
    }
}

/// What a name leads to.
#[derive(Debug, Clone, Copy)]
pub struct Resolved<'a> {
    /// The service.
    pub view: &'a Arc<ServiceView>,
    /// The alias that led there.
    pub alias: Option<&'a Arc<Alias>>,
}

/// A service that keeps instances although they have fallen silent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MassExpiry {
    /// Since this millisecond of Unix time.
    pub since_ms: u64,
    /// How many are kept.
    pub kept: u32,
}

/// The rules of one kind that clients of one name get.
#[derive(Debug, Clone, Default)]
pub struct RuleSet {
    /// By priority, then by age, then by id.
    pub rules: Vec<Arc<Rule>>,
    /// Changes when any of them does.
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
