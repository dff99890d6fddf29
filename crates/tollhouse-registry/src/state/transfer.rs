//! Transfer of objects from another registry into this state, with their ids, times and revisions.
//! An object that a client could not have registered is refused. An object that equals the stored
//! one is not written.

use std::sync::Arc;

use tollhouse_store::Entry;

use crate::alias::Alias;
use crate::command::Outcome;
use crate::contract::Contract;
use crate::event::InstanceEvent;
use crate::held_bytes::{MemoryClass, MemorySize};
use crate::instance::{Instance, StoredInstance};
use crate::journal::{Journal, LOADED, Record};
use crate::limits::{
    CONTRACTS_MAX, INSTANCES_MAX, NAMESPACES_MAX, RULES_MAX, SERVICES_MAX, TTL_SECONDS_MAX,
};
use crate::namespace::Namespace;
use crate::pulse::Pulse;
use crate::refusal::Refusal;
use crate::revision::Revision;
use crate::rule::Rule;
use crate::service::Service;
use crate::transfer::{Effect, Object, is_alike, to_new_rule};

use super::rules::check_rule;
use super::{Change, State};

/// Registry in memory for dry runs, which shows the effects of storing objects.
#[derive(Debug)]
pub struct Rehearsal {
    state: State,
}

impl Rehearsal {
    /// Starts with a copy of a registry's state.
    pub fn from_state(state: &State) -> Self {
        Self { state: state.clone() }
    }

    /// Starts with the contents of a store; entries that this version cannot decode are skipped.
    pub fn from_entries(entries: &[Entry], bytes_max: usize) -> Self {
        let mut state = State::new(0, bytes_max);
        for prefix in LOADED {
            let part: Vec<Entry> =
                entries.iter().filter(|entry| entry.key.starts_with(prefix)).cloned().collect();
            state.load(&part, 0);
        }
        Self { state }
    }

    /// Stores an object and returns the effect.
    ///
    /// # Errors
    /// If a registry would refuse the object.
    pub fn put(&mut self, object: Object) -> Result<Effect, Refusal> {
        let (mut journal, mut events) = (Journal::default(), Vec::new());
        let mut change = Change { now_ms: 0, journal: &mut journal, events: &mut events };
        match self.state.put_object(object, &mut change) {
            Ok(Outcome::Put(effect)) => Ok(effect),
            Ok(_) | Err(Refusal::NoChange) => Ok(Effect::Unchanged),
            Err(refusal) => Err(refusal),
        }
    }
}

impl State {
    pub(super) fn put_object(
        &mut self,
        object: Object,
        change: &mut Change<'_>,
    ) -> Result<Outcome, Refusal> {
        object.check()?;
        let effect = match object {
            Object::Namespace(namespace) => self.take_namespace(*namespace, change)?,
            Object::Service(service) => self.take_service(*service, change)?,
            Object::Alias(alias) => self.take_alias(*alias, change)?,
            Object::Instance(instance) => self.take_instance(*instance, change)?,
            Object::Rule(rule) => self.take_rule(*rule, change)?,
            Object::Contract(contract) => self.take_contract(*contract, change)?,
            Object::Config(object) => self.take_config(*object, change)?,
            Object::Identity(object) => self.take_identity(*object, change)?,
        };
        Ok(Outcome::Put(effect))
    }

    fn take_namespace(
        &mut self,
        mut namespace: Namespace,
        change: &mut Change<'_>,
    ) -> Result<Effect, Refusal> {
        let current = self.namespace(&namespace.name).map(|view| Arc::clone(&view.namespace));
        check_room("namespaces", current.as_ref(), self.namespaces.len(), NAMESPACES_MAX)?;
        let own = current.as_ref().map(|current| current.revision);
        refuse_alike(current.as_deref(), &namespace, |it| &mut it.revision)?;
        namespace.revision = self.transfer_revision(namespace.revision, own);
        let before = current.as_ref().map_or(0, |current| current.held_bytes());
        self.held.check(MemoryClass::Registrations, before, namespace.held_bytes())?;
        change.journal.put(Record::namespace(&namespace)?, current.as_ref().into());
        self.put_namespace(namespace);
        Ok(effect(current.as_ref()))
    }

