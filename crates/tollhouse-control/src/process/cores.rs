//! The serving threads of a running gateway. What they listen on is `sockets.rs`.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;

use tokio::sync::watch;
use tollhouse_net::Listeners;
use tollhouse_proxy::worker::Transport;
use tollhouse_proxy::{Phase, Settings, SnapshotCell, Worker, WorkerParts};
use tollhouse_stdx::priority;
use tollhouse_telemetry::Metrics;
use tollhouse_telemetry::access_log::AccessLog;

use super::sockets::Sockets;

/// An address of the data plane.
#[derive(Debug)]
pub struct Entrance {
    /// Its sockets.
    pub listeners: Listeners,
    /// What clients speak there.
    pub transport: Transport,
}

impl Entrance {
    /// Where clients connect.
    pub fn address(&self) -> SocketAddr {
        self.listeners.address
    }
}

/// The serving threads of a running gateway.
#[derive(Debug)]
pub struct Cores {
    phase: Arc<watch::Sender<Phase>>,
    threads: Vec<JoinHandle<io::Result<()>>>,
    /// Turns true as soon as one of them ends.
    ended: watch::Receiver<bool>,
}

/// Signals a core's end, however it ends.
struct EndSignal(watch::Sender<bool>);

impl Drop for EndSignal {
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
    pub metrics: Arc<Metrics>,
    /// The access log, when it is on.
    pub log: Option<&'a AccessLog>,
}

impl Cores {
    /// Starts one thread for each core; sockets beyond one a core go to the cores in turn.
    ///
    /// # Errors
    /// When a thread cannot be started.
    pub fn start(workers: usize, sockets: Sockets, parts: &CoreParts<'_>) -> io::Result<Cores> {
        let (phase, receiver) = watch::channel(Phase::Serving);
        let (end, ended) = watch::channel(false);
        let shares = sockets.share(workers);
        let cores = allowed_cores();
        // Fewer threads than cores are left to the kernel, which knows what else runs on which.
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
            };
            let core = pins.then(|| cores[index]);
            let thread = std::thread::Builder::new().name(format!("core-{index}"));
            let end = EndSignal(end.clone());
            threads.push(thread.spawn(move || {
                // Dropped however the thread ends, a panic included.
                let _end = end;
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
pub fn lower_priority() {
    if let Err(error) = priority::stand_back(priority::NICENESS_MAX) {
        tracing::debug!(%error, "priority of the control side cannot be lowered");
    }
}
