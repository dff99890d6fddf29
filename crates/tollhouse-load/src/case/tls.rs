//! How the generator does TLS.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// TLS towards the target. Certificates are verified against the system's roots unless said otherwise.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TlsOptions {
    /// Take any certificate.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub insecure: bool,
    /// PEM file of the authorities to trust instead of the system's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca: Option<PathBuf>,
    /// PEM file of the client certificate chain.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cert: Option<PathBuf>,
    /// PEM file of the client certificate's key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<PathBuf>,
    /// The name to ask for and to verify, instead of the URL's host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_name: Option<String>,
}