    fn take_service(
        &mut self,
        mut service: Service,
        change: &mut Change<'_>,
    ) -> Result<Effect, Refusal> {
        if self.aliases.contains_key(&service.key) {
            return Err(Refusal::IsAlias);
        }
        let current = self.services.get(&service.key).map(|view| Arc::clone(&view.service));
        check_room("services", current.as_ref(), self.services.len(), SERVICES_MAX)?;
        let own = current.as_ref().map(|current| current.revision);
        refuse_alike(current.as_deref(), &service, |it| &mut it.revision)?;
        service.revision = self.transfer_revision(service.revision, own);
        let before = current.as_ref().map_or(0, |current| current.held_bytes());
        self.held.check(MemoryClass::Registrations, before, service.held_bytes())?;
        let record = Record::service(&service)?;
        self.ensure_namespace(&service.key.namespace, change)?;
        change.journal.require_no_alias(service.key.borrowed());
        change.journal.put(record, current.as_ref().into());
        self.put_service(service);
        Ok(effect(current.as_ref()))
    }

    fn take_alias(&mut self, mut alias: Alias, change: &mut Change<'_>) -> Result<Effect, Refusal> {
        self.check_alias(&alias)?;
        if self.services.contains_key(&alias.key) {
            return Err(Refusal::Exists);
        }
        let current = self.alias(alias.key.borrowed()).map(Arc::clone);
        check_room("aliases", current.as_ref(), self.aliases.len(), SERVICES_MAX)?;
        let own = current.as_ref().map(|current| current.revision);
        refuse_alike(current.as_deref(), &alias, |it| &mut it.revision)?;
        alias.revision = self.transfer_revision(alias.revision, own);
        let before = current.as_ref().map_or(0, |current| current.held_bytes());
        self.held.check(MemoryClass::Registrations, before, alias.held_bytes())?;
        let record = Record::alias(&alias)?;
        self.ensure_namespace(&alias.key.namespace, change)?;
        change.journal.require_service(alias.target.borrowed());
        change.journal.require_no_service(alias.key.borrowed());
        change.journal.put(record, current.as_ref().into());
        self.place_alias(alias);
        Ok(effect(current.as_ref()))
    }

    fn take_instance(
        &mut self,
        mut stored: StoredInstance,
        change: &mut Change<'_>,
    ) -> Result<Effect, Refusal> {
        stored.host = stored.host.trim().into();
        stored.ttl_seconds = stored.ttl_seconds.map(|ttl| ttl.clamp(1, TTL_SECONDS_MAX));
        if self.aliases.contains_key(&stored.service) {
            return Err(Refusal::IsAlias);
        }
        let current = self.instance(&stored.id).cloned();
        check_room("instances", current.as_ref(), self.instances.len(), INSTANCES_MAX)?;
        if let Some(current) = &current {
            keep_health(&mut stored, current);
            refuse_alike(Some(&StoredInstance::from_instance(current)), &stored, |it| {
                &mut it.revision
            })?;
        }
        let own = current.as_ref().map(|current| current.revision);
        stored.revision = self.transfer_revision(stored.revision, own);
        // The pulse is reused, because other threads and the timer wheel hold it across versions.
        let pulse = match &current {
            Some(current) => Arc::clone(&current.pulse),
            None => Pulse::new(Arc::clone(&stored.id), change.now_ms),
        };
        let mut instance = stored.with_pulse(pulse);
        if let Some(view) = self.services.get(&instance.service) {
            instance.service = view.service.key.clone();
        }
        let record = self.record_instance(&instance, current.as_deref())?;
        self.ensure_service(&instance.service, change)?;
        change.journal.put(record, current.as_ref().into());
        let instance = self.put_instance(instance);
        let effect = effect(current.as_ref());
        change.events.push(match current {
            Some(current) => InstanceEvent::Changed(instance, current),
            None => InstanceEvent::Registered(instance, None),
        });
        Ok(effect)
    }

