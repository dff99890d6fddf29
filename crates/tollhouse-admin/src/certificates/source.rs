//! Interfaces through which the Admin API reads the state of certificates.

use std::future::Future;
use std::pin::Pin;

use serde_json::Value;

/// Future of a list of certificates: a JSON array, or an error text for the caller.
pub type Certificates<'a> = Pin<Box<dyn Future<Output = Result<Value, String>> + Send + 'a>>;

/// Access to the state of the certificates that ACME manages.
pub trait CertificateSource: Send + Sync {
    fn directory(&self) -> &str;

    /// Returns all ACME certificates with their states, as a JSON array.
    ///
    /// The error is a text for the caller.
    fn list(&self) -> Certificates<'_>;
}

/// Access to the expiry and the OCSP state of the certificates in service.
pub trait StapleSource: Send + Sync {
    /// Returns the OCSP state of all certificates in service, as a JSON array.
    fn list(&self) -> Value;

    /// Returns the expiry of all certificates in service, as a JSON array of `{"ssl",
    /// "not_after"}`.
    fn ends(&self) -> Value;
}
