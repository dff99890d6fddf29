//! Connection options of an etcd. The caller reads files and configuration.

use std::fmt;
use std::time::Duration;

#[derive(Clone)]
pub struct EtcdOptions {
    /// URLs of the client ports of the etcd members, `http://` or `https://`; at least one.
    pub endpoints: Vec<String>,
    /// User and password, if etcd requires authentication.
    pub user: Option<(String, String)>,
    /// TLS settings for `https://`; `None` trusts the system's CA certificates.
    pub tls: Option<Tls>,
    /// Timeout for a request to one member. A commit without an answer takes up to this time again,
    /// to determine its outcome.
    pub timeout: Duration,
    /// Prefix of all keys of this store in etcd, invisible to users of the store; empty for
    /// gateways.
    pub namespace: String,
    /// Prefix of the store's internal keys in etcd, without the namespace: `/apisix/tollhouse/`.
    pub own_prefix: String,
    /// Keys with another prefix in etcd than in the store.
    pub relocation: Option<Relocation>,
}

/// Prefix that has another name in etcd. With it, gateways of several clusters that use equal names
/// for some objects can share one etcd. Keys in etcd that have the original prefix are not part of
/// the store.
///
/// Listings are in the order of etcd. Within the relocated keys, and within all others, this is
/// also the order of the names. Listings and watches must not cover both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Relocation {
    /// The prefix in the store: `/shenyu/`.
    pub keys: String,
    /// The prefix in etcd, without the namespace: `/apisix/tollhouse/shenyu/`.
    pub place: String,
}

// Hides the password.
impl fmt::Debug for EtcdOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EtcdOptions")
            .field("endpoints", &self.endpoints)
            .field("user", &self.user.as_ref().map(|(name, _)| name))
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}

/// TLS towards etcd. Certificates and names are always verified.
#[derive(Clone, Default)]
pub struct Tls {
    /// CA certificates, PEM, that replace those of the system.
    pub authorities: Option<Vec<u8>>,
    /// Client certificate, if etcd requires one.
    pub identity: Option<Identity>,
}

/// Client certificate with its private key.
#[derive(Clone)]
pub struct Identity {
    /// Certificate chain in PEM format.
    pub certificate: Vec<u8>,
    /// Private key in PEM format.
    pub key: Vec<u8>,
}
