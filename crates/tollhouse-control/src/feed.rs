//! What keeps the configuration coming: the watched file, the store, or documents put as a whole.

pub mod echo;
mod mirror;
pub mod stored;
mod watch;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use tokio::sync::{mpsc, watch as channel};
use tokio::task::JoinHandle;
use tollhouse_admin::Mode;
use tollhouse_config::bootstrap::Secret;
use tollhouse_config::{Bootstrap, Fingerprints};
use tollhouse_model::encryption::Keyring;
use tollhouse_model::{Id, Kind, Problems};
use tollhouse_proxy::{Change, Snapshot, SnapshotCell};
use tollhouse_store::{Location, Store, StoreError};

use crate::admin::{self, Documents, RunningAdmin};
use crate::configuration::ObjectSource;
use crate::feed::mirror::Mirror;
use crate::feed::stored::{Batch, Stored, StoredParts};
use crate::feed::watch::Watched;
use crate::introspection::listeners::Predecessor;
use crate::registry::RunningRegistry;
use crate::resources::{Resources, Shared, Source};
use crate::secrets::sealed_store;
use crate::secrets::{self, AdminKey};

/// How long a successor waits for the store of a process that is just leaving.
const STORE_WAIT: Duration = Duration::from_secs(10);

/// How often it looks.
const STORE_LOOK: Duration = Duration::from_millis(20);

/// Where changes come from.
pub enum Feed {
    /// Nowhere any more.
    Nothing,
    /// A file.
    File(FileFeed),
    /// The store.
    Store(Box<StoreFeed>),
    /// Documents put as a whole.
    Documents(DocumentFeed),
}

/// A file, and who may read of it.
pub struct FileFeed {
    watched: Watched,
    /// What the Admin API reads, unless it is off.
    shown: Option<ShownFile>,
}

/// A file as the Admin API reads it.
struct ShownFile {
    path: PathBuf,
    store: Arc<dyn Store>,
    keyring: Arc<Keyring>,
    key: AdminKey,
    /// Ends the mirror with the feed.
    documents: channel::Sender<Arc<Fingerprints>>,
}

/// The store, and who may write it.
pub struct StoreFeed {
    store: Arc<dyn Store>,
    batches: mpsc::Receiver<Batch>,
    /// Reads the store for as long as somebody takes what it reads.
    follower: JoinHandle<()>,
    keyring: Arc<Keyring>,
    key: AdminKey,
    /// Whether the demonstration is in service, for want of anything else.
    demonstrates: bool,
}

/// Documents, and who may put them.
pub struct DocumentFeed {
    documents: channel::Receiver<Option<String>>,
    sink: Arc<Documents>,
    key: AdminKey,
}

/// What came.
pub enum News {
    /// The file looks different.
    FileChanged,
    /// Objects changed.
    Objects(Batch),
    /// A document came.
    Document(String),
    /// Nothing comes any more: the store is closed, and has to be opened again.
    Lost,
}

/// Where resources come from, by the bootstrap file.
pub fn source(bootstrap: &Bootstrap) -> Source {
    match &bootstrap.resources {
        Some(path) => Source::File(path.clone()),
        None if bootstrap.admin.standalone => Source::Documents,
        None => Source::Store(bootstrap.data_dir.clone()),
    }
}

/// Reads what there is, and follows from there. The inner error is a file that cannot be read.
///
/// # Errors
/// The store cannot be opened or read.
pub async fn open(
    bootstrap: &Bootstrap,
    shared: &Shared,
    resources: &mut Resources,
    predecessor: Predecessor,
) -> anyhow::Result<Result<(Feed, Arc<Snapshot>), Problems>> {
    match source(bootstrap) {
        Source::File(path) => {
            let watched = Watched::new(path.clone());
            let snapshot = match resources.load() {
                Ok(snapshot) => snapshot,
                Err(problems) => return Ok(Err(problems)),
            };
            let is_shown = !bootstrap.listen.admin.is_empty();
            let show = || ShownFile::start(bootstrap, shared, path, resources.document());
            let shown = is_shown.then(show).transpose()?;
            Ok(Ok((Feed::File(FileFeed { watched, shown }), snapshot)))
        }
        Source::Documents => {
            let (sink, documents) = channel::channel(None);
            let key = secrets::admin_key(bootstrap)?;
            let feed = DocumentFeed { documents, sink: Arc::new(Documents(sink)), key };
            Ok(Ok((Feed::Documents(feed), resources.start_with(Vec::new()))))
        }
        Source::Store(folder) => {
            let options = tollhouse_store::Options::default();
            let store = open_store(&Location::Directory(folder), &options, predecessor).await?;
            let (feed, changes) = StoreFeed::open(bootstrap, shared, store).await?;
            let snapshot = resources.start_with(changes);
            Ok(Ok((Feed::Store(Box::new(feed)), snapshot)))
        }
    }
}

