//! An object of a plan as people may see it: whatever sealing it would change is stars, so that one sees that a secret
//! changes and not what it is.

use serde_json::Value;
use tollhouse_model::Kind;
use tollhouse_model::encryption::Keyring;
use tollhouse_plugin::Catalogue;
use tollhouse_plugin::sealing::{self, ObjectRef};

use super::objects::id_in;

/// The object with stars for its secrets: for all that sealing it would change. The keyring may be one that nobody has.
pub fn masked(kind: Kind, plain: &Value, catalogue: &Catalogue, keyring: &Keyring) -> Value {
    let mut sealed = plain.clone();
    let id = id_in(kind, plain);
    sealing::seal(ObjectRef::new(kind, &id), &mut sealed, catalogue, keyring);
    if kind == Kind::PluginMetadata {
        return with_everything_hidden(plain);
    }
    with_differences_hidden(plain, &sealed)
}

/// What metadata says is the plugin's own business, and may be a password.
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
