//! Which fields of which objects are encrypted at rest, and what never leaves again.

use serde_json::Value;
use tollhouse_model::encryption::{self, Keyring, SSL_FIELDS};
use tollhouse_plugin::Catalogue;

use crate::resource::Resource;

/// The private key that goes with an upstream's own certificate.
const UPSTREAM_FIELDS: [&str; 2] = ["tls.client_key", "upstream.tls.client_key"];

/// What is done with the fields.
#[derive(Clone, Copy)]
enum Direction {
    Encrypt,
    Decrypt,
}

/// Encrypts what must not lie open in the store.
pub(crate) fn seal(
    resource: &Resource,
    value: &mut Value,
    catalogue: &Catalogue,
    ring: Option<&Keyring>,
) {
    if let Some(ring) = ring {
        apply(resource, value, catalogue, ring, Direction::Encrypt);
    }
}

/// The reverse; what no key decrypts stays as it is.
pub(crate) fn unseal(
    resource: &Resource,
    value: &mut Value,
    catalogue: &Catalogue,
    ring: Option<&Keyring>,
) {
    if let Some(ring) = ring {
        apply(resource, value, catalogue, ring, Direction::Decrypt);
    }
}

/// Takes out what is never given back.
pub(crate) fn strip(resource: &Resource, value: &mut Value) {
    if resource.holds_private_keys()
        && let Value::Object(fields) = value
    {
        for name in SSL_FIELDS {
            fields.shift_remove(name);
        }
    }
}

fn apply(
    resource: &Resource,
    value: &mut Value,
    catalogue: &Catalogue,
    ring: &Keyring,
    direction: Direction,
) {
    let change = |conf: &mut Value, fields: &[&str]| match direction {
        Direction::Encrypt => encryption::encrypt_fields(conf, fields, ring),
        Direction::Decrypt => encryption::decrypt_fields(conf, fields, ring),
    };
    if resource.holds_private_keys() {
        change(value, &SSL_FIELDS);
    }
    change(value, &UPSTREAM_FIELDS);
    let Some(Value::Object(confs)) = value.get_mut("plugins") else { return };
    for (name, conf) in confs {
        let Some(plugin) = catalogue.get(name) else { continue };
        match &plugin.consumer {
            Some(spec) if resource.holds_identities() => change(conf, spec.encrypted),
            _ => change(conf, plugin.encrypted),
        }
    }
}
