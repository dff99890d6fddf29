//! Transfer of objects from another registry into this state, with their ids, times and revisions.
//! An object that a client could not have registered is refused. An object that equals the stored
//! one is not written.

use std::sync::Arc;

use crate::alias::Alias;
use crate::command::Outcome;
use crate::contract::Contract;
use crate::event::InstanceEvent;
use crate::held_bytes::{HeldBytes, Share};
use crate::instance::{Instance, StoredInstance};
use crate::journal::{Journal, Record};
use crate::limits::{
    CONTRACTS_MAX, INSTANCES_MAX, NAMESPACES_MAX, RULES_MAX, SERVICES_MAX, TTL_SECONDS_MAX,
};
use crate::namespace::Namespace;
use crate::pulse::Pulse;
use crate::refusal::Refusal;
use crate::revision::Revision;
use crate::rule::Rule;
use crate::service::Service;
use crate::transfer::{Effect, Object, Rehearsal, is_alike, to_new_rule};

use super::rules::check_rule;
use super::{Change, State};

impl Rehearsal {
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
        };
        Ok(Outcome::Put(effect))
    }

    fn take_namespace(
        &mut self,
        mut namespace: Namespace,
        change: &mut Change<'_>,
    ) -> Result<Effect, Refusal> {
        let known = self.namespace(&namespace.name).map(|view| Arc::clone(&view.namespace));
        check_room("namespaces", known.is_some(), self.namespaces.len(), NAMESPACES_MAX)?;
        let own = known.as_ref().map(|known| known.revision);
        refuse_alike(known.as_deref(), &namespace, |it| &mut it.revision)?;
        namespace.revision = self.settled(namespace.revision, own);
        let before = known.as_ref().map_or(0, |known| known.held_bytes());
        self.held.check(Share::Registrations, before, namespace.held_bytes())?;
        change.journal.put(Record::namespace(&namespace)?, known.as_ref().into());
        self.put_namespace(namespace);
        Ok(effect(known.is_some()))
    }

    fn take_service(
        &mut self,
        mut service: Service,
        change: &mut Change<'_>,
    ) -> Result<Effect, Refusal> {
        if self.aliases.contains_key(&service.key) {
            return Err(Refusal::IsAlias);
        }
        let known = self.services.get(&service.key).map(|view| Arc::clone(&view.service));
        check_room("services", known.is_some(), self.services.len(), SERVICES_MAX)?;
        let own = known.as_ref().map(|known| known.revision);
        refuse_alike(known.as_deref(), &service, |it| &mut it.revision)?;
        service.revision = self.settled(service.revision, own);
        let before = known.as_ref().map_or(0, |known| known.held_bytes());
        self.held.check(Share::Registrations, before, service.held_bytes())?;
        let record = Record::service(&service)?;
        self.ensure_namespace(&service.key.namespace, change)?;
        change.journal.require_no_alias(service.key.borrowed());
        change.journal.put(record, known.as_ref().into());
        self.put_service(service);
        Ok(effect(known.is_some()))
    }

    fn take_alias(&mut self, mut alias: Alias, change: &mut Change<'_>) -> Result<Effect, Refusal> {
        self.check_alias(&alias)?;
        if self.services.contains_key(&alias.key) {
            return Err(Refusal::Exists);
        }
        let known = self.alias(alias.key.borrowed()).map(Arc::clone);
        check_room("aliases", known.is_some(), self.aliases.len(), SERVICES_MAX)?;
        let own = known.as_ref().map(|known| known.revision);
        refuse_alike(known.as_deref(), &alias, |it| &mut it.revision)?;
        alias.revision = self.settled(alias.revision, own);
        let before = known.as_ref().map_or(0, |known| known.held_bytes());
        self.held.check(Share::Registrations, before, alias.held_bytes())?;
        let record = Record::alias(&alias)?;
        self.ensure_namespace(&alias.key.namespace, change)?;
        change.journal.require_service(alias.target.borrowed());
        change.journal.require_no_service(alias.key.borrowed());
        change.journal.put(record, known.as_ref().into());
        self.place_alias(alias);
        Ok(effect(known.is_some()))
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
        let known = self.instance(&stored.id).cloned();
        check_room("instances", known.is_some(), self.instances.len(), INSTANCES_MAX)?;
        if let Some(known) = &known {
            keep_health(&mut stored, known);
            refuse_alike(Some(&StoredInstance::from_instance(known)), &stored, |it| {
                &mut it.revision
            })?;
        }
        let own = known.as_ref().map(|known| known.revision);
        stored.revision = self.settled(stored.revision, own);
        // The pulse is reused, because other threads and the timer wheel hold it across versions.
        let pulse = match &known {
            Some(known) => Arc::clone(&known.pulse),
            None => Pulse::new(Arc::clone(&stored.id), change.now_ms),
        };
        let mut instance = stored.with_pulse(pulse);
        if let Some(view) = self.services.get(&instance.service) {
            instance.service = view.service.key.clone();
        }
        let record = self.record_instance(&instance, known.as_deref())?;
        self.ensure_service(&instance.service, change)?;
        change.journal.put(record, known.as_ref().into());
        let instance = self.put_instance(instance);
        let is_known = known.is_some();
        change.events.push(match known {
            Some(known) => InstanceEvent::Changed(instance, known),
            None => InstanceEvent::Registered(instance, None),
        });
        Ok(effect(is_known))
    }

    fn take_rule(&mut self, mut rule: Rule, change: &mut Change<'_>) -> Result<Effect, Refusal> {
        check_rule(&to_new_rule(&rule))?;
        let key = (rule.kind, Arc::clone(&rule.id));
        let known = self.rules.get(&key).map(Arc::clone);
        check_room("rules", known.is_some(), self.rules.len(), RULES_MAX)?;
        let own = known.as_ref().map(|known| known.revision);
        refuse_alike(known.as_deref(), &rule, |it| &mut it.revision)?;
        rule.revision = self.settled(rule.revision, own);
        let before = known.as_ref().map_or(0, |known| known.held_bytes());
        self.held.check(Share::Rules, before, rule.held_bytes())?;
        change.journal.put(Record::rule(&rule)?, known.as_ref().into());
        self.remove_rule(&key);
        self.place_rule(rule);
        Ok(effect(known.is_some()))
    }

    fn take_contract(
        &mut self,
        mut contract: Contract,
        change: &mut Change<'_>,
    ) -> Result<Effect, Refusal> {
        let known = self.contracts.get(&contract.id).map(Arc::clone);
        check_room("service contracts", known.is_some(), self.contracts.len(), CONTRACTS_MAX)?;
        let own = known.as_ref().map(|known| known.revision);
        refuse_alike(known.as_deref(), &contract, |it| &mut it.revision)?;
        contract.revision = self.settled(contract.revision, own);
        let before = known.as_ref().map_or(0, |known| known.held_bytes());
        self.held.check(Share::Contracts, before, contract.held_bytes())?;
        change.journal.put(Record::contract(&contract)?, known.as_ref().into());
        self.place_contract(Arc::new(contract));
        Ok(effect(known.is_some()))
    }

    /// Returns the revision for a transferred object: the one it has, or a new one if it has none
    /// or if it equals that of the replaced object, because clients take equal revisions for equal
    /// contents.
    fn settled(&mut self, revision: Revision, replaced: Option<Revision>) -> Revision {
        if revision == Revision::default() || replaced == Some(revision) {
            self.next_revision()
        } else {
            revision
        }
    }
}

