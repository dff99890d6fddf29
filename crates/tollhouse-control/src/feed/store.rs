//! The store as a source: follows its objects, serves the demonstration route while the store is
//! empty, and gives the Admin API access for writes.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use tokio::sync::{mpsc, watch};
use tokio::task::{JoinHandle, JoinSet};
use tollhouse_admin::Mode;
use tollhouse_config::Bootstrap;
use tollhouse_config::bootstrap::Secret;
use tollhouse_model::encryption::Keyring;
use tollhouse_model::{Id, Kind};
use tollhouse_proxy::Change;
use tollhouse_store::limits::RESERVE_BYTES;
use tollhouse_store::{InService, Location, Operation, Options, Revision, Store, StoreError};

use super::event::{AdminAccess, Event, Source};
use super::lost_store;
use super::objects::Objects;
use super::store_copy::StoreCopy;
use super::stored::{Dialect, SharedStore, StoreFollower, StoreReading, StoredParts};
use super::{echo, etcd};
use crate::configuration::ObjectSource;
use crate::context::ControlContext;
use crate::outages::Part;
use crate::process::handover::Predecessor;
use crate::secrets::{self, sealed_store};
use tollhouse_store::Batches;

/// Time that a successor waits for a leaving process to close the store.
const STORE_WAIT: Duration = Duration::from_secs(10);

/// Interval between attempts to open the store during [`STORE_WAIT`].
const STORE_LOOK: Duration = Duration::from_millis(20);

pub struct StoreFeed {
    store: Arc<dyn Store>,
    events: mpsc::Receiver<StoreReading>,
    /// Tasks that read the store while the receiver exists: one for APISIX's objects, one for
    /// ShenYu's.
    followers: Vec<JoinHandle<()>>,
    keyring: Arc<Keyring>,
    key: Secret,
    /// Whether the demonstration route is in service, because the store is empty.
    has_demonstration: bool,
    /// Progress of APISIX's objects.
    objects: Progress,
    /// Progress of ShenYu's objects; `None` if this user may not read them.
    shenyu: Option<Progress>,
    sharing: Sharing,
}

/// Progress of objects from the store into service.
struct Progress {
    /// Revision up to which `next` has returned events.
    delivered: Revision,
    /// Revision in service.
    applied: watch::Sender<Revision>,
}

impl Progress {
    /// Starts at the revision of the first reading.
    fn new(delivered: Revision) -> Self {
        Self { delivered, applied: watch::Sender::new(Revision::ZERO) }
    }

    fn note_applied(&self) {
        self.applied.send_if_modified(|applied| {
            std::mem::replace(applied, self.delivered) != self.delivered
        });
    }

    fn in_service(&self) -> InService {
        InService::new(self.applied.subscribe())
    }
}

/// Gateways that use the same store.
enum Sharing {
    /// The store has no other users, because it is in this process's data folder.
    Alone,
    /// The store is shared with other gateways. The tasks report outages.
    Shared(JoinSet<()>),
    /// A local copy serves in place of an unreachable shared store; the text is the reason.
    Provisional(String),
}

/// A store to follow.
struct FollowedStore {
    store: Arc<dyn Store>,
    /// Data about a store that others write too.
    shared: Option<SharedStore>,
    keyring: Arc<Keyring>,
    sharing: Sharing,
}

