//! What keeps the configuration coming: the watched file, the store, or documents put as a whole.
//!
//! Whatever the source, what comes is an [`Event`] that carries all that is needed to put it into
//! service, which is done by `resources.rs`.

pub mod cluster_id;
mod documents;
pub mod echo;
pub mod etcd;
pub(crate) mod fenced_store;
mod file;
mod folder_marks;
pub mod import_marker;
mod mirror;
mod store;
mod store_copy;
pub(crate) mod stored;
mod watch;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tollhouse_admin::Mode;
use tollhouse_config::bootstrap::Secret;
use tollhouse_config::{Bootstrap, Document};
use tollhouse_model::Problems;
use tollhouse_model::encryption::Keyring;
use tollhouse_proxy::Change;
use tollhouse_store::{ErrorKind, InService, Store, StoreError};

pub use self::store::open_store;

use self::cluster_id::OtherCluster;
use self::documents::DocumentFeed;
use self::file::FileFeed;
use self::store::StoreFeed;
use crate::context::ControlContext;
use crate::process::handover::Predecessor;
use crate::secrets::KeptSecret;

/// How long a start waits for a shared store of which there is a copy that can serve meanwhile.
const SHARED_STORE_WAIT: Duration = Duration::from_secs(2);

/// The same where nothing is gained by going on early: there is no copy, or a predecessor serves until this process does,
/// and what that serves may be newer than the copy.
const SHARED_STORE_WAIT_LONG: Duration = Duration::from_secs(10);

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
    pub key: KeptSecret,
    /// What callers may do.
    pub mode: Mode,
    /// How far this gateway serves what is written, where callers wait for that.
    pub in_service: Option<InService>,
    /// The same of ShenYu's objects, which are followed apart.
    pub shenyu_in_service: Option<InService>,
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
        Source::Etcd(_) => {
            let (feed, first) = StoreFeed::open_etcd(cx).await?;
            Ok((Feed::Store(Box::new(feed)), Some(first)))
        }
    }
}

/// The same at the start of a process, which a shared store that is away does not keep from serving: what
/// was copied of it serves, if there is a copy. The feed is then provisional, and to be opened again.
///
/// # Errors
/// As [`open`], but for a shared store that does not answer.
pub async fn open_at_start(
    source: &Source,
    cx: &ControlContext,
    predecessor: Predecessor,
) -> anyhow::Result<(Feed, Option<Event>)> {
    let Source::Etcd(_) = source else { return open(source, cx, predecessor).await };
    let is_urgent = StoreFeed::has_copy(cx) && predecessor == Predecessor::None;
    let wait = if is_urgent { SHARED_STORE_WAIT } else { SHARED_STORE_WAIT_LONG };
    let opened = tokio::time::timeout(wait, open(source, cx, predecessor)).await;
    let reason = match opened {
        Ok(Err(error)) if is_away(&error) => format!("{error:#}"),
        Ok(opened) => return opened,
        Err(_) => format!("no answer in {} seconds", wait.as_secs()),
    };
    let (feed, first) = StoreFeed::open_copy(cx, source, &reason).await?;
    Ok((Feed::Store(Box::new(feed)), first))
}

/// Whether a store only does not answer now, or another answers in its place.
fn is_away(error: &anyhow::Error) -> bool {
    if error.is::<OtherCluster>() {
        return true;
    }
    let kind = error.downcast_ref::<StoreError>().map(StoreError::kind);
    matches!(kind, Some(ErrorKind::Unavailable | ErrorKind::Unknown))
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

    /// Whether it only stands in for one that is away.
    pub fn is_provisional(&self) -> bool {
        match self {
            Feed::Store(feed) => feed.is_provisional(),
            Feed::File(_) | Feed::Documents(_) => false,
        }
    }

    /// Everything that [`Feed::next`] has given out so far is in service.
    pub fn note_applied(&self) {
        match self {
            Feed::Store(feed) => feed.note_applied(),
            Feed::Documents(feed) => feed.note_applied(),
            Feed::File(_) => {}
        }
    }

    /// Whether another process can have the source only once this one has let go of it.
    pub fn is_exclusive(&self) -> bool {
        match self {
            Feed::Store(feed) => feed.is_exclusive(),
            Feed::File(_) | Feed::Documents(_) => false,
        }
    }

    /// Lets go of the source, once nobody reads it any more.
    pub async fn close(self) {
        match self {
            Feed::Store(feed) => feed.close().await,
            Feed::File(_) | Feed::Documents(_) => {}
        }
    }
}
