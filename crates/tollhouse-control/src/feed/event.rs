//! What comes from a source of configuration, whichever it is, and what an Admin API of it works on.
//! Reading a source, and putting what it brings into service, is the work of the feeds.

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

/// Where resources come from.
#[derive(Debug, Clone)]
pub enum Source {
    /// A file, watched.
    File(PathBuf),
    /// The store in this folder, written by the Admin API.
    Store(PathBuf),
    /// An etcd whose members have these addresses, shared with other gateways.
    Etcd(Vec<String>),
    /// Whole documents that the Admin API takes.
    Documents,
}

impl Source {
    /// The one that the bootstrap file asks for.
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

    /// What stands in the place of etcd, in one word or two.
    pub fn store_name(&self) -> &'static str {
        match self {
            Source::File(_) => "file",
            Source::Store(_) => "embedded store",
            Source::Etcd(_) => "etcd",
            Source::Documents => "memory",
        }
    }

    /// What people call it.
    pub fn name(&self) -> String {
        match self {
            Source::File(path) => path.display().to_string(),
            Source::Store(folder) => format!("the store in {}", folder.display()),
            Source::Etcd(endpoints) => format!("etcd at {}", endpoints.join(", ")),
            Source::Documents => "documents put to /apisix/admin/configs".to_owned(),
        }
    }
}

/// What came.
#[derive(Debug)]
pub enum Event {
    /// Objects of the store changed.
    Changes(Vec<Change>),
    /// All objects of the store, after a gap: what is not among them has gone.
    Everything(Vec<Change>),
    /// A whole document.
    Document(Reading),
}

/// A document that was read.
#[derive(Debug)]
pub struct Reading {
    /// What it says, or why it cannot be read.
    pub document: Result<Document, Problems>,
    /// When reading began: a change is measured from there.
    pub began: Instant,
}

/// What an Admin API works on.
pub struct AdminAccess {
    /// The objects.
    pub store: Arc<dyn Store>,
    /// What secrets among them are sealed with.
    pub keyring: Arc<Keyring>,
    /// What callers have to show.
    pub key: Secret,
    /// What callers may do.
    pub mode: Mode,
    /// How far this gateway serves what is written, where callers wait for that.
    pub in_service: Option<InService>,
    /// The same of ShenYu's objects, which are followed apart.
    pub shenyu_in_service: Option<InService>,
}
