//! What only one process may hold: the stores, the Admin API and the registry that write them.
//!
//! Kept here whole or in part: a part that cannot be had is tried again for as long as the process
//! lives, while the rest works and what is in service goes on to serve. A part that dies is noticed
//! within a second and made anew. When a successor asks, all is let go of; when it fails, all is taken
//! back the same way.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tollhouse_config::Bootstrap;
use tollhouse_proxy::SnapshotCell;

use crate::admin::RunningAdmin;
use crate::backoff::Backoff;
use crate::configuration::ObjectSource;
use crate::feed::{self, Feed, News};
use crate::introspection::listeners::Predecessor;
use crate::registry::metrics::Slot;
use crate::registry::{self, RunningRegistry};
use crate::resources::{Resources, Shared, Source};
use crate::vitals::Part;

/// How often it is looked whether all parts live.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// See the module.
pub struct Duty {
    bootstrap: Bootstrap,
    shared: Shared,
    feed: Feed,
    admin: Option<RunningAdmin>,
    registry: Option<RunningRegistry>,
    registry_page: Arc<Slot>,
    holder: Holder,
    backoff: Backoff,
    look_at: Instant,
}

/// Who holds all of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Holder {
    ThisProcess,
    Successor,
}

/// What a duty waits for.
pub enum Event {
    /// The configuration changed.
    News(News),
    /// It is time to look whether all parts live.
    Look,
}

/// What a duty begins with.
pub struct Parts {
    /// The bootstrap file.
    pub bootstrap: Bootstrap,
    /// What the control side shares.
    pub shared: Shared,
    /// Where changes come from.
    pub feed: Feed,
    /// The registry, if it could be started.
    pub registry: Option<RunningRegistry>,
    /// Where the page of metrics finds it.
    pub registry_page: Arc<Slot>,
}

impl Duty {
    /// Begins, and starts the Admin API.
    ///
    /// # Errors
    /// The Admin API cannot be started.
    pub async fn begin(parts: Parts, predecessor: Predecessor) -> anyhow::Result<Self> {
        let Parts { bootstrap, shared, feed, registry, registry_page } = parts;
        let mut duty = Self {
            bootstrap,
            shared,
            feed,
            admin: None,
            registry: None,
            registry_page,
            holder: Holder::ThisProcess,
            backoff: Backoff::default(),
            look_at: Instant::now() + LOOK_INTERVAL,
        };
        if let Some(registry) = registry {
            duty.put_registry(registry)?;
        }
        duty.start_admin(predecessor).await?;
        Ok(duty)
    }

    /// The Admin API, while it runs.
    pub fn admin(&self) -> Option<&RunningAdmin> {
        self.admin.as_ref()
    }

    /// The registry, while it runs.
    pub fn registry(&self) -> Option<&RunningRegistry> {
        self.registry.as_ref()
    }

    /// Starts what changes nodes beside requests, for as long as the runtime lasts.
    pub fn start_drivers(&self) {
        self.shared.drivers.start();
    }

    /// Where changes come from.
    pub fn feed(&self) -> &Feed {
        &self.feed
    }

    /// Waits for something to do. Dropping the future loses nothing.
    pub async fn next(&mut self) -> Event {
        tokio::select! {
            news = self.feed.next() => Event::News(news),
            () = tokio::time::sleep_until(self.look_at) => Event::Look,
        }
    }

    /// Does it.
    pub async fn attend(&mut self, event: Event, resources: &mut Resources, cell: &SnapshotCell) {
        match event {
            Event::News(News::Lost) => {
                self.shared.vitals.down(Part::Store, "the store has been closed");
                self.admin = None;
                self.close_feed().await;
                self.look_at = Instant::now();
            }
            Event::News(news) => self.feed.take_in(news, resources, cell),
            Event::Look => self.look(resources, cell).await,
        }
    }

    /// Lets go of all, for a successor or for good. What is in service goes on to serve.
    pub async fn release(&mut self) {
        self.holder = Holder::Successor;
        self.admin = None;
        self.registry_page.set(None);
        if let Some(registry) = self.registry.take() {
            registry.stop().await;
        }
        if matches!(self.feed, Feed::Store(_)) {
            self.close_feed().await;
        }
    }

