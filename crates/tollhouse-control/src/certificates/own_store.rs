//! The store in the data folder, opened only for certificates, because the configuration comes from
//! another source. Other objects that it may hold from earlier use stay untouched and are not
//! served.

use std::sync::Arc;

use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tollhouse_model::encryption::Keyring;
use tollhouse_store::Store;

use crate::context::ControlContext;
use crate::feed::stored::{StoreFollower, StoreReading, StoredParts};
use crate::feed::{Event, open_own_store};
use crate::process::handover::Predecessor;
use crate::secrets::sealed_store;

pub(super) struct OwnStore {
    pub(super) store: Arc<dyn Store>,
    pub(super) keyring: Arc<Keyring>,
    events: mpsc::Receiver<StoreReading>,
    follower: JoinHandle<()>,
}

impl OwnStore {
    /// Opens the store, reads its certificates, and starts following them.
    pub(super) async fn open(
        cx: &ControlContext,
        predecessor: Predecessor,
    ) -> anyhow::Result<(Self, Event)> {
        let store = open_own_store(&cx.bootstrap, predecessor).await?;
        let keyring =
            sealed_store::keyring_for(&cx.bootstrap, store.as_ref(), &cx.plugins.catalogue);
        let keyring = Arc::new(keyring.await?);
        let parts = StoredParts {
            store: Arc::clone(&store),
            catalogue: Arc::clone(&cx.plugins.catalogue),
            keyring: Arc::clone(&keyring),
            indexes: Arc::clone(cx.metrics_page.indexes()),
            outages: Arc::clone(&cx.outages),
            shared: None,
        };
        let folder = tollhouse_acme::objects_folder(cx.store_prefix());
        let (stored, everything) =
            StoreFollower::open_folder(parts, cx.store_prefix(), folder).await?;
        // Capacity one: commits that arrive meanwhile are read as one batch.
        let (sender, events) = mpsc::channel(1);
        let follower = tokio::spawn(stored.follow(sender));
        Ok((Self { store, keyring, events, follower }, Event::Everything(everything)))
    }

    /// Waits for the next change; forever once the store is closed.
    pub(super) async fn next(&mut self) -> Event {
        match self.events.recv().await {
            Some(StoreReading { event, .. }) => event,
            None => std::future::pending().await,
        }
    }

    /// Closes the store after its follower has ended.
    pub(super) async fn close(self) {
        drop(self.events);
        // A panic of the follower has already been reported.
        let _ = self.follower.await;
    }
}
