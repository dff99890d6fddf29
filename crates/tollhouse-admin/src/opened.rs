//! Objects of the store as everybody but the store sees them: with their secrets decrypted.

use serde_json::Value;
use tollhouse_model::Kind;
use tollhouse_model::encryption::Keyring;
use tollhouse_plugin::Catalogue;

use crate::encrypt;
use crate::resource;

/// Decrypts the fields of an object that are encrypted at rest; what no key opens stays as it is.
pub fn decrypt(kind: Kind, value: &mut Value, catalogue: &Catalogue, ring: &Keyring) {
    // Credentials are a kind of their own, though no list of a document.
    let name = if kind == Kind::Credential { "credentials" } else { kind.plural() };
    if let Some(resource) = resource::ALL.iter().find(|resource| resource.name == name) {
        encrypt::unseal(resource, value, catalogue, Some(ring));
    }
}
