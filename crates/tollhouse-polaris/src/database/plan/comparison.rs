//! Comparison of an object with the row that the database has of it.

use serde_json::Value;
use tollhouse_registry::config::ConfigObject;
use tollhouse_registry::identity::IdentityObject;
use tollhouse_registry::{Object, Rule};

use crate::descriptors;
use crate::json::print;
use crate::rules::{layout_of, rule_message};

/// Returns the fields to compare: all but revision, row ids and times, which the database sets
/// itself.
pub(super) fn comparable(object: &Object) -> Value {
    let written = match object {
        Object::Namespace(it) => serde_json::to_value(it),
        Object::Service(it) => serde_json::to_value(it),
        Object::Alias(it) => serde_json::to_value(it),
        Object::Instance(it) => serde_json::to_value(it),
        Object::Rule(it) => return comparable_rule(it),
        Object::Contract(it) => serde_json::to_value(it),
        Object::Config(it) => return comparable_config(it),
        Object::Identity(it) => return comparable_identity(it),
    };
    // Serialization never fails: these types consist of texts, numbers, lists and maps with text
    // keys.
    let mut fields = written.unwrap_or_default();
    for name in ["revision", "created_at", "modified_at"] {
        fields.as_object_mut().and_then(|fields| fields.shift_remove(name));
    }
    fields
}

/// Returns the fields of an object of the configuration centre without numbers, which each side
/// counts by itself.
fn comparable_config(object: &ConfigObject) -> Value {
    let written = match object {
        ConfigObject::Group(it) => serde_json::to_value(it),
        ConfigObject::File(it) => serde_json::to_value(it),
        ConfigObject::Release(it) => serde_json::to_value(it),
        ConfigObject::Event(it) => serde_json::to_value(it),
        ConfigObject::Template(it) => serde_json::to_value(it),
    };
    let mut fields = written.unwrap_or_default();
    let of_others: &[&str] = match object {
        ConfigObject::File(_) => &["active", "gray", "version"],
        _ => &[],
    };
    for name in ["id", "dates", "revision"].iter().chain(of_others) {
        fields.as_object_mut().and_then(|fields| fields.shift_remove(*name));
    }
    fields
}

/// Returns the fields of a user, group, role or policy without the password, which stays on each
/// side. The database returns functions and labels in any order.
fn comparable_identity(object: &IdentityObject) -> Value {
    let written = match object {
        IdentityObject::User(it) => serde_json::to_value(&**it),
        IdentityObject::Group(it) => serde_json::to_value(&**it),
        IdentityObject::Role(it) => serde_json::to_value(&**it),
        IdentityObject::Policy(it) => serde_json::to_value(&**it),
    };
    let mut fields = written.unwrap_or_default();
    fields.as_object_mut().and_then(|fields| fields.shift_remove("password"));
    for name in ["revision", "created_at", "modified_at"] {
        let head = fields.get_mut("head").and_then(Value::as_object_mut);
        head.and_then(|head| head.shift_remove(name));
    }
    for name in ["functions", "labels"] {
        if let Some(Value::Array(items)) = fields.get_mut(name) {
            items.sort_by_cached_key(Value::to_string);
        }
    }
    fields
}

/// Returns a rule as clients see it, so that different encodings of one message compare equal.
fn comparable_rule(rule: &Rule) -> Value {
    let descriptor = descriptors().get_message_by_name(layout_of(rule.kind).message);
    let text = descriptor.and_then(|descriptor| print(&descriptor, rule_message(rule)).ok());
    let mut message: Value =
        text.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
    let mut forget = |fields: &mut Value| {
        for name in ["revision", "ctime", "mtime", "etime"] {
            fields.as_object_mut().and_then(|fields| fields.shift_remove(name));
        }
    };
    forget(&mut message);
    if let Some(Value::Array(lanes)) = message.get_mut("rules") {
        lanes.iter_mut().for_each(&mut forget);
    }
    message
}

pub(super) fn modified_at(object: &Object) -> u64 {
    match object {
        Object::Namespace(it) => it.modified_at,
        Object::Service(it) => it.modified_at,
        Object::Alias(it) => it.modified_at,
        Object::Instance(it) => it.modified_at,
        Object::Rule(it) => it.modified_at,
        Object::Contract(it) => it.modified_at,
        Object::Config(it) => match &**it {
            ConfigObject::Group(it) => it.dates.modified_at,
            ConfigObject::File(it) => it.dates.modified_at,
            ConfigObject::Release(it) => it.dates.modified_at,
            ConfigObject::Event(it) => it.at,
            ConfigObject::Template(it) => it.dates.modified_at,
        },
        Object::Identity(it) => it.head().modified_at,
    }
}
