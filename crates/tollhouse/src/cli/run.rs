//! `tollhouse run`: start, serve until told to stop, drain.

use std::io::IsTerminal;
use std::net::SocketAddr;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use tokio::sync::mpsc;
use tollhouse_config::Bootstrap;
use tollhouse_config::bootstrap::Secret;
use tollhouse_model::encryption::Keyring;
use tollhouse_net::handover::Inheritance;
use tollhouse_net::resolve::Resolver;
use tollhouse_proxy::{Phase, SnapshotCell};
use tollhouse_telemetry::Metrics;
use tollhouse_telemetry::access_log::AccessLog;
use tollhouse_upstream::HealthSupervisor;

use super::{Configuration, problems};
use tollhouse_control::banner::Banner;
use tollhouse_control::feed;
use tollhouse_control::identity::Identity;
use tollhouse_control::introspection::listeners::{self, Predecessor, SideListeners};
use tollhouse_control::introspection::{Introspection, ServerInfo};
use tollhouse_control::metrics::MetricsPage;
use tollhouse_control::process::cores::{self, CoreParts, Cores};
use tollhouse_control::process::duty::{self, Duty};
use tollhouse_control::process::handover;
use tollhouse_control::process::handover::Succession;
use tollhouse_control::registry::{self, RunningRegistry};
use tollhouse_control::resources::{Drivers, Resources, Shared, Source};
use tollhouse_control::settings;
use tollhouse_control::settings::descriptors::{self, Descriptors};
use tollhouse_control::signals::{Request, Signals};
use tollhouse_control::vitals::{Part, Vitals};

/// How long the rest may take once a second signal has come.
const HURRY_TIME: Duration = Duration::from_millis(500);

/// Arguments of `run`.
#[derive(Debug, Args, Default)]
pub struct RunArguments {
    #[command(flatten)]
    configuration: Configuration,
    /// Declarative file of resources, watched (APISIX's standalone shape, YAML ending in #END, or
    /// JSON), in place of the store; the Admin API then only shows it. Short for `--set resources=FILE`.
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
        .on_thread_start(cores::give_way)
        .enable_all()
        .build()
        .context("the control runtime cannot be started")?;
    let ended = runtime.block_on(serve(&loaded.bootstrap, arguments.upgrade));
    // What did not end by itself was told to; nothing durable is left to it.
    runtime.shutdown_timeout(HURRY_TIME);
    ended
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
    duty: Duty,
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
    let metrics = Arc::new(Metrics::new());
    let health = Arc::new(HealthSupervisor::new());
    let identity = Arc::new(Identity::in_folder(data_dir)?);
    let descriptors = Descriptors::share(descriptors::raise(), bootstrap);
    let mut settings = settings::settings(bootstrap);
    descriptors.bound(&mut settings.limits);
    let settings = Arc::new(settings);
    let resolver =
        Resolver::open(settings::resolver_settings(bootstrap), tokio::runtime::Handle::current())?;
    let predecessor = if upgrade { Predecessor::Leaving } else { Predecessor::None };
    let vitals = Arc::new(Vitals::new(Arc::clone(&metrics)));
    let registry = start_registry(bootstrap, &descriptors, predecessor, &vitals).await?;
    let catalogue = tollhouse_control::plugins::enabled(bootstrap)?;
    let counted = (&metrics, &health, &settings.limits.memory);
    let (services, page) =
        tollhouse_control::plugins::services(bootstrap, &catalogue, &identity, counted);
    let shared = Shared {
        metrics: Arc::clone(&metrics),
        drivers: Drivers::new(health),
        configuration: Arc::default(),
        catalogue,
        services,
        indexes: Arc::clone(page.indexes()),
        vitals,
        descriptors,
    };
    let registry_page = Arc::clone(page.services());
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
    let log = settings::access_log(bootstrap, &metrics)?;
    let workers = settings::worker_count(bootstrap);
    let listeners = cores::listen(bootstrap, workers, inheritance.as_mut())?;
    let addresses: Vec<_> = listeners.iter().map(|listeners| listeners.address).collect();
    let spares = handover::Spares::of(&listeners)?;
    let new_key = feed.new_key().cloned();
    let parts = duty::Parts { bootstrap: bootstrap.clone(), shared, feed, registry, registry_page };
    // Whoever meets the data plane finds the Admin API as well: it listens first.
    let duty = Duty::begin(parts, predecessor).await?;
    let parts =
        CoreParts { settings, snapshots: Arc::clone(&snapshots), metrics, log: log.as_ref() };
    let cores = Cores::start(workers, listeners, &parts)?;
    cores::give_way();
    if let Some(inheritance) = inheritance {
        inheritance.confirm()?;
    }
    let successors = await_successors(data_dir, &spares);
    let side =
        listeners::start_all(bootstrap, &introspection, predecessor, descriptors.side).await?;
    duty.start_drivers();
    print_banner(&duty, &side, &addresses, (&source, new_key.as_ref()), workers);
    // Half of what is resident now served the start alone.
    tollhouse_stdx::resident::release_file_pages();
    let control = Control { resources, duty, snapshots, log, spares, signals, side };
    control.run(cores, successors).await
}