    /// Takes all back: the successor did not start. It may still hold what it took for a while.
    pub fn take_back(&mut self) {
        self.holder = Holder::ThisProcess;
        self.backoff.reset();
        self.look_at = Instant::now();
    }

    async fn close_feed(&mut self) {
        // The control API holds the store as well.
        self.shared.configuration.set_objects(ObjectSource::None);
        std::mem::replace(&mut self.feed, Feed::Nothing).close().await;
    }

    /// Makes anew what has died, or could not be had before.
    async fn look(&mut self, resources: &mut Resources, cell: &SnapshotCell) {
        self.look_at = Instant::now() + LOOK_INTERVAL;
        if self.holder == Holder::Successor {
            return;
        }
        self.bury_registry().await;
        let mut failed = Vec::new();
        if let Err(error) = self.open_feed(resources, cell).await {
            failed.push((Part::Store, error));
        }
        if let Err(error) = self.start_registry().await {
            failed.push((Part::Registry, error));
        }
        // One of this process that is just ending leaves the port at once.
        if let Err(error) = self.start_admin(Predecessor::None).await {
            failed.push((Part::Admin, error));
        }
        if failed.is_empty() {
            return self.backoff.reset();
        }
        for (part, error) in failed {
            self.shared.vitals.down(part, format!("{error:#}"));
        }
        self.look_at = Instant::now() + self.backoff.next_wait();
    }

    /// Ends a registry of which a part has died: what is left of it cannot be trusted.
    async fn bury_registry(&mut self) {
        let Some(death) = self.registry.as_ref().and_then(RunningRegistry::death) else { return };
        self.shared.vitals.down(Part::Registry, death);
        self.registry_page.set(None);
        // It would go on to show the registry that has died.
        self.admin = None;
        if let Some(registry) = self.registry.take() {
            registry.stop().await;
        }
    }

    async fn open_feed(
        &mut self,
        resources: &mut Resources,
        cell: &SnapshotCell,
    ) -> anyhow::Result<()> {
        let is_store = matches!(feed::source(&self.bootstrap), Source::Store(_));
        if !is_store || !matches!(self.feed, Feed::Nothing) {
            return Ok(());
        }
        let opened =
            feed::open(&self.bootstrap, &self.shared, resources, Predecessor::None).await?;
        let Ok((feed, snapshot)) = opened else { return Ok(()) };
        cell.publish(snapshot);
        self.feed = feed;
        self.admin = None;
        self.shared.vitals.up(Part::Store);
        Ok(())
    }

    async fn start_registry(&mut self) -> anyhow::Result<()> {
        if self.registry.is_some() {
            return Ok(());
        }
        let Some(registry) =
            registry::start(&self.bootstrap, &self.shared.descriptors, Predecessor::None).await?
        else {
            return Ok(());
        };
        self.put_registry(registry)?;
        // It is to show the registry.
        self.admin = None;
        self.shared.vitals.up(Part::Registry);
        Ok(())
    }

    fn put_registry(&mut self, registry: RunningRegistry) -> anyhow::Result<()> {
        self.shared.drivers.follow(Some(&registry))?;
        self.registry_page.set(Some(registry.sources()));
        keep_port(&mut self.bootstrap.listen.registry_grpc, registry.grpc);
        keep_port(&mut self.bootstrap.listen.registry_http, registry.http);
        self.registry = Some(registry);
        Ok(())
    }

    async fn start_admin(&mut self, predecessor: Predecessor) -> anyhow::Result<()> {
        let is_off = self.bootstrap.listen.admin.is_empty();
        if is_off || self.admin.as_ref().is_some_and(RunningAdmin::is_alive) {
            return Ok(());
        }
        let registry = self.registry.as_ref();
        let (bootstrap, shared) = (&self.bootstrap, &self.shared);
        self.admin = self.feed.start_admin(bootstrap, shared, registry, predecessor).await?;
        if let Some(admin) = &self.admin {
            keep_port(&mut self.bootstrap.listen.admin, Some(admin.address));
            self.shared.vitals.up(Part::Admin);
        }
        Ok(())
    }
}

/// A port that the kernel chose stays the same when it is listened on anew.
fn keep_port(listened: &mut [SocketAddr], bound: Option<SocketAddr>) {
    if let ([only], Some(bound)) = (listened, bound) {
        *only = bound;
    }
}
