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

/// Seals what must not lie open in the store. No secret is sealed twice to the same text, so that one which stood there
/// before is taken over as it was: an object that is written back differs in nothing that nobody has changed.
pub(crate) fn seal_over(
    resource: &Resource,
    value: &mut Value,
    before: Option<Value>,
    parts: &Parts,
) {
    let Some(kind) = resource.object_kind() else { return };
    let plain = value.clone();
    let sealing = sealing::seal(kind, value, &parts.catalogue, &parts.keyring);
    let Some(mut before) = before.filter(|_| sealing.changed > 0) else { return };
    // What an older key has sealed is sealed anew.
    sealing::reseal(kind, &mut before, &parts.catalogue, &parts.keyring);
    let mut opened = before.clone();
    open_all(kind, &mut opened, parts);
    take_over(value, &plain, &before, &opened);
}

/// Puts the former text of each secret that is the same. As deep as objects are, which is bounded
/// (`limits::DEPTH_MAX`).
fn take_over(sealed: &mut Value, plain: &Value, before: &Value, opened: &Value) {
    match (sealed, plain, before, opened) {
        (
            Value::Object(sealed),
            Value::Object(plain),
            Value::Object(before),
            Value::Object(opened),
        ) => {
            for (name, sealed) in sealed {
                let others = (plain.get(name), before.get(name), opened.get(name));
                if let (Some(plain), Some(before), Some(opened)) = others {
                    take_over(sealed, plain, before, opened);
                }
            }
        }
        (Value::Array(sealed), Value::Array(plain), Value::Array(before), Value::Array(opened)) => {
            let others = plain.iter().zip(before.iter().zip(opened));
            for (sealed, (plain, (before, opened))) in sealed.iter_mut().zip(others) {
                take_over(sealed, plain, before, opened);
            }
        }
        (
            Value::String(sealed),
            Value::String(plain),
            Value::String(before),
            Value::String(opened),
        ) if sealed != plain && plain == opened => {
            sealed.clone_from(before);
        }
        _ => {}
    }
}

/// The object with all its secrets in the clear, which is for comparisons alone.
pub(crate) fn opened(resource: &Resource, value: &Value, parts: &Parts) -> Value {
    let mut opened = value.clone();
    if let Some(kind) = resource.object_kind() {
        open_all(kind, &mut opened, parts);
    }
    opened
}

fn open_all(kind: Kind, value: &mut Value, parts: &Parts) {
    sealing::unseal(kind, value, &parts.catalogue, &parts.keyring, PrivateKeys::Opened);
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
