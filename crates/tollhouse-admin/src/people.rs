//! Users and groups of the registry as callers of the Admin API: the same people and machines, with
//! the same tokens, passwords and policies, as at the registry's own doors.
//!
//! A policy names objects of the gateway as `routes/team-a-*` or by their labels, and these functions:
//! to read objects, to write them, and to do everything, secrets and the process included. Rights by
//! label are in `object_rights`.

use std::sync::Arc;

use tollhouse_registry::identity::{
    Attempt, IdentityKind, IdentityObject, Principal, Resource, ResourceKind, User, Verdict,
};
use tollhouse_registry::{Metadata, Registry, State};

use crate::call::{Call, ObjectLabels};
use crate::options::{AdminKey, Role};
use crate::prefix;

pub(crate) const READ: &str = "DescribeGatewayObjects";
pub(crate) const WRITE: &str = "UpdateGatewayObjects";
const ADMINISTER: &str = "AdministerGateway";

/// Name that stands for all objects: only a right to everything covers it.
const EVERYTHING: &str = "*";

/// Name of the calls about a document with all objects.
const WHOLE_DOCUMENT: &str = "configs";

/// A user or group as the holder of a key, whose role depends on the call.
#[derive(Debug, Clone)]
pub(crate) struct Person {
    pub(crate) principal: Principal,
    pub(crate) name: Arc<str>,
    /// Token; sessions end with it.
    pub(crate) token: Box<str>,
}

impl Person {
    /// Returns the user or group of an enabled token.
    pub(crate) fn from_token(registry: &Registry, token: &str) -> Option<Self> {
        Self::from_object(&registry.state().token_owner(token)?)
    }

    /// Returns an enabled user or group by its id.
    pub(crate) fn from_id(registry: &Registry, kind: &str, id: &str) -> Option<Self> {
        let kind = IdentityKind::ALL.into_iter().find(|it| it.name() == kind)?;
        Self::from_object(&registry.state().identity_object(kind, id)?)
    }

    fn from_object(owner: &IdentityObject) -> Option<Self> {
        let (principal, token) = match owner {
            IdentityObject::User(user) => (Principal::user(&user.head.id), &user.token),
            IdentityObject::Group(group) => (Principal::group(&group.head.id), &group.token),
            IdentityObject::Role(_) | IdentityObject::Policy(_) => return None,
        };
        let name = Arc::clone(&owner.head().name);
        token.is_enabled.then(|| Self { principal, name, token: token.text.clone() })
    }

    /// Returns an enabled user.
    pub(crate) fn from_user(user: &User) -> Option<Self> {
        let (head, token) = (&user.head, &user.token);
        (token.is_enabled && !token.text.is_empty()).then(|| Self {
            principal: Principal::user(&head.id),
            name: Arc::clone(&head.name),
            token: token.text.clone(),
        })
    }

    /// Returns the user or group with its role for a call; `None` if no policy allows anything.
    pub(crate) fn key_for(&self, registry: &Registry, call: &Call) -> Option<AdminKey> {
        let role = self.role_for(&registry.state(), call)?;
        Some(AdminKey { name: self.name.to_string(), key: self.token.to_string(), role })
    }

    fn role_for(&self, state: &State, call: &Call) -> Option<Role> {
        let (kind, name) = object_of(call);
        let labels = match call.object_labels.get() {
            Some(ObjectLabels::Stored(labels)) => Some(labels),
            Some(ObjectLabels::Later) | None => None,
        };
        let object = object(&kind, &name, labels);
        let everything = Resource { namespace: "", name: EVERYTHING, labels: None, ..object };
        let is_about_many = name == EVERYTHING || kind == WHOLE_DOCUMENT;
        let decide = |function, resource: Resource<'_>| {
            let attempt = Attempt { function, resources: &[resource] };
            state.decide(&self.principal, &attempt)
        };
        // What denies some objects denies calls that would include them.
        let denies_some =
            |function| state.denies_some(&self.principal, function, ResourceKind::Gateway);
        let is_later = matches!(call.object_labels.get(), Some(ObjectLabels::Later));
        let may = |function| match decide(function, object) {
            Verdict::Allowed => !is_about_many || !denies_some(function),
            Verdict::NotAllowed => is_later && state.may_by_labels(&self.principal, function),
            Verdict::Denied => false,
        };
        if decide(ADMINISTER, everything) == Verdict::Allowed && !denies_some(ADMINISTER) {
            Some(Role::Admin)
        } else if may(WRITE) {
            Some(Role::Operator)
        } else if may(READ) {
            Some(Role::Viewer)
        } else {
            None
        }
    }
}

/// Returns an object of the gateway as policies see it.
pub(crate) fn object<'a>(
    kind: &'a str,
    name: &'a str,
    labels: Option<&'a Metadata>,
) -> Resource<'a> {
    Resource { kind: ResourceKind::Gateway, id: "", namespace: kind, name, labels }
}

/// Returns kind and id of the object that a call names. All calls that do not name one object take
/// a right to everything.
fn object_of(call: &Call) -> (String, String) {
    match call.segments_after(&prefix::APISIX) {
        Some([kind, rest @ ..]) => (kind.clone(), rest.join("/")),
        _ => (String::new(), EVERYTHING.to_owned()),
    }
}
