//! Lifecycle of a gateway process. All parts are created and connected here, in the order of their
//! dependencies; each part can be built without this module.

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
use tollhouse_stdx::UnixPath;
use tollhouse_store::StoreError;
use tollhouse_telemetry::access_log::AccessLog;

pub use self::start_error::StartError;

use self::cores::{CoreParts, Cores};
use self::exclusive::{ExclusiveInputs, ExclusiveParts};
use self::handover::{Legacy, Predecessor, Spares, Succession};
use self::sockets::Sockets;
use crate::banner::Banner;
use crate::console::bound::BoundAddresses;
use crate::context::ControlContext;
use crate::feed::{self, Feed, Source};
use crate::findings;
use crate::introspection::Introspection;
use crate::introspection::listeners::{self, SideListeners};
use crate::outages::Part;
use crate::registry::{self, RegistrySockets, RunningRegistry, Takeover};
use crate::resources::{ResourceInputs, Resources};
use crate::secrets;
use crate::settings::spans::Spans;
use crate::settings::{self, descriptors::Descriptors};
use crate::shenyu_local::LocalChannel;
use crate::signals::{Request, Signals};

/// Maximum wait of the start for secret managers. Plugins whose secrets are still missing refuse
/// requests until the values arrive.
const KEEPERS_WAIT: Duration = Duration::from_secs(2);

/// Interval between clean-ups of old snapshots. An idle worker releases a snapshot within one tick;
/// a long request holds its snapshot until it ends.
const OLD_SNAPSHOTS_INTERVAL: Duration = Duration::from_secs(1);

/// Maximum time for the remaining work after a second stop signal.
pub const HURRY_TIME: Duration = Duration::from_millis(500);

/// Running gateway with all its parts, owned by the main thread.
pub struct Process {
    cores: Cores,
    snapshots: Arc<SnapshotCell>,
    resources: Resources,
    exclusive: ExclusiveParts,
    side: SideListeners,
    access_log: Option<AccessLog>,
    spans: Spans,
    spares: Spares,
    successors: mpsc::Receiver<Succession>,
    signals: Signals,
    start: StartFacts,
}

/// Facts about the start, for the banner and the log.
#[derive(Debug)]
struct StartFacts {
    data_plane: Vec<(SocketAddr, Transport)>,
    unix_paths: Vec<UnixPath>,
    /// Bound addresses of stream listeners, each with `tcp` or `udp`.
    streams: Vec<(&'static str, SocketAddr)>,
    workers: usize,
    /// The data folder, if this start created it.
    new_data_dir: Option<PathBuf>,
    /// File of the Admin API's key, unless the key is configured.
    admin_key_file: Option<PathBuf>,
    /// Files of secrets that registry clients need, each with its name.
    registry_secret_files: Vec<(String, PathBuf)>,
    /// Clients per worker, if the open files limit allows fewer than configured.
    fewer_clients: Option<usize>,
}

impl StartFacts {
    /// Collects the facts that follow from the configuration and the open sockets. The other two
    /// fields are empty.
    fn new(bootstrap: &Bootstrap, sockets: &Sockets, workers: usize) -> Self {
        Self {
            data_plane: sockets.http_addresses(),
            unix_paths: sockets.unix_paths(),
            streams: sockets.stream_addresses(),
            workers,
            new_data_dir: None,
            admin_key_file: secrets::admin_key_file(bootstrap),
            registry_secret_files: registry::secrets::files(bootstrap),
            fewer_clients: None,
        }
    }

