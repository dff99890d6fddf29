//! The one place where all parts meet: settings from the bootstrap file, sockets, cores, resources.
//!
//! Nothing is decided here beyond who gets what; every part can be built without this file.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::JoinHandle;

use anyhow::Context;
use tokio::sync::watch;
use tollhouse_config::Bootstrap;
use tollhouse_config::bootstrap::{AccessLogFormat, AccessLogTarget, Peer, RouterMode, Workers};
use tollhouse_http::HeadLimits;
use tollhouse_net::Listeners;
use tollhouse_net::handover::Inheritance;
use tollhouse_net::resolve::ResolverSettings;
use tollhouse_proxy::settings::{Limits, RealIp};
use tollhouse_proxy::{Phase, Settings, SnapshotCell, Worker, WorkerParts};
use tollhouse_router::{Mode, NormalizeOptions};
use tollhouse_stdx::{MemoryBudget, priority};
use tollhouse_telemetry::Registry;
use tollhouse_telemetry::access_log::{AccessLog, Escape, Layout, Target, Variable};

use crate::machine_memory;
use crate::plugins::{brand, server_token};

/// The part of the memory that bodies and answers may take: what else the process holds, and what
/// the system needs for its sockets, has the rest.
const MEMORY_PART: u64 = 4;

/// The data plane's settings out of the bootstrap file.
pub fn settings(bootstrap: &Bootstrap) -> Settings {
    let networks = |peers: &[Peer]| {
        let network = |peer: &Peer| match peer {
            Peer::Network(network) => Some(*network),
            Peer::UnixSocket => None,
        };
        peers.iter().filter_map(network).collect()
    };
    let trusted = bootstrap.trusted_addresses.clone();
    Settings {
        router_mode: match bootstrap.router {
            RouterMode::HostUri => Mode::HostUri,
            RouterMode::Uri => Mode::Uri,
            RouterMode::UriWithParameter => Mode::UriWithParameter,
        },
        normalize: NormalizeOptions {
            servlet_params: bootstrap.normalize_uri_like_servlet,
            encoded_slash: bootstrap.match_uri_encoded_slash,
            delete_tail_slash: bootstrap.delete_uri_tail_slash,
        },
        limits: limits(bootstrap),
        server: server_token(bootstrap).to_owned(),
        brand: brand(bootstrap),
        show_upstream_status: bootstrap.show_upstream_status_in_response_header,
        trusted_addresses: (!trusted.is_empty()).then_some(trusted),
        real_ip: RealIp {
            header: bootstrap.real_ip.header.to_ascii_lowercase(),
            from: networks(&bootstrap.real_ip.from),
            recursive: bootstrap.real_ip.recursive,
        },
        upstream_keepalive: bootstrap.upstream_keepalive,
        disable_health_checks: bootstrap.disable_upstream_healthcheck,
        resolve_timeout: bootstrap.dns.timeout,
        drain_time: bootstrap.drain_time,
    }
}

fn limits(bootstrap: &Bootstrap) -> Limits {
    let limits = &bootstrap.limits;
    let count = |number: u32| usize::try_from(number).unwrap_or(usize::MAX);
    Limits {
        head: HeadLimits {
            line_bytes: limits.request_line_bytes,
            head_bytes: limits.request_line_bytes + limits.header_bytes,
            header_count: limits.header_count,
        },
        body_bytes: limits.body_bytes.unwrap_or(u64::MAX),
        memory: MemoryBudget::new(
            limits.buffered_bytes.unwrap_or_else(|| machine_memory::usable_bytes() / MEMORY_PART),
        ),
        header_read_time: limits.header_read_time,
        idle_time: limits.idle_time,
        body_read_time: limits.body_read_time,
        send_time: limits.send_time,
        requests_per_connection: u64::from(limits.requests_per_connection),
        connections_per_worker: count(limits.connections_per_worker),
        connections_per_address: limits.connections_per_address.map_or(0, count),
        ..Limits::default()
    }
}

