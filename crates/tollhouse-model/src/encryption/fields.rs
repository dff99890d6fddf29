//! Sealing and opening of the secret fields of a document, in place.

use serde_json::Value;

use super::sealed::PREFIX;
use super::{Keyring, Opened};
use crate::secret::is_reference;

/// A sealed value that no key opens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unopened {
    /// Path of the field: names joined by dots.
    pub field: String,
    pub certainty: Certainty,
}

/// Certainty that a value is sealed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Certainty {
    /// The value has the prefix of sealed values.
    Marked,
    /// The value looks like the form of APISIX, as some plain values do by chance.
    Likely,
}

/// Result of sealing the fields of a document.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sealing {
    /// Number of values sealed now: plain ones, and those of an older key or another form.
    pub changed: usize,
    /// Number of those values that were not in Tollhouse's own form before: plain ones, and those
    /// in the form of APISIX.
    pub unmarked: usize,
    /// Number of sealed values in the document.
    pub sealed: usize,
    /// Values left unchanged because no key opens them.
    pub unopened: Vec<Unopened>,
}

impl Sealing {
    /// Adds the counts and the unopened values of another result.
    pub fn add(&mut self, other: Self) {
        self.changed += other.changed;
        self.unmarked += other.unmarked;
        self.sealed += other.sealed;
        self.unopened.extend(other.unopened);
    }
}

/// Object and part to which fields belong. A sealed value is bound to both and does not open
/// elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owner<'a> {
    /// Path of the object, such as `routes/1`; empty for values bound to their field alone.
    pub object: &'a str,
    /// Plugin or kind of object that defines the field.
    pub part: &'a str,
}

impl Owner<'_> {
    /// Returns the place of a field without its object. Older versions bound sealed values to this
    /// place.
    fn field(self, field: &str) -> String {
        place_of(self.part, field)
    }

    fn place(self, field: &str) -> String {
        match self.object {
            "" => self.field(field),
            object => format!("{object} {}", self.field(field)),
        }
    }

    /// Seals a value for one field of this owner.
    pub fn seal(self, text: &str, field: &str, keyring: &Keyring) -> String {
        keyring.seal(text, &self.place(field))
    }

    /// Opens the text of a field. A value bound to the field alone counts as stale.
    pub fn open(self, text: &str, field: &str, keyring: &Keyring) -> Opened {
        let opened = keyring.open(text, &self.place(field));
        if self.object.is_empty() || opened != Opened::Unopened(Certainty::Marked) {
            return opened;
        }
        match keyring.open(text, &self.field(field)) {
            Opened::Current(plain) | Opened::Stale(plain) => Opened::Stale(plain),
            unopened @ (Opened::Plain | Opened::Unopened(_)) => unopened,
        }
    }
}

/// Seals the texts under these fields of `conf`, such as `key` or `brokers.sasl_config.password`.
/// Lists on the path are walked. If the last field is a list or map, all its texts are sealed.
/// References to secrets are not changed.
pub fn seal_fields(
    conf: &mut Value,
    owner: Owner<'_>,
    fields: &[impl AsRef<str>],
    keyring: &Keyring,
) -> Sealing {
    let mut sealing = Sealing::default();
    for field in fields {
        let field = field.as_ref();
        each_text(conf, field, |text| {
            let plain = match owner.open(text, field, keyring) {
                _ if is_reference(text) => return,
                Opened::Current(_) => None,
                Opened::Stale(plain) => Some(plain),
                // Without the prefix, the text may be a plain value that only looks sealed.
                Opened::Plain | Opened::Unopened(Certainty::Likely) => Some(text.clone()),
                Opened::Unopened(certainty) => {
                    sealing.unopened.push(Unopened { field: field.to_owned(), certainty });
                    return;
                }
            };
            sealing.sealed += 1;
            if let Some(plain) = plain {
                sealing.unmarked += usize::from(!Keyring::is_marked(text));
                *text = owner.seal(&plain, field, keyring);
                sealing.changed += 1;
            }
        });
    }
    sealing
}

/// Opens the fields that [`seal_fields`] sealed. Values that no key opens are not changed; they are
/// returned.
pub fn open_fields(
    conf: &mut Value,
    owner: Owner<'_>,
    fields: &[impl AsRef<str>],
    keyring: &Keyring,
) -> Vec<Unopened> {
    open_each(conf, owner, fields, keyring, |_, _| {})
}

