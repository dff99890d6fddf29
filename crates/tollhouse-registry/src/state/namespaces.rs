//! Namespaces in the state: created explicitly, or with their first service.

use std::sync::Arc;

use tollhouse_stdx::CowMap;

use crate::check;
use crate::chunked::Chunked;
use crate::command::{NamespaceChange, Outcome};
use crate::held_bytes::{MemoryClass, MemorySize};
use crate::identity::ResourceKind;
use crate::instance::Metadata;
use crate::journal::{Before, Record};
use crate::limits::NAMESPACES_MAX;
use crate::namespace::{DEFAULT, Namespace, SYSTEM};
use crate::refusal::{Noun, Refusal};
use crate::revision::Revision;
use crate::service::NO_OWNER;
use crate::view::{Counts, NamespaceView};

use super::{Change, State};

impl State {
    /// Adds the built-in namespaces `default` and the system's own.
    pub(super) fn add_built_in(&mut self) {
        for name in [DEFAULT, SYSTEM] {
            let namespace = self.new_namespace(&name.into(), 0);
            self.put_namespace(namespace);
        }
    }

    pub(super) fn new_namespace(&mut self, name: &Arc<str>, now_seconds: u64) -> Namespace {
        Namespace {
            name: Arc::clone(name),
            comment: String::new(),
            owners: NO_OWNER.to_owned(),
            token: random_token(),
            metadata: Metadata::new(),
            export_to: Vec::new(),
            created_at: now_seconds,
            modified_at: now_seconds,
            revision: self.next_revision(),
        }
    }

    /// Stores a new or changed namespace; its services and counts stay.
    pub(super) fn put_namespace(&mut self, namespace: Namespace) -> Arc<Namespace> {
        let namespace = Arc::new(namespace);
        let current = self.namespaces.get(&namespace.name);
        let before = current.map_or(0, |view| view.namespace.held_bytes());
        self.held.replace(MemoryClass::Registrations, before, namespace.held_bytes());
        let revision_before = current.map(|view| view.namespace.revision).unwrap_or_default();
        self.namespaces_revision =
            self.namespaces_revision.without(revision_before).with(namespace.revision);
        let view = NamespaceView {
            namespace: Arc::clone(&namespace),
            services_revision: current
                .map_or_else(Revision::default, |view| view.services_revision),
            aliases_revision: current.map_or_else(Revision::default, |view| view.aliases_revision),
            services: current.map_or_else(Chunked::new, |view| view.services.clone()),
            aliases: current.map_or_else(Chunked::new, |view| view.aliases.clone()),
            counts: current.map_or_else(Counts::default, |view| view.counts),
            config_groups: current.map_or_else(CowMap::new, |view| view.config_groups.clone()),
            config_revision: current.map_or_else(Revision::default, |view| view.config_revision),
        };
        self.namespaces.insert(Arc::clone(&namespace.name), Arc::new(view));
        namespace
    }

    /// Changes the view of a namespace, such as its counts.
    pub(super) fn count<R>(
        &mut self,
        name: &str,
        count: impl FnOnce(&mut NamespaceView) -> R,
    ) -> Option<R> {
        self.namespaces.update(name, |view| count(Arc::make_mut(view)))
    }

    pub(super) fn create_namespace(
        &mut self,
        name: &Arc<str>,
        what: NamespaceChange,
        change: &mut Change<'_>,
    ) -> Result<Outcome, Refusal> {
        check::namespace_name(name)?;
        check_change(&what)?;
        if self.namespaces.contains_key(name) {
            return Err(Refusal::Exists);
        }
        let namespace = self.make_namespace(name, what, change)?;
        Ok(Outcome::Namespace(namespace))
    }

    /// Makes sure that a namespace exists; creates it if missing. The name must be valid.
    pub(super) fn ensure_namespace(
        &mut self,
        name: &Arc<str>,
        change: &mut Change<'_>,
    ) -> Result<(), Refusal> {
        if self.namespaces.contains_key(name) {
            change.journal.require_namespace(name);
        } else {
            self.make_namespace(name, NamespaceChange::default(), change)?;
        }
        Ok(())
    }

