//! Service account of Google Cloud, from a conf or a file.

use std::io::Read;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Deserialize;
use tollhouse_plugin::ConfError;

use crate::oidc::assertion::{AssertionAlgorithm, Signer, SignerConf};
use crate::shared::auth::secret::SecretText;
use crate::shared::confs::defaults::defaults;

/// Longest file in bytes; those of Google have about 2,500.
const FILE_BYTES_MAX: u64 = 64 << 10;

/// Service account.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
pub struct AccountFields {
    /// Address of the account, which names it in assertions.
    pub client_email: String,
    /// Private RSA key in PEM format.
    pub private_key: SecretText,
    /// Project of the log.
    pub project_id: String,
    /// Address that issues access tokens.
    #[serde(default = "default_token_uri")]
    pub token_uri: String,
    /// Scopes of access tokens.
    #[serde(default = "default_scope")]
    #[schemars(length(min = 1))]
    pub scope: Vec<String>,
    /// Scopes of access tokens, instead of `scope`.
    #[schemars(length(min = 1))]
    pub scopes: Option<Vec<String>>,
    /// Address that takes entries.
    #[serde(default = "default_entries_uri")]
    pub entries_uri: String,
}

defaults! {
    default_token_uri: String = "https://oauth2.googleapis.com/token".to_owned();
    default_entries_uri: String = "https://logging.googleapis.com/v2/entries:write".to_owned();
    default_scope: Vec<String> = [
        "https://www.googleapis.com/auth/logging.read",
        "https://www.googleapis.com/auth/logging.write",
        "https://www.googleapis.com/auth/logging.admin",
        "https://www.googleapis.com/auth/cloud-platform",
    ]
    .map(str::to_owned)
    .to_vec();
}

/// Account with its key.
#[derive(Debug)]
pub(super) struct Account {
    pub(super) fields: AccountFields,
    pub(super) signer: Signer,
}

/// Origin of an account.
pub(super) enum AccountSource {
    Conf(Box<Account>),
    File(PathBuf),
}

impl Account {
    fn new(fields: AccountFields) -> Result<Self, &'static str> {
        let conf = SignerConf {
            algorithm: Some(AssertionAlgorithm::RS256),
            private_key: Some(&fields.private_key),
            ..SignerConf::default()
        };
        let signer = Signer::with_private_key(conf);
        let signer = signer.map_err(|_| "private_key is not a PEM private key for RS256")?;
        Ok(Self { fields, signer })
    }

    /// Returns the scopes of access tokens, divided by spaces.
    pub(super) fn scope(&self) -> String {
        self.fields.scopes.as_ref().unwrap_or(&self.fields.scope).join(" ")
    }
}

impl AccountSource {
    /// Returns the account of a conf.
    ///
    /// # Errors
    /// If the private key in the conf is invalid. A file is read later.
    pub(super) fn new(
        fields: Option<AccountFields>,
        file: Option<String>,
    ) -> Result<Self, ConfError> {
        match fields {
            Some(fields) => Ok(Self::Conf(Box::new(Account::new(fields)?))),
            None => Ok(Self::File(file.unwrap_or_default().into())),
        }
    }
}

/// Reads an account from a file.
///
/// # Errors
/// If the file is not that of a service account. The text contains nothing of the file, because
/// clients of the Admin API choose the path.
pub(super) fn read_file(path: &std::path::Path) -> Result<Account, String> {
    let failed = |reason: &str| format!("auth_file {}: {reason}", path.display());
    let is_file = path.metadata().is_ok_and(|metadata| metadata.is_file());
    let file = if is_file { std::fs::File::open(path).ok() } else { None };
    let mut text = String::new();
    let read = file.map(|file| file.take(FILE_BYTES_MAX).read_to_string(&mut text));
    match read {
        Some(Ok(_)) => {}
        Some(Err(_)) | None => return Err(failed("it cannot be read")),
    }
    let fields = serde_json::from_str::<AccountFields>(&text);
    let fields = fields.map_err(|_| failed("it is not the file of a service account"))?;
    Account::new(fields).map_err(failed)
}