/// Says what listens where.
fn print_banner(
    duty: &Duty,
    side: &SideListeners,
    data_plane: &[SocketAddr],
    (source, new_key): (&Source, Option<&Secret>),
    workers: usize,
) {
    let (admin, registry) = (duty.admin(), duty.registry());
    let has_demonstration = duty.feed().has_demonstration();
    let banner =
        Banner { data_plane, side, admin, registry, source, new_key, has_demonstration, workers };
    banner.print();
}

/// Starts the registry. One that nobody asked for does not keep the gateway from serving: it is
/// tried again. A successor does not take over from a process whose registry may work.
async fn start_registry(
    bootstrap: &Bootstrap,
    descriptors: &Descriptors,
    predecessor: Predecessor,
    vitals: &Vitals,
) -> anyhow::Result<Option<RunningRegistry>> {
    match registry::start(bootstrap, descriptors, predecessor).await {
        Err(error) if predecessor == Predecessor::None && !registry::is_asked_for(bootstrap) => {
            vitals.down(Part::Registry, format!("{error:#}"));
            Ok(None)
        }
        started => started,
    }
}

/// The folder of everything that is kept, made if it is not there.
fn data_dir(bootstrap: &Bootstrap) -> anyhow::Result<&Path> {
    let data_dir = &bootstrap.data_dir;
    // Made for this user alone: keys and sockets lie in it.
    let mut folder = std::fs::DirBuilder::new();
    folder.recursive(true).mode(0o700).create(data_dir).with_context(|| {
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

/// What the side listeners answer from.
fn introspection(
    bootstrap: &Bootstrap,
    shared: &Shared,
    metrics: MetricsPage,
    identity: Arc<Identity>,
) -> anyhow::Result<Introspection> {
    let tells_server_info = shared.catalogue.get("server-info").is_some();
    let info = ServerInfo {
        version: tollhouse_control::plugins::VERSION,
        store: feed::source(bootstrap).store_name(),
    };
    Ok(Introspection {
        metrics,
        health: Arc::clone(&shared.drivers.health),
        registry_source: Arc::clone(&shared.drivers.registry),
        configuration: Arc::clone(&shared.configuration),
        vitals: Arc::clone(&shared.vitals),
        catalogue: Arc::clone(&shared.catalogue),
        brand: shared.services.brand,
        identity,
        server_info: tells_server_info.then_some(info),
        keyring: Arc::new(Keyring::generate().context("the system gives no random numbers")?),
    })
}

impl Control {
    /// Follows configuration and signals until the end, then drains.
    async fn run(
        mut self,
        mut cores: Cores,
        mut successors: mpsc::Receiver<Succession>,
    ) -> anyhow::Result<ExitCode> {
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
                        self.duty.release().await;
                        let _ = ready.send(());
                    }
                    Succession::Failed => self.duty.take_back(),
                    Succession::Done => {
                        tracing::info!("a successor has taken over");
                        self.side.stop();
                        break;
                    }
                },
                event = self.duty.next() => {
                    self.duty.attend(event, &mut self.resources, &self.snapshots).await;
                }
                () = cores.any_ended() => {
                    tracing::error!("a core has ended; stopping");
                    break;
                }
            }
        }
        self.finish(cores).await
    }

    /// Ends everything at once: the data plane and the registry finish what is under way side by
    /// side. A second signal cuts that short.
    async fn finish(self, cores: Cores) -> anyhow::Result<ExitCode> {
        let Control { mut duty, log, spares, mut signals, .. } = self;
        tracing::info!("draining: requests under way are finished; a second signal cuts them");
        spares.release();
        let phase = cores.begin_drain();
        let mut cores = tokio::task::spawn_blocking(move || cores.join());
        let ended = async {
            let (joined, ()) = tokio::join!(&mut cores, duty.release());
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
        if let Some(log) = log {
            log.shutdown();
        }
        Ok(ExitCode::SUCCESS)
    }
}
