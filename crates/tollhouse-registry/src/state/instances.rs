//! Instances in the state: registration, change, expiry, recovery, removal.

use std::collections::HashSet;
use std::sync::Arc;

use crate::check;
use crate::command::{InstanceChange, NewInstance, Outcome};
use crate::encoded::Encoded;
use crate::event::InstanceEvent;
use crate::held_bytes::{MemoryClass, MemorySize};
use crate::instance::Instance;
use crate::journal::{Before, Record};
use crate::key::ServiceKey;
use crate::limits::{INSTANCES_MAX, WEIGHT_DEFAULT};
use crate::pulse::Pulse;
use crate::refusal::{Noun, Refusal};
use crate::view::{Counts, ServiceView};

use super::namespaces::replace;
use super::{Change, InstanceSlot, State};

impl State {
    pub(super) fn register(
        &mut self,
        new: NewInstance,
        change: &mut Change<'_>,
    ) -> Result<Outcome, Refusal> {
        check::instance(&new)?;
        let key = ServiceKey::new(&new.namespace, &new.service);
        let current = self.instances.get(&*new.id).map(|placed| Arc::clone(&placed.instance));
        if current.is_none() && self.instances.len() >= INSTANCES_MAX {
            return Err(Refusal::Full { what: "instances", max: INSTANCES_MAX });
        }
        if self.aliases.contains_key(&key) {
            return Err(Refusal::IsAlias);
        }
        // Keys are shared, so that instances do not hold copies of the names.
        let key = self.services.get(&key).map_or(key, |view| view.service.key.clone());
        let instance = self.new_instance(new, key, current.as_deref(), change.now_ms);
        let record = self.record_instance(&instance, current.as_deref())?;
        self.ensure_service(&instance.service, change)?;
        change.journal.put(record, current.as_ref().into());
        let instance = self.put_instance(instance);
        change.events.push(InstanceEvent::Registered(Arc::clone(&instance), current));
        Ok(Outcome::Instance(instance))
    }

    /// Returns the record of an instance if memory suffices.
    pub(super) fn record_instance(
        &self,
        instance: &Instance,
        before: Option<&Instance>,
    ) -> Result<Record, Refusal> {
        let before = before.map_or(0, MemorySize::held_bytes);
        self.held.check(MemoryClass::Registrations, before, instance.held_bytes())?;
        Record::instance(instance)
    }

    fn new_instance(
        &mut self,
        new: NewInstance,
        service: ServiceKey,
        current: Option<&Instance>,
        now_ms: u64,
    ) -> Instance {
        // The pulse is reused, because other threads and the timer wheel hold it across versions.
        let pulse = match current {
            Some(current) => Arc::clone(&current.pulse),
            None => Pulse::new(Arc::clone(&new.id), now_ms),
        };
        let healthy = new.healthy.unwrap_or(true);
        let ttl_seconds = new.ttl_seconds.map(check::ttl_seconds);
        // An operator's isolation survives a client that registers at every start.
        let kept_isolated = current.is_some_and(|current| current.isolated);
        let weight = new.weight.and_then(|weight| u16::try_from(weight).ok());
        Instance {
            id: Arc::clone(pulse.id()),
            service,
            host: new.host.trim().into(),
            port: new.port.and_then(|port| u16::try_from(port).ok()).unwrap_or_default(),
            vpc_id: new.vpc_id,
            protocol: new.protocol,
            version: new.version,
            priority: new.priority,
            weight: weight.unwrap_or(WEIGHT_DEFAULT),
            ttl_seconds,
            healthy,
            isolated: new.isolated.unwrap_or(kept_isolated),
            location: new.location,
            metadata: new.metadata,
            logic_set: new.logic_set,
            created_at: now_ms / 1_000,
            modified_at: now_ms / 1_000,
            revision: self.next_revision(),
            expired_after_beat: None,
            unknown: new.unknown,
            pulse,
        }
    }

