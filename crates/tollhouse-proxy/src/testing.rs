//! Shared by the tests of this crate: settings, and a worker without a running loop.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tollhouse_model::upstream::KeepalivePool;
use tollhouse_net::HalfClose;
use tollhouse_net::resolve::{self, Question, ResolveError, Resolver, ResolverSettings};
use tollhouse_plugin::{Catalogue, Services};
use tollhouse_router::{AmbiguousPaths, Mode, NormalizeOptions};
use tollhouse_telemetry::Metrics;

use crate::settings::{Limits, ProxyProtocol, RealIp, StreamSettings, TlsSettings};
use crate::{Change, Compiler, Phase, Settings, SnapshotCell, Worker, WorkerParts};

/// DNS source that resolves no name.
pub(crate) struct NoNames;

impl resolve::Source for NoNames {
    fn lookup<'a>(&'a self, _question: &'a Question) -> resolve::Lookup<'a> {
        Box::pin(async { Err(ResolveError::Denied) })
    }
}

/// Default settings, without trusted addresses.
pub(crate) fn settings() -> Settings {
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
        real_ip: RealIp { header: "x-real-ip".to_owned(), from: Vec::new(), recursive: false },
        upstream_keepalive: KeepalivePool {
            size: 320,
            idle_timeout: Duration::from_secs(60),
            requests: 1000,
        },
        disable_health_checks: false,
        resolve_timeout: Duration::from_secs(5),
        drain_time: Duration::from_secs(1),
        streams: StreamSettings::default(),
        proxy_protocol: ProxyProtocol::default(),
        shenyu: crate::settings::ShenyuSettings::default(),
    }
}

/// Parts of a worker without routes.
fn parts(limits: Limits) -> WorkerParts {
    let settings = Settings { limits, ..settings() };
    parts_with(settings, Catalogue::new([]), [])
}

/// Parts of a worker with these objects.
pub(crate) fn parts_with(
    settings: Settings,
    catalogue: Catalogue,
    changes: impl IntoIterator<Item = Change>,
) -> WorkerParts {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let handle = runtime.handle().clone();
    let resolver = Resolver::with_source(Arc::new(NoNames), ResolverSettings::default(), handle);
    let services = Arc::new(Services::new("APISIX"));
    let mut compiler = Compiler::new(&settings, resolver, Arc::new(catalogue), services);
    let snapshot = compiler.apply(changes);
    let (_, phase) = watch::channel(Phase::Serving);
    WorkerParts {
        settings: Arc::new(settings),
        snapshots: Arc::new(SnapshotCell::new(snapshot)),
        listeners: Vec::new(),
        proxied_listeners: Vec::new(),
        unix_listeners: Vec::new(),
        stream_listeners: Vec::new(),
        phase,
        metrics: Arc::new(Metrics::new()),
        log: None,
        tracer: None,
    }
}

/// A worker without routes and housekeeping. Its clock does not advance between requests, so no
/// deadline passes.
pub(crate) fn worker(limits: Limits) -> Rc<Worker> {
    Worker::new(parts(limits)).0
}
