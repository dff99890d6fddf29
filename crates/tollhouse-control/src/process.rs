//! A gateway's process from its start to its end: the one place where all parts meet.
//!
//! Nothing is decided here beyond who gets what and in which order; every part can be built without
//! this file.

pub mod cores;
pub mod exclusive;
pub mod handover;
mod service_manager;
pub mod sockets;
mod start_error;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::MissedTickBehavior;
use tollhouse_config::Bootstrap;
use tollhouse_net::resolve::Resolver;
use tollhouse_plugins::shenyu::PluginEngines;
use tollhouse_proxy::worker::Transport;
use tollhouse_proxy::{Phase, Settings, SnapshotCell};
use tollhouse_store::StoreError;
use tollhouse_telemetry::access_log::AccessLog;

pub use self::start_error::StartError;

use self::cores::{CoreParts, Cores};
use self::exclusive::ExclusiveParts;
use self::handover::{Legacy, Predecessor, Spares, Succession};
use self::sockets::Sockets;
use crate::banner::Banner;
use crate::context::ControlContext;
use crate::feed::{self, Feed, Source};
use crate::introspection::Introspection;
use crate::introspection::listeners::{self, SideListeners};
use crate::outages::Part;
use crate::registry::{self, RegistrySockets, RunningRegistry, Takeover};
use crate::resources::Resources;
use crate::secrets;
use crate::settings::{self, descriptors::Descriptors};
use crate::shenyu_local::LocalDoor;
use crate::signals::{Request, Signals};

/// How long a start waits for keepers of secrets: what they do not say in time refuses until they do.
const KEEPERS_WAIT: Duration = Duration::from_secs(2);

/// How often old snapshots are looked for that nobody holds any more. A core lets go of one within a tick, and a request
/// that lasts holds what it began with.
const OLD_SNAPSHOTS_INTERVAL: Duration = Duration::from_secs(1);

/// How long the rest may take once a second signal has come.
pub const HURRY_TIME: Duration = Duration::from_millis(500);

/// A gateway that serves.
pub struct Process {
    cores: Cores,
    snapshots: Arc<SnapshotCell>,
    resources: Resources,
    exclusive: ExclusiveParts,
    side: SideListeners,
    access_log: Option<AccessLog>,
    spares: Spares,
    successors: mpsc::Receiver<Succession>,
    signals: Signals,
    start: StartFacts,
}

/// What is said about a start.
#[derive(Debug)]
struct StartFacts {
    data_plane: Vec<(SocketAddr, Transport)>,
    /// Each with `tcp` or `udp`.
    streams: Vec<(&'static str, SocketAddr)>,
    workers: usize,
    /// The folder of everything that is kept, where it was made just now.
    new_data_dir: Option<PathBuf>,
    /// File of the Admin API's key, unless the key is configured.
    admin_key_file: Option<PathBuf>,
    /// Files of secrets that registry clients need, each with its name.
    registry_secret_files: Vec<(String, PathBuf)>,
    /// The clients of a worker, where the limit of open files lets it have fewer than configured.
    fewer_clients: Option<usize>,
}

impl StartFacts {
    /// Tells the console where the data plane listens.
    fn publish_addresses(&self, cx: &ControlContext) {
        let over = |wanted: Transport| {
            let all = self.data_plane.iter().filter(move |(_, transport)| *transport == wanted);
            all.map(|(address, _)| *address)
        };
        cx.bound.set("http", over(Transport::Plain));
        cx.bound.set("https", over(Transport::Tls));
        cx.bound.set("stream", self.streams.iter().map(|(_, address)| *address));
    }
}

impl Process {
    /// Starts everything in the order in which it depends on each other; it serves when this returns.
    ///
    /// # Errors
    /// What keeps it from serving: a configuration that cannot be used, a port that is taken, a store
    /// that cannot be opened. The registry is none of that unless it was asked for.
    pub async fn start(
        bootstrap: &Bootstrap,
        predecessor: Predecessor,
    ) -> Result<Self, StartError> {
        // Before anything else: a signal that comes during the start must wait, not kill.
        let signals = Signals::new()?;
        // Nothing has been made or opened yet where the configuration turns out to be wrong.
        settings::check(bootstrap).map_err(StartError::Configuration)?;
        let new_data_dir =
            secrets::make_data_dir(&bootstrap.data_dir)?.then(|| bootstrap.data_dir.clone());
        let mut inheritance = handover::inherit(&bootstrap.data_dir, predecessor)?;
        let descriptors = Descriptors::share(settings::descriptors::raise(), bootstrap);
        let mut settings = data_plane_settings(bootstrap, inheritance.as_ref())?;
        let fewer_clients = descriptors.lower(&mut settings.limits);
        let cx = ControlContext::new(bootstrap, &settings.limits.memory, descriptors)?;
        settings.shenyu.engines = Some(Arc::new(PluginEngines::new(&cx.services)));
        settings.shenyu.local = Some(Arc::<LocalDoor>::clone(&cx.local_door));
        let sockets = inheritance.as_mut();
        let sockets = sockets.map(|from| RegistrySockets::inherit(bootstrap, from));
        let takeover = Takeover { predecessor, sockets: sockets.unwrap_or_default() };
        let (registry, registry_outage) = start_registry(&cx, takeover).await?;
        let revision = handover::revision(inheritance.as_ref());
        let configured = Configured::open(&cx, &settings, predecessor, revision).await?;
        let Configured { mut resources, snapshots, source, feed } = configured;
        let access_log = settings::access_log(bootstrap, &cx.metrics)?;
        let workers = settings::worker_count(bootstrap.workers);
        let sockets = Sockets::listen(bootstrap, workers, inheritance.as_mut())?;
        // Only now: a start that fails serves nothing, so its one error is the only line.
        if let Some(reason) = registry_outage {
            cx.outages.report(Part::Registry, reason);
        }
        let tickets = settings.tls.terms.tickets.clone();
        let legacy = Legacy { tickets, metrics: Arc::clone(&cx.metrics) };
        let spares = Spares::duplicate(&sockets, legacy)?;
        let start = StartFacts {
            data_plane: sockets.http_addresses(),
            streams: sockets.stream_addresses(),
            workers,
            new_data_dir,
            admin_key_file: secrets::admin_key_file(bootstrap),
            registry_secret_files: registry::secrets::files(bootstrap),
            fewer_clients,
        };
        start.publish_addresses(&cx);
        let introspection = Introspection::new(&cx, &source)?;
        // Whoever meets the data plane finds the Admin API as well: it listens first.
        let exclusive = ExclusiveParts::start(
            &cx,
            (source, feed, registry),
            (&mut resources, &snapshots),
            predecessor,
        )
        .await?;
        let parts = CoreParts {
            settings: Arc::new(settings),
            snapshots: Arc::clone(&snapshots),
            metrics: Arc::clone(&cx.metrics),
            log: access_log.as_ref(),
        };
        let cores = Cores::start(workers, sockets, &parts)?;
        cores::lower_priority();
        if let Some(inheritance) = inheritance {
            inheritance.confirm()?;
        }
        let successors = handover::await_successors(&bootstrap.data_dir, &spares);
        let side = listeners::start_all(&cx, &introspection, predecessor).await?;
        side.publish_addresses(&cx);
        cx.drivers.start();
        observe(&cx, &snapshots);
        Ok(Self {
            cores,
            snapshots,
            resources,
            exclusive,
            side,
            access_log,
            spares,
            successors,
            signals,
            start,
        })
    }

