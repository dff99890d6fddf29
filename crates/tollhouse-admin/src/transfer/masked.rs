//! Masking of secrets in a plan: values that sealing would change are replaced by stars, which
//! shows that a secret changes but not its value.

use serde_json::Value;
use tollhouse_model::Kind;
use tollhouse_model::encryption::Keyring;
use tollhouse_plugin::Catalogue;
use tollhouse_plugin::sealing::{self, ObjectRef};

use super::objects::id_in;

/// Returns the object with `***` in place of all values that sealing would change. The keyring may
/// be a temporary one.
pub fn masked(kind: Kind, plain: &Value, catalogue: &Catalogue, keyring: &Keyring) -> Value {
    let mut sealed = plain.clone();
    let id = id_in(kind, plain);
    sealing::seal(ObjectRef::new(kind, &id), &mut sealed, catalogue, keyring);
    if kind == Kind::PluginMetadata {
        return with_everything_hidden(plain);
    }
    with_differences_hidden(plain, &sealed)
}

/// Returns the value with all texts masked, because plugin metadata may contain passwords in any
/// field.
fn with_everything_hidden(value: &Value) -> Value {
    match value {
        Value::Object(fields) => fields
            .iter()
            .map(|(name, value)| (name.clone(), with_everything_hidden(value)))
            .collect(),
        Value::String(_) => Value::from("***"),
        other => other.clone(),
    }
}

fn with_differences_hidden(plain: &Value, sealed: &Value) -> Value {
    match (plain, sealed) {
        (Value::Object(plain), Value::Object(sealed)) => plain
            .iter()
            .map(|(name, value)| {
                let sealed = sealed.get(name).unwrap_or(value);
                (name.clone(), with_differences_hidden(value, sealed))
            })
            .collect(),
        (Value::Array(plain), Value::Array(sealed)) => {
            let pairs = plain.iter().zip(sealed);
            pairs.map(|(plain, sealed)| with_differences_hidden(plain, sealed)).collect()
        }
        (plain, sealed) if plain == sealed => plain.clone(),
        _ => Value::from("***"),
    }
}
