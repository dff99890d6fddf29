//! One worker of the data plane for the life of the process, and what its configurations are compiled with. What they
//! are, and what is asked of the worker, is the business of each target.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::watch;
use tollhouse_model::upstream::KeepalivePool;
use tollhouse_model::{Id, Kind};
use tollhouse_net::HalfClose;
use tollhouse_net::resolve::{Lookup, Question, ResolveError, Resolver, ResolverSettings, Source};
use tollhouse_plugin::{Catalogue, Services};
use tollhouse_proxy::l4::StreamListener;
use tollhouse_proxy::settings::{
    Limits, ProxyProtocol, RealIp, ShenyuSettings, StreamSettings, TlsSettings,
};
use tollhouse_proxy::worker::WorkerListener;
use tollhouse_proxy::{
    Change, Compiler, Phase, Settings, Snapshot, SnapshotCell, Worker, WorkerParts,
};
use tollhouse_router::{AmbiguousPaths, Mode, NormalizeOptions};
use tollhouse_telemetry::Metrics;

/// Longest body that is taken: nothing here needs more.
const BODY_BYTES_MAX: u64 = 64 * 1024;

/// Where a worker listens.
#[derive(Default)]
pub struct Listeners {
    /// For HTTP.
    pub http: Vec<WorkerListener>,
    /// For stream routes.
    pub streams: Vec<StreamListener>,
}

/// A running worker; it ends when this is dropped.
pub struct RunningWorker {
    /// What it serves.
    pub snapshots: Arc<SnapshotCell>,
    /// What it counts.
    pub metrics: Arc<Metrics>,
    _phase: watch::Sender<Phase>,
}

impl RunningWorker {
    /// Starts it.
    ///
    /// # Panics
    /// When it cannot run.
    pub fn start(settings: Settings, first: Arc<Snapshot>, listeners: Listeners) -> Self {
        let (phase, receiver) = watch::channel(Phase::Serving);
        let snapshots = Arc::new(SnapshotCell::new(first));
        let metrics = Arc::new(Metrics::new());
        let parts = WorkerParts {
            settings: Arc::new(settings),
            snapshots: Arc::clone(&snapshots),
            listeners: listeners.http,
            proxied_listeners: Vec::new(),
            stream_listeners: listeners.streams,
            phase: receiver,
            metrics: Arc::clone(&metrics),
            log: None,
        };
        std::thread::spawn(move || Worker::run(parts).expect("the worker runs"));
        Self { snapshots, metrics, _phase: phase }
    }
}

/// What all configurations are made with. The catalogue, whose schemas take a while to compile, is one.
pub struct Making<'s> {
    settings: &'s Settings,
    background: tokio::runtime::Handle,
    catalogue: Arc<Catalogue>,
}

impl<'s> Making<'s> {
    /// With these settings and all plugins.
    pub fn new(settings: &'s Settings) -> Self {
        let catalogue = Arc::new(tollhouse_plugins::catalogue());
        Self { settings, background: background(), catalogue }
    }

    /// These objects, compiled.
    ///
    /// # Panics
    /// When anything is wrong with them.
    pub fn compile<const COUNT: usize>(
        &self,
        objects: [(Kind, &str, Value); COUNT],
    ) -> Arc<Snapshot> {
        let background = self.background.clone();
        let resolver =
            Resolver::with_source(Arc::new(NoNames), ResolverSettings::default(), background);
        let mut services = Services::new("tollhouse");
        services.background = Some(self.background.clone());
        let catalogue = Arc::clone(&self.catalogue);
        let mut compiler = Compiler::new(self.settings, resolver, catalogue, Arc::new(services));
        let shown = format!("{objects:?}");
        let snapshot = compiler.apply(objects.map(|(kind, id, value)| Change::Upsert {
            kind,
            id: Id::new(id),
            value: Ok(value),
            path: String::new(),
        }));
        let problems: Vec<String> = compiler.problems().map(|it| format!("{it:?}")).collect();
        assert!(problems.is_empty(), "{shown}: {problems:?}");
        snapshot
    }
}

/// A thread where plugins do what no request waits for.
fn background() -> tokio::runtime::Handle {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let handle = runtime.handle().clone();
    std::thread::spawn(move || runtime.block_on(std::future::pending::<()>()));
    handle
}

/// A resolver's source that knows no name; nodes are addresses.
struct NoNames;

impl Source for NoNames {
    fn lookup<'a>(&'a self, _question: &'a Question) -> Lookup<'a> {
        Box::pin(async { Err(ResolveError::Denied) })
    }
}

/// Settings with which everything is quick.
pub fn settings() -> Settings {
    Settings {
        router_mode: Mode::HostUri,
        normalize: NormalizeOptions::default(),
        ambiguous_paths: AmbiguousPaths::default(),
        limits: Limits { body_bytes: BODY_BYTES_MAX, ..Limits::default() },
        server: "tollhouse".to_owned(),
        brand: tollhouse_plugin::Brand::default(),
        show_upstream_status: false,
        on_client_half_close: HalfClose::Abort,
        trusted_addresses: None,
        real_ip: RealIp {
            header: "x-real-ip".to_owned(),
            from: vec!["127.0.0.1/32".parse().expect("a network")],
            recursive: false,
        },
        upstream_keepalive: KeepalivePool {
            size: 320,
            idle_timeout: Duration::from_secs(60),
            requests: u32::MAX,
        },
        disable_health_checks: true,
        resolve_timeout: Duration::from_secs(5),
        drain_time: Duration::from_secs(1),
        streams: StreamSettings::default(),
        proxy_protocol: ProxyProtocol::default(),
        tls: TlsSettings::default(),
        shenyu: ShenyuSettings::default(),
    }
}
