//! Secrets: the secret managers as objects, and references to values in them.
//!
//! References and their resolution are in `secret/reference.rs` and `secret/source.rs`, the
//! expected type of a value in `secret/expected.rs`, and the parser of secret managers in
//! `secret/parse.rs`. Requests to a secret manager are made by a crate that does IO.

use crate::Id;

mod expected;
mod parse;
mod reference;
mod source;
mod text;

pub use expected::TargetType;
pub use reference::{Manager, SecretRef, is_reference};
pub use source::{
    EnvironmentSource, NoAnswer, SecretSource, UnresolvedReference, has_references, resolve_as,
    resolve_in,
};
pub use text::SecretText;

/// Secret manager that passed validation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Secret {
    /// Key of the object below its collection: `<manager>/<id>`.
    pub key: Id,
    /// Id, unique among the managers of its kind.
    pub id: Id,
    pub keeper: SecretManager,
}

/// Connection settings of a secret manager. Every text may itself be a reference to the
/// environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SecretManager {
    Vault(Vault),
    Aws(Aws),
    Gcp(Gcp),
}

/// HashiCorp Vault with the key-value engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Vault {
    /// Base address of Vault, such as `http://127.0.0.1:8200`.
    pub uri: String,
    /// Path of the engine and below, such as `kv/apisix`.
    pub prefix: String,
    /// Token that authenticates requests to Vault.
    pub token: SecretText,
    /// Namespace of Vault Enterprise.
    pub namespace: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Aws {
    pub access_key_id: String,
    /// Secret key that signs requests.
    pub secret_access_key: SecretText,
    /// Session token of temporary credentials.
    pub session_token: Option<SecretText>,
    /// AWS region; `us-east-1` by default.
    pub region: String,
    /// URL that replaces the default endpoint of the region.
    pub endpoint_url: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gcp {
    pub account: GcpAccount,
    /// Whether the certificate of the service is verified; default true.
    pub ssl_verify: bool,
}

/// A service account of Google Cloud.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GcpAccount {
    /// The account is given in the object.
    Inline(Box<GcpAuth>),
    /// Path of a key file, as downloaded from the console.
    File(String),
}

/// A service account, given in the object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GcpAuth {
    /// E-mail address of the service account.
    pub client_email: String,
    /// Private key of the account, PEM.
    pub private_key: SecretText,
    pub project_id: String,
    /// URL that issues access tokens.
    pub token_uri: String,
    /// Base URL of Secret Manager's API.
    pub entries_uri: String,
    /// Scopes requested for the access token.
    pub scope: Vec<String>,
}

impl Secret {
    /// Splits a key such as `vault/1` into manager and id; `None` for any other text.
    pub fn split_key(key: &str) -> Option<(Manager, &str)> {
        let (manager, id) = key.split_once('/')?;
        Some((Manager::from_name(manager)?, id))
    }

    pub fn key(manager: Manager, id: &str) -> Id {
        Id::new(format!("{}/{id}", manager.name()))
    }
}

#[cfg(test)]
mod tests;
