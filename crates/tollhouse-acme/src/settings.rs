//! Settings of ACME.

use serde::{Deserialize, Serialize};
use tollhouse_model::secret::SecretText;

/// The production directory of Let's Encrypt.
pub const LETS_ENCRYPT: &str = "https://acme-v02.api.letsencrypt.org/directory";

/// The staging directory of Let's Encrypt: certificates are not trusted, and limits are generous.
pub const LETS_ENCRYPT_STAGING: &str = "https://acme-staging-v02.api.letsencrypt.org/directory";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The authority's directory (RFC 8555 §7.1.1), an `https` URL.
    pub directory: String,
    /// Contacts of the account: `mailto:` URLs.
    pub contact: Vec<String>,
    /// Whether the operator agrees to the authority's terms of service.
    pub agrees: bool,
    /// Existing account with the operator of the authority that the ACME account is bound to (RFC
    /// 8555 §7.3.4).
    pub external_account: Option<ExternalAccount>,
    /// Names that need a certificate, in lower case, one certificate each.
    pub hosts: Vec<String>,
    pub challenge: ChallengeKind,
    /// Name of one of the authority's certificate profiles; with `None` the authority uses its
    /// default profile.
    pub profile: Option<String>,
}

/// External account binding (RFC 8555 §7.3.4): the id and the key of an account outside ACME.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExternalAccount {
    pub id: String,
    /// The key in base64url, as received from the authority.
    pub key: SecretText,
}

/// Kind of challenge that proves control of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ChallengeKind {
    /// A plain HTTP request to port 80 (RFC 8555 §8.3).
    #[default]
    #[serde(rename = "http-01")]
    Http01,
    /// A TLS handshake on port 443 (RFC 8737).
    #[serde(rename = "tls-alpn-01")]
    TlsAlpn01,
}

impl ChallengeKind {
    /// Returns the name used in the protocol and in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            ChallengeKind::Http01 => "http-01",
            ChallengeKind::TlsAlpn01 => "tls-alpn-01",
        }
    }

    /// Returns the port that the authority connects to.
    pub fn port(self) -> u16 {
        match self {
            ChallengeKind::Http01 => 80,
            ChallengeKind::TlsAlpn01 => 443,
        }
    }
}