    /// Stores a new or changed instance, and moves it if its service has changed.
    pub(super) fn put_instance(&mut self, instance: Instance) -> Arc<Instance> {
        let instance = Arc::new(instance);
        let current = self.instances.get(&instance.id).cloned();
        let before = current.as_ref().map_or(0, |current| current.instance.held_bytes());
        self.held.replace(MemoryClass::Registrations, before, instance.held_bytes());
        let slot = match current {
            Some(current) if current.instance.service == instance.service => {
                self.change_view(&instance.service, |view| {
                    view.replace(current.slot, Arc::clone(&instance));
                    current.slot
                })
            }
            Some(current) => {
                self.take_out(&current);
                self.change_view(&instance.service, |view| view.push(Arc::clone(&instance)))
            }
            None => self.change_view(&instance.service, |view| view.push(Arc::clone(&instance))),
        };
        debug_assert!(slot.is_some(), "a service is there before its instances");
        let Some(slot) = slot else { return instance };
        let placed = InstanceSlot { instance: Arc::clone(&instance), slot };
        self.instances.insert(Arc::clone(&instance.id), placed);
        instance
    }

    /// Changes the view of a service, and updates the counts of its namespace and of the registry.
    fn change_view<R>(
        &mut self,
        key: &ServiceKey,
        change: impl FnOnce(&mut ServiceView) -> R,
    ) -> Option<R> {
        let (before, after, result) = self.services.update(key, |view| {
            let view = Arc::make_mut(view);
            view.encoded = Encoded::default();
            let before = view.counts;
            let result = change(view);
            (before, view.counts, result)
        })?;
        recount(&mut self.counts, before, after);
        if before != after {
            self.count(&key.namespace, |view| recount(&mut view.counts, before, after));
        }
        Some(result)
    }

    /// Removes an instance from its view. The last instance of the view moves into the free slot.
    fn take_out(&mut self, placed: &InstanceSlot) {
        let key = &placed.instance.service;
        let moved = self.change_view(key, |view| view.remove(placed.slot)).flatten();
        if let Some(moved) = moved {
            self.instances.update(&*moved.id, |other| other.slot = placed.slot);
        }
    }

    pub(super) fn deregister(
        &mut self,
        id: &str,
        change: &mut Change<'_>,
    ) -> Option<Arc<Instance>> {
        let removed = self.remove_instance(id)?;
        change.journal.delete_instance(id);
        change.events.push(InstanceEvent::Deregistered(Arc::clone(&removed)));
        Some(removed)
    }

    pub(super) fn remove_instance(&mut self, id: &str) -> Option<Arc<Instance>> {
        let placed = self.instances.remove(id)?;
        self.take_out(&placed);
        self.held.replace(MemoryClass::Registrations, placed.instance.held_bytes(), 0);
        Some(placed.instance)
    }

    pub(super) fn update_instance(
        &mut self,
        id: &str,
        what: InstanceChange,
        change: &mut Change<'_>,
    ) -> Result<Outcome, Refusal> {
        let changed = self.changed_instance(id, what, change)?.ok_or(Refusal::NoChange)?;
        Ok(Outcome::Instance(self.put_changed(changed, change)))
    }

    /// Applies one change to many instances. All are checked before the first is changed, so that a
    /// refusal changes none. Instances that the change does not affect are skipped.
    pub(super) fn update_instances(
        &mut self,
        ids: &[Arc<str>],
        what: &InstanceChange,
        change: &mut Change<'_>,
    ) -> Result<Outcome, Refusal> {
        let mut seen = HashSet::new();
        let mut all = Vec::new();
        for id in ids.iter().filter(|id| seen.insert(Arc::clone(id))) {
            all.extend(self.changed_instance(id, what.clone(), change)?);
        }
        if all.is_empty() {
            return Err(Refusal::NoChange);
        }
        let put = |changed| self.put_changed(changed, change);
        Ok(Outcome::Instances(all.into_iter().map(put).collect()))
    }

    /// Returns an instance before and after a change; `None` if the change has no effect.
    fn changed_instance(
        &mut self,
        id: &str,
        what: InstanceChange,
        change: &Change<'_>,
    ) -> Result<Option<InstanceUpdate>, Refusal> {
        let before = self.instance(id).ok_or(Refusal::NotFound(Noun::Instance))?;
        let before = Arc::clone(before);
        let mut instance = Instance::clone(&before);
        set(&mut instance, what)?;
        if is_alike(&instance, &before) {
            return Ok(None);
        }
        if instance.healthy != before.healthy {
            instance.expired_after_beat = None;
        }
        instance.modified_at = change.now_seconds();
        instance.revision = self.next_revision();
        let record = self.record_instance(&instance, Some(&before))?;
        Ok(Some(InstanceUpdate { before, instance, record }))
    }

