//! Sealing of secrets before storage, opening for callers who may see them, and removal of fields
//! that are never returned. `tollhouse_plugin::sealing` defines which fields are secret.

use serde_json::Value;
use tollhouse_config::store_keys::parse_store_key;
use tollhouse_model::encryption::{Certainty, SSL_FIELDS, Unopened};
use tollhouse_model::{Id, Kind};
use tollhouse_plugin::sealing::{self, ObjectRef, PrivateKeys};
use tollhouse_registry::Registry;
use tollhouse_registry::identity::Principal;
use tollhouse_store::Entry;

use crate::auth;
use crate::call::Call;
use crate::config_files;
use crate::context::{Admin, Parts};
use crate::index::Index;
use crate::options::Role;
use crate::reply::Reply;
use crate::scripts;
use crate::session::KeyHolder;

/// Returns kind and id of the object at a path; `None` if the path is not that of an object.
fn object_at(path: &str) -> Option<(Kind, Id)> {
    parse_store_key("", &format!("/{path}"))
}

/// Seals all secrets of an object. Sealing is randomised, so that unchanged secrets keep their
/// previous sealed text; an object that is written back unchanged then stays identical.
pub(crate) fn seal_over(path: &str, value: &mut Value, before: Option<Value>, parts: &Parts) {
    let Some((kind, id)) = object_at(path) else { return };
    let at = ObjectRef::new(kind, id.as_str());
    let plain = value.clone();
    let sealing = sealing::seal(at, value, &parts.catalogue, &parts.keyring);
    let Some(mut before) = before.filter(|_| sealing.changed > 0) else { return };
    // Values under an older key are sealed again with the newest key.
    sealing::reseal(at, &mut before, &parts.catalogue, &parts.keyring);
    let mut opened = before.clone();
    open_all(at, &mut opened, parts);
    take_over(value, &plain, &before, &opened);
}

/// Restores the previous sealed text of unchanged secrets. Recursive; the depth is bounded
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

/// Returns the object with all secrets in plain text, for comparisons only.
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
    /// The user or group that calls, and the registry with its policies; `None` for callers whose
    /// rights follow from the role alone.
    pub(crate) person: Option<(Principal, &'a Registry)>,
    /// All objects, whose secrets may go the same way as those of the written one.
    pub(crate) index: &'a Index,
}

impl<'a> Author<'a> {
    /// Returns the author of a write by this call that replaces `before`.
    pub(crate) fn new(admin: &'a Admin, call: &Call, before: Option<&'a Entry>) -> Self {
        let options = &admin.parts.options;
        let person = match (auth::holder(options, call), &options.people) {
            (Ok(Some(KeyHolder::Person(person))), Some(registry)) => {
                Some((person.principal, registry))
            }
            _ => None,
        };
        let role = auth::caller_role(options, call);
        Self { role, before, person, index: &admin.index }
    }
}

/// Opens the sealed values in an object that a caller writes. A caller who may not see secrets gets
/// them sealed in answers, and may write them back.
///
/// # Errors
/// If no key opens a sealed value, because its text would be taken for the secret. Also if the
/// caller may not see secrets, and a sealed value comes from another place or would be sent to
/// another address.
pub(crate) fn open_written(
    path: &str,
    value: &mut Value,
    author: &Author<'_>,
    parts: &Parts,
) -> Result<(), Reply> {
    check_author(path, value, author)?;
    if let Some(text) = refused_value(path, value, author, parts) {
        return Err(Reply::bad(text));
    }
    open_stored(path, value, parts)
}

/// Refuses scripts, and references to files, that the author may not write.
pub(crate) fn check_author(path: &str, value: &Value, author: &Author<'_>) -> Result<(), Reply> {
    scripts::check_author(value, author)?;
    config_files::check_object(path, value, author)
}

/// Returns the reason why a sealed value in a written object is not accepted; `None` if all are.
/// For callers who may not see secrets, it is valid only in the object and field in which it is
/// stored, and only while the fields that determine its destination are unchanged. Otherwise a
/// caller could have the secret sent to a server of their choice.
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
    // The stored object as answers have shown it: an address that is stored in plain text was
    // sealed in answers.
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

/// Opens the sealed values of a stored object.
///
/// # Errors
/// If no key opens a sealed value, because its text would be taken for the secret.
pub(crate) fn open_stored(path: &str, value: &mut Value, parts: &Parts) -> Result<(), Reply> {
    let Some((kind, id)) = object_at(path) else { return Ok(()) };
    let at = ObjectRef::new(kind, id.as_str());
    let unopened =
        sealing::unseal(at, value, &parts.catalogue, &parts.keyring, PrivateKeys::Opened);
    let marked = |it: &Unopened| it.certainty == Certainty::Marked;
    // The private key of a certificate is checked later, with another error text.
    match unopened.into_iter().find(marked).filter(|_| kind != Kind::Ssl) {
        Some(Unopened { field, .. }) => Err(Reply::bad(format!(
            "failed to open the sealed value of \"{field}\": it counts only in the object and field it was sealed \
                 for, and with a key of the keyring; write the secret again"
        ))),
        None => Ok(()),
    }
}

/// Converts an object for a reader: secrets are in plain text for administrators, and sealed for
/// others. Private keys of certificates are removed for all.
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

/// Seals the secrets that a viewer must not see.
pub(crate) fn hide(at: ObjectRef<'_>, value: &mut Value, parts: &Parts) {
    sealing::hide(at, value, &parts.catalogue, &parts.keyring);
}

/// Removes fields that are never returned.
fn strip(kind: Kind, value: &mut Value) {
    if kind == Kind::Ssl
        && let Value::Object(fields) = value
    {
        for name in SSL_FIELDS {
            fields.shift_remove(name);
        }
    }
}
