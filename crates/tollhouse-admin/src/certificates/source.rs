//! Interfaces through which the Admin API reads the state of certificates.

use std::future::Future;
use std::pin::Pin;

use serde_json::Value;

/// Future of a certificate list as JSON.
pub type Certificates<'a> = Pin<Box<dyn Future<Output = Result<Value, String>> + Send + 'a>>;

/// Access to the state of the certificates that ACME manages.
pub trait CertificateSource: Send + Sync {
    fn directory(&self) -> &str;

    /// All ACME certificates, as a JSON array.
    ///
    /// The error is a text for the caller.
    fn list(&self) -> Certificates<'_>;
}

/// Served certificates: their expiry and OCSP state.
pub trait StapleSource: Send + Sync {
    /// OCSP state of all served certificates, as a JSON array.
    fn list(&self) -> Value;

    /// Expiry of all served certificates, as a JSON array of `{"ssl", "not_after"}`.
    fn ends(&self) -> Value;
}
