//! Worker threads of a running gateway. The module `sockets` creates their listeners.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;

use tokio::sync::watch;
use tollhouse_config::Bootstrap;
use tollhouse_net::Listeners;
use tollhouse_proxy::worker::Transport;
use tollhouse_proxy::{Phase, Settings, SnapshotCell, Worker, WorkerParts};
use tollhouse_stdx::priority;
use tollhouse_telemetry::Metrics;
use tollhouse_telemetry::access_log::AccessLog;
use tollhouse_trace::Tracer;

use super::sockets::Sockets;

/// A listening address of the data plane.
#[derive(Debug)]
pub struct Entrance {
    pub listeners: Listeners,
    pub transport: Transport,
}

impl Entrance {
    pub fn address(&self) -> SocketAddr {
        self.listeners.address
    }
}

#[derive(Debug)]
pub struct Cores {
    phase: Arc<watch::Sender<Phase>>,
    threads: Vec<JoinHandle<io::Result<()>>>,
    /// Becomes true when a worker ends.
    ended: watch::Receiver<bool>,
}

/// Signals the end of a worker when dropped, also after a panic.
struct EndSignal(watch::Sender<bool>);

impl Drop for EndSignal {
    fn drop(&mut self) {
        self.0.send_replace(true);
    }
}

#[derive(Debug)]
pub struct CoreParts<'a> {
    pub settings: Arc<Settings>,
    pub snapshots: Arc<SnapshotCell>,
    pub metrics: Arc<Metrics>,
    /// The access log, if it is on.
    pub log: Option<&'a AccessLog>,
    /// Tracing, if it is on.
    pub tracer: Option<Arc<Tracer>>,
}

impl Cores {
    /// Starts one thread per worker. Sockets beyond one per worker are distributed in turn.
    ///
    /// # Errors
    /// If a thread cannot be started.
    pub fn start(workers: usize, sockets: Sockets, parts: &CoreParts<'_>) -> io::Result<Cores> {
        let (phase, receiver) = watch::channel(Phase::Serving);
        let (end, ended) = watch::channel(false);
        let shares = sockets.share(workers);
        let cores = allowed_cores();
        // Workers are pinned only if there is one for each CPU core; otherwise the kernel schedules
        // them.
        let pins = workers > 1 && workers == cores.len();
        let mut threads = Vec::with_capacity(workers);
        for (index, share) in shares.into_iter().enumerate() {
            let parts = WorkerParts {
                settings: Arc::clone(&parts.settings),
                snapshots: Arc::clone(&parts.snapshots),
                listeners: share.http,
                proxied_listeners: share.proxied,
                unix_listeners: share.unix,
                stream_listeners: share.streams,
                phase: receiver.clone(),
                metrics: Arc::clone(&parts.metrics),
                log: parts.log.map(AccessLog::core),
                tracer: parts.tracer.clone(),
            };
            let core = pins.then(|| cores[index]);
            let thread = std::thread::Builder::new().name(format!("core-{index}"));
            let end = EndSignal(end.clone());
            threads.push(thread.spawn(move || {
                // Dropped at the thread's end, also after a panic.
                let _end = end;
                if let Some(core) = core {
                    pin(core);
                }
                Worker::run(parts)
            })?);
        }
        Ok(Cores { phase: Arc::new(phase), threads, ended })
    }

    /// Starts draining all workers. The returned sender can end the draining early.
    pub fn begin_drain(&self) -> Arc<watch::Sender<Phase>> {
        self.phase.send_replace(Phase::Draining);
        Arc::clone(&self.phase)
    }

    /// Waits until all workers have ended.
    pub fn join(self) {
        for thread in self.threads {
            match thread.join() {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::error!(%error, "a core ended with an error"),
                Err(_) => tracing::error!("a core ended with a panic"),
            }
        }
    }

    /// Waits until a worker ends without having been told to. Cancel safe.
    pub async fn any_ended(&mut self) {
        // An error means that all workers have ended.
        let _ = self.ended.wait_for(|has_ended| *has_ended).await;
    }
}

/// Returns the numbers of the CPU cores that this process may use.
fn allowed_cores() -> Vec<usize> {
    let Ok(set) = rustix::thread::sched_getaffinity(None) else { return Vec::new() };
    (0..rustix::thread::CpuSet::MAX_CPU).filter(|core| set.is_set(*core)).collect()
}

/// Pins the calling thread to one CPU core, so that its memory stays local. A failure is ignored.
fn pin(core: usize) {
    let mut set = rustix::thread::CpuSet::new();
    set.set(core);
    if let Err(error) = rustix::thread::sched_setaffinity(None, &set) {
        tracing::debug!(%error, core, "thread cannot be tied to its core");
    }
}

/// Gives the calling thread the niceness of the control side, so that workers run first. A failure
/// is ignored. The kernel's idle class is not used, because callers wait for control work, such as
/// changes and log-ins.
pub fn lower_priority(bootstrap: &Bootstrap) {
    let niceness = i32::try_from(bootstrap.control_niceness).unwrap_or(priority::NICENESS_MAX);
    if let Err(error) = priority::stand_back(niceness) {
        tracing::debug!(%error, "priority of the control side cannot be lowered");
    }
}
