//! Sources of configuration: the watched file, the store, or whole documents.
//!
//! Every source delivers [`Event`]s that carry all data needed; `resources.rs` puts them into
//! service.

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
pub(crate) mod objects;
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

/// Maximum wait of the start for a shared store if a local copy can serve meanwhile.
const SHARED_STORE_WAIT: Duration = Duration::from_secs(2);

/// Timeout of the first reading without a local copy, or while a predecessor still serves:
/// starting early gains nothing, and the predecessor may serve a newer configuration than the copy.
const SHARED_STORE_WAIT_LONG: Duration = Duration::from_secs(10);

/// Source of configuration that is open and reports changes.
pub enum Feed {
    File(FileFeed),
    Store(Box<StoreFeed>),
    /// Whole documents, put through the Admin API.
    Documents(DocumentFeed),
}

/// Opens a source, and returns its feed and the initial content, if there is any.
///
/// # Errors
/// If the source cannot be opened or read. A file with invalid content is not an error: the first
/// event carries its problems.
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
        Source::Documents => Ok((Feed::Documents(DocumentFeed::open(&cx.bootstrap)?), None)),
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

/// Opens a source when the process starts. If the shared store is unreachable, its local copy
/// serves, provided that a copy exists. The feed is then provisional, and has to be opened again.
///
/// # Errors
/// For the reasons of [`open`], except if a shared store is unreachable.
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

/// Whether a store is temporarily unreachable, or another cluster's store answers in its place.
pub(crate) fn is_away(error: &anyhow::Error) -> bool {
    if error.is::<OtherCluster>() {
        return true;
    }
    let kind = error.downcast_ref::<StoreError>().map(StoreError::kind);
    matches!(kind, Some(ErrorKind::Unavailable | ErrorKind::Unknown))
}

impl Feed {
    /// Waits for the next event. `None` once the store is closed for good. Cancel safe: dropping
    /// the future loses no event.
    pub async fn next(&mut self) -> Option<Event> {
        match self {
            Feed::File(feed) => Some(feed.next().await),
            Feed::Store(feed) => feed.next().await,
            Feed::Documents(feed) => Some(feed.next().await),
        }
    }

    /// Reads the source at once. Only a file needs this; other sources report changes themselves.
    pub fn look(&mut self) -> Option<Event> {
        match self {
            Feed::File(feed) => feed.look(),
            Feed::Store(_) | Feed::Documents(_) => None,
        }
    }

    /// Returns the store, key and mode for the Admin API of this source; `None` if its listener is
    /// off.
    pub fn admin_access(&self) -> Option<AdminAccess> {
        match self {
            Feed::File(feed) => feed.admin_access(),
            Feed::Store(feed) => Some(feed.admin_access()),
            Feed::Documents(feed) => Some(feed.admin_access()),
        }
    }

    /// Returns the store of objects and the keyring for its secrets, if the source is a store.
    pub fn stored(&self) -> Option<(Arc<dyn Store>, Arc<Keyring>)> {
        match self {
            Feed::Store(feed) => {
                let AdminAccess { store, keyring, .. } = feed.admin_access();
                Some((store, keyring))
            }
            Feed::File(_) | Feed::Documents(_) => None,
        }
    }

    /// Whether the demonstration route is in service.
    pub fn has_demonstration(&self) -> bool {
        match self {
            Feed::Store(feed) => feed.has_demonstration(),
            Feed::File(_) | Feed::Documents(_) => false,
        }
    }

    /// Whether this feed serves a local copy because the shared store was unreachable.
    pub fn is_provisional(&self) -> bool {
        match self {
            Feed::Store(feed) => feed.is_provisional(),
            Feed::File(_) | Feed::Documents(_) => false,
        }
    }

    /// Records that all events from [`Feed::next`] so far are in service.
    pub fn note_applied(&self) {
        match self {
            Feed::Store(feed) => feed.note_applied(),
            Feed::Documents(feed) => feed.note_applied(),
            Feed::File(_) => {}
        }
    }

    /// Whether another process can open the source only after this one has closed it.
    pub fn is_exclusive(&self) -> bool {
        match self {
            Feed::Store(feed) => feed.is_exclusive(),
            Feed::File(_) | Feed::Documents(_) => false,
        }
    }

    /// Closes the source. Call it only when no reader is left.
    pub async fn close(self) {
        match self {
            Feed::Store(feed) => feed.close().await,
            Feed::File(_) | Feed::Documents(_) => {}
        }
    }
}