    /// What listens where, and what was made at the start.
    pub fn banner(&self) -> Banner<'_> {
        Banner {
            workers: self.start.workers,
            data_plane: &self.start.data_plane,
            streams: &self.start.streams,
            side: &self.side,
            admin: self.exclusive.admin(),
            shenyu_admin: self.exclusive.shenyu_admin(),
            registry: self.exclusive.registry(),
            source: self.exclusive.source(),
            new_data_dir: self.start.new_data_dir.as_deref(),
            admin_key_file: self.start.admin_key_file.clone(),
            registry_secret_files: self.start.registry_secret_files.clone(),
            has_demonstration: self.exclusive.feed().is_some_and(Feed::has_demonstration),
        }
    }

    /// Writes to the log, and tells the service manager, how the process has started.
    pub fn log_start(&self) {
        if let Some(connections) = self.start.fewer_clients {
            tracing::info!("the limit of open files lets each worker have {connections} clients");
        }
        self.resources.log_in_service();
        service_manager::note_ready();
    }

    /// Follows configuration and signals until the end, then drains.
    ///
    /// # Errors
    /// The serving threads cannot be waited for.
    pub async fn run(mut self) -> anyhow::Result<()> {
        loop {
            tokio::select! {
                request = self.signals.next() => match request {
                    Request::Drain => break,
                    Request::Reload => self.reload(),
                },
                Some(event) = self.successors.recv() => match event {
                    Succession::Asked(ready) => {
                        // Store and addresses can have one owner: the successor is told to go on
                        // only once they are let go.
                        self.spares.keep(self.exclusive.hand_over().await);
                        let _ = ready.send(());
                    }
                    Succession::Failed => self.exclusive.take_back(self.spares.take_registry()),
                    Succession::Done => {
                        tracing::info!("a successor has taken over");
                        self.side.stop();
                        break;
                    }
                },
                event = self.exclusive.next() => {
                    self.exclusive.handle(event, &mut self.resources, &self.snapshots).await;
                }
                () = self.resources.secrets_changed() => {
                    self.resources.put_secrets_into_service(&self.snapshots);
                }
                () = self.cores.any_ended() => {
                    // Its listeners are gone with it, and the kernel would still send it its share
                    // of connections: a process that ends is started again, one that is half dead
                    // is not.
                    tracing::error!("a core has ended; stopping");
                    break;
                }
            }
        }
        self.finish().await
    }

    fn reload(&mut self) {
        self.exclusive.reload(&mut self.resources, &self.snapshots);
        if let Some(log) = &self.access_log {
            log.reopen();
        }
    }

