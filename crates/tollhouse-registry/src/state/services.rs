//! Services in the state: created explicitly, or with their first instance.

use std::sync::Arc;

use crate::check;
use crate::command::{DetailsChange, Outcome, ServiceChange};
use crate::held_bytes::{MemoryClass, MemorySize};
use crate::instance::Metadata;
use crate::journal::{Before, Record};
use crate::key::ServiceKey;
use crate::limits::SERVICES_MAX;
use crate::refusal::{Noun, Refusal};
use crate::service::{NO_OWNER, Service, ServiceDetails};
use crate::view::ServiceView;

use super::namespaces::{random_token, replace};
use super::{Change, State};

impl State {
    pub(super) fn create_service(
        &mut self,
        key: &ServiceKey,
        what: ServiceChange,
        change: &mut Change<'_>,
    ) -> Result<Outcome, Refusal> {
        check::service_name(&key.name)?;
        check::namespace_name(&key.namespace)?;
        check::service(&what)?;
        if self.services.contains_key(key) || self.aliases.contains_key(key) {
            return Err(Refusal::Exists);
        }
        self.make_service(key, what, change).map(Outcome::Service)
    }

    /// Makes sure that a service exists; creates it if missing. The name must be valid.
    pub(super) fn ensure_service(
        &mut self,
        key: &ServiceKey,
        change: &mut Change<'_>,
    ) -> Result<(), Refusal> {
        if self.aliases.contains_key(key) {
            return Err(Refusal::IsAlias);
        }
        if self.services.contains_key(key) {
            change.journal.require_service(key.borrowed());
        } else {
            self.make_service(key, ServiceChange::default(), change)?;
        }
        Ok(())
    }

    fn make_service(
        &mut self,
        key: &ServiceKey,
        what: ServiceChange,
        change: &mut Change<'_>,
    ) -> Result<Arc<Service>, Refusal> {
        if self.services.len() >= SERVICES_MAX {
            return Err(Refusal::Full { what: "services", max: SERVICES_MAX });
        }
        let now = change.now_seconds();
        let mut service = Service {
            id: self.next_revision().to_string(),
            key: key.clone(),
            metadata: Metadata::new(),
            details: ServiceDetails { owners: NO_OWNER.to_owned(), ..ServiceDetails::default() },
            token: random_token(),
            created_at: now,
            modified_at: now,
            revision: self.next_revision(),
        };
        set(&mut service, what);
        // All checks come before the namespace is created, so that a refusal changes nothing.
        self.held.check(MemoryClass::Registrations, 0, service.held_bytes())?;
        let record = Record::service(&service)?;
        self.ensure_namespace(&key.namespace, change)?;
        change.journal.require_no_alias(key.borrowed());
        change.journal.put(record, Before::Absent);
        Ok(self.put_service(service))
    }

    /// Stores a new or changed service; its instances stay.
    pub(super) fn put_service(&mut self, service: Service) -> Arc<Service> {
        let service = Arc::new(service);
        let key = service.key.clone();
        let known = self.services.get(&key).cloned();
        let before = known.as_ref().map(|view| view.service.revision).unwrap_or_default();
        let held_before = known.as_ref().map_or(0, |view| view.service.held_bytes());
        self.held.replace(MemoryClass::Registrations, held_before, service.held_bytes());
        self.services_revision = self.services_revision.without(before).with(service.revision);
        // Sums are updated incrementally, so that the cost does not depend on the size of the
        // namespace.
        let place = self.count(&key.namespace, |namespace| {
            let rest = namespace.services_revision.without(before);
            namespace.services_revision = rest.with(service.revision);
            match &known {
                Some(view) => {
                    namespace.services.set(view.place, Arc::clone(&service));
                    view.place
                }
                None => namespace.services.push(Arc::clone(&service)),
            }
        });
        let view = match known {
            Some(known) => {
                let mut view = ServiceView::clone(&known);
                view.set_service(Arc::clone(&service));
                view
            }
            None => ServiceView::new(Arc::clone(&service), place.unwrap_or_default()),
        };
        self.services.insert(key, Arc::new(view));
        service
    }

    pub(super) fn update_service(
        &mut self,
        key: &ServiceKey,
        what: ServiceChange,
        change: &mut Change<'_>,
    ) -> Result<Outcome, Refusal> {
        check::service(&what)?;
        let view = self.services.get(key).ok_or(Refusal::NotFound(Noun::Service))?;
        let before = Arc::clone(&view.service);
        let mut service = Service::clone(&before);
        set(&mut service, what);
        if service == *before {
            return Err(Refusal::NoChange);
        }
        service.modified_at = change.now_seconds();
        service.revision = self.next_revision();
        self.held.check(MemoryClass::Registrations, before.held_bytes(), service.held_bytes())?;
        change.journal.put(Record::service(&service)?, Before::Present);
        Ok(Outcome::Service(self.put_service(service)))
    }

    pub(super) fn delete_service(
        &mut self,
        key: &ServiceKey,
        change: &mut Change<'_>,
    ) -> Result<Outcome, Refusal> {
        let view = self.services.get(key).ok_or(Refusal::NotFound(Noun::Service))?;
        if view.counts.total > 0 {
            return Err(Refusal::InUse(Noun::Instance));
        }
        if self.alias_counts.contains_key(key) {
            return Err(Refusal::InUse(Noun::Alias));
        }
        self.remove_service(key);
        change.journal.delete_service(key.borrowed());
        // Guards against an instance or alias that another node has added meanwhile.
        change.journal.require_nothing_new();
        Ok(Outcome::Deleted)
    }

    pub(super) fn remove_service(&mut self, key: &ServiceKey) {
        let Some(view) = self.services.get(key) else { return };
        let (revision, place) = (view.service.revision, view.place);
        self.held.replace(MemoryClass::Registrations, view.service.held_bytes(), 0);
        self.services_revision = self.services_revision.without(revision);
        self.services.remove(key);
        let moved = self.count(&key.namespace, |namespace| {
            namespace.services_revision = namespace.services_revision.without(revision);
            namespace.services.remove(place).and_then(|(_, moved)| moved)
        });
        // The last service of the list has moved into the free place.
        if let Some(moved) = moved.flatten() {
            self.services.update(&moved.key, |view| Arc::make_mut(view).place = place);
        }
    }
}

fn set(service: &mut Service, what: ServiceChange) {
    let ServiceChange { metadata, details, token } = what;
    replace(&mut service.metadata, metadata);
    set_details(&mut service.details, details);
    replace(&mut service.token, token);
}

fn set_details(details: &mut ServiceDetails, what: DetailsChange) {
    replace(&mut details.ports, what.ports);
    replace(&mut details.business, what.business);
    replace(&mut details.department, what.department);
    for (level, given) in details.cmdb_mod.iter_mut().zip(what.cmdb_mod) {
        replace(level, given);
    }
    replace(&mut details.comment, what.comment);
    replace(&mut details.owners, what.owners);
    replace(&mut details.platform_id, what.platform_id);
    replace(&mut details.export_to, what.export_to);
}
