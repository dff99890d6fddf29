//! Aliases: further names, one level deep.

use std::sync::Arc;

use crate::alias::Alias;
use crate::check;
use crate::command::Outcome;
use crate::key::ServiceKey;
use crate::limits::SERVICES_MAX;
use crate::refusal::{Noun, Refusal};

use super::{Change, State};

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
        self.ensure_namespace(&alias.key.namespace, change)?;
        alias.id = self.next_revision().to_string();
        alias.created_at = change.now_seconds();
        Ok(self.put_alias(alias, change))
    }

    pub(super) fn update_alias(
        &mut self,
        mut alias: Alias,
        change: &mut Change<'_>,
    ) -> Result<Outcome, Refusal> {
        self.check_alias(&alias)?;
        let before = self.aliases.get(&alias.key).ok_or(Refusal::NotFound(Noun::Alias))?;
        alias.id.clone_from(&before.id);
        alias.created_at = before.created_at;
        alias.modified_at = before.modified_at;
        alias.revision = before.revision;
        if alias == **before {
            return Err(Refusal::NoChange);
        }
        Ok(self.put_alias(alias, change))
    }

    fn check_alias(&self, alias: &Alias) -> Result<(), Refusal> {
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

    fn put_alias(&mut self, mut alias: Alias, change: &mut Change<'_>) -> Outcome {
        alias.modified_at = change.now_seconds();
        alias.revision = self.next_revision();
        change.journal.put_alias(&alias);
        Outcome::Alias(self.place_alias(alias))
    }

    pub(super) fn place_alias(&mut self, alias: Alias) -> Arc<Alias> {
        let alias = Arc::new(alias);
        self.aliases.insert(alias.key.clone(), Arc::clone(&alias));
        alias
    }

    pub(super) fn delete_alias(
        &mut self,
        key: &ServiceKey,
        change: &mut Change<'_>,
    ) -> Result<Outcome, Refusal> {
        self.aliases.remove(key).ok_or(Refusal::NotFound(Noun::Alias))?;
        change.journal.delete_alias(key.borrowed());
        Ok(Outcome::Deleted)
    }
}
