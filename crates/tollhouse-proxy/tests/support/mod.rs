//! What tests of a core share: one worker on a thread of its own, and a configuration for it.

use std::io::Read;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::watch;
use tollhouse_model::upstream::KeepalivePool;
use tollhouse_model::{Id, Kind};
use tollhouse_net::HalfClose;
use tollhouse_net::resolve::{Lookup, Question, ResolveError, Resolver, ResolverSettings, Source};
use tollhouse_proxy::settings::{Limits, ProxyProtocol, RealIp, StreamSettings, TlsSettings};
use tollhouse_proxy::worker::{Transport, WorkerListener};
use tollhouse_proxy::{
    Change, Compiler, Phase, Settings, Snapshot, SnapshotCell, Worker, WorkerParts,
};
use tollhouse_router::{AmbiguousPaths, Mode, NormalizeOptions};
use tollhouse_telemetry::Metrics;
use tollhouse_telemetry::access_log::CoreLog;

/// No wait is longer: a worker that does not answer fails the test.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Reads up to the empty line and no further; `None` at the end of the stream.
pub fn read_head(stream: &mut TcpStream, head: &mut Vec<u8>) -> Option<()> {
    head.clear();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        if stream.read(&mut byte).ok()? == 0 {
            return None;
        }
        head.push(byte[0]);
    }
    Some(())
}

/// A connection to it.
pub fn connect(gateway: &Gateway) -> TcpStream {
    let client = TcpStream::connect(gateway.address).expect("the worker accepts");
    client.set_read_timeout(Some(PATIENCE)).expect("an open socket");
    client
}

/// What a worker may be told beside its configuration.
pub struct Options {
    /// What its thread does first.
    pub begin: fn(),
    /// Bounds of what clients may do.
    pub limits: Limits,
    /// Where it counts.
    pub metrics: Arc<Metrics>,
    /// Its end of the access log.
    pub log: Option<CoreLog>,
    /// Tracing, if it is on.
    pub tracer: Option<Arc<tollhouse_trace::Tracer>>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            begin: || {},
            limits: Limits::default(),
            metrics: Arc::new(Metrics::new()),
            log: None,
            tracer: None,
        }
    }
}

/// One worker on a thread of its own.
pub struct Gateway {
    /// Where it listens.
    pub address: SocketAddr,
    phase: watch::Sender<Phase>,
    thread: JoinHandle<()>,
}

impl Gateway {
    /// Serves what is published in `snapshots`; `begin` is what its thread does first.
    pub fn start(snapshots: &Arc<SnapshotCell>, begin: fn()) -> Self {
        Self::start_with(snapshots, Options { begin, ..Options::default() })
    }

    /// The same, with more said about it.
    pub fn start_with(snapshots: &Arc<SnapshotCell>, options: Options) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        listener.set_nonblocking(true).expect("an open socket");
        let address = listener.local_addr().expect("an address");
        let (phase, receiver) = watch::channel(Phase::Serving);
        let parts = WorkerParts {
            settings: Arc::new(Settings { limits: options.limits, ..settings() }),
            snapshots: Arc::clone(snapshots),
            listeners: vec![WorkerListener { socket: listener, transport: Transport::Plain }],
            proxied_listeners: Vec::new(),
            unix_listeners: Vec::new(),
            stream_listeners: Vec::new(),
            phase: receiver,
            metrics: options.metrics,
            log: options.log,
            tracer: options.tracer,
        };
        let thread = std::thread::spawn(move || {
            (options.begin)();
            Worker::run(parts).expect("the worker runs");
        });
        Self { address, phase, thread }
    }

    /// Ends it.
    pub fn stop(self) {
        self.phase.send_replace(Phase::Draining);
        self.thread.join().expect("the worker ends well");
    }
}

/// A configuration of one route.
pub fn snapshot(route: Value) -> Arc<Snapshot> {
    snapshot_of([(Kind::Route, "r", route)])
}

/// A snapshot of these objects, which must be good.
pub fn snapshot_of<const N: usize>(objects: [(Kind, &str, Value); N]) -> Arc<Snapshot> {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let resolver = Resolver::with_source(
        Arc::new(NoNames),
        ResolverSettings::default(),
        runtime.handle().clone(),
    );
    let mut services = tollhouse_plugin::Services::new("APISIX");
    services.log_folder = std::env::temp_dir();
    let mut compiler = Compiler::new(
        &settings(),
        resolver,
        Arc::new(tollhouse_plugins::catalogue()),
        Arc::new(services),
    );
    let snapshot = compiler.apply(objects.map(|(kind, id, value)| Change::Upsert {
        kind,
        id: Id::new(id),
        value: Ok(value),
        path: format!("{kind}[0]"),
    }));
    assert_eq!(compiler.problems().count(), 0);
    snapshot
}

/// A resolver's source that knows no name; the node is an address.
struct NoNames;

impl Source for NoNames {
    fn lookup<'a>(&'a self, _question: &'a Question) -> Lookup<'a> {
        Box::pin(async { Err(ResolveError::Denied) })
    }
}

fn settings() -> Settings {
    Settings {
        router_mode: Mode::HostUri,
        normalize: NormalizeOptions::default(),
        ambiguous_paths: AmbiguousPaths::default(),
        tls: TlsSettings::default(),
        limits: Limits::default(),
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
        disable_health_checks: false,
        resolve_timeout: Duration::from_secs(5),
        drain_time: Duration::from_secs(1),
        streams: StreamSettings::default(),
        proxy_protocol: ProxyProtocol::default(),
        shenyu: tollhouse_proxy::settings::ShenyuSettings::default(),
    }
}