/// How names are resolved.
pub fn resolver_settings(bootstrap: &Bootstrap) -> ResolverSettings {
    ResolverSettings {
        servers: bootstrap.dns.servers.clone(),
        timeout: bootstrap.dns.timeout,
        valid: bootstrap.dns.valid,
    }
}

/// How many cores serve.
pub fn worker_count(bootstrap: &Bootstrap) -> usize {
    worker_count_of(bootstrap.workers)
}

/// How many threads a setting stands for.
pub fn worker_count_of(workers: Workers) -> usize {
    match workers {
        Workers::Count(count) => usize::from(count).max(1),
        Workers::Auto => std::thread::available_parallelism().map_or(1, usize::from),
    }
}

/// Binds every address of the data plane, or takes sockets over from a predecessor.
///
/// # Errors
/// The first address that cannot be listened on, with the remedy.
pub fn listen(
    bootstrap: &Bootstrap,
    workers: usize,
    inheritance: Option<&mut Inheritance>,
) -> anyhow::Result<Vec<Listeners>> {
    let mut inheritance = inheritance;
    let addresses = bootstrap.listen.http.iter();
    addresses
        .map(|address| {
            let inherited =
                inheritance.as_mut().map(|from| from.take(*address)).unwrap_or_default();
            let listeners = if inherited.is_empty() {
                Listeners::bind(*address, workers)?
            } else {
                Listeners::adopt(*address, inherited, workers)?
            };
            Ok(listeners)
        })
        .collect()
}

/// The serving threads of a running gateway.
#[derive(Debug)]
pub struct Cores {
    phase: Arc<watch::Sender<Phase>>,
    threads: Vec<JoinHandle<io::Result<()>>>,
    /// Turns true as soon as one of them ends.
    ended: watch::Receiver<bool>,
}

/// Tells of a core's end, however it ends.
struct TellsOfEnd(watch::Sender<bool>);

impl Drop for TellsOfEnd {
    fn drop(&mut self) {
        self.0.send_replace(true);
    }
}

/// What the cores share.
#[derive(Debug)]
pub struct CoreParts<'a> {
    /// The data plane's settings.
    pub settings: Arc<Settings>,
    /// Where they find the configuration.
    pub snapshots: Arc<SnapshotCell>,
    /// Where they count.
    pub metrics: Arc<Registry>,
    /// The access log, when it is on.
    pub log: Option<&'a AccessLog>,
}

impl Cores {
    /// Starts one thread for each core; sockets beyond one a core go to the cores in turn.
    ///
    /// # Errors
    /// When a thread cannot be started.
    pub fn start(
        workers: usize,
        listeners: Vec<Listeners>,
        parts: &CoreParts<'_>,
    ) -> io::Result<Cores> {
        let (phase, receiver) = watch::channel(Phase::Serving);
        let (tells, ended) = watch::channel(false);
        let mut shares: Vec<Vec<TcpListener>> = (0..workers).map(|_| Vec::new()).collect();
        for listeners in listeners {
            for (index, socket) in listeners.sockets.into_iter().enumerate() {
                shares[index % workers].push(socket);
            }
        }
        let cores = allowed_cores();
        let pins = workers > 1 && workers == cores.len();
        let mut threads = Vec::with_capacity(workers);
        for (index, listeners) in shares.into_iter().enumerate() {
            let parts = WorkerParts {
                settings: Arc::clone(&parts.settings),
                snapshots: Arc::clone(&parts.snapshots),
                listeners,
                phase: receiver.clone(),
                metrics: Arc::clone(&parts.metrics),
                log: parts.log.map(AccessLog::core),
            };
            let core = pins.then(|| cores[index]);
            let thread = std::thread::Builder::new().name(format!("core-{index}"));
            let tells = TellsOfEnd(tells.clone());
            threads.push(thread.spawn(move || {
                let _tells = tells;
                if let Some(core) = core {
                    pin(core);
                }
                Worker::run(parts)
            })?);
        }
        Ok(Cores { phase: Arc::new(phase), threads, ended })
    }

