//! `tollhouse run`: start, serve until told to stop, drain.

use std::io::IsTerminal;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;
use clap::Args;
use tokio::sync::mpsc;
use tollhouse_config::Bootstrap;
use tollhouse_model::encryption::Keyring;
use tollhouse_net::handover::Inheritance;
use tollhouse_net::resolve::Resolver;
use tollhouse_proxy::SnapshotCell;
use tollhouse_telemetry::Registry;
use tollhouse_telemetry::access_log::AccessLog;
use tollhouse_upstream::HealthSupervisor;

use super::{Configuration, problems};
use crate::control::admin::RunningAdmin;
use crate::control::banner::Banner;
use crate::control::configuration::ObjectSource;
use crate::control::feed::{self, Feed};
use crate::control::handover::Succession;
use crate::control::identity::Identity;
use crate::control::introspection::{Introspection, ServerInfo};
use crate::control::metrics::MetricsPage;
use crate::control::registry::{self, RunningRegistry};
use crate::control::registry_metrics::Slot;
use crate::control::resources::{Drivers, Resources, Shared};
use crate::control::server::{self, Predecessor, SideListeners};
use crate::control::signals::{Request, Signals};
use crate::control::{handover, watch};
use crate::wire::{self, CoreParts, Cores};

/// Arguments of `run`.
#[derive(Debug, Args, Default)]
pub struct RunArguments {
    #[command(flatten)]
    configuration: Configuration,
    /// Declarative file of resources, watched (APISIX's standalone shape, YAML ending in #END, or
    /// JSON), in place of the store and its Admin API; short for `--set resources=FILE`.
    #[arg(short, long, value_name = "FILE")]
    resources: Option<std::path::PathBuf>,
    /// Take the listening sockets over from the tollhouse that runs with the same data_dir; it
    /// drains and exits once this one serves. No connection is lost.
    #[arg(long)]
    upgrade: bool,
}

/// Runs the gateway to its end.
///
/// # Errors
/// What keeps it from starting: a port in use, no permission, a file that cannot be read.
pub fn run(arguments: &RunArguments) -> anyhow::Result<ExitCode> {
    let mut loaded = match problems::load(&arguments.configuration) {
        Ok(loaded) => loaded,
        Err(code) => return Ok(code),
    };
    if let Some(resources) = &arguments.resources {
        loaded.bootstrap.resources = Some(resources.clone());
    }
    start_log(&loaded.bootstrap.log)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .thread_name("control")
        .on_thread_start(wire::give_way)
        .enable_all()
        .build()
        .context("the control runtime cannot be started")?;
    runtime.block_on(serve(&loaded.bootstrap, arguments.upgrade))
}

fn start_log(filter: &str) -> anyhow::Result<()> {
    let filter = tracing_subscriber::EnvFilter::try_new(filter)
        .with_context(|| format!("log: `{filter}` is no filter; try info, warn or debug"))?;
    // Colours are for eyes; in a file they would stand between the words that are searched for.
    let colours = std::io::stderr().is_terminal();
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_ansi(colours);
    log.with_writer(std::io::stderr).init();
    Ok(())
}

/// What runs beside the cores.
struct Control {
    resources: Resources,
    store: StoreDuty,
    snapshots: Arc<SnapshotCell>,
    log: Option<AccessLog>,
    spares: handover::Spares,
    signals: Signals,
    side: SideListeners,
}