/// Opens a store, waiting for a process that is just leaving it.
///
/// # Errors
/// The store cannot be opened.
pub async fn open_store(
    location: &Location,
    options: &tollhouse_store::Options,
    predecessor: Predecessor,
) -> anyhow::Result<Arc<dyn Store>> {
    let deadline = tokio::time::Instant::now() + STORE_WAIT;
    let mut looks = tokio::time::interval(STORE_LOOK);
    loop {
        looks.tick().await;
        match tollhouse_store::open_with(location, options) {
            Err(StoreError::InUse { .. })
                if predecessor == Predecessor::Leaving
                    && tokio::time::Instant::now() < deadline => {}
            opened => return Ok(opened?),
        }
    }
}

impl ShownFile {
    fn start(
        bootstrap: &Bootstrap,
        shared: &Shared,
        path: PathBuf,
        document: Arc<Fingerprints>,
    ) -> anyhow::Result<Self> {
        let key = secrets::admin_key(bootstrap)?;
        let store = tollhouse_store::open(&Location::Memory)?;
        let keyring = Arc::new(Keyring::generate()?);
        let mirror = Mirror {
            store: Arc::clone(&store),
            keyring: Arc::clone(&keyring),
            catalogue: Arc::clone(&shared.catalogue),
            prefix: bootstrap.admin.prefix.trim_end_matches('/').to_owned(),
        };
        let (documents, receiver) = channel::channel(document);
        // Ends with the sender.
        tokio::spawn(mirror.follow(receiver));
        Ok(Self { path, store, keyring, key, documents })
    }
}

impl StoreFeed {
    async fn open(
        bootstrap: &Bootstrap,
        shared: &Shared,
        store: Arc<dyn Store>,
    ) -> anyhow::Result<(Self, Vec<Change>)> {
        let keyring = sealed_store::keyring_of(bootstrap, store.as_ref(), &shared.catalogue);
        let keyring = Arc::new(keyring.await?);
        let key = secrets::admin_key(bootstrap)?;
        let prefix = bootstrap.admin.prefix.trim_end_matches('/');
        let catalogue = Arc::clone(&shared.catalogue);
        let parts = StoredParts {
            store: Arc::clone(&store),
            catalogue,
            keyring: Arc::clone(&keyring),
            indexes: Arc::clone(&shared.indexes),
            vitals: Arc::clone(&shared.vitals),
        };
        let (stored, mut changes) = Stored::open(parts, prefix).await?;
        let (sender, batches) = mpsc::channel(1);
        let follower = tokio::spawn(stored.follow(sender));
        let objects = ObjectSource::Store(Arc::clone(&store), prefix.to_owned());
        shared.configuration.set_objects(objects);
        let demonstrates = changes.is_empty();
        if demonstrates {
            let address = echo::start().await.context("the built-in echo upstream")?;
            changes.push(Change::Upsert {
                kind: Kind::Route,
                id: Id::new(echo::DEMONSTRATION),
                value: Ok(echo::demonstration(address)),
                path: "demonstration".to_owned(),
            });
        }
        Ok((Self { store, batches, follower, keyring, key, demonstrates }, changes))
    }
}

