//! Secrets on their way into the store and out of it, and what never leaves again. Which fields those
//! are is said by `tollhouse_plugin::sealing`.

use serde_json::Value;
use tollhouse_model::Kind;
use tollhouse_model::encryption::{Certainty, SSL_FIELDS, Unopened};
use tollhouse_plugin::sealing::{self, PrivateKeys};

use crate::context::Parts;
use crate::options::Role;
use crate::reply::Reply;
use crate::resource::Resource;

/// Seals what must not lie open in the store.
pub(crate) fn seal(resource: &Resource, value: &mut Value, parts: &Parts) {
    if let Some(kind) = resource.object_kind() {
        sealing::seal(kind, value, &parts.catalogue, &parts.keyring);
    }
}

/// Opens an object that somebody writes, in which values may be as answers show them.
///
/// # Errors
/// One of them is sealed, and no key opens it: it would be taken for what it hides.
pub(crate) fn open_written(
    resource: &Resource,
    value: &mut Value,
    parts: &Parts,
) -> Result<(), Reply> {
    let Some(kind) = resource.object_kind() else { return Ok(()) };
    let unopened =
        sealing::unseal(kind, value, &parts.catalogue, &parts.keyring, PrivateKeys::Opened);
    let marked = |it: &Unopened| it.certainty == Certainty::Marked;
    // Certificates are checked with their keys, in words of their own.
    match unopened.into_iter().find(marked).filter(|_| !resource.holds_private_keys()) {
        Some(Unopened { field, .. }) => {
            Err(Reply::bad(format!("failed to open the sealed value of \"{field}\"")))
        }
        None => Ok(()),
    }
}

/// An object that is read: secrets in the clear for those who may write them, sealed for others;
/// private keys for nobody.
pub(crate) fn reveal(resource: &Resource, value: &mut Value, parts: &Parts, role: Role) {
    match (resource.object_kind(), role) {
        (Some(kind), Role::Admin) => {
            sealing::unseal(kind, value, &parts.catalogue, &parts.keyring, PrivateKeys::Sealed);
        }
        (Some(kind), Role::Operator | Role::Viewer) => hide(kind, value, parts),
        (None, _) => {}
    }
    strip(resource, value);
}

/// Seals what a viewer must not read.
pub(crate) fn hide(kind: Kind, value: &mut Value, parts: &Parts) {
    sealing::seal(kind, value, &parts.catalogue, &parts.keyring);
}

/// Takes out what is never given back.
fn strip(resource: &Resource, value: &mut Value) {
    if resource.holds_private_keys()
        && let Value::Object(fields) = value
    {
        for name in SSL_FIELDS {
            fields.shift_remove(name);
        }
    }
}
