//! TLS options of a case.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// TLS towards the target. By default, certificates are verified against the system's root
/// certificates.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TlsOptions {
    /// Whether any server certificate is accepted.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub insecure: bool,
    /// PEM file of trusted certificate authorities, instead of the system's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca: Option<PathBuf>,
    /// PEM file with the client certificate chain.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cert: Option<PathBuf>,
    /// PEM file with the key of the client certificate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<PathBuf>,
    /// Server name to send (SNI) and to verify, instead of the URL's host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_name: Option<String>,
}