    fn take_rule(&mut self, mut rule: Rule, change: &mut Change<'_>) -> Result<Effect, Refusal> {
        check_rule(&to_new_rule(&rule))?;
        let (kind, id) = (rule.kind, Arc::clone(&rule.id));
        let current = self.rules.get(&(kind, Arc::clone(&id))).map(Arc::clone);
        check_room("rules", current.as_ref(), self.rules.len(), RULES_MAX)?;
        let own = current.as_ref().map(|current| current.revision);
        refuse_alike(current.as_deref(), &rule, |it| &mut it.revision)?;
        rule.revision = self.transfer_revision(rule.revision, own);
        let before = current.as_ref().map_or(0, |current| current.held_bytes());
        self.held.check(MemoryClass::Rules, before, rule.held_bytes())?;
        change.journal.put(Record::rule(&rule)?, current.as_ref().into());
        self.remove_rule(kind, id);
        self.place_rule(rule);
        Ok(effect(current.as_ref()))
    }

    fn take_contract(
        &mut self,
        mut contract: Contract,
        change: &mut Change<'_>,
    ) -> Result<Effect, Refusal> {
        let current = self.contracts.get(&contract.id).map(Arc::clone);
        check_room("service contracts", current.as_ref(), self.contracts.len(), CONTRACTS_MAX)?;
        let own = current.as_ref().map(|current| current.revision);
        refuse_alike(current.as_deref(), &contract, |it| &mut it.revision)?;
        contract.revision = self.transfer_revision(contract.revision, own);
        let before = current.as_ref().map_or(0, |current| current.held_bytes());
        self.held.check(MemoryClass::Contracts, before, contract.held_bytes())?;
        change.journal.put(Record::contract(&contract)?, current.as_ref().into());
        self.place_contract(Arc::new(contract));
        Ok(effect(current.as_ref()))
    }

    /// Returns the revision for a transferred object: its own, or a new one if it has none or if it
    /// equals that of the replaced object, because clients take equal revisions for equal contents.
    fn transfer_revision(&mut self, revision: Revision, replaced: Option<Revision>) -> Revision {
        if revision == Revision::default() || replaced == Some(revision) {
            self.next_revision()
        } else {
            revision
        }
    }
}

/// Keeps the health known here of an instance that sends heartbeats here, because it is newer than
/// what another registry has seen.
fn keep_health(stored: &mut StoredInstance, current: &Instance) {
    if stored.ttl_seconds.is_some() && current.ttl_seconds.is_some() {
        stored.healthy = current.healthy;
        stored.expired_after_beat = current.expired_after_beat;
        stored.modified_at = current.modified_at;
    }
}

fn effect<T>(before: Option<&T>) -> Effect {
    if before.is_some() { Effect::Changed } else { Effect::Created }
}

/// Refuses a further object beyond `max`; one that replaces `before` needs no room.
fn check_room<T>(
    what: &'static str,
    before: Option<&T>,
    count: usize,
    max: usize,
) -> Result<(), Refusal> {
    if before.is_some() || count < max { Ok(()) } else { Err(Refusal::Full { what, max }) }
}

/// Refuses an object that differs from the stored one at most in the revision.
fn refuse_alike<T: Clone + serde::Serialize>(
    current: Option<&T>,
    new: &T,
    revision: impl Fn(&mut T) -> &mut Revision,
) -> Result<(), Refusal> {
    let Some(current) = current else { return Ok(()) };
    let (mut current, mut new) = (current.clone(), new.clone());
    *revision(&mut current) = Revision::default();
    *revision(&mut new) = Revision::default();
    if is_alike(&current, &new) { Err(Refusal::NoChange) } else { Ok(()) }
}
