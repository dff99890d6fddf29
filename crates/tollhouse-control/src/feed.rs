//! What keeps the configuration coming: the watched file, the store, or documents put as a whole.
//!
//! Whatever the source, what comes is an [`Event`] that carries all that is needed to put it into
//! service, which is done by `resources.rs`.

mod documents;
pub mod echo;
mod file;
mod mirror;
mod store;
pub(crate) mod stored;
mod watch;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use tollhouse_admin::Mode;
use tollhouse_config::bootstrap::Secret;
use tollhouse_config::{Bootstrap, Document};
use tollhouse_model::Problems;
use tollhouse_model::encryption::Keyring;
use tollhouse_proxy::Change;
use tollhouse_store::Store;

pub use self::store::open_store;

use self::documents::DocumentFeed;
use self::file::FileFeed;
use self::store::StoreFeed;
use crate::context::ControlContext;
use crate::process::handover::Predecessor;
use crate::secrets::KeptSecret;

/// Where resources come from.
#[derive(Debug, Clone)]
pub enum Source {
    /// A file, watched.
    File(PathBuf),
    /// The store in this folder, written by the Admin API.
    Store(PathBuf),
    /// Whole documents that the Admin API takes.
    Documents,
}

impl Source {
    /// The one that the bootstrap file asks for.
    pub fn from_bootstrap(bootstrap: &Bootstrap) -> Self {
        match &bootstrap.resources {
            Some(path) => Source::File(path.clone()),
            None if bootstrap.admin.standalone => Source::Documents,
            None => Source::Store(bootstrap.data_dir.clone()),
        }
    }

    /// What stands in the place of etcd, in one word or two.
    pub fn store_name(&self) -> &'static str {
        match self {
            Source::File(_) => "file",
            Source::Store(_) => "embedded store",
            Source::Documents => "memory",
        }
    }

    /// What people call it.
    pub fn name(&self) -> String {
        match self {
            Source::File(path) => path.display().to_string(),
            Source::Store(folder) => format!("the store in {}", folder.display()),
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
    pub key: KeptSecret,
    /// What callers may do.
    pub mode: Mode,
}

/// A source that is followed.
pub enum Feed {
    /// A file.
    File(FileFeed),
    /// The store.
    Store(Box<StoreFeed>),
    /// Documents put as a whole.
    Documents(DocumentFeed),
}

/// Opens a source: what there is already, if there is anything, and what follows it.
///
/// # Errors
/// The source cannot be opened or read. A file with something wrong in it is no error here.
pub async fn open(
    source: &Source,
    cx: &ControlContext,
    predecessor: Predecessor,
) -> anyhow::Result<(Feed, Option<Event>)> {
    match source {
        Source::File(path) => {
            let (feed, first) = FileFeed::open(path, cx)?;
            Ok((Feed::File(feed), Some(first)))
        }
        Source::Documents => Ok((Feed::Documents(DocumentFeed::open(cx)?), None)),
        Source::Store(folder) => {
            let (feed, first) = StoreFeed::open(folder, cx, predecessor).await?;
            Ok((Feed::Store(Box::new(feed)), Some(first)))
        }
    }
}

impl Feed {
    /// The next event; waits for it. `None` once the store is closed for good. Dropping the future
    /// loses nothing.
    pub async fn next(&mut self) -> Option<Event> {
        match self {
            Feed::File(feed) => Some(feed.next().await),
            Feed::Store(feed) => feed.next().await,
            Feed::Documents(feed) => Some(feed.next().await),
        }
    }

    /// Looks at once, where somebody has to look.
    pub fn look(&mut self) -> Option<Event> {
        match self {
            Feed::File(feed) => feed.look(),
            Feed::Store(_) | Feed::Documents(_) => None,
        }
    }

    /// What the Admin API of this source works on; `None` where its listener is off.
    pub fn admin_access(&self) -> Option<AdminAccess> {
        match self {
            Feed::File(feed) => feed.admin_access(),
            Feed::Store(feed) => Some(feed.admin_access()),
            Feed::Documents(feed) => Some(feed.admin_access()),
        }
    }

    /// The store of objects with what seals them, where the source is one that keeps what is written.
    pub fn stored(&self) -> Option<(Arc<dyn Store>, Arc<Keyring>)> {
        match self {
            Feed::Store(feed) => {
                let AdminAccess { store, keyring, .. } = feed.admin_access();
                Some((store, keyring))
            }
            Feed::File(_) | Feed::Documents(_) => None,
        }
    }

    /// The key of its Admin API, where it was made just now.
    pub fn new_admin_key(&self) -> Option<Secret> {
        let key = self.admin_access()?.key;
        key.is_new.then_some(key.secret)
    }

    /// Whether the demonstration is in service.
    pub fn has_demonstration(&self) -> bool {
        match self {
            Feed::Store(feed) => feed.has_demonstration(),
            Feed::File(_) | Feed::Documents(_) => false,
        }
    }

    /// Whether another process can have the source only once this one has let go of it.
    pub fn is_exclusive(&self) -> bool {
        matches!(self, Feed::Store(_))
    }

    /// Lets go of the source, once nobody reads it any more.
    pub async fn close(self) {
        match self {
            Feed::Store(feed) => feed.close().await,
            Feed::File(_) | Feed::Documents(_) => {}
        }
    }
}
