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

/// Seals the texts that stand under these fields of `conf`, such as `key` or
/// `brokers.sasl_config.password`: lists on the way are walked; of a list or map at the end every
/// text. References to secrets stay as they are. `owner` goes before a field's name in the place
/// that a value is bound to.
pub fn seal_fields(
    conf: &mut Value,
    owner: &str,
    fields: &[impl AsRef<str>],
    keyring: &Keyring,
) -> Sealing {
    let mut sealing = Sealing::default();
    for field in fields {
        let field = field.as_ref();
        let place = place_of(owner, field);
        each_text(conf, field, |text| {
            let plain = match keyring.open(text, &place) {
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
                *text = keyring.seal(&plain, &place);
                sealing.changed += 1;
            }
        });
    }
    sealing
}

/// The reverse of [`seal_fields`]. What no key opens stays as it is, and is reported.
pub fn open_fields(
    conf: &mut Value,
    owner: &str,
    fields: &[impl AsRef<str>],
    keyring: &Keyring,
) -> Vec<Unopened> {
    open_each(conf, owner, fields, keyring, |_, _| {})
}

/// The same where all values are known to be sealed: what no key opens says so itself from there on, so that nobody takes
/// it for what it hides.
pub fn open_or_mark_fields(
    conf: &mut Value,
    owner: &str,
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
    owner: &str,
    fields: &[impl AsRef<str>],
    keyring: &Keyring,
    mut unopen: impl FnMut(&mut String, Certainty),
) -> Vec<Unopened> {
    let mut unopened = Vec::new();
    for field in fields {
        let field = field.as_ref();
        let place = place_of(owner, field);
        each_text(conf, field, |text| match keyring.open(text, &place) {
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
