//! How an etcd is reached. Reading files and configurations is the business of whoever gives these.

use std::fmt;
use std::time::Duration;

/// How an etcd is reached.
#[derive(Clone)]
pub struct EtcdOptions {
    /// URLs of its members' client ports, `http://` or `https://`, one at least.
    pub endpoints: Vec<String>,
    /// A user of etcd's and its password, where it asks for them.
    pub user: Option<(String, String)>,
    /// What connections over `https://` are checked and shown; the system's authorities where absent.
    pub tls: Option<Tls>,
    /// How long one request may take on one member. A commit that has had no answer takes as long again,
    /// to find out what became of it.
    pub timeout: Duration,
    /// What all keys of this store begin with in etcd, and what nobody sees who uses it; empty for
    /// gateways.
    pub namespace: String,
    /// Where the store keeps keys of its own in etcd, the namespace not added: `/apisix/tollhouse/`.
    pub own_prefix: String,
}

// The password has no business in a log.
impl fmt::Debug for EtcdOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EtcdOptions")
            .field("endpoints", &self.endpoints)
            .field("user", &self.user.as_ref().map(|(name, _)| name))
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}

/// TLS towards etcd. Certificates are always checked, names included.
#[derive(Clone, Default)]
pub struct Tls {
    /// Authorities, PEM, in the place of the system's.
    pub authorities: Option<Vec<u8>>,
    /// What etcd is shown, where it asks for certificates.
    pub identity: Option<Identity>,
}

/// A certificate with its key.
#[derive(Clone)]
pub struct Identity {
    /// The chain, PEM.
    pub certificate: Vec<u8>,
    /// The private key, PEM.
    pub key: Vec<u8>,
}