    /// Publishes the data plane's addresses for the console.
    fn publish_addresses(&self, bound: &BoundAddresses) {
        let over = |wanted: Transport| {
            let all = self.data_plane.iter().filter(move |(_, transport)| *transport == wanted);
            all.map(|(address, _)| *address)
        };
        bound.set("http", over(Transport::Plain));
        bound.set("https", over(Transport::Tls));
        bound.set_unix(&self.unix_paths);
        bound.set("stream", self.streams.iter().map(|(_, address)| *address));
    }
}

impl Process {
    /// Starts all parts in the order of their dependencies. The process serves when this returns.
    ///
    /// # Errors
    /// If the configuration is invalid, a port is in use, or the store cannot be opened. A registry
    /// that is on by default but not explicitly configured does not fail the start.
    pub async fn start(
        bootstrap: &Bootstrap,
        predecessor: Predecessor,
    ) -> Result<Self, StartError> {
        // Installed first, so that a signal during the start is queued and does not kill the
        // process.
        let signals = Signals::new()?;
        // Checked before anything is created or opened.
        settings::check(bootstrap).map_err(StartError::Configuration)?;
        let new_data_dir =
            secrets::make_data_dir(&bootstrap.data_dir)?.then(|| bootstrap.data_dir.clone());
        let mut inheritance = handover::inherit(&bootstrap.data_dir, predecessor)?;
        let descriptors = Descriptors::share(settings::descriptors::raise(), bootstrap);
        let mut settings = data_plane_settings(bootstrap, inheritance.as_ref())?;
        let fewer_clients = descriptors.lower(&mut settings.limits);
        let cx = ControlContext::new(bootstrap, &settings.limits.memory, descriptors)?;
        settings.shenyu.engines = Some(Arc::new(PluginEngines::new(&cx.plugins.services)));
        settings.shenyu.local = Some(Arc::<LocalChannel>::clone(&cx.shenyu.local));
        let sockets = inheritance.as_mut();
        let sockets = sockets.map(|from| RegistrySockets::inherit(bootstrap, from));
        let takeover = Takeover { predecessor, sockets: sockets.unwrap_or_default() };
        let (registry, registry_outage) = start_registry(&cx, takeover).await?;
        let revision = handover::revision(inheritance.as_ref());
        let configured = InitialConfiguration::open(&cx, &settings, predecessor, revision).await?;
        let InitialConfiguration { mut resources, snapshots, source, feed } = configured;
        let access_log = settings::access_log(bootstrap, &cx.metrics)?;
        let workers = settings::worker_count(bootstrap.workers);
        let sockets = Sockets::listen(bootstrap, workers, inheritance.as_mut())?;
        // Reported only now, because a failed start should print a single error.
        if let Some(reason) = registry_outage {
            cx.outages.report(Part::Registry, reason);
        }
        let tickets = settings.tls.terms.tickets.clone();
        let legacy = Legacy { tickets, metrics: Arc::clone(&cx.metrics) };
        let spares = Spares::duplicate(&sockets, legacy)?;
        let facts = StartFacts::new(bootstrap, &sockets, workers);
        let start = StartFacts { new_data_dir, fewer_clients, ..facts };
        start.publish_addresses(&cx.bound);
        let introspection = Introspection::new(&cx, &source)?;
        // Started before the data plane, so that clients of the data plane find the Admin API too.
        let inputs = ExclusiveInputs { source, feed, registry, snapshots: Arc::clone(&snapshots) };
        let exclusive = ExclusiveParts::start(&cx, inputs, &mut resources, predecessor).await?;
        let parts = CoreParts {
            settings: Arc::new(settings),
            snapshots: Arc::clone(&snapshots),
            metrics: Arc::clone(&cx.metrics),
            log: access_log.as_ref(),
            tracer: cx.spans.tracer(),
        };
        let cores = Cores::start(workers, sockets, &parts)?;
        cores::lower_priority(bootstrap);
        if let Some(inheritance) = inheritance {
            inheritance.confirm()?;
        }
        let successors = handover::await_successors(&bootstrap.data_dir, &spares);
        let side = listeners::start_all(&cx, &introspection, predecessor).await?;
        side.publish_addresses(&cx.bound);
        cx.serving.drivers.start();
        cx.metrics_page.set_snapshots(&snapshots);
        cx.console.start(&snapshots, &cx.metrics);
        tokio::spawn(findings::watch(cx.clone(), Arc::clone(&snapshots)));
        tokio::spawn(drop_old_snapshots(Arc::clone(&snapshots)));
        tokio::spawn(Arc::clone(cx.metrics_page.certificates()).keep_logging());
        Ok(Self {
            cores,
            snapshots,
            resources,
            exclusive,
            side,
            access_log,
            spans: cx.spans.clone(),
            spares,
            successors,
            signals,
            start,
        })
    }

