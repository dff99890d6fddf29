//! Governance rules between messages and the registry: which fields the server sets, which services a
//! rule is for, and what is refused.
//!
//! A rule is stored as the bytes that were sent, less the fields that the server sets; those are put
//! back when it is handed out. So what this edition does not know of a rule survives.

pub(crate) mod first_generation;
mod form;
mod lanes;
mod layout;
mod targets;

pub use form::rule_schema;
pub use layout::{Layout, layout_of};

use crate::code::Code;
use crate::date::DateText;
use crate::wire::answer::put_revision;
use crate::wire::write::{put_flag, put_flag_value, put_text, put_text_value};
use crate::wire::{Field, Fields, Value, WireError};
use bytes::Bytes;
use layout::{Switch, Texts};
use tollhouse_registry::{NewRule, Rule, RuleKind, ServiceKey};

/// Longest name of a rule in characters, as in Polaris.
const NAME_CHARS_MAX: usize = 64;

/// Reads a rule that somebody wrote.
///
/// # Errors
/// The code that says what is wrong with it.
pub fn read_rule(kind: RuleKind, message: &[u8]) -> Result<NewRule, Code> {
    let layout = layout_of(kind);
    let parts = Parts::read(layout, message).map_err(|_| Code::ParseException)?;
    let read = targets::read(kind, message)?;
    if parts.name.chars().nth(NAME_CHARS_MAX).is_some()
        || layout.is_name_required && parts.name.is_empty()
    {
        return Err(layout.bad_name);
    }
    let body = match kind {
        RuleKind::Lane => {
            lanes::completed(&parts.body, &parts.name).map_err(|_| Code::ParseException)?
        }
        _ => parts.body,
    };
    // Rules of some kinds bear no id of their own: there is one for each service.
    let id = match (layout.id, read.targets.first()) {
        (Some(_), _) | (None, None) => parts.id.as_str().into(),
        (None, Some(target)) => format!("{}##{}", target.namespace, target.name).into(),
    };
    Ok(NewRule {
        kind: read.kind,
        id,
        name: parts.name.into(),
        namespace: parts.namespace.into(),
        targets: read.targets,
        priority: parts.priority,
        enabled: parts.enabled,
        body: body.into(),
    })
}

/// The id in a message of a rule; empty if there is none.
///
/// # Errors
/// The message is none.
pub fn rule_id(kind: RuleKind, message: &[u8]) -> Result<String, Code> {
    let parts = Parts::read(layout_of(kind), message).map_err(|_| Code::ParseException)?;
    Ok(parts.id)
}

/// Whether a message of a rule switches it on.
///
/// # Errors
/// The message is none.
pub fn rule_is_enabled(kind: RuleKind, message: &[u8]) -> Result<bool, Code> {
    let parts = Parts::read(layout_of(kind), message).map_err(|_| Code::ParseException)?;
    Ok(parts.enabled)
}

/// The rule as a message, with all that the server sets. Made at most once for each version.
pub fn rule_message(rule: &Rule) -> &Bytes {
    rule.encoded.get_or_encode(|| {
        let layout = layout_of(rule.kind);
        let mut out = Vec::with_capacity(rule.body.len() + 160);
        // The server's fields come behind the author's, so that they win where both are there (protobuf: last one
        // wins).
        out.extend_from_slice(&rule.body);
        let put = match layout.texts {
            Texts::Plain => put_text,
            Texts::Wrapped => put_text_value,
        };
        if let Some(number) = layout.id {
            put(&mut out, number, &rule.id);
        }
        match layout.texts {
            Texts::Plain => put_text(&mut out, layout.revision, &rule.revision.to_string()),
            Texts::Wrapped => put_revision(&mut out, layout.revision, &rule.revision.digits()),
        }
        put(&mut out, layout.created, DateText::from_unix_seconds(rule.created_at).as_str());
        put(&mut out, layout.modified, DateText::from_unix_seconds(rule.modified_at).as_str());
        if let Some(number) = layout.enabled_at.filter(|_| rule.enabled_at != 0) {
            put(&mut out, number, DateText::from_unix_seconds(rule.enabled_at).as_str());
        }
        match layout.switch {
            Switch::None => {}
            Switch::Flag(number) => put_flag(&mut out, number, rule.enabled),
            Switch::Wrapped(number) => put_flag_value(&mut out, number, rule.enabled),
            Switch::WrappedOff(number) => put_flag_value(&mut out, number, !rule.enabled),
        }
        out.into_boxed_slice().into()
    })
}

