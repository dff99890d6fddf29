//! Parts that only one process can hold: the stores, and the Admin API and registry that write
//! them.
//!
//! Any subset may be running: a part that cannot start is retried for the life of the process,
//! while the other parts and the configuration in service continue. A part that dies is detected
//! within a second and restarted. All parts are released for a successor, and restarted the same
//! way if the successor fails.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use tokio::time::Instant;
use tollhouse_proxy::SnapshotCell;
use tollhouse_stdx::Backoff;
use tollhouse_store::StoreError;

use super::handover::Predecessor;
use crate::admin::{self, AdminSources, RunningAdmin};
use crate::certificates::{self, RunningCertificates};
use crate::configuration::ObjectSource;
use crate::console::RunningProcess;
use crate::context::ControlContext;
use crate::feed::{self, Feed, Source};
use crate::outages::{Outages, Part};
use crate::registry::{self, RegistrySockets, RunningRegistry, Takeover};
use crate::resources::Resources;
use crate::shenyu_admin::{self, RunningShenyuAdmin};
use crate::shenyu_follower::{self, RunningFollower};

/// Interval between checks of the parts.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// Maximum wait before a failed part is retried. Kept short, because clients are waiting for the
/// part.
const RETRY_INTERVAL_MAX: Duration = Duration::from_secs(2);

/// The exclusive parts, running or not.
pub struct ExclusiveParts {
    /// Own copy of the context: ports configured as 0 are replaced by those that the kernel chose.
    cx: ControlContext,
    source: Source,
    /// `None` while another process holds the store, or it cannot be opened.
    feed: Option<Feed>,
    admin: Option<RunningAdmin>,
    shenyu_admin: Option<RunningShenyuAdmin>,
    shenyu_follower: Option<RunningFollower>,
    registry: Option<RunningRegistry>,
    /// Listening sockets of the registry, returned by a successor that failed.
    registry_sockets: RegistrySockets,
    certificates: Option<RunningCertificates>,
    /// Snapshots of the data plane, which answers ACME challenges.
    snapshots: Arc<SnapshotCell>,
    holder: Holder,
    backoff: Backoff,
    look_at: Instant,
}

/// The process that holds the exclusive parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Holder {
    ThisProcess,
    Successor,
}

pub enum Event {
    Changed(feed::Event),
    /// The store was closed and must be opened again.
    StoreLost,
    Look,
}

/// Inputs of [`ExclusiveParts::start`].
pub struct ExclusiveInputs {
    pub source: Source,
    pub feed: Feed,
    /// A registry that runs already.
    pub registry: Option<RunningRegistry>,
    pub snapshots: Arc<SnapshotCell>,
}

impl ExclusiveParts {
    /// Takes an open feed and a running registry, if there is one; starts the Admin API, ShenYu's
    /// admin and the ACME client.
    ///
    /// # Errors
    /// If a part cannot be started.
    pub async fn start(
        cx: &ControlContext,
        inputs: ExclusiveInputs,
        resources: &mut Resources,
        predecessor: Predecessor,
    ) -> anyhow::Result<Self> {
        let ExclusiveInputs { source, feed, registry, snapshots } = inputs;
        let mut parts = Self {
            cx: cx.clone(),
            source,
            feed: Some(feed),
            admin: None,
            shenyu_admin: None,
            shenyu_follower: None,
            registry: None,
            registry_sockets: RegistrySockets::default(),
            certificates: None,
            snapshots,
            holder: Holder::ThisProcess,
            backoff: Backoff::up_to(RETRY_INTERVAL_MAX),
            look_at: Instant::now() + LOOK_INTERVAL,
        };
        if let Some(registry) = registry {
            parts.put_registry(registry)?;
        }
        let outcome = parts.start_certificates(resources, predecessor).await;
        parts.outlive(Part::Certificates, outcome)?;
        let outcome = parts.start_admin(predecessor).await;
        parts.outlive(Part::Admin, outcome)?;
        let outcome = parts.start_shenyu_admin(predecessor).await;
        parts.outlive(Part::ShenyuAdmin, outcome)?;
        Ok(parts)
    }

    /// Decides whether a start failure is fatal; see the function [`outlive`].
    fn outlive(&self, part: Part, outcome: anyhow::Result<()>) -> anyhow::Result<()> {
        let ownership = match &self.feed {
            Some(feed) if !feed.is_exclusive() => Ownership::Shared,
            Some(_) | None => Ownership::Exclusive,
        };
        outlive(&self.cx.outages, ownership, part, outcome)
    }