    fn make_namespace(
        &mut self,
        name: &Arc<str>,
        what: NamespaceChange,
        change: &mut Change<'_>,
    ) -> Result<Arc<Namespace>, Refusal> {
        if self.namespaces.len() >= NAMESPACES_MAX {
            return Err(Refusal::Full { what: "namespaces", max: NAMESPACES_MAX });
        }
        let mut namespace = self.new_namespace(name, change.now_seconds());
        set(&mut namespace, what);
        self.held.check(MemoryClass::Registrations, 0, namespace.held_bytes())?;
        change.journal.put(Record::namespace(&namespace)?, Before::Absent);
        Ok(self.put_namespace(namespace))
    }

    pub(super) fn update_namespace(
        &mut self,
        name: &str,
        what: NamespaceChange,
        change: &mut Change<'_>,
    ) -> Result<Outcome, Refusal> {
        check_change(&what)?;
        let view = self.namespaces.get(name).ok_or(Refusal::NotFound(Noun::Namespace))?;
        let before = Arc::clone(&view.namespace);
        let mut namespace = Namespace::clone(&before);
        set(&mut namespace, what);
        if namespace == *before {
            return Ok(Outcome::Namespace(before));
        }
        namespace.modified_at = change.now_seconds();
        namespace.revision = self.next_revision();
        self.held.check(MemoryClass::Registrations, before.held_bytes(), namespace.held_bytes())?;
        change.journal.put(Record::namespace(&namespace)?, Before::Present);
        Ok(Outcome::Namespace(self.put_namespace(namespace)))
    }

    pub(super) fn delete_namespace(
        &mut self,
        name: &str,
        change: &mut Change<'_>,
    ) -> Result<Outcome, Refusal> {
        let view = self.namespaces.get(name).ok_or(Refusal::NotFound(Noun::Namespace))?;
        if view.namespace.is_built_in() {
            return Err(Refusal::BuiltIn);
        }
        if !view.services.is_empty() || !view.aliases.is_empty() {
            return Err(Refusal::InUse(Noun::Service));
        }
        if !view.config_groups.is_empty() {
            return Err(Refusal::InUse(Noun::ConfigGroup));
        }
        // Rights to the namespace go with it, so that they do not cover a later one of this name.
        self.forget_resource(ResourceKind::Namespace, name, change)?;
        self.remove_namespace(name);
        change.journal.delete_namespace(name);
        // Guards against a service or alias that another node has added meanwhile.
        change.journal.require_nothing_new();
        Ok(Outcome::Deleted)
    }

    /// Removes a namespace that has no services.
    pub(super) fn remove_namespace(&mut self, name: &str) {
        let Some(view) = self.namespaces.remove(name) else { return };
        self.held.replace(MemoryClass::Registrations, view.namespace.held_bytes(), 0);
        self.namespaces_revision = self.namespaces_revision.without(view.namespace.revision);
    }
}

fn check_change(what: &NamespaceChange) -> Result<(), Refusal> {
    check::text(what.comment.as_deref().unwrap_or_default(), "comment")?;
    check::text(what.owners.as_deref().unwrap_or_default(), "owners")?;
    check::exports(what.export_to.as_deref().unwrap_or_default())?;
    check::token(what.token.as_deref())?;
    what.metadata.as_ref().map_or(Ok(()), |metadata| check::metadata(metadata, 0))
}

fn set(namespace: &mut Namespace, what: NamespaceChange) {
    let NamespaceChange { comment, owners, metadata, export_to, token } = what;
    replace(&mut namespace.comment, comment);
    replace(&mut namespace.owners, owners);
    replace(&mut namespace.metadata, metadata);
    replace(&mut namespace.export_to, export_to);
    replace(&mut namespace.token, token);
}

/// Returns a random secret of 32 hex digits.
pub(super) fn random_token() -> String {
    let mut bytes = [0; 16];
    aws_lc_rs::rand::fill(&mut bytes).expect("the system has random bytes");
    format!("{:032x}", u128::from_ne_bytes(bytes))
}

/// Sets a field if a value is given.
pub(super) fn replace<T>(field: &mut T, given: Option<T>) {
    if let Some(given) = given {
        *field = given;
    }
}