impl Feed {
    /// The next change; waits for it. Dropping the future loses nothing.
    pub async fn next(&mut self) -> News {
        match self {
            Feed::Nothing => std::future::pending().await,
            Feed::File(feed) => {
                feed.watched.changed().await;
                News::FileChanged
            }
            Feed::Store(feed) => feed.batches.recv().await.map_or(News::Lost, News::Objects),
            Feed::Documents(feed) => {
                if feed.documents.changed().await.is_err() {
                    // The feed itself holds the sender, so that this never is.
                    return std::future::pending().await;
                }
                let text = feed.documents.borrow_and_update().clone();
                News::Document(text.unwrap_or_default())
            }
        }
    }

    /// Lets go of the store, once nobody reads it any more.
    pub async fn close(self) {
        if let Feed::Store(feed) = self {
            drop(feed.batches);
            // A panic of the follower has been reported by it; there is nothing to add here.
            let _ = feed.follower.await;
        }
    }

    /// Puts what came into service.
    pub fn take_in(&mut self, news: News, resources: &mut Resources, cell: &SnapshotCell) {
        match (self, news) {
            (Feed::File(feed), News::FileChanged) => {
                let before = watch::thread_time();
                resources.reload(cell);
                feed.watched.reloaded(watch::thread_time().saturating_sub(before));
                if let Some(shown) = &feed.shown {
                    shown.documents.send_replace(resources.document());
                }
            }
            (Feed::Store(feed), News::Objects(Batch::Changes(mut changes))) => {
                if !changes.is_empty() && std::mem::take(&mut feed.demonstrates) {
                    let id = Id::new(echo::DEMONSTRATION);
                    changes.insert(0, Change::Delete { kind: Kind::Route, id });
                }
                resources.follow(changes, cell);
            }
            (Feed::Store(feed), News::Objects(Batch::Everything(everything))) => {
                // The demonstration is none of these, and goes.
                feed.demonstrates = false;
                resources.follow_all(everything, cell);
            }
            (_, News::Document(text)) => resources.replace(&text, cell),
            _ => {}
        }
    }

    /// Starts the Admin API that writes what this follows; none where a file says everything.
    ///
    /// # Errors
    /// As [`admin::start`].
    pub async fn start_admin(
        &self,
        bootstrap: &Bootstrap,
        shared: &Shared,
        registry: Option<&RunningRegistry>,
        predecessor: Predecessor,
    ) -> anyhow::Result<Option<RunningAdmin>> {
        let parts = match self {
            Feed::Nothing => return Ok(None),
            Feed::File(feed) => {
                let Some(shown) = &feed.shown else { return Ok(None) };
                let mode = Mode::ReadOnly(shown.path.display().to_string());
                let options = admin::options(bootstrap, &shown.key.key, mode);
                let (store, keyring) = (Arc::clone(&shown.store), Arc::clone(&shown.keyring));
                admin::parts(store, shared, keyring, options, registry)
            }
            Feed::Store(feed) => {
                let options = admin::options(bootstrap, &feed.key.key, Mode::Store);
                let (store, keyring) = (Arc::clone(&feed.store), Arc::clone(&feed.keyring));
                admin::parts(store, shared, keyring, options, registry)
            }
            Feed::Documents(feed) => {
                let sink: Arc<dyn tollhouse_admin::DocumentSink> =
                    Arc::<Documents>::clone(&feed.sink);
                let options = admin::options(bootstrap, &feed.key.key, Mode::Standalone(sink));
                let store = tollhouse_store::open(&Location::Memory)?;
                let keyring = Arc::new(Keyring::generate()?);
                admin::parts(store, shared, keyring, options, registry)
            }
        };
        admin::start(bootstrap, parts, shared.descriptors.admin, predecessor).await
    }

    /// The key of the Admin API, where it was made just now.
    pub fn new_key(&self) -> Option<&Secret> {
        let key = match self {
            Feed::Nothing => return None,
            Feed::File(feed) => &feed.shown.as_ref()?.key,
            Feed::Store(feed) => &feed.key,
            Feed::Documents(feed) => &feed.key,
        };
        key.is_new.then_some(&key.key)
    }

    /// Whether the demonstration is in service.
    pub fn has_demonstration(&self) -> bool {
        matches!(self, Feed::Store(feed) if feed.demonstrates)
    }
}
