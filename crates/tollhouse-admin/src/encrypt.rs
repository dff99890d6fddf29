//! Secrets on their way into the store and out of it, and what never leaves again. Which fields those
//! are is said by `tollhouse_plugin::sealing`.

use serde_json::Value;
use tollhouse_config::store_keys::parse_store_key;
use tollhouse_model::encryption::{Certainty, SSL_FIELDS, Unopened};
use tollhouse_model::{Id, Kind};
use tollhouse_plugin::sealing::{self, ObjectRef, PrivateKeys};
use tollhouse_store::Entry;

use crate::context::Parts;
use crate::options::Role;
use crate::reply::Reply;

/// The object at a path of the store, whatever its value; `None` where no objects lie.
fn object_at(path: &str) -> Option<(Kind, Id)> {
    parse_store_key("", &format!("/{path}"))
}

/// Seals what must not lie open in the store. No secret is sealed twice to the same text, so that one which stood there
/// before is taken over as it was: an object that is written back differs in nothing that nobody has changed.
pub(crate) fn seal_over(path: &str, value: &mut Value, before: Option<Value>, parts: &Parts) {
    let Some((kind, id)) = object_at(path) else { return };
    let at = ObjectRef::new(kind, id.as_str());
    let plain = value.clone();
    let sealing = sealing::seal(at, value, &parts.catalogue, &parts.keyring);
    let Some(mut before) = before.filter(|_| sealing.changed > 0) else { return };
    // What an older key has sealed is sealed anew.
    sealing::reseal(at, &mut before, &parts.catalogue, &parts.keyring);
    let mut opened = before.clone();
    open_all(at, &mut opened, parts);
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
pub(crate) fn opened(path: &str, value: &Value, parts: &Parts) -> Value {
    let mut opened = value.clone();
    if let Some((kind, id)) = object_at(path) {
        open_all(ObjectRef::new(kind, id.as_str()), &mut opened, parts);
    }
    opened
}

fn open_all(at: ObjectRef<'_>, value: &mut Value, parts: &Parts) {
    sealing::unseal(at, value, &parts.catalogue, &parts.keyring, PrivateKeys::Opened);
}

/// Author of an object that is written.
pub(crate) struct Author<'a> {
    /// The caller's right to see secrets.
    pub(crate) role: Role,
    /// The object that is replaced, as it is stored.
    pub(crate) before: Option<&'a Entry>,
}

/// Opens an object that a caller writes, in which values may be as answers show them.
///
/// # Errors
/// A value is sealed and no key opens it, since its text would be taken for the secret; or the caller may not read
/// the secret, and it was sealed elsewhere or would be sent elsewhere.
pub(crate) fn open_written(
    path: &str,
    value: &mut Value,
    author: &Author<'_>,
    parts: &Parts,
) -> Result<(), Reply> {
    if let Some(text) = refused_value(path, value, author, parts) {
        return Err(Reply::bad(text));
    }
    open_stored(path, value, parts)
}

/// Why a hidden value in a written object does not count. It counts, for callers who may not read it, only in the
/// object and field in which it is stored, and while the fields that decide where it is sent are as they were:
/// otherwise it could be sent to the caller's own server.
fn refused_value(path: &str, value: &Value, author: &Author<'_>, parts: &Parts) -> Option<String> {
    match author.role {
        Role::Admin => return None,
        Role::Operator | Role::Viewer => {}
    }
    let (kind, id) = object_at(path)?;
    let at = ObjectRef::new(kind, id.as_str());
    let hidden =
        |value: &Value| sealing::hidden_values(at, value, &parts.catalogue, &parts.keyring);
    let written = hidden(value);
    if written.is_empty() {
        return None;
    }
    let before: Option<Value> =
        author.before.and_then(|entry| serde_json::from_slice(&entry.value).ok());
    // As it was shown: an address that lies open in the store was shown sealed.
    let shown = before.map(|mut before| {
        sealing::hide(at, &mut before, &parts.catalogue, &parts.keyring);
        before
    });
    let stored = shown.as_ref().map(hidden).unwrap_or_default();
    let strange = written.into_iter().find(|it| !stored.contains(it))?;
    let is_stored = stored.iter().any(|it| it.field == strange.field && it.text == strange.text);
    let field = strange.field;
    Some(match is_stored {
        true => format!(
            "the fields that decide where the hidden value of \"{field}\" is sent have changed: write the secret again"
        ),
        false => format!(
            "the hidden value of \"{field}\" counts only in the object and field where it is stored: write the secret again"
        ),
    })
}

/// Opens an object as the store has it.
///
/// # Errors
/// A value is sealed and no key opens it: its text would be taken for the secret.
pub(crate) fn open_stored(path: &str, value: &mut Value, parts: &Parts) -> Result<(), Reply> {
    let Some((kind, id)) = object_at(path) else { return Ok(()) };
    let at = ObjectRef::new(kind, id.as_str());
    let unopened =
        sealing::unseal(at, value, &parts.catalogue, &parts.keyring, PrivateKeys::Opened);
    let marked = |it: &Unopened| it.certainty == Certainty::Marked;
    // Certificates are checked with their keys, in words of their own.
    match unopened.into_iter().find(marked).filter(|_| kind != Kind::Ssl) {
        Some(Unopened { field, .. }) => Err(Reply::bad(format!(
            "failed to open the sealed value of \"{field}\": it counts only in the object and field it was sealed \
                 for, and with a key of the keyring; write the secret again"
        ))),
        None => Ok(()),
    }
}

/// An object that is read: secrets in the clear for those who may write them, sealed for others;
/// private keys for nobody.
pub(crate) fn reveal(path: &str, value: &mut Value, parts: &Parts, role: Role) {
    let Some((kind, id)) = object_at(path) else { return };
    let at = ObjectRef::new(kind, id.as_str());
    match role {
        Role::Admin => {
            sealing::unseal(at, value, &parts.catalogue, &parts.keyring, PrivateKeys::Sealed);
        }
        Role::Operator | Role::Viewer => hide(at, value, parts),
    }
    strip(kind, value);
}

/// Seals what a viewer must not read.
pub(crate) fn hide(at: ObjectRef<'_>, value: &mut Value, parts: &Parts) {
    sealing::hide(at, value, &parts.catalogue, &parts.keyring);
}

/// Takes out what is never given back.
fn strip(kind: Kind, value: &mut Value) {
    if kind == Kind::Ssl
        && let Value::Object(fields) = value
    {
        for name in SSL_FIELDS {
            fields.shift_remove(name);
        }
    }
}