/// Like [`open_fields`], for fields whose values are all known to be sealed. A value that no key
/// opens receives the prefix of sealed values, so that it is not taken for the plain text.
pub fn open_or_mark_fields(
    conf: &mut Value,
    owner: Owner<'_>,
    fields: &[impl AsRef<str>],
    keyring: &Keyring,
) {
    open_each(conf, owner, fields, keyring, |text, certainty| {
        if certainty == Certainty::Likely {
            text.insert_str(0, PREFIX);
        }
    });
}

fn open_each(
    conf: &mut Value,
    owner: Owner<'_>,
    fields: &[impl AsRef<str>],
    keyring: &Keyring,
    mut unopen: impl FnMut(&mut String, Certainty),
) -> Vec<Unopened> {
    let mut unopened = Vec::new();
    for field in fields {
        let field = field.as_ref();
        each_text(conf, field, |text| match owner.open(text, field, keyring) {
            Opened::Current(plain) | Opened::Stale(plain) => *text = plain,
            Opened::Plain => {}
            Opened::Unopened(certainty) => {
                unopen(text, certainty);
                unopened.push(Unopened { field: field.to_owned(), certainty });
            }
        });
    }
    unopened
}

/// Decrypts the texts under these fields that a key of the ring opens; returns each with its field.
pub fn sealed_texts(
    conf: &mut Value,
    owner: Owner<'_>,
    fields: &[impl AsRef<str>],
    keyring: &Keyring,
) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for field in fields {
        let field = field.as_ref();
        each_text(conf, field, |text| match owner.open(text, field, keyring) {
            Opened::Current(plain) | Opened::Stale(plain) => found.push((field.to_owned(), plain)),
            Opened::Plain | Opened::Unopened(_) => {}
        });
    }
    found
}

/// Returns the values of `fields` in `conf`, in order. Lists on the path stay lists; absent fields
/// are null.
pub fn project(conf: &Value, fields: &[impl AsRef<str>]) -> Value {
    fields.iter().map(|field| under(conf, field.as_ref())).collect()
}

/// Returns the value at the dotted path `field` below `value`. Recurses once per dot and per list,
/// which the nesting limit of objects bounds.
fn under(value: &Value, field: &str) -> Value {
    match value {
        Value::Array(items) => items.iter().map(|item| under(item, field)).collect(),
        Value::Object(fields) => match field.split_once('.') {
            Some((name, rest)) => fields.get(name).map_or(Value::Null, |value| under(value, rest)),
            None => fields.get(field).cloned().unwrap_or_default(),
        },
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => Value::Null,
    }
}

/// Returns the first field below `value` whose text has the prefix of sealed values. Visits every
/// text if no field has it.
pub fn sealed_field(value: &Value) -> Option<String> {
    if !has_marked(value) {
        return None;
    }
    let mut waiting = vec![(String::new(), value)];
    while let Some((field, value)) = waiting.pop() {
        match value {
            Value::String(text) if Keyring::is_marked(text) => return Some(field),
            Value::Array(items) => waiting.extend(items.iter().map(|item| (field.clone(), item))),
            Value::Object(fields) => {
                waiting.extend(fields.iter().map(|(name, value)| (place_of(&field, name), value)));
            }
            Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
    None
}

fn has_marked(value: &Value) -> bool {
    let mut waiting = vec![value];
    while let Some(value) = waiting.pop() {
        match value {
            Value::String(text) if Keyring::is_marked(text) => return true,
            Value::Array(items) => waiting.extend(items),
            Value::Object(fields) => waiting.extend(fields.values()),
            Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
    false
}

/// Joins owner and field, such as `key-auth.key`; sealed values are bound to this place.
fn place_of(owner: &str, field: &str) -> String {
    if owner.is_empty() { field.to_owned() } else { format!("{owner}.{field}") }
}

fn each_text(conf: &mut Value, field: &str, mut apply: impl FnMut(&mut String)) {
    // An explicit stack instead of recursion, because lists may nest deeper than a thread's stack
    // allows.
    let mut waiting = vec![(conf, Some(field))];
    while let Some((value, path)) = waiting.pop() {
        match (value, path) {
            (Value::Array(items), path) => {
                waiting.extend(items.iter_mut().map(|item| (item, path)));
            }
            (Value::Object(fields), Some(path)) => {
                let (name, rest) = match path.split_once('.') {
                    Some((name, rest)) => (name, Some(rest)),
                    None => (path, None),
                };
                waiting.extend(fields.get_mut(name).map(|value| (value, rest)));
            }
            (Value::Object(fields), None) => {
                fields.values_mut().for_each(|value| {
                    if let Value::String(text) = value {
                        apply(text);
                    }
                });
            }
            (Value::String(text), None) => apply(text),
            (Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_), _) => {}
        }
    }
}
