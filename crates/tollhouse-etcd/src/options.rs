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
    /// Keys that lie elsewhere in etcd than their names say.
    pub relocation: Option<Relocation>,
}

/// Keys that lie elsewhere in etcd than their names say: so that gateways of several clusters, whose names for
/// some objects are the same, keep them apart in one etcd. What lies in etcd under these names themselves is
/// none of the store's.
///
/// Keys are listed in the order of etcd's, which is the order of their names within these as within all
/// others; nothing is to be listed or followed that both belong to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Relocation {
    /// What their names begin with: `/shenyu/`.
    pub keys: String,
    /// What stands in its place in etcd, the namespace not added: `/apisix/tollhouse/shenyu/`.
    pub place: String,
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