async fn serve(bootstrap: &Bootstrap, upgrade: bool) -> anyhow::Result<ExitCode> {
    // Before anything else: a signal that comes during the start must wait, not kill.
    let signals = Signals::new()?;
    let data_dir = data_dir(bootstrap)?;
    let mut inheritance = upgrade.then(|| inherit(data_dir)).transpose()?;
    let metrics = Arc::new(Registry::new());
    let health = Arc::new(HealthSupervisor::new());
    let identity = Arc::new(Identity::in_folder(data_dir)?);
    let settings = Arc::new(wire::settings(bootstrap));
    let resolver =
        Resolver::open(wire::resolver_settings(bootstrap), tokio::runtime::Handle::current())?;
    let predecessor = if upgrade { Predecessor::Leaving } else { Predecessor::None };
    let registry = registry::start(bootstrap, predecessor).await?;
    let catalogue = crate::plugins::enabled(bootstrap)?;
    let counted = (&metrics, &health);
    let (services, page) = crate::plugins::services(bootstrap, &catalogue, &identity, counted);
    let shared = Shared {
        metrics: Arc::clone(&metrics),
        drivers: Drivers::new(health),
        configuration: Arc::default(),
        catalogue,
        services,
        indexes: Arc::clone(page.indexes()),
    };
    shared.drivers.follow(registry.as_ref())?;
    let registry_page = Arc::clone(page.services());
    registry_page.set(registry.as_ref().map(RunningRegistry::sources));
    let introspection = introspection(bootstrap, &shared, page, identity)?;
    let source = feed::source(bootstrap);
    let mut resources = Resources::new(source.clone(), &settings, resolver, shared.clone());
    let (feed, snapshot) = match feed::open(bootstrap, &shared, &mut resources, predecessor).await?
    {
        Ok(opened) => opened,
        Err(found) => {
            problems::print(&source.name(), &found);
            return Ok(ExitCode::from(problems::BAD_DOCUMENT));
        }
    };
    let snapshots = Arc::new(SnapshotCell::new(snapshot));
    let log = wire::access_log(bootstrap, &metrics)?;
    let workers = wire::worker_count(bootstrap);
    let listeners = wire::listen(bootstrap, workers, inheritance.as_mut())?;
    let addresses: Vec<_> = listeners.iter().map(|listeners| listeners.address).collect();
    let spares = handover::Spares::of(&listeners)?;
    let parts =
        CoreParts { settings, snapshots: Arc::clone(&snapshots), metrics, log: log.as_ref() };
    let cores = Cores::start(workers, listeners, &parts)?;
    wire::give_way();
    if let Some(inheritance) = inheritance {
        confirm(inheritance);
    }
    let successors = await_successors(data_dir, &spares);
    let side = server::start_all(bootstrap, &introspection, predecessor).await?;
    let admin = feed.start_admin(bootstrap, &shared, registry.as_ref(), predecessor).await?;
    shared.drivers.start();
    let banner = Banner {
        data_plane: &addresses,
        side: &side,
        admin: admin.as_ref(),
        registry: registry.as_ref(),
        source: &source,
        new_key: feed.new_key().or(registry.as_ref().and_then(RunningRegistry::new_key)),
        has_demonstration: feed.has_demonstration(),
        workers,
    };
    banner.print();
    let bootstrap = bootstrap.clone();
    let store = StoreDuty { bootstrap, shared, admin, feed, registry, registry_page };
    let control = Control { resources, store, snapshots, log, spares, signals, side };
    control.run(cores, successors).await
}

/// The folder of everything that is kept, made if it is not there.
fn data_dir(bootstrap: &Bootstrap) -> anyhow::Result<&Path> {
    let data_dir = &bootstrap.data_dir;
    std::fs::create_dir_all(data_dir).with_context(|| {
        format!("data_dir {} cannot be made; set data_dir to a writable folder", data_dir.display())
    })?;
    Ok(data_dir)
}

/// Offers the listening sockets to whoever is started with the same folder.
fn await_successors(data_dir: &Path, spares: &handover::Spares) -> mpsc::Receiver<Succession> {
    let (events, successors) = mpsc::channel(1);
    if let Err(error) = handover::offer(data_dir, spares.clone(), events) {
        tracing::warn!(%error, "no successor can take over: data_dir cannot hold a socket");
    }
    successors
}

/// Takes the listening sockets over from the tollhouse that runs with the same folder.
fn inherit(data_dir: &Path) -> anyhow::Result<Inheritance> {
    Inheritance::receive(&handover::path(data_dir)).with_context(|| {
        format!("no running tollhouse answers in {}; start without --upgrade", data_dir.display())
    })
}

/// Tells the predecessor that this process serves; only now it lets go of its side listeners.
fn confirm(inheritance: Inheritance) {
    if inheritance.confirm().is_err() {
        tracing::info!("the predecessor is gone already");
    }
}