/// Opens a store. If a predecessor is leaving, retries until that process has closed the store.
///
/// # Errors
/// If the store cannot be opened.
pub async fn open_store(
    location: &Location,
    options: &Options,
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

/// Opens the store of the data folder.
///
/// # Errors
/// If it cannot be opened, or an existing store has disappeared.
pub async fn open_own_store(
    bootstrap: &Bootstrap,
    predecessor: Predecessor,
) -> anyhow::Result<Arc<dyn Store>> {
    lost_store::check(bootstrap)?;
    let options = Options { reserve_bytes: RESERVE_BYTES, ..Options::default() };
    open_store(&Location::Directory(bootstrap.data_dir.clone()), &options, predecessor).await
}

impl StoreFeed {
    /// Opens the store of the data folder, reads all objects, and starts following changes.
    pub async fn open(
        cx: &ControlContext,
        predecessor: Predecessor,
    ) -> anyhow::Result<(Self, Event)> {
        let store = open_own_store(&cx.bootstrap, predecessor).await?;
        let keyring =
            sealed_store::keyring_for(&cx.bootstrap, store.as_ref(), &cx.plugins.catalogue);
        let keyring = Arc::new(keyring.await?);
        let source = FollowedStore { store, shared: None, keyring, sharing: Sharing::Alone };
        let (mut feed, mut everything) = Self::follow(cx, source).await?;
        if everything.is_empty() {
            everything.extend([demonstration().await?]);
            feed.has_demonstration = true;
        }
        Ok((feed, Event::Everything(everything)))
    }

    /// Opens an etcd that other gateways share. It has no demonstration route, because its contents
    /// serve on many gateways.
    ///
    /// # Errors
    /// If it cannot be read, belongs to another cluster, or its secrets are sealed with another
    /// keyring.
    pub async fn open_etcd(cx: &ControlContext) -> anyhow::Result<(Self, Event)> {
        let store = etcd::open(&cx.bootstrap)?;
        let (reasons, lags) = (store.outages(), store.watch_lags());
        let joined = etcd::join(&cx.bootstrap, Arc::new(store)).await?;
        let etcd::ClusterStore { store, cluster, keyring } = joined;
        let mut tasks = JoinSet::new();
        tasks.spawn(etcd::report(reasons, Arc::clone(&cx.outages)));
        tasks.spawn(etcd::measure_lag(lags, Arc::clone(&cx.metrics)));
        let copy = store_copy(cx).for_cluster(cluster.clone());
        let shared = SharedStore { cluster, metrics: Arc::clone(&cx.metrics), copy: Some(copy) };
        let source = FollowedStore {
            store,
            shared: Some(shared),
            keyring: Arc::new(keyring),
            sharing: Sharing::Shared(tasks),
        };
        let (feed, everything) = Self::follow(cx, source).await?;
        cx.metrics.process().store_copy_in_service.set(0);
        Ok((feed, Event::Everything(everything)))
    }

    /// Whether a copy may exist that can serve while the shared store is unreachable.
    pub fn has_copy(cx: &ControlContext) -> bool {
        store_copy(cx).path().exists()
    }

    /// Opens the local copy of an unreachable shared store. Without a usable copy the feed has no
    /// initial event.
    ///
    /// # Errors
    /// If the keyring is missing.
    pub async fn open_copy(
        cx: &ControlContext,
        source: &Source,
        reason: &str,
    ) -> anyhow::Result<(Self, Option<Event>)> {
        let name = source.name();
        let copy = store_copy(cx);
        let path = copy.path().display().to_string();
        cx.outages.report(Part::Store, format!("{name}: {reason}"));
        let copied = tokio::task::spawn_blocking(move || copy.read()).await?;
        // An unreadable copy must not prevent the start, because the store may return at any
        // moment.
        let copied = copied.unwrap_or_else(|error| {
            tracing::error!("{path}, the copy of {name}, is not used: {error}");
            None
        });
        let has_copy = copied.is_some();
        let mut entries = BTreeMap::new();
        let mut away = format!("{name} does not answer ({reason}); writes are taken once it does");
        if let Some(copied) = copied {
            let written_at = copied.written_at;
            entries = copied.entries;
            let objects = entries.len();
            tracing::warn!(objects, written_at, "{name} is away: its copy in {path} serves");
            away = format!("{away}; what is read is a copy of {written_at}, in seconds since 1970");
            cx.metrics.process().store_copy_in_service.set(1);
            let written_at = i64::try_from(written_at).unwrap_or(i64::MAX);
            cx.metrics.process().store_copy_written.set(written_at);
        }
        let entries = entries.into_iter().map(|(key, value)| Operation::put(key, value));
        let (feed, everything) = Self::stand_in(cx, entries, away).await?;
        Ok((feed, has_copy.then_some(Event::Everything(everything))))
    }

    /// Serves the data folder's store read-only, if a full disk prevents opening it.
    ///
    /// # Errors
    /// If the store cannot be read either, or no keyring exists.
    pub async fn open_on_full_disk(
        folder: &Path,
        cx: &ControlContext,
        reason: &anyhow::Error,
    ) -> anyhow::Result<(Self, Event)> {
        let directory = folder.to_owned();
        let read = move || tollhouse_store::read_directory_alone(&directory, "");
        let listing = tokio::task::spawn_blocking(read).await??;
        cx.outages.report(Part::Store, reason);
        let entries = listing.entries.into_iter();
        let entries = entries.map(|entry| Operation::put(entry.key, entry.value));
        let away = format!("{reason}; what is read is what was stored at the start");
        let (feed, everything) = Self::stand_in(cx, entries, away).await?;
        Ok((feed, Event::Everything(everything)))
    }

    /// Opens an in-memory store with these entries in place of the real store; `away` is the
    /// reason.
    async fn stand_in(
        cx: &ControlContext,
        entries: impl Iterator<Item = Operation>,
        away: String,
    ) -> anyhow::Result<(Self, Objects)> {
        let store = tollhouse_store::open(&Location::Memory)?;
        let mut batches = Batches::new(store.limits());
        entries.for_each(|put| batches.add(put));
        for transaction in batches.finish() {
            store.commit(transaction).await?;
        }
        let keyring = secrets::keyring_if_any(&cx.bootstrap)?.context("encryption.keyring")?;
        let (keyring, sharing) = (Arc::new(keyring), Sharing::Provisional(away));
        Self::follow(cx, FollowedStore { store, shared: None, keyring, sharing }).await
    }

    /// Reads all objects, and starts the tasks that follow changes.
    async fn follow(cx: &ControlContext, source: FollowedStore) -> anyhow::Result<(Self, Objects)> {
        let FollowedStore { store, shared, keyring, sharing } = source;
        let key = secrets::admin_key(&cx.bootstrap)?;
        let parts = || StoredParts {
            store: Arc::clone(&store),
            catalogue: Arc::clone(&cx.plugins.catalogue),
            keyring: Arc::clone(&keyring),
            indexes: Arc::clone(cx.metrics_page.indexes()),
            outages: Arc::clone(&cx.outages),
            shared: shared.clone(),
        };
        let (stored, mut everything) = StoreFollower::open(parts(), cx.store_prefix()).await?;
        let objects = Progress::new(stored.revision());
        let mut shenyu = None;
        // Capacity one: commits that arrive meanwhile are read as one batch.
        let (sender, events) = mpsc::channel(1);
        let mut followers = vec![tokio::spawn(stored.follow(sender.clone()))];
        match StoreFollower::open_shenyu(parts(), cx.store_prefix()).await {
            Ok((of_shenyu, changes)) => {
                shenyu = Some(Progress::new(of_shenyu.revision()));
                everything.extend(changes.into_changes());
                followers.push(tokio::spawn(of_shenyu.follow(sender)));
            }
            // A user of a shared store may have rights on the APISIX folder only.
            Err(StoreError::Declined { reason, .. }) => {
                let folder = tollhouse_shenyu::KEY_PREFIX;
                tracing::info!(
                    "{folder} may not be read ({reason}): none of ShenYu's objects are served"
                );
            }
            Err(error) => return Err(error.into()),
        }
        let source = ObjectSource::Store(Arc::clone(&store), cx.store_prefix().to_owned());
        cx.serving.configuration.set_objects(source);
        let feed = Self {
            store,
            events,
            followers,
            keyring,
            key,
            has_demonstration: false,
            objects,
            shenyu,
            sharing,
        };
        Ok((feed, everything))
    }

    /// Waits for the next event; `None` once the store is closed.
    pub async fn next(&mut self) -> Option<Event> {
        let StoreReading { mut event, dialect, revision } = self.events.recv().await?;
        let progress = match dialect {
            Dialect::Apisix => Some(&mut self.objects),
            Dialect::Shenyu => self.shenyu.as_mut(),
        };
        if let Some(progress) = progress {
            progress.delivered = revision;
        }
        match &mut event {
            // The first stored object replaces the demonstration route.
            Event::Changes(changes) if !changes.is_empty() => {
                if std::mem::take(&mut self.has_demonstration) {
                    let id = Id::new(echo::DEMONSTRATION);
                    changes.insert(0, Change::Delete { kind: Kind::Route, id });
                }
            }
            // A full listing replaces everything, including the demonstration route.
            Event::Everything(_) => self.has_demonstration = false,
            Event::Changes(_) | Event::Document(_) => {}
        }
        Some(event)
    }

    /// Records that all returned events are in service.
    pub fn note_applied(&self) {
        self.objects.note_applied();
        if let Some(shenyu) = &self.shenyu {
            shenyu.note_applied();
        }
    }

    /// Whether the demonstration route is in service.
    pub fn has_demonstration(&self) -> bool {
        self.has_demonstration
    }

    /// Whether other processes are locked out of the store.
    pub fn is_exclusive(&self) -> bool {
        matches!(self.sharing, Sharing::Alone)
    }

    /// Whether a local copy serves in place of an unreachable store.
    pub fn is_provisional(&self) -> bool {
        matches!(self.sharing, Sharing::Provisional(_))
    }

    /// Returns the data access for the Admin API; read-only if the feed is provisional.
    pub fn admin_access(&self) -> AdminAccess {
        // A provisional feed takes no writes, so that no caller waits for them.
        let serves_writes = !self.is_provisional();
        AdminAccess {
            store: Arc::clone(&self.store),
            keyring: Arc::clone(&self.keyring),
            key: self.key.clone(),
            mode: match &self.sharing {
                Sharing::Alone | Sharing::Shared(_) => Mode::Store,
                Sharing::Provisional(reason) => Mode::Away(reason.clone()),
            },
            in_service: serves_writes.then(|| self.objects.in_service()),
            shenyu_in_service: self
                .shenyu
                .as_ref()
                .filter(|_| serves_writes)
                .map(Progress::in_service),
        }
    }

    /// Closes the store after its followers have ended.
    pub async fn close(self) {
        drop(self.events);
        if let Sharing::Shared(mut tasks) = self.sharing {
            tasks.shutdown().await;
        }
        for follower in self.followers {
            // A follower that panics has already reported the panic.
            let _ = follower.await;
        }
    }
}

fn store_copy(cx: &ControlContext) -> StoreCopy {
    StoreCopy::new(&cx.bootstrap.data_dir, cx.store_prefix())
}

/// Starts the echo server, and returns the route to it.
async fn demonstration() -> anyhow::Result<Change> {
    let address = echo::start().await.context("the built-in echo upstream")?;
    Ok(Change::Upsert {
        kind: Kind::Route,
        id: Id::new(echo::DEMONSTRATION),
        value: Ok(echo::demonstration(address)),
        path: "demonstration".to_owned(),
    })
}
