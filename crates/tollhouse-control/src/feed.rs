//! What keeps the configuration coming: the watched file, the store, or documents put as a whole.
//!
//! Whatever the source, what comes is an [`Event`] that carries all that is needed to put it into
//! service, which is done by `resources.rs`.

pub mod cluster_id;
mod documents;
pub mod echo;
pub mod etcd;
mod event;
pub(crate) mod fenced_store;
mod file;
mod folder_marks;
pub mod import_marker;
pub mod lost_store;
mod mirror;
mod store;
mod store_copy;
pub(crate) mod stored;
mod watch;

use std::sync::Arc;
use std::time::Duration;

use tollhouse_model::encryption::Keyring;
use tollhouse_store::{ErrorKind, Store, StoreError};

pub use self::event::{AdminAccess, Event, Reading, Source};
pub use self::store::{open_own_store, open_store};

use self::cluster_id::OtherCluster;
use self::documents::DocumentFeed;
use self::file::FileFeed;
use self::store::StoreFeed;
use crate::context::ControlContext;
use crate::process::handover::Predecessor;

/// How long a start waits for a shared store of which there is a copy that can serve meanwhile.
const SHARED_STORE_WAIT: Duration = Duration::from_secs(2);

/// The same where nothing is gained by going on early: there is no copy, or a predecessor serves until this process does,
/// and what that serves may be newer than the copy.
const SHARED_STORE_WAIT_LONG: Duration = Duration::from_secs(10);

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
        Source::Store(_) => {
            let (feed, first) = StoreFeed::open(cx, predecessor).await?;
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
    if let (Source::Store(folder), Predecessor::None) = (source, predecessor) {
        return match open(source, cx, predecessor).await {
            Err(error) if is_without_room(&error) => {
                let (feed, first) = StoreFeed::open_on_full_disk(folder, cx, &error).await?;
                Ok((Feed::Store(Box::new(feed)), Some(first)))
            }
            opened => opened,
        };
    }
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

fn is_without_room(error: &anyhow::Error) -> bool {
    error.downcast_ref::<StoreError>().is_some_and(StoreError::is_without_room)
}

/// Whether a store only does not answer now, or another answers in its place.
pub(crate) fn is_away(error: &anyhow::Error) -> bool {
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