/// What the side listeners answer from.
fn introspection(
    bootstrap: &Bootstrap,
    shared: &Shared,
    metrics: MetricsPage,
    identity: Arc<Identity>,
) -> anyhow::Result<Introspection> {
    let tells_server_info = shared.catalogue.get("server-info").is_some();
    let info = ServerInfo {
        version: crate::plugins::VERSION,
        store: feed::source(bootstrap).store_name(),
    };
    Ok(Introspection {
        metrics,
        health: Arc::clone(&shared.drivers.health),
        registry_source: Arc::clone(&shared.drivers.registry),
        configuration: Arc::clone(&shared.configuration),
        catalogue: Arc::clone(&shared.catalogue),
        identity,
        server_info: tells_server_info.then_some(info),
        keyring: Arc::new(Keyring::generate().context("the system gives no random numbers")?),
    })
}

/// What only one process may hold: the stores, the Admin API and the registry that write them.
struct StoreDuty {
    bootstrap: Bootstrap,
    shared: Shared,
    admin: Option<RunningAdmin>,
    feed: Feed,
    registry: Option<RunningRegistry>,
    registry_page: Arc<Slot>,
}

impl StoreDuty {
    /// Lets go of all, for a successor. What is in service goes on to serve.
    async fn release(&mut self) {
        self.admin = None;
        self.registry_page.set(None);
        if let Some(registry) = self.registry.take() {
            registry.stop().await;
        }
        if matches!(self.feed, Feed::Store(_)) {
            self.feed = Feed::Nothing;
            self.shared.configuration.set_objects(ObjectSource::None);
        }
    }

    /// Takes all back: the successor did not start.
    async fn take_back(
        &mut self,
        resources: &mut Resources,
        snapshots: &SnapshotCell,
    ) -> anyhow::Result<()> {
        if matches!(self.feed, Feed::Nothing)
            && let Ok((feed, snapshot)) =
                feed::open(&self.bootstrap, &self.shared, resources, Predecessor::Leaving).await?
        {
            snapshots.publish(snapshot);
            self.feed = feed;
        }
        let leaving = Predecessor::Leaving;
        if self.registry.is_none() {
            self.registry = registry::start(&self.bootstrap, leaving).await?;
            self.shared.drivers.follow(self.registry.as_ref())?;
            self.registry_page.set(self.registry.as_ref().map(RunningRegistry::sources));
        }
        let registry = self.registry.as_ref();
        self.admin =
            self.feed.start_admin(&self.bootstrap, &self.shared, registry, leaving).await?;
        Ok(())
    }
}

impl Control {
    /// Watches file and signals until the end, then drains.
    async fn run(
        mut self,
        cores: Cores,
        mut successors: mpsc::Receiver<Succession>,
    ) -> anyhow::Result<ExitCode> {
        let mut ticks = tokio::time::interval(watch::INTERVAL);
        loop {
            tokio::select! {
                request = self.signals.next() => match request {
                    Request::Drain => break,
                    Request::Reload => {
                        self.resources.reload(&self.snapshots);
                        if let Some(log) = &self.log {
                            log.reopen();
                        }
                    }
                },
                Some(event) = successors.recv() => match event {
                    Succession::Asked(ready) => {
                        self.store.release().await;
                        let _ = ready.send(());
                    }
                    Succession::Failed => {
                        self.store.take_back(&mut self.resources, &self.snapshots).await?;
                    }
                    Succession::Done => {
                        tracing::info!("a successor has taken over");
                        self.side.stop();
                        break;
                    }
                },
                news = self.store.feed.next() => {
                    self.store.feed.take_in(news?, &mut self.resources, &self.snapshots);
                }
                _ = ticks.tick() => {
                    if let Some(news) = self.store.feed.look() {
                        self.store.feed.take_in(news, &mut self.resources, &self.snapshots);
                    }
                    if cores.any_ended() {
                        tracing::error!("a core has ended; stopping");
                        break;
                    }
                }
            }
        }
        tracing::info!("draining: requests under way are finished");
        self.spares.release();
        self.store.release().await;
        tokio::task::spawn_blocking(move || cores.drain()).await?;
        if let Some(log) = self.log.take() {
            log.shutdown();
        }
        Ok(ExitCode::SUCCESS)
    }
}
