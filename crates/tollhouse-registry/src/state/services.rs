//! Services: created by hand, or with the first instance that registers.

use std::sync::Arc;

use crate::check;
use crate::command::{Outcome, ServiceChange};
use crate::instance::Metadata;
use crate::key::ServiceKey;
use crate::limits::SERVICES_MAX;
use crate::refusal::{Noun, Refusal};
use crate::service::{Service, ServiceDetails};
use crate::view::ServiceView;

use super::namespaces::{NO_OWNER, replace};
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
        check_change(&what)?;
        if self.services.contains_key(key) || self.aliases.contains_key(key) {
            return Err(Refusal::Exists);
        }
        self.make_service(key, what, change).map(Outcome::Service)
    }

    /// Sees to it that there is a service of this checked name.
    pub(super) fn ensure_service(
        &mut self,
        key: &ServiceKey,
        change: &mut Change<'_>,
    ) -> Result<(), Refusal> {
        if self.aliases.contains_key(key) {
            return Err(Refusal::IsAlias);
        }
        if !self.services.contains_key(key) {
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
        self.ensure_namespace(&key.namespace, change)?;
        let now = change.now_seconds();
        let mut service = Service {
            id: self.next_revision().to_string(),
            key: key.clone(),
            metadata: Metadata::new(),
            details: ServiceDetails { owners: NO_OWNER.to_owned(), ..ServiceDetails::default() },
            token: self.next_revision().to_string(),
            created_at: now,
            modified_at: now,
            revision: self.next_revision(),
        };
        set(&mut service, what);
        change.journal.put_service(&service);
        Ok(self.put_service(service))
    }

    /// Puts a service, new or changed; its instances stay.
    pub(super) fn put_service(&mut self, service: Service) -> Arc<Service> {
        let service = Arc::new(service);
        let key = service.key.clone();
        let known = self.services.get(&key);
        let before = known.map(|view| view.service.revision);
        let view = match known {
            Some(view) => {
                let mut view = ServiceView::clone(view);
                view.set_service(Arc::clone(&service));
                view
            }
            None => ServiceView::new(Arc::clone(&service)),
        };
        let revision = service.revision;
        self.count(&key.namespace, |namespace| {
            namespace.services += u32::from(before.is_none());
            let rest = namespace.services_revision.without(before.unwrap_or_default());
            namespace.services_revision = rest.with(revision);
        });
        self.services.insert(key, Arc::new(view));
        service
    }

    pub(super) fn update_service(
        &mut self,
        key: &ServiceKey,
        what: ServiceChange,
        change: &mut Change<'_>,
    ) -> Result<Outcome, Refusal> {
        check_change(&what)?;
        let view = self.services.get(key).ok_or(Refusal::NotFound(Noun::Service))?;
        let before = Arc::clone(&view.service);
        let mut service = Service::clone(&before);
        set(&mut service, what);
        if service == *before {
            return Err(Refusal::NoChange);
        }
        service.modified_at = change.now_seconds();
        service.revision = self.next_revision();
        change.journal.put_service(&service);
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
        if self.aliases.values().any(|alias| alias.target == *key) {
            return Err(Refusal::InUse(Noun::Alias));
        }
        let revision = view.service.revision;
        self.services.remove(key);
        self.count(&key.namespace, |namespace| {
            namespace.services -= 1;
            namespace.services_revision = namespace.services_revision.without(revision);
        });
        change.journal.delete_service(key.borrowed());
        Ok(Outcome::Deleted)
    }
}

fn check_change(what: &ServiceChange) -> Result<(), Refusal> {
    what.metadata.as_ref().map_or(Ok(()), |metadata| check::metadata(metadata, 0))?;
    what.details.as_ref().map_or(Ok(()), check::details)
}

fn set(service: &mut Service, what: ServiceChange) {
    let ServiceChange { metadata, details, token } = what;
    replace(&mut service.metadata, metadata);
    replace(&mut service.details, details);
    replace(&mut service.token, token);
}
