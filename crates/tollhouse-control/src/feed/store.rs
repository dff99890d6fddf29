//! The store as a feed: what is followed of it, the demonstration while it is empty, and what the Admin
//! API writes.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tollhouse_admin::Mode;
use tollhouse_model::encryption::Keyring;
use tollhouse_model::{Id, Kind};
use tollhouse_proxy::Change;
use tollhouse_store::{Location, Options, Store, StoreError};

use super::stored::{Stored, StoredParts};
use super::{AdminAccess, Event, echo};
use crate::configuration::ObjectSource;
use crate::context::ControlContext;
use crate::process::handover::Predecessor;
use crate::secrets::{self, KeptSecret, sealed_store};

/// How long a successor waits for the store of a process that is just leaving.
const STORE_WAIT: Duration = Duration::from_secs(10);

/// How often it looks.
const STORE_LOOK: Duration = Duration::from_millis(20);

/// See the module.
pub struct StoreFeed {
    store: Arc<dyn Store>,
    events: mpsc::Receiver<Event>,
    /// Reads the store for as long as somebody takes what it reads.
    follower: JoinHandle<()>,
    keyring: Arc<Keyring>,
    key: KeptSecret,
    /// Whether the demonstration is in service, because there is nothing else.
    has_demonstration: bool,
}

/// Opens a store, waiting for a process that is just leaving it.
///
/// # Errors
/// The store cannot be opened.
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

impl StoreFeed {
    /// Opens the store in a folder, reads everything, and follows from there.
    pub async fn open(
        folder: &Path,
        cx: &ControlContext,
        predecessor: Predecessor,
    ) -> anyhow::Result<(Self, Event)> {
        let location = Location::Directory(folder.to_owned());
        let store = open_store(&location, &Options::default(), predecessor).await?;
        let keyring = sealed_store::keyring_for(&cx.bootstrap, store.as_ref(), &cx.catalogue);
        let keyring = Arc::new(keyring.await?);
        let key = secrets::admin_key(&cx.bootstrap)?;
        let parts = StoredParts {
            store: Arc::clone(&store),
            catalogue: Arc::clone(&cx.catalogue),
            keyring: Arc::clone(&keyring),
            indexes: Arc::clone(cx.metrics_page.indexes()),
            outages: Arc::clone(&cx.outages),
        };
        let (stored, mut everything) = Stored::open(parts, cx.store_prefix()).await?;
        // One at a time: what queues up meanwhile is taken together.
        let (sender, events) = mpsc::channel(1);
        let follower = tokio::spawn(stored.follow(sender));
        let objects = ObjectSource::Store(Arc::clone(&store), cx.store_prefix().to_owned());
        cx.configuration.set_objects(objects);
        let has_demonstration = everything.is_empty();
        if has_demonstration {
            everything.push(demonstration().await?);
        }
        let feed = Self { store, events, follower, keyring, key, has_demonstration };
        Ok((feed, Event::Everything(everything)))
    }

    /// The next event; `None` once the store is closed.
    pub async fn next(&mut self) -> Option<Event> {
        let mut event = self.events.recv().await?;
        match &mut event {
            // The first object of somebody's own takes the demonstration's place.
            Event::Changes(changes) if !changes.is_empty() => {
                if std::mem::take(&mut self.has_demonstration) {
                    let id = Id::new(echo::DEMONSTRATION);
                    changes.insert(0, Change::Delete { kind: Kind::Route, id });
                }
            }
            // The demonstration is none of these, and goes.
            Event::Everything(_) => self.has_demonstration = false,
            Event::Changes(_) | Event::Document(_) => {}
        }
        Some(event)
    }

    /// Whether the demonstration is in service.
    pub fn has_demonstration(&self) -> bool {
        self.has_demonstration
    }

    /// What the Admin API writes.
    pub fn admin_access(&self) -> AdminAccess {
        AdminAccess {
            store: Arc::clone(&self.store),
            keyring: Arc::clone(&self.keyring),
            key: self.key.clone(),
            mode: Mode::Store,
        }
    }

    /// Lets go of the store, once the follower does not read it any more.
    pub async fn close(self) {
        drop(self.events);
        // A panic of the follower has been reported by it; there is nothing to add here.
        let _ = self.follower.await;
    }
}

/// The route that a fresh gateway serves, with the upstream behind it.
async fn demonstration() -> anyhow::Result<Change> {
    let address = echo::start().await.context("the built-in echo upstream")?;
    Ok(Change::Upsert {
        kind: Kind::Route,
        id: Id::new(echo::DEMONSTRATION),
        value: Ok(echo::demonstration(address)),
        path: "demonstration".to_owned(),
    })
}