    pub fn banner(&self) -> Banner<'_> {
        Banner {
            workers: self.start.workers,
            data_plane: &self.start.data_plane,
            unix_paths: &self.start.unix_paths,
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

    /// Logs the start, and notifies the service manager.
    pub fn log_start(&self) {
        if let Some(connections) = self.start.fewer_clients {
            tracing::info!("the limit of open files allows each worker {connections} clients");
        }
        self.resources.log_in_service();
        service_manager::note_ready();
    }

    /// Runs until a stop signal or a successor, then drains.
    ///
    /// # Errors
    /// If the worker threads cannot be joined.
    pub async fn run(mut self) -> anyhow::Result<()> {
        loop {
            tokio::select! {
                request = self.signals.next() => match request {
                    Request::Drain => break,
                    Request::Reload => self.reload(),
                },
                Some(event) = self.successors.recv() => match event {
                    Succession::Asked(ready) => {
                        // The store and some addresses can have only one owner, so that they are
                        // released before the successor continues.
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
                    // The worker's listeners are closed, but the kernel would still assign
                    // connections to them. A process that exits is restarted; a half-working
                    // process is not.
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

    /// Drains the data plane and the registry concurrently. A second signal ends the draining.
    async fn finish(self) -> anyhow::Result<()> {
        let Self { cores, mut exclusive, access_log, spans, spares, mut signals, .. } = self;
        service_manager::note_stopping();
        tracing::info!("draining: requests under way are finished; a second signal cuts them");
        // While duplicate handles exist, the kernel keeps queueing connections that are never
        // accepted.
        spares.release();
        let phase = cores.begin_drain();
        let mut cores = tokio::task::spawn_blocking(move || cores.join());
        let ended = async {
            let (joined, ()) = tokio::join!(&mut cores, exclusive.release());
            joined
        };
        let hurry = async {
            // Reload requests are ignored.
            while signals.next().await != Request::Drain {}
        };
        tokio::select! {
            joined = ended => joined?,
            () = hurry => {
                phase.send_replace(Phase::Ending);
                // Workers end at their next check; the remaining parts end with the process.
                let _ = tokio::time::timeout(HURRY_TIME, cores).await;
            }
        }
        if let Some(log) = access_log {
            log.shutdown();
        }
        spans.finish().await;
        Ok(())
    }
}

/// The initial configuration, and the source of its changes.
struct InitialConfiguration {
    resources: Resources,
    snapshots: Arc<SnapshotCell>,
    source: Source,
    feed: Feed,
}

impl InitialConfiguration {
    /// Opens the source; snapshots are numbered from `revision + 1` on.
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
        let mut resources = Resources::new(ResourceInputs {
            plugins: cx.plugins.clone(),
            serving: cx.serving.clone(),
            metrics: Arc::clone(&cx.metrics),
            certificates: Arc::clone(cx.metrics_page.certificates()),
            settings,
            resolver,
        });
        resources.continue_after(revision);
        let (feed, first) = feed::open_at_start(&source, cx, predecessor).await?;
        let snapshot = resources
            .begin(first)
            .map_err(|problems| StartError::Resources { name: source.name(), problems })?;
        let snapshots = Arc::new(SnapshotCell::new(snapshot));
        tokio::spawn(Arc::clone(&cx.plugins.secret_managers).run());
        if cx.plugins.secret_managers.are_asked(KEEPERS_WAIT).await {
            resources.put_secrets_into_service(&snapshots);
        }
        feed.note_applied();
        Ok(Self { resources, snapshots, source, feed })
    }
}

/// Returns the settings of the data plane, including a predecessor's TLS ticket keys.
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

/// Starts the registry. Some failures do not stop the gateway: the registry was not asked for
/// explicitly, it is in a shared database, or its disk is full or fails. Then the reason is
/// returned, and the start is retried later. For a successor only the shared database counts,
/// because its predecessor's registry may still work.
async fn start_registry(
    cx: &ControlContext,
    takeover: Takeover,
) -> anyhow::Result<(Option<RunningRegistry>, Option<String>)> {
    let is_first = takeover.predecessor == Predecessor::None;
    let may_be_missing =
        registry::is_shared(&cx.bootstrap) || (is_first && !registry::is_asked_for(&cx.bootstrap));
    let database = &cx.registry_database;
    let observers = cx.registry_observers();
    match registry::start(&cx.bootstrap, &cx.descriptors, database, takeover, observers).await {
        Err(error) if may_be_missing || (is_first && is_of_the_disk(&error)) => {
            Ok((None, Some(format!("{error:#}"))))
        }
        started => {
            let started = started?;
            if let Some(registry) = &started {
                // Known before the first objects are compiled, which may refer to files.
                cx.plugins.secret_managers.set_registry(registry.handle.clone());
            }
            Ok((started, None))
        }
    }
}

fn is_of_the_disk(error: &anyhow::Error) -> bool {
    error.downcast_ref::<StoreError>().is_some_and(StoreError::is_of_the_disk)
}

/// Frees old snapshots once workers have released them, which may be long after the next was
/// published.
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
