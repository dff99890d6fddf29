//! Secrets: who keeps the values that confs only refer to, and those references.
//!
//! Here: the keepers as objects. References and what resolves them are in `secret/reference.rs`
//! and `secret/source.rs`, what a value is to be in its place in `secret/expected.rs`, reading a keeper from a document in `secret/parse.rs`. Asking a keeper
//! is the work of a crate that does IO.

use crate::Id;

mod expected;
mod parse;
mod reference;
mod source;
mod text;

pub use expected::Expected;
pub use reference::{Manager, SecretRef, is_reference};
pub use source::{
    EnvironmentSource, NoAnswer, SecretSource, Unanswered, has_references, resolve_as, resolve_in,
};
pub use text::SecretText;

/// A keeper of secrets, validated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Secret {
    /// What it is kept under: `<manager>/<id>`.
    pub key: Id,
    /// Its id among the keepers of its manager.
    pub id: Id,
    /// How it is asked.
    pub keeper: Keeper,
}

/// How a keeper is asked. Every text may itself be a reference to the environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Keeper {
    /// HashiCorp Vault.
    Vault(Vault),
    /// AWS Secrets Manager.
    Aws(Aws),
    /// Google Cloud Secret Manager.
    Gcp(Gcp),
}

/// HashiCorp Vault, key-value engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Vault {
    /// Where it listens, such as `http://127.0.0.1:8200`.
    pub uri: String,
    /// Path of the engine and below, such as `kv/apisix`.
    pub prefix: String,
    /// What lets us in.
    pub token: SecretText,
    /// Vault Enterprise's namespace.
    pub namespace: Option<String>,
}

/// AWS Secrets Manager.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Aws {
    /// Access key id.
    pub access_key_id: String,
    /// What signs requests.
    pub secret_access_key: SecretText,
    /// For temporary credentials.
    pub session_token: Option<SecretText>,
    /// Region; `us-east-1`.
    pub region: String,
    /// Where to ask instead of the region's own address.
    pub endpoint_url: Option<String>,
}

/// Google Cloud Secret Manager.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gcp {
    /// Whom we ask as.
    pub account: GcpAccount,
    /// Whether the certificate of the service is verified; true.
    pub ssl_verify: bool,
}

/// A service account of Google Cloud.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GcpAccount {
    /// Given in the object.
    Inline(Box<GcpAuth>),
    /// In this file, as downloaded from the console.
    File(String),
}

/// A service account, given in the object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GcpAuth {
    /// The account's address.
    pub client_email: String,
    /// Its key, PEM.
    pub private_key: SecretText,
    /// The project that holds the secrets.
    pub project_id: String,
    /// Where tokens are fetched.
    pub token_uri: String,
    /// Where secrets are fetched.
    pub entries_uri: String,
    /// What the token may do.
    pub scope: Vec<String>,
}

impl Secret {
    /// Manager and id of a keeper's key, such as `vault/1`; `None` for any other text.
    pub fn split_key(key: &str) -> Option<(Manager, &str)> {
        let (manager, id) = key.split_once('/')?;
        Some((Manager::from_name(manager)?, id))
    }

    /// The key of the keeper `id` of `manager`.
    pub fn key(manager: Manager, id: &str) -> Id {
        Id::new(format!("{}/{id}", manager.name()))
    }
}

#[cfg(test)]
mod tests;