    /// Tells every core to finish what is under way, and how to make them hurry.
    pub fn begin_drain(&self) -> Arc<watch::Sender<Phase>> {
        self.phase.send_replace(Phase::Draining);
        Arc::clone(&self.phase)
    }

    /// Waits until all have ended.
    pub fn join(self) {
        for thread in self.threads {
            match thread.join() {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::error!(%error, "a core ended with an error"),
                Err(_) => tracing::error!("a core ended with a panic"),
            }
        }
    }

    /// Waits until a core has ended although nobody told it to. Dropping the future loses nothing.
    pub async fn any_ended(&mut self) {
        // An error means that all have.
        let _ = self.ended.wait_for(|has_ended| *has_ended).await;
    }
}

/// Numbers of the cores that this process may use.
fn allowed_cores() -> Vec<usize> {
    let Ok(set) = rustix::thread::sched_getaffinity(None) else { return Vec::new() };
    (0..rustix::thread::CpuSet::MAX_CPU).filter(|core| set.is_set(*core)).collect()
}

/// Ties the calling thread to one core, so that its memory stays near; failing is harmless.
fn pin(core: usize) {
    let mut set = rustix::thread::CpuSet::new();
    set.set(core);
    if let Err(error) = rustix::thread::sched_setaffinity(None, &set) {
        tracing::debug!(%error, core, "thread cannot be tied to its core");
    }
}

/// Lets serving threads go first, for the calling thread alone; failing is harmless. Somebody waits for
/// whatever is done beside serving: for a change to serve, for the Admin API, for a check.
pub fn give_way() {
    if let Err(error) = priority::be_nice() {
        tracing::debug!(%error, "priority of the control side cannot be lowered");
    }
}

/// Opens the access log; `None` when it is off.
///
/// # Errors
/// A format that cannot be read, or a file that cannot be written.
pub fn access_log(bootstrap: &Bootstrap, metrics: &Registry) -> anyhow::Result<Option<AccessLog>> {
    let layout = match &bootstrap.access_log.format {
        AccessLogFormat::Off => return Ok(None),
        AccessLogFormat::Combined => Layout::combined(),
        AccessLogFormat::Json => Layout::json(&json_fields(&bootstrap.access_log.fields)?),
        AccessLogFormat::Template(text) => {
            Layout::template(text, Escape::Default).context("access_log.format")?
        }
    };
    let target = match &bootstrap.access_log.file {
        AccessLogTarget::StandardOutput => Target::Stdout,
        AccessLogTarget::File(path) => Target::File(path.clone()),
    };
    AccessLog::start(layout, &target, Arc::clone(metrics.process()))
        .with_context(|| format!("the access log {target:?} cannot be opened; check access_log.file and the permissions of its folder"))
        .map(Some)
}

fn json_fields(names: &[String]) -> anyhow::Result<Vec<Variable>> {
    if names.is_empty() {
        return Ok(tollhouse_telemetry::access_log::JSON_FIELDS.to_vec());
    }
    let field = |name: &String| {
        let known = Variable::from_name(name.trim_start_matches('$'));
        known.with_context(|| {
            let all = Variable::ALL.iter().map(|variable| variable.name());
            let hint = tollhouse_stdx::nearest(name, all);
            match hint {
                Some(hint) => {
                    format!("access_log.fields: unknown field {name}; did you mean {hint}?")
                }
                None => format!("access_log.fields: unknown field {name}"),
            }
        })
    };
    names.iter().map(field).collect()
}

/// The first address of a list, for listeners that have one.
pub fn first(addresses: &[SocketAddr]) -> Option<SocketAddr> {
    addresses.first().copied()
}