/// The services of a rule, and what kind it turned out to be.
struct Read {
    kind: RuleKind,
    targets: Vec<ServiceKey>,
}

/// What all rules have in common, taken out of a message.
#[derive(Default)]
struct Parts {
    id: String,
    name: String,
    namespace: String,
    priority: u32,
    enabled: bool,
    body: Vec<u8>,
}

impl Parts {
    fn read(layout: &Layout, message: &[u8]) -> Result<Self, WireError> {
        // What is not switched off is on where the switch says "off", and off where it says "on".
        let enabled = matches!(layout.switch, Switch::None | Switch::WrappedOff(_));
        let mut parts = Self { enabled, ..Self::default() };
        for field in Fields::new(message) {
            let field = field?;
            if !parts.take_server_field(layout, &field)? {
                parts.take_field(layout, &field)?;
                parts.body.extend_from_slice(&message[field.start..field.end]);
            }
        }
        Ok(parts)
    }

    /// Takes a field that the server sets itself; tells whether it was one.
    fn take_server_field(&mut self, layout: &Layout, field: &Field<'_>) -> Result<bool, WireError> {
        let number = Some(field.number);
        if number == layout.id {
            self.id = layout.text(field.value)?;
            return Ok(true);
        }
        match layout.switch {
            Switch::Flag(at) if at == field.number => {
                self.enabled = field.value.varint().is_some_and(|flag| flag != 0);
                return Ok(true);
            }
            Switch::Wrapped(at) if at == field.number => {
                self.enabled = wrapped_number(field.value)? != 0;
                return Ok(true);
            }
            Switch::WrappedOff(at) if at == field.number => {
                self.enabled = wrapped_number(field.value)? == 0;
                return Ok(true);
            }
            _ => {}
        }
        let set_by_server = [Some(layout.revision), Some(layout.created), Some(layout.modified)];
        Ok(set_by_server.contains(&number) || number == layout.enabled_at)
    }

    fn take_field(&mut self, layout: &Layout, field: &Field<'_>) -> Result<(), WireError> {
        let number = Some(field.number);
        if number == layout.name {
            self.name = layout.text(field.value)?;
        } else if number == layout.namespace {
            self.namespace = layout.text(field.value)?;
        } else if number == layout.priority {
            let value = match layout.texts {
                Texts::Plain => field.value.varint().unwrap_or_default(),
                Texts::Wrapped => wrapped_number(field.value)?,
            };
            self.priority = value as u32;
        }
        Ok(())
    }
}

impl Layout {
    /// The text of a field, wrapped or not.
    fn text(&self, value: Value<'_>) -> Result<String, WireError> {
        let Some(bytes) = value.bytes() else {
            return Ok(String::new());
        };
        let text = match self.texts {
            Texts::Plain => bytes,
            Texts::Wrapped => {
                let mut text: &[u8] = &[];
                for field in Fields::new(bytes) {
                    let field = field?;
                    if let (1, Value::Bytes(bytes)) = (field.number, field.value) {
                        text = bytes;
                    }
                }
                text
            }
        };
        std::str::from_utf8(text).map(str::to_owned).map_err(|_| WireError::NotUtf8)
    }
}

/// The number in a wrapper; 0 if the field holds something else.
fn wrapped_number(value: Value<'_>) -> Result<u64, WireError> {
    let mut number = 0;
    for field in Fields::new(value.bytes().unwrap_or_default()) {
        let field = field?;
        if let (1, Value::Varint(value)) = (field.number, field.value) {
            number = value;
        }
    }
    Ok(number)
}

#[cfg(test)]
mod tests;
