//! Aliases in the state: alternative names of services, one level deep.

use std::sync::Arc;

use crate::alias::Alias;
use crate::check;
use crate::command::{AliasChange, Outcome};
use crate::held_bytes::{MemoryClass, MemorySize};
use crate::journal::{Before, Record};
use crate::key::ServiceKey;
use crate::limits::SERVICES_MAX;
use crate::refusal::{Noun, Refusal};

use super::namespaces::replace;
use super::{AliasSlot, Change, State};

impl State {
    pub(super) fn create_alias(
        &mut self,
        mut alias: Alias,
        change: &mut Change<'_>,
    ) -> Result<Outcome, Refusal> {
        self.check_alias(&alias)?;
        if self.aliases.contains_key(&alias.key) || self.services.contains_key(&alias.key) {
            return Err(Refusal::Exists);
        }
        if self.aliases.len() >= SERVICES_MAX {
            return Err(Refusal::Full { what: "aliases", max: SERVICES_MAX });
        }
        alias.id = self.next_revision().to_string();
        alias.created_at = change.now_seconds();
        let record = self.date_alias(&mut alias, None, change)?;
        self.ensure_namespace(&alias.key.namespace, change)?;
        change.journal.require_service(alias.target.borrowed());
        change.journal.require_no_service(alias.key.borrowed());
        change.journal.put(record, Before::Absent);
        Ok(Outcome::Alias(self.place_alias(alias)))
    }

    pub(super) fn update_alias(
        &mut self,
        key: &ServiceKey,
        what: AliasChange,
        change: &mut Change<'_>,
    ) -> Result<Outcome, Refusal> {
        let current = self.alias(key.borrowed()).ok_or(Refusal::NotFound(Noun::Alias))?;
        let before = Arc::clone(current);
        let mut alias = Alias::clone(&before);
        replace(&mut alias.target, what.target);
        replace(&mut alias.comment, what.comment);
        replace(&mut alias.owners, what.owners);
        replace(&mut alias.metadata, what.metadata);
        self.check_alias(&alias)?;
        if alias == *before {
            return Err(Refusal::NoChange);
        }
        let record = self.date_alias(&mut alias, Some(&before), change)?;
        change.journal.require_service(alias.target.borrowed());
        change.journal.put(record, Before::Present);
        Ok(Outcome::Alias(self.place_alias(alias)))
    }

    /// Sets time and revision of a changed alias, and returns its record if memory suffices.
    fn date_alias(
        &mut self,
        alias: &mut Alias,
        before: Option<&Alias>,
        change: &Change<'_>,
    ) -> Result<Record, Refusal> {
        alias.modified_at = change.now_seconds();
        alias.revision = self.next_revision();
        let before = before.map_or(0, MemorySize::held_bytes);
        self.held.check(MemoryClass::Registrations, before, alias.held_bytes())?;
        Record::alias(alias)
    }

    pub(super) fn check_alias(&self, alias: &Alias) -> Result<(), Refusal> {
        check::alias_name(&alias.key.name)?;
        check::namespace_name(&alias.key.namespace)?;
        check::text(&alias.comment, "comment")?;
        check::text(&alias.owners, "owners")?;
        check::metadata(&alias.metadata, 0)?;
        if self.aliases.contains_key(&alias.target) {
            return Err(Refusal::IsAlias);
        }
        let target = self.services.get(&alias.target);
        target.map(drop).ok_or(Refusal::NotFound(Noun::Service))
    }

    pub(super) fn place_alias(&mut self, alias: Alias) -> Arc<Alias> {
        let alias = Arc::new(alias);
        self.held.replace(MemoryClass::Registrations, 0, alias.held_bytes());
        let current = self.aliases.get(&alias.key).cloned();
        let before = current.as_ref().map(|current| current.alias.revision).unwrap_or_default();
        self.aliases_revision = self.aliases_revision.without(before).with(alias.revision);
        let place = self.count(&alias.key.namespace, |namespace| {
            let rest = namespace.aliases_revision.without(before);
            namespace.aliases_revision = rest.with(alias.revision);
            match &current {
                Some(current) => {
                    namespace.aliases.set(current.place, Arc::clone(&alias));
                    current.place
                }
                None => namespace.aliases.push(Arc::clone(&alias)),
            }
        });
        let counted = self.alias_counts.get(&alias.target).copied().unwrap_or_default();
        self.alias_counts.insert(alias.target.clone(), counted + 1);
        let placed = AliasSlot { alias: Arc::clone(&alias), place: place.unwrap_or_default() };
        if let Some(before) = self.aliases.insert(alias.key.clone(), placed) {
            self.uncount_alias(&before.alias);
        }
        alias
    }

    fn uncount_alias(&mut self, alias: &Alias) {
        self.held.replace(MemoryClass::Registrations, alias.held_bytes(), 0);
        match self.alias_counts.get(&alias.target) {
            Some(2..) => drop(self.alias_counts.update(&alias.target, |count| *count -= 1)),
            _ => drop(self.alias_counts.remove(&alias.target)),
        }
    }

    pub(super) fn delete_alias(
        &mut self,
        key: &ServiceKey,
        change: &mut Change<'_>,
    ) -> Result<Outcome, Refusal> {
        self.remove_alias(key).ok_or(Refusal::NotFound(Noun::Alias))?;
        change.journal.delete_alias(key.borrowed());
        Ok(Outcome::Deleted)
    }

    pub(super) fn remove_alias(&mut self, key: &ServiceKey) -> Option<Arc<Alias>> {
        let AliasSlot { alias, place } = self.aliases.remove(key)?;
        self.aliases_revision = self.aliases_revision.without(alias.revision);
        let moved = self.count(&key.namespace, |namespace| {
            namespace.aliases_revision = namespace.aliases_revision.without(alias.revision);
            namespace.aliases.remove(place).and_then(|(_, moved)| moved)
        });
        // The last of the list has taken the free place.
        if let Some(moved) = moved.flatten() {
            self.aliases.update(&moved.key, |current| current.place = place);
        }
        self.uncount_alias(&alias);
        Some(alias)
    }
}
