//! Certificates with their keys, for the names they stand for or for the way to nodes.
//!
//! Here: the object. Reading it from a document is in `ssl/parse.rs`, what responders have said of its
//! certificates in `ssl/staples.rs`, judging a certificate with its key in `certificate.rs`.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::Id;
use crate::secret::SecretText;

mod parse;
mod staples;

/// An SSL object, validated.
#[derive(Debug, Clone, PartialEq)]
pub struct Ssl {
    /// Its id.
    pub id: Id,
    /// Which side shows the certificate.
    pub kind: SslKind,
    /// At least one; further ones are of other key types, for the same names.
    pub certificates: Vec<CertificatePair>,
    /// Names that clients ask for, lower-cased: whole, `*.` before one label, or `*` for any.
    pub snis: Vec<String>,
    /// What responders have said of the certificates, as they have signed it (DER): shown with whichever
    /// of them it is about.
    pub staples: Vec<Arc<[u8]>>,
    /// Whether and how clients must show a certificate.
    pub client: Option<ClientVerification>,
    /// Versions of TLS for these names; empty leaves the gateway's own choice.
    pub protocols: Vec<TlsVersion>,
    /// `status`: false takes it out of use.
    pub enabled: bool,
    /// For people.
    pub name: Option<String>,
    /// For people.
    pub desc: Option<String>,
    /// For people and tools.
    pub labels: BTreeMap<String, String>,
}

/// Which side shows the certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SslKind {
    /// The gateway, to its clients.
    Server,
    /// The gateway, to nodes of upstreams.
    Client,
}

/// A certificate and its key. Either may be a reference to a secret, and is then not checked yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificatePair {
    /// The certificate and those between it and the root, PEM.
    pub cert: String,
    /// Private key, PEM.
    pub key: SecretText,
}

/// How clients are verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientVerification {
    /// Who signs the clients' certificates, PEM.
    pub ca: String,
    /// Certificates between a client's own and the root; 1.
    pub depth: u32,
    /// Paths that need no certificate, as regular expressions.
    pub skip_mtls_uri_regex: Vec<String>,
}

/// A version of TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TlsVersion {
    /// TLS 1.1.
    V1_1,
    /// TLS 1.2.
    V1_2,
    /// TLS 1.3.
    V1_3,
}

#[cfg(test)]
mod tests;
