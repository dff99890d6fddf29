//! Sealing and opening the secret fields of a document, where they stand.

use serde_json::Value;

use super::sealed::PREFIX;
use super::{Keyring, Opened};
use crate::secret::is_reference;

/// A field whose value is sealed and does not open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unopened {
    /// Names of fields with dots between them.
    pub field: String,
    /// How sure that is.
    pub certainty: Certainty,
}

/// How sure it is that a value is sealed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Certainty {
    /// It says so itself.
    Marked,
    /// It has the look of APISIX's form, as some plain values have by chance.
    Likely,
}

/// What sealing the fields of a document came to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sealing {
    /// Values that were sealed anew: plain ones, and those of an older key or another form.
    pub changed: usize,
    /// Of those, values that were not in the form of our own: what lay in the clear or in APISIX's form, which APISIX
    /// nodes can read.
    pub unmarked: usize,
    /// Values that are sealed now.
    pub sealed: usize,
    /// Values that stay as they are, since no key opens them.
    pub unopened: Vec<Unopened>,
}

impl Sealing {
    /// Adds what sealing other fields came to.
    pub fn add(&mut self, other: Self) {
        self.changed += other.changed;
        self.unmarked += other.unmarked;
        self.sealed += other.sealed;
        self.unopened.extend(other.unopened);
    }
}

/// The object and the part of it that fields belong to. A sealed value is bound to both, and opens nowhere else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owner<'a> {
    /// Name of the object, such as `routes/1`; empty for values that are bound to their field alone.
    pub object: &'a str,
    /// Plugin or kind whose field it is.
    pub part: &'a str,
}

impl Owner<'_> {
    /// The place of a field in any object, to which values were bound before objects counted.
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

    /// Finds out what the text of a field is. One that is bound to the field alone counts as sealed in an older form.
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

/// Seals the texts that stand under these fields of `conf`, such as `key` or
/// `brokers.sasl_config.password`: lists on the way are walked; of a list or map at the end every
/// text. References to secrets stay as they are.
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
                // What only looks sealed is what somebody has written.
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

/// The reverse of [`seal_fields`]. What no key opens stays as it is, and is reported.
pub fn open_fields(
    conf: &mut Value,
    owner: Owner<'_>,
    fields: &[impl AsRef<str>],
    keyring: &Keyring,
) -> Vec<Unopened> {
    open_each(conf, owner, fields, keyring, |_, _| {})
}

/// The same where all values are known to be sealed: what no key opens says so itself from there on, so that nobody takes
/// it for what it hides.
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

/// What the texts under these fields hide that a key of the ring opens, each with its field.
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

/// The values of these fields, in their order; lists on the way stay lists, and absent fields are null.
pub fn project(conf: &Value, fields: &[impl AsRef<str>]) -> Value {
    fields.iter().map(|field| under(conf, field.as_ref())).collect()
}

/// Goes one level down for each dot, and one for each list, which are as deep as objects may be.
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

/// The first field below `value` whose text says that it is sealed, if any. A value without costs a
/// look at each of its texts.
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

/// `key-auth.key`: what a sealed value is bound to.
fn place_of(owner: &str, field: &str) -> String {
    if owner.is_empty() { field.to_owned() } else { format!("{owner}.{field}") }
}

fn each_text(conf: &mut Value, field: &str, mut apply: impl FnMut(&mut String)) {
    // A list of its own instead of recursion: lists may nest deeper than a thread's stack.
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
