//! `admin.keys`: further keys of the Admin API, each with a name for the change history, and a
//! role. The Admin API enforces the roles.

use std::collections::HashSet;

use serde_json::{Map, Value, json};

use super::parts::Secret;
use super::shape::{Read, Shape, collect, refuse};

/// A key of the Admin API.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedKey {
    /// Name of the key's owner, as shown in the audit log.
    pub name: String,
    /// Key sent as `X-API-KEY`.
    pub key: Secret,
    pub role: KeyRole,
}

/// Rights of a key of the Admin API.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyRole {
    /// Role with all permissions.
    Admin,
    /// Reads and writes objects, which includes control over all traffic. Must not read secrets in
    /// clear text, send secrets elsewhere, or change anything about the process.
    Operator,
    /// Reads everything except secrets in clear text.
    Viewer,
}

const ROLES: [(KeyRole, &str); 3] =
    [(KeyRole::Admin, "admin"), (KeyRole::Operator, "operator"), (KeyRole::Viewer, "viewer")];

const FIELDS: [&str; 3] = ["name", "key", "role"];

/// Maximum number of keys, because the key of every call is compared with each.
const KEYS_MAX: usize = 100;

/// Minimum length of a key in characters, because the key is the only protection of the API.
const KEY_CHARACTERS_MIN: usize = 16;

/// Maximum length of a key's name in bytes.
const NAME_BYTES_MAX: usize = 64;

/// Syntax of `admin.keys`: a list of tables, which may also be written as JSON text.
pub(crate) struct NamedKeys;

impl Shape for NamedKeys {
    type Value = Vec<NamedKey>;
    const SECRET: bool = true;
    fn takes() -> String {
        "list of tables such as {name: night shift, key: 16 characters or more, role: operator}, as JSON in a \
         variable or flag"
            .to_owned()
    }
    fn read(value: &Value) -> Read<Vec<NamedKey>> {
        let read = match value {
            Value::Array(items) => collect(items.iter().map(read_one)),
            Value::String(text) if text.trim().is_empty() => Ok(Vec::new()),
            Value::String(text) => match serde_json::from_str::<Value>(text) {
                Ok(Value::Array(items)) => collect(items.iter().map(read_one)),
                _ => no_list(),
            },
            _ => no_list(),
        };
        read.and_then(check_all)
    }
    fn show(value: &Vec<NamedKey>) -> String {
        let shown = value.iter().map(|one| {
            let role =
                ROLES.iter().find(|(role, _)| *role == one.role).map_or("", |(_, name)| name);
            json!({ "name": one.name, "key": "***", "role": role })
        });
        Value::Array(shown.collect()).to_string()
    }
}

fn no_list<T>() -> Read<T> {
    refuse("not a list of keys", "write a list of tables, each with name, key and role")
}

fn read_one(value: &Value) -> Read<NamedKey> {
    let Value::Object(fields) = value else { return no_list() };
    if let Some(name) = fields.keys().find(|name| !FIELDS.contains(&name.as_str())) {
        let hint = format!("its fields are {}", FIELDS.join(", "));
        return refuse(format!("unknown field \"{name}\" of a key"), hint);
    }
    let name = text(fields, "name");
    if name.is_empty() || name.len() > NAME_BYTES_MAX || name.chars().any(char::is_control) {
        return refuse("a key without a name", "give it a name of at most 64 bytes");
    }
    let key = text(fields, "key");
    if key.chars().count() < KEY_CHARACTERS_MIN {
        let reason = format!("the key of {name:?} can be guessed");
        return refuse(reason, format!("give {KEY_CHARACTERS_MIN} random characters or more"));
    }
    let role = text(fields, "role");
    let Some((role, _)) = ROLES.iter().find(|(_, name)| *name == role) else {
        let reason = format!("unknown role {role:?} of {name:?}");
        return refuse(reason, "use admin, operator or viewer");
    };
    Ok(NamedKey { name, key: Secret::new(key), role: *role })
}

fn text(fields: &Map<String, Value>, name: &str) -> String {
    fields.get(name).and_then(Value::as_str).unwrap_or_default().trim().to_owned()
}

/// Requires unique names and unique keys.
fn check_all(keys: Vec<NamedKey>) -> Read<Vec<NamedKey>> {
    if keys.len() > KEYS_MAX {
        return refuse("too many keys", format!("give at most {KEYS_MAX}"));
    }
    let mut seen = HashSet::new();
    for one in &keys {
        if !seen.insert(one.name.as_str()) {
            return refuse(
                format!("two keys are called {:?}", one.name),
                "name each after its owner",
            );
        }
    }
    let mut seen = HashSet::new();
    for one in &keys {
        if !seen.insert(one.key.expose()) {
            let reason = format!("{:?} has the same key as another entry", one.name);
            return refuse(reason, "give each owner a different key");
        }
    }
    Ok(keys)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_read_from_tables_and_text_and_never_shown() {
        let one = json!({"name": "night shift", "key": "0123456789abcdef", "role": "operator"});
        for value in [json!([one]), json!(json!([one]).to_string())] {
            let read = NamedKeys::read(&value).expect("it is a list");
            assert_eq!((&*read[0].name, read[0].role), ("night shift", KeyRole::Operator));
            let shown = NamedKeys::show(&read);
            assert!(shown.contains("night shift") && !shown.contains("0123456789"), "{shown}");
        }
        assert_eq!(NamedKeys::read(&json!("")), Ok(Vec::new()));
    }

    #[test]
    fn what_tells_nobody_apart_is_refused() {
        let key =
            |name: &str, key: &str, role: &str| json!({"name": name, "key": key, "role": role});
        let (long, other) = ("0123456789abcdef", "fedcba9876543210");
        let table = [
            (json!({}), "not a list"),
            (json!(["x"]), "not a list"),
            (json!([{"nam": "x"}]), "unknown field"),
            (json!([key("", long, "admin")]), "without a name"),
            (json!([key("x", "short", "admin")]), "can be guessed"),
            (json!([key("x", long, "root")]), "unknown role"),
            (json!([key("x", long, "admin"), key("x", other, "viewer")]), "are called"),
            (json!([key("x", long, "admin"), key("y", long, "viewer")]), "another entry"),
        ];
        for (value, expected) in table {
            let refusals = NamedKeys::read(&value).expect_err("it is refused");
            assert!(refusals[0].reason.contains(expected), "{value}: {refusals:?}");
            assert!(!refusals[0].reason.contains(long), "{refusals:?}");
        }
    }
}
