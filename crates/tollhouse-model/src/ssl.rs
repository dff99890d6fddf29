//! SSL objects: certificates with their keys, for server names or for connections to nodes.
//!
//! Documents are parsed in `ssl/parse.rs` and OCSP responses in `ssl/staples.rs`; certificates and
//! keys are checked in `certificate.rs`.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::Id;
use crate::secret::SecretText;

mod parse;
mod staples;

/// Certificates and client verification for host names, after validation.
#[derive(Debug, Clone, PartialEq)]
pub struct Ssl {
    pub id: Id,
    /// The connections for which the certificate is used.
    pub kind: SslKind,
    /// Certificates with their keys, at least one; further ones are for the same names with other
    /// types of keys.
    pub certificates: Vec<CertificatePair>,
    /// Server names in lower case: exact, `*.` before a domain, or `*` for any.
    pub snis: Vec<String>,
    /// OCSP responses for the certificates, signed, in DER. Each is stapled to the certificate that
    /// it covers.
    pub staples: Vec<Arc<[u8]>>,
    /// Verification of client certificates (mTLS); `None` requests none.
    pub client: Option<ClientVerification>,
    /// TLS versions for these names; empty uses the default of the gateway.
    pub protocols: Vec<TlsVersion>,
    /// Whether the object is in use; false for `status: 0`.
    pub enabled: bool,
    /// Display name; not used by the gateway.
    pub name: Option<String>,
    /// Description; not used by the gateway.
    pub desc: Option<String>,
    /// Labels for people and tools; not used by the gateway.
    pub labels: BTreeMap<String, String>,
}

/// The connections for which a certificate is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SslKind {
    /// Connections from clients to the gateway.
    Server,
    /// Connections from the gateway to nodes of upstreams.
    Client,
}

/// A certificate and its key. Either may be a reference to a secret, which is checked once it is
/// resolved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificatePair {
    /// Certificate chain without the root, PEM.
    pub cert: String,
    /// Private key in PEM format.
    pub key: SecretText,
}

/// Settings for the verification of client certificates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientVerification {
    /// CA certificates that sign the clients' certificates, PEM.
    pub ca: String,
    /// Maximum number of intermediate certificates between the client's and the root; default 1.
    pub depth: u32,
    /// Regular expressions for paths that need no certificate.
    pub skip_mtls_uri_regex: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TlsVersion {
    V1_1,
    V1_2,
    V1_3,
}

#[cfg(test)]
mod tests;
