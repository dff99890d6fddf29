//! Secrets on their way into the store and out of it, and what never leaves again. Which fields those
//! are is said by `tollhouse_plugin::sealing`.

use serde_json::Value;
use tollhouse_model::encryption::{Keyring, SSL_FIELDS};
use tollhouse_plugin::{Catalogue, sealing};

use crate::resource::Resource;

/// Encrypts what must not lie open in the store.
pub(crate) fn seal(
    resource: &Resource,
    value: &mut Value,
    catalogue: &Catalogue,
    ring: Option<&Keyring>,
) {
    if let (Some(ring), Some(kind)) = (ring, resource.object_kind()) {
        sealing::seal(kind, value, catalogue, ring);
    }
}

/// The reverse; what no key decrypts stays as it is.
pub(crate) fn unseal(
    resource: &Resource,
    value: &mut Value,
    catalogue: &Catalogue,
    ring: Option<&Keyring>,
) {
    if let (Some(ring), Some(kind)) = (ring, resource.object_kind()) {
        sealing::unseal(kind, value, catalogue, ring);
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