    fn put_changed(&mut self, changed: InstanceUpdate, change: &mut Change<'_>) -> Arc<Instance> {
        let InstanceUpdate { before, instance, record } = changed;
        change.journal.put(record, Before::Present);
        let instance = self.put_instance(instance);
        change.events.push(InstanceEvent::Changed(Arc::clone(&instance), before));
        instance
    }

    /// Makes a healthy, silent instance unhealthy; saved later.
    pub(crate) fn expire(&mut self, id: &str, now_ms: u64) -> Option<Arc<Instance>> {
        let before = self.instance(id).filter(|instance| instance.healthy)?;
        let mut instance = Instance::clone(before);
        instance.healthy = false;
        instance.expired_after_beat = Some(instance.pulse.last_heartbeat().at_ms / 1_000);
        instance.modified_at = now_ms / 1_000;
        instance.revision = self.next_revision();
        Some(self.put_instance(instance))
    }

    /// Makes an unhealthy instance healthy that was heard of again; saved later.
    pub(crate) fn recover(&mut self, id: &str, now_ms: u64) -> Option<Arc<Instance>> {
        let before = self.instance(id).filter(|instance| !instance.healthy)?;
        let mut instance = Instance::clone(before);
        instance.healthy = true;
        instance.expired_after_beat = None;
        instance.modified_at = now_ms / 1_000;
        instance.revision = self.next_revision();
        Some(self.put_instance(instance))
    }
}

/// Change of an instance, ready to be stored.
struct InstanceUpdate {
    before: Arc<Instance>,
    instance: Instance,
    record: Record,
}

fn recount(total: &mut Counts, before: Counts, after: Counts) {
    debug_assert!(
        total.total >= before.total
            && total.healthy >= before.healthy
            && total.isolated >= before.isolated,
        "a part is counted in its sum"
    );
    total.total = total.total - before.total + after.total;
    total.healthy = total.healthy - before.healthy + after.healthy;
    total.unchecked = total.unchecked - before.unchecked + after.unchecked;
    total.isolated = total.isolated - before.isolated + after.isolated;
}

fn set(instance: &mut Instance, what: InstanceChange) -> Result<(), Refusal> {
    check::weight(what.weight)?;
    what.metadata.as_ref().map_or(Ok(()), |metadata| check::metadata(metadata, 0))?;
    what.location.as_ref().map_or(Ok(()), check::location)?;
    check::instance_texts(
        what.protocol.as_deref().unwrap_or_default(),
        what.version.as_deref().unwrap_or_default(),
        what.logic_set.as_deref().unwrap_or_default(),
    )?;
    replace(&mut instance.protocol, what.protocol);
    replace(&mut instance.version, what.version);
    replace(&mut instance.priority, what.priority);
    replace(&mut instance.weight, what.weight.and_then(|weight| u16::try_from(weight).ok()));
    replace(&mut instance.ttl_seconds, what.ttl_seconds.map(|ttl| ttl.map(check::ttl_seconds)));
    replace(&mut instance.healthy, what.healthy);
    replace(&mut instance.isolated, what.isolated);
    replace(&mut instance.metadata, what.metadata);
    replace(&mut instance.logic_set, what.logic_set);
    if what.location.is_some() {
        instance.location = what.location;
    }
    Ok(())
}

/// Whether two instances are equal in all fields that a change can set.
fn is_alike(first: &Instance, second: &Instance) -> bool {
    first.protocol == second.protocol
        && first.version == second.version
        && first.priority == second.priority
        && first.weight == second.weight
        && first.ttl_seconds == second.ttl_seconds
        && first.healthy == second.healthy
        && first.isolated == second.isolated
        && first.location == second.location
        && first.metadata == second.metadata
        && first.logic_set == second.logic_set
}
