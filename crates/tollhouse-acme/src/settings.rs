//! What the operator asks for.

use serde::{Deserialize, Serialize};
use tollhouse_model::secret::SecretText;

/// The directory of Let's Encrypt.
pub const LETS_ENCRYPT: &str = "https://acme-v02.api.letsencrypt.org/directory";

/// Its directory for trying things out: certificates that nobody trusts, and limits that nobody meets.
pub const LETS_ENCRYPT_STAGING: &str = "https://acme-staging-v02.api.letsencrypt.org/directory";

/// What the operator asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The authority's directory (RFC 8555 §7.1.1), an `https` URL.
    pub directory: String,
    /// Whom the authority may write to: `mailto:` URLs.
    pub contact: Vec<String>,
    /// Whether the operator agrees to the authority's terms of service.
    pub agrees: bool,
    /// An account that the operator has with the authority already (RFC 8555 §7.3.4).
    pub external_account: Option<ExternalAccount>,
    /// Names to have certificates for, lower-cased, one certificate each.
    pub hosts: Vec<String>,
    /// How it is proved that the names are ours.
    pub challenge: ChallengeKind,
    /// Which of the authority's kinds of certificates to ask for; its own choice when absent.
    pub profile: Option<String>,
}

/// An account that exists outside of ACME, and the key that proves it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExternalAccount {
    /// Its id.
    pub id: String,
    /// The key, as the authority gave it: base64url.
    pub key: SecretText,
}

/// How it is proved that a name is ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ChallengeKind {
    /// By a plain HTTP request to port 80 (RFC 8555 §8.3).
    #[default]
    #[serde(rename = "http-01")]
    Http01,
    /// By a TLS handshake on port 443 (RFC 8737).
    #[serde(rename = "tls-alpn-01")]
    TlsAlpn01,
}

impl ChallengeKind {
    /// Its name in the protocol and in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            ChallengeKind::Http01 => "http-01",
            ChallengeKind::TlsAlpn01 => "tls-alpn-01",
        }
    }

    /// The port that the authority comes to.
    pub fn port(self) -> u16 {
        match self {
            ChallengeKind::Http01 => 80,
            ChallengeKind::TlsAlpn01 => 443,
        }
    }
}