    #[cfg(test)]
    pub(crate) fn outages(&self) -> &crate::outages::Outages {
        &self.cx.outages
    }

    pub fn source(&self) -> &Source {
        &self.source
    }

    /// Returns the feed of changes, if it is open.
    pub fn feed(&self) -> Option<&Feed> {
        self.feed.as_ref()
    }

    /// Returns the Admin API, if it is running.
    pub fn admin(&self) -> Option<&RunningAdmin> {
        self.admin.as_ref()
    }

    /// Returns ShenYu's admin, if it is running.
    pub fn shenyu_admin(&self) -> Option<&RunningShenyuAdmin> {
        self.shenyu_admin.as_ref()
    }

    /// Returns the registry, if it is running.
    pub fn registry(&self) -> Option<&RunningRegistry> {
        self.registry.as_ref()
    }

    /// Waits for the next event. Cancel safe.
    pub async fn next(&mut self) -> Event {
        let changed = async {
            match &mut self.feed {
                Some(feed) => feed.next().await.map_or(Event::StoreLost, Event::Changed),
                None => std::future::pending().await,
            }
        };
        let certificate = async {
            match &mut self.certificates {
                Some(certificates) => certificates.next().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            event = changed => event,
            event = certificate => Event::Changed(event),
            () = tokio::time::sleep_until(self.look_at) => Event::Look,
        }
    }

    pub async fn handle(&mut self, event: Event, resources: &mut Resources, cell: &SnapshotCell) {
        match event {
            Event::Changed(event) => {
                resources.put_into_service(event, cell);
                if let Some(feed) = &self.feed {
                    feed.note_applied();
                }
            }
            Event::StoreLost => {
                self.cx.outages.report(Part::Store, "the store has been closed");
                // These parts hold the closed store.
                self.admin = None;
                self.shenyu_admin = None;
                self.shenyu_follower = None;
                self.close_feed().await;
                self.look_at = Instant::now();
            }
            Event::Look => self.look(resources, cell).await,
        }
    }

    /// Reloads the source, if it is a file.
    pub fn reload(&mut self, resources: &mut Resources, cell: &SnapshotCell) {
        if let Some(event) = self.feed.as_mut().and_then(Feed::look) {
            resources.put_into_service(event, cell);
        }
    }

    /// Releases all parts, for a successor or at the end. The configuration in service stays.
    pub async fn release(&mut self) {
        self.holder = Holder::Successor;
        self.admin = None;
        self.shenyu_admin = None;
        self.shenyu_follower = None;
        self.cx.metrics_page.registry().set(None);
        self.stop_certificates().await;
        self.registry_sockets = RegistrySockets::default();
        if let Some(registry) = self.registry.take() {
            registry.stop().await;
        }
        if self.feed.as_ref().is_some_and(Feed::is_exclusive) {
            self.close_feed().await;
        }
    }

    /// Releases all parts for a successor, and returns the registry's listening sockets.
    pub async fn hand_over(&mut self) -> RegistrySockets {
        let sockets = self.registry.as_mut().map(RunningRegistry::take_sockets);
        self.release().await;
        sockets.unwrap_or_default()
    }

    /// Schedules a restart of all parts, because the successor failed. Restarting is retried while
    /// the successor still holds some parts.
    pub fn take_back(&mut self, sockets: RegistrySockets) {
        self.registry_sockets = sockets;
        self.holder = Holder::ThisProcess;
        self.backoff.reset();
        self.look_at = Instant::now();
    }

    async fn close_feed(&mut self) {
        self.stop_certificates().await;
        // The control API holds a reference to the store.
        self.cx.serving.configuration.set_objects(ObjectSource::None);
        if let Some(feed) = self.feed.take() {
            feed.close().await;
        }
    }

    /// Restarts parts that have died or could not start before.
    async fn look(&mut self, resources: &mut Resources, cell: &SnapshotCell) {
        self.look_at = Instant::now() + LOOK_INTERVAL;
        if self.holder == Holder::Successor {
            return;
        }
        self.stop_dead_registry().await;
        let mut failed = Vec::new();
        if let Err(error) = self.open_feed(resources, cell).await {
            failed.push((Part::Store, error));
        }
        if let Err(error) = self.start_registry().await {
            failed.push((Part::Registry, error));
        }
        if let Err(error) = self.start_certificates(resources, Predecessor::None).await {
            failed.push((Part::Certificates, error));
        }
        // A leaving predecessor frees the port immediately, so that waiting is unnecessary.
        if let Err(error) = self.start_admin(Predecessor::None).await {
            failed.push((Part::Admin, error));
        }
        if let Err(error) = self.start_shenyu_admin(Predecessor::None).await {
            failed.push((Part::ShenyuAdmin, error));
        }
        if failed.is_empty() {
            return self.backoff.reset();
        }
        for (part, error) in failed {
            self.cx.outages.report(part, format!("{error:#}"));
        }
        self.look_at = Instant::now() + self.backoff.next_wait();
    }

    /// Stops a registry if one of its threads has died, because the rest cannot be trusted.
    async fn stop_dead_registry(&mut self) {
        let Some(death) = self.registry.as_ref().and_then(RunningRegistry::death) else { return };
        self.cx.outages.report(Part::Registry, death);
        self.cx.metrics_page.registry().set(None);
        // The Admin API would continue to show the dead registry.
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
        if self.feed.as_ref().is_some_and(|feed| !feed.is_provisional()) {
            return Ok(());
        }
        let (feed, first) = feed::open(&self.source, &self.cx, Predecessor::None).await?;
        // These parts would continue to write to the previous store.
        self.admin = None;
        self.shenyu_admin = None;
        self.shenyu_follower = None;
        if let Some(provisional) = self.feed.replace(feed) {
            provisional.close().await;
        }
        if let Some(event) = first {
            resources.put_into_service(event, cell);
        }
        if let Some(feed) = &self.feed {
            feed.note_applied();
        }
        self.cx.outages.clear(Part::Store);
        Ok(())
    }

    async fn start_registry(&mut self) -> anyhow::Result<()> {
        if self.registry.is_some() {
            return Ok(());
        }
        let ControlContext { bootstrap, descriptors, registry_database, .. } = &self.cx;
        let sockets = self.registry_sockets.duplicate();
        let takeover = Takeover { sockets, ..Takeover::none() };
        let observers = self.cx.registry_observers();
        let started =
            registry::start(bootstrap, descriptors, registry_database, takeover, observers).await;
        // Keeps the sockets only while a successor still has the store open, so that clients'
        // connections queue meanwhile.
        if !started.as_ref().is_err_and(is_in_use) {
            self.registry_sockets = RegistrySockets::default();
        }
        let Some(registry) = started? else { return Ok(()) };
        // Logged, because the start-up text may name other addresses or none.
        let (grpc, http) = (registry.grpc.first().copied(), registry.http);
        tracing::info!(?grpc, ?http, "this node keeps the registry now");
        self.put_registry(registry)?;
        // Restarted, so that it shows the registry.
        self.admin = None;
        self.cx.outages.clear(Part::Registry);
        Ok(())
    }

    fn put_registry(&mut self, registry: RunningRegistry) -> anyhow::Result<()> {
        self.cx.serving.drivers.follow(&registry.handle)?;
        let managers = &self.cx.plugins.secret_managers;
        managers.set_registry(registry.handle.clone());
        tokio::spawn(Arc::clone(managers).follow_files(registry.handle.clone()));
        self.cx.metrics_page.registry().set(Some(registry.sources()));
        let listen = &mut Arc::make_mut(&mut self.cx.bootstrap).listen;
        keep_port(&mut listen.registry_grpc, registry.grpc.first().copied());
        keep_port(&mut listen.registry_http, registry.http);
        self.cx.bound.set("registry_grpc", registry.grpc.first().copied());
        self.cx.bound.set("registry_http", registry.http);
        self.registry = Some(registry);
        Ok(())
    }

    /// Starts the ACME client if it is configured and not running. The contents of a separate
    /// certificate store go into service at once.
    async fn start_certificates(
        &mut self,
        resources: &mut Resources,
        predecessor: Predecessor,
    ) -> anyhow::Result<()> {
        let is_alive = self.certificates.as_ref().is_some_and(RunningCertificates::is_alive);
        if is_alive || !certificates::are_asked_for(&self.cx.bootstrap) {
            return Ok(());
        }
        self.stop_certificates().await;
        // A provisional feed would lose writes.
        let feed = self.feed.as_ref().filter(|feed| !feed.is_provisional());
        let Some(feed) = feed else { return Ok(()) };
        let started = certificates::start(&self.cx, feed, &self.snapshots, predecessor).await;
        let (running, first) = started.context("certificates")?;
        self.certificates = Some(running);
        // Restarted, so that it shows the certificates.
        self.admin = None;
        if let Some(event) = first {
            resources.put_into_service(event, &self.snapshots);
        }
        self.cx.outages.clear(Part::Certificates);
        Ok(())
    }

    async fn stop_certificates(&mut self) {
        if let Some(certificates) = self.certificates.take() {
            // The Admin API shows the certificates and holds their store.
            self.admin = None;
            certificates.stop().await;
        }
    }

    async fn start_admin(&mut self, predecessor: Predecessor) -> anyhow::Result<()> {
        if self.admin.as_ref().is_some_and(RunningAdmin::is_alive) {
            return Ok(());
        }
        let access = self.feed.as_ref().and_then(Feed::admin_access);
        let Some(access) = access else { return Ok(()) };
        let console = RunningProcess::new(&self.cx, &self.snapshots, &self.source);
        let sources = AdminSources {
            access,
            registry: self.registry.as_ref(),
            certificates: self.certificates.as_ref(),
            console: Arc::new(console),
        };
        self.admin = admin::start(&self.cx, sources, predecessor).await?;
        if let Some(admin) = &self.admin {
            let address = Some(admin.address);
            self.cx.bound.set("admin", address);
            keep_port(&mut Arc::make_mut(&mut self.cx.bootstrap).listen.admin, address);
            self.cx.outages.clear(Part::Admin);
        }
        Ok(())
    }

    /// Starts ShenYu's admin, or the follower of one, if it is configured and not running.
    async fn start_shenyu_admin(&mut self, predecessor: Predecessor) -> anyhow::Result<()> {
        if self.shenyu_admin.as_ref().is_some_and(RunningShenyuAdmin::is_alive) {
            return Ok(());
        }
        let access = self.feed.as_ref().and_then(Feed::admin_access);
        let Some(access) = access else { return Ok(()) };
        if !self.shenyu_follower.as_ref().is_some_and(RunningFollower::is_alive) {
            self.shenyu_follower = shenyu_follower::start(&self.cx.bootstrap, &access);
        }
        // Dropped first, because a dropped admin clears the channel that its successor then sets.
        self.shenyu_admin = None;
        self.shenyu_admin = shenyu_admin::start(&self.cx, access, predecessor).await?;
        if let Some(admin) = &self.shenyu_admin {
            let address = admin.addresses.first().copied();
            self.cx.bound.set("shenyu", address);
            keep_port(&mut Arc::make_mut(&mut self.cx.bootstrap).listen.shenyu, address);
            self.cx.outages.clear(Part::ShenyuAdmin);
        }
        Ok(())
    }
}

fn is_in_use(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(StoreError::InUse { .. }))
}