    /// Ends everything at once: the data plane and the registry finish what is under way side by
    /// side. A second signal cuts that short.
    async fn finish(self) -> anyhow::Result<()> {
        let Self { cores, mut exclusive, access_log, spares, mut signals, .. } = self;
        service_manager::note_stopping();
        tracing::info!("draining: requests under way are finished; a second signal cuts them");
        // While a second handle exists, the kernel goes on to queue connections for nobody.
        spares.release();
        let phase = cores.begin_drain();
        let mut cores = tokio::task::spawn_blocking(move || cores.join());
        let ended = async {
            let (joined, ()) = tokio::join!(&mut cores, exclusive.release());
            joined
        };
        let hurry = async {
            // A reload has nothing to reload any more.
            while signals.next().await != Request::Drain {}
        };
        tokio::select! {
            joined = ended => joined?,
            () = hurry => {
                phase.send_replace(Phase::Ending);
                // Cores end as soon as they look; whatever else there is ends with the process.
                let _ = tokio::time::timeout(HURRY_TIME, cores).await;
            }
        }
        if let Some(log) = access_log {
            log.shutdown();
        }
        Ok(())
    }
}

/// The configuration that a process begins with, and where its changes come from.
struct Configured {
    resources: Resources,
    snapshots: Arc<SnapshotCell>,
    source: Source,
    feed: Feed,
}

impl Configured {
    /// Opens the source; snapshots are numbered from the one behind `revision` on.
    async fn open(
        cx: &ControlContext,
        settings: &Settings,
        predecessor: Predecessor,
        revision: u64,
    ) -> Result<Self, StartError> {
        let source = Source::from_bootstrap(&cx.bootstrap);
        let runtime = tokio::runtime::Handle::current();
        let resolver = Resolver::open(settings::resolver(&cx.bootstrap), runtime)
            .map_err(anyhow::Error::from)?;
        let mut resources = Resources::new(cx, settings, resolver);
        resources.continue_after(revision);
        let (feed, first) = feed::open_at_start(&source, cx, predecessor).await?;
        let snapshot = resources
            .begin(first)
            .map_err(|problems| StartError::Resources { name: source.name(), problems })?;
        let snapshots = Arc::new(SnapshotCell::new(snapshot));
        tokio::spawn(Arc::clone(&cx.keepers).run());
        if cx.keepers.are_asked(KEEPERS_WAIT).await {
            resources.put_secrets_into_service(&snapshots);
        }
        feed.note_applied();
        Ok(Self { resources, snapshots, source, feed })
    }
}

/// Settings of the data plane, with the ticket keys of a predecessor.
fn data_plane_settings(
    bootstrap: &Bootstrap,
    inheritance: Option<&tollhouse_net::handover::Inheritance>,
) -> anyhow::Result<Settings> {
    let mut settings = settings::data_plane(bootstrap);
    if bootstrap.tls.session_tickets {
        settings.tls.terms.tickets = Some(handover::ticket_keys(inheritance)?);
    }
    Ok(settings)
}

/// Starts the registry. One that is not asked for, that another node keeps, or whose disk is full or fails does not keep
/// the gateway from serving: it is tried again, and the reason comes with the result. A successor does not take over from
/// a process whose registry may work.
async fn start_registry(
    cx: &ControlContext,
    takeover: Takeover,
) -> anyhow::Result<(Option<RunningRegistry>, Option<String>)> {
    let is_first = takeover.predecessor == Predecessor::None;
    let may_be_missing =
        registry::is_shared(&cx.bootstrap) || (is_first && !registry::is_asked_for(&cx.bootstrap));
    let database = &cx.registry_database;
    match registry::start(&cx.bootstrap, &cx.descriptors, database, takeover).await {
        Err(error) if may_be_missing || (is_first && is_of_the_disk(&error)) => {
            Ok((None, Some(format!("{error:#}"))))
        }
        started => Ok((started?, None)),
    }
}

fn is_of_the_disk(error: &anyhow::Error) -> bool {
    error.downcast_ref::<StoreError>().is_some_and(StoreError::is_of_the_disk)
}

/// Starts what looks at the data plane from time to time, for the console and the log.
fn observe(cx: &ControlContext, snapshots: &Arc<SnapshotCell>) {
    tokio::spawn(Arc::clone(&cx.sampler).run());
    tokio::spawn(Arc::clone(&cx.node_history).run(Arc::clone(snapshots)));
    let rates = Arc::clone(&cx.object_rates);
    tokio::spawn(rates.run(Arc::clone(snapshots), Arc::clone(&cx.metrics)));
    tokio::spawn(drop_old_snapshots(Arc::clone(snapshots)));
    tokio::spawn(Arc::clone(cx.metrics_page.certificates()).keep_logging());
}

/// Takes old snapshots apart once cores have let go of them, which may be long after the next was published.
async fn drop_old_snapshots(snapshots: Arc<SnapshotCell>) {
    let mut interval = tokio::time::interval(OLD_SNAPSHOTS_INTERVAL);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        interval.tick().await;
        snapshots.drop_retired();
    }
}

#[cfg(test)]
mod tests;
