//! A worker of the data plane for the life of the process, and the parts to compile its
//! configurations. Each target defines its configurations and requests.

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

/// Limit for the length of a body, sufficient for all targets.
const BODY_BYTES_MAX: u64 = 64 * 1024;

/// Sockets that a worker listens on.
#[derive(Default)]
pub struct Listeners {
    /// Sockets for HTTP.
    pub http: Vec<WorkerListener>,
    /// Sockets for stream routes.
    pub streams: Vec<StreamListener>,
}

/// A running worker, which ends when this is dropped.
pub struct RunningWorker {
    /// Configurations that the worker serves.
    pub snapshots: Arc<SnapshotCell>,
    /// Counters of the worker.
    pub metrics: Arc<Metrics>,
    _phase: watch::Sender<Phase>,
}

impl RunningWorker {
    /// Starts the worker.
    ///
    /// # Panics
    /// If the worker cannot run.
    pub fn start(settings: Settings, first: Arc<Snapshot>, listeners: Listeners) -> Self {
        let (phase, receiver) = watch::channel(Phase::Serving);
        let snapshots = Arc::new(SnapshotCell::new(first));
        let metrics = Arc::new(Metrics::new());
        let parts = WorkerParts {
            settings: Arc::new(settings),
            snapshots: Arc::clone(&snapshots),
            listeners: listeners.http,
            proxied_listeners: Vec::new(),
            unix_listeners: Vec::new(),
            stream_listeners: listeners.streams,
            phase: receiver,
            metrics: Arc::clone(&metrics),
            log: None,
            tracer: None,
        };
        std::thread::spawn(move || Worker::run(parts).expect("the worker runs"));
        Self { snapshots, metrics, _phase: phase }
    }
}

/// Shared input of all configurations. The catalogue is reused, because its schemas take a while to
/// compile.
pub struct Making<'s> {
    settings: &'s Settings,
    background: tokio::runtime::Handle,
    catalogue: Arc<Catalogue>,
}

impl<'s> Making<'s> {
    /// Creates the input with these settings and all plugins.
    pub fn new(settings: &'s Settings) -> Self {
        let catalogue = Arc::new(tollhouse_plugins::catalogue());
        Self { settings, background: background(), catalogue }
    }

    /// Compiles objects to a snapshot.
    ///
    /// # Panics
    /// If an object has problems.
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

/// Starts a thread where plugins run work that no request waits for, and returns its handle.
fn background() -> tokio::runtime::Handle {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let handle = runtime.handle().clone();
    std::thread::spawn(move || runtime.block_on(std::future::pending::<()>()));
    handle
}

/// A resolver source that resolves no names, because nodes are given as addresses.
struct NoNames;

impl Source for NoNames {
    fn lookup<'a>(&'a self, _question: &'a Question) -> Lookup<'a> {
        Box::pin(async { Err(ResolveError::Denied) })
    }
}

/// Returns settings for quick plays, with a low body limit and without health checks.
pub fn settings() -> Settings {
    Settings {
        router_mode: Mode::HostUri,
        normalize: NormalizeOptions::default(),
        ambiguous_paths: AmbiguousPaths::default(),
        limits: Limits { body_bytes: BODY_BYTES_MAX, ..Limits::default() },
        server: "tollhouse".to_owned(),
        brand: tollhouse_plugin::Brand::default(),
        show_upstream_status: false,
        trace_in_errors: true,
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