/// Ownership of the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ownership {
    /// Only this process writes it.
    Exclusive,
    Shared,
}

/// Decides whether a start failure is fatal. An unreachable shared store is reported, and the part
/// is retried later, because the store can fail at any moment, also between the starts of two
/// parts. Any other error is returned.
fn outlive(
    outages: &Outages,
    ownership: Ownership,
    part: Part,
    outcome: anyhow::Result<()>,
) -> anyhow::Result<()> {
    match outcome {
        Err(error) if ownership == Ownership::Shared && feed::is_away(&error) => {
            outages.report(part, format!("{error:#}"));
            Ok(())
        }
        outcome => outcome,
    }
}

/// Replaces a configured port 0 by the bound port, so that a restart uses the same port.
fn keep_port(listened: &mut [SocketAddr], bound: Option<SocketAddr>) {
    if let ([only], Some(bound)) = (listened, bound) {
        *only = bound;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shared_store_that_goes_away_during_the_start_does_not_end_it() {
        let gone = || {
            let (place, reason) = ("etcd".into(), "no answer in time".to_owned());
            Err(StoreError::Unreachable { place, reason }).context("the Admin API")
        };
        let table = [
            (Ownership::Shared, gone(), true),
            (Ownership::Exclusive, gone(), false),
            (Ownership::Shared, Err(anyhow::anyhow!("its port is taken")), false),
            (Ownership::Shared, Ok(()), true),
        ];
        for (number, (ownership, outcome, goes_on)) in table.into_iter().enumerate() {
            let outages = Outages::new(Arc::default());
            let has_failed = outcome.is_err();
            let result = outlive(&outages, ownership, Part::Admin, outcome);
            assert_eq!(result.is_ok(), goes_on, "{number}");
            assert_eq!(
                outages.list().contains_key(&Part::Admin),
                has_failed && goes_on,
                "{number}"
            );
        }
    }
}
