//! Common types of all sources of configuration: the kind of source, its events, and the access
//! that an Admin API needs. The feeds read the sources.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use tollhouse_admin::Mode;
use tollhouse_config::bootstrap::Secret;
use tollhouse_config::{Bootstrap, Document};
use tollhouse_model::Problems;
use tollhouse_model::encryption::Keyring;
use tollhouse_proxy::Change;
use tollhouse_store::{InService, Store};

use super::objects::Objects;

#[derive(Debug, Clone)]
pub enum Source {
    /// Configuration file that is watched for changes.
    File(PathBuf),
    /// The embedded store in this folder, written by the Admin API.
    Store(PathBuf),
    /// An etcd with these member addresses, shared with other gateways.
    Etcd(Vec<String>),
    /// Whole documents that the Admin API accepts.
    Documents,
}

impl Source {
    /// Returns the source that the bootstrap file selects.
    pub fn from_bootstrap(bootstrap: &Bootstrap) -> Self {
        match &bootstrap.resources {
            Some(path) => Source::File(path.clone()),
            None if bootstrap.admin.standalone => Source::Documents,
            None if !bootstrap.store.etcd.endpoints.is_empty() => {
                Source::Etcd(bootstrap.store.etcd.endpoints.clone())
            }
            None => Source::Store(bootstrap.data_dir.clone()),
        }
    }

    /// Returns the short name of the kind of store, for places where APISIX shows "etcd".
    pub fn store_name(&self) -> &'static str {
        match self {
            Source::File(_) => "file",
            Source::Store(_) => "embedded store",
            Source::Etcd(_) => "etcd",
            Source::Documents => "memory",
        }
    }

    /// Returns the path or address of the source for messages.
    pub fn name(&self) -> String {
        match self {
            Source::File(path) => path.display().to_string(),
            Source::Store(folder) => format!("the store in {}", folder.display()),
            Source::Etcd(endpoints) => format!("etcd at {}", endpoints.join(", ")),
            Source::Documents => "documents put to /apisix/admin/configs".to_owned(),
        }
    }
}

/// Change of the configuration, as a feed reports it.
#[derive(Debug)]
pub enum Event {
    /// Some objects of the store changed.
    Changes(Vec<Change>),
    /// All objects of the store, after a gap in its events. Objects that are not listed were
    /// deleted.
    Everything(Objects),
    /// Whole document that replaces the previous one.
    Document(Reading),
}

/// Document that was read, or the problems that prevent its use.
#[derive(Debug)]
pub struct Reading {
    /// The document, or the problems that make it invalid.
    pub document: Result<Document, Problems>,
    /// Start of reading; the time to service is measured from here.
    pub began: Instant,
}

/// Everything that an Admin API needs of a source.
pub struct AdminAccess {
    pub store: Arc<dyn Store>,
    /// Keyring for the secrets in the objects.
    pub keyring: Arc<Keyring>,
    pub key: Secret,
    /// Mode of the Admin API, which decides about writes.
    pub mode: Mode,
    /// Revision in service, for callers that wait until their write is served.
    pub in_service: Option<InService>,
    /// Revision of ShenYu's objects in service; they are followed separately.
    pub shenyu_in_service: Option<InService>,
}