/// Keeps the health known here of an instance that sends heartbeats here, because it is newer than
/// what another registry has seen.
fn keep_health(stored: &mut StoredInstance, known: &Instance) {
    if stored.ttl_seconds.is_some() && known.ttl_seconds.is_some() {
        stored.healthy = known.healthy;
        stored.expired_after_beat = known.expired_after_beat;
        stored.modified_at = known.modified_at;
    }
}

fn effect(is_known: bool) -> Effect {
    if is_known { Effect::Changed } else { Effect::Created }
}

fn check_room(what: &'static str, is_known: bool, count: usize, max: usize) -> Result<(), Refusal> {
    if is_known || count < max { Ok(()) } else { Err(Refusal::Full { what, max }) }
}

/// Refuses an object that differs from the stored one at most in the revision.
fn refuse_alike<T: Clone + serde::Serialize>(
    known: Option<&T>,
    new: &T,
    revision: impl Fn(&mut T) -> &mut Revision,
) -> Result<(), Refusal> {
    let Some(known) = known else { return Ok(()) };
    let (mut known, mut new) = (known.clone(), new.clone());
    *revision(&mut known) = Revision::default();
    *revision(&mut new) = Revision::default();
    if is_alike(&known, &new) { Err(Refusal::NoChange) } else { Ok(()) }
}
