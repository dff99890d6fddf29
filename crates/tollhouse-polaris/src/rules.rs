//! Governance rules as messages: fields set by the server, the services that a rule is for, and
//! validation.
//!
//! A rule is stored as the bytes that were sent, without the fields set by the server; those are
//! added when the rule is sent to clients. Fields that this version does not know are therefore
//! kept.

pub(crate) mod first_generation;
mod form;
mod lanes;
mod layout;
mod targets;

pub use form::rule_schema;
pub use layout::{Layout, layout_of};

use crate::code::Code;
use crate::date::DateText;
use crate::dialect::rights::Permits;
use crate::wire::answer::put_revision;
use crate::wire::write::{put_flag, put_flag_value, put_small_number, put_text, put_text_value};
use crate::wire::{Field, Fields, Value, WireError};
use bytes::Bytes;
use layout::{Switch, Texts};
use tollhouse_registry::{NewRule, Rule, RuleKind, ServiceKey};

/// Maximum length of a rule's name in characters, as in Polaris.
const NAME_CHARS_MAX: usize = 64;

/// Namespace of a circuit breaker or a fault detector that names none.
const DEFAULT_NAMESPACE: &str = "default";

/// Decodes and checks a rule.
///
/// # Errors
/// The code to answer with, if the rule is invalid.
pub fn read_rule(kind: RuleKind, message: &[u8]) -> Result<NewRule, Code> {
    let layout = layout_of(kind);
    let mut parts = Parts::read(layout, message).map_err(|_| Code::ParseException)?;
    if matches!(kind, RuleKind::CircuitBreaker | RuleKind::FaultDetector) {
        parts.complete_namespace(layout);
    }
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
    // Some kinds have no explicit id, because a service has at most one such rule.
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

/// Returns the id in a rule's message; empty if absent.
///
/// # Errors
/// If the message cannot be decoded.
pub fn rule_id(kind: RuleKind, message: &[u8]) -> Result<String, Code> {
    let parts = Parts::read(layout_of(kind), message).map_err(|_| Code::ParseException)?;
    Ok(parts.id)
}

/// Whether a rule's message enables it.
///
/// # Errors
/// If the message cannot be decoded.
pub fn rule_is_enabled(kind: RuleKind, message: &[u8]) -> Result<bool, Code> {
    let parts = Parts::read(layout_of(kind), message).map_err(|_| Code::ParseException)?;
    Ok(parts.enabled)
}

/// Returns the rule as a message with the fields set by the server; encoded at most once per
/// version.
pub fn rule_message(rule: &Rule) -> &Bytes {
    rule.encoded.get_or_encode(|| {
        let layout = layout_of(rule.kind);
        let mut out = Vec::with_capacity(rule.body.len() + 160);
        // Appended, because the last of two fields with equal numbers is valid.
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
        if let Some(number) = layout.enabled_at.filter(|_| rule.enabled && rule.enabled_at != 0) {
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

/// Writes the fields that tell a console which changes its reader may make, if the kind has them.
pub(crate) fn put_permits(out: &mut Vec<u8>, kind: RuleKind, permits: Permits) {
    let Some(number) = layout_of(kind).editable else { return };
    put_small_number(out, number, permits.editable.into());
    put_small_number(out, number + 1, permits.deletable.into());
}

/// Services of a rule, and its final kind.
struct RuleTargets {
    kind: RuleKind,
    targets: Vec<ServiceKey>,
}

/// Fields that rules of all kinds have.
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
        // A missing switch means enabled if the field says "disable", and disabled if it says
        // "enable".
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

    /// Sets the namespace of a rule without one, as Polaris does for some kinds.
    fn complete_namespace(&mut self, layout: &Layout) {
        if let (Some(number), true) = (layout.namespace, self.namespace.is_empty()) {
            self.namespace = DEFAULT_NAMESPACE.to_owned();
            put_text(&mut self.body, number, DEFAULT_NAMESPACE);
        }
    }

    /// Takes a field that the server sets. Returns whether it was such a field.
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
        let deletable = layout.editable.map(|editable| editable + 1);
        let set_by_server = [
            Some(layout.revision),
            Some(layout.created),
            Some(layout.modified),
            layout.enabled_at,
            layout.editable,
            deletable,
        ];
        Ok(set_by_server.contains(&number))
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
    /// Decodes a text, wrapped or plain.
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

/// Decodes the number in a wrapper; 0 if the field has another type.
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
