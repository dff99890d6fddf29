//! One core of a mock: its thread's state, its listeners, and which protocol a connection speaks.

use std::cell::RefCell;
use std::io;
use std::net::TcpListener;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::runtime::LocalRuntime;
use tokio::sync::watch;
use tokio::task::spawn_local;
use tokio_rustls::TlsAcceptor;
use tollhouse_http::RequestHead;
use tollhouse_stdx::{MemoryBudget, Random};

use super::answers::{Answer, Answers};
use super::behaviour::{Behaviour, Body, Grpc};
use super::choice::{Choice, Verdict};
use super::counts::Counts;
use super::deadlines::Deadlines;
use super::http1::{self, After};
use super::latency::{Sampler, Stall};
use super::replayed::Replayed;
use super::wire::Wire;
use super::{http2, websocket};
use tollhouse_net::clock::Clock;

/// Bytes read at once; one buffer serves all connections of a worker.
const SCRATCH_BYTES: usize = 64 * 1024;

/// Longest body that is kept for an echo.
pub(super) const ECHO_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Bytes by which the windows of a core's HTTP/2 connections may grow together; beyond it they stay as
/// they are.
const HTTP2_BYTES_MAX: u64 = 256 * 1024 * 1024;

/// Pause after an error of accepting that only time mends, such as no file descriptors left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// An instant that does not come.
const NEVER: u64 = u64::MAX;

/// What all workers of a mock share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) answers: Answers,
    pub(super) path: Option<String>,
    pub(super) is_echo: bool,
    pub(super) grpc: Grpc,
    pub(super) counts: Box<[Counts]>,
    choice: Choice,
    sampler: Sampler,
    stall: Option<Stall>,
    clock: Clock,
    /// When the first request arrived, for the stall; [`NEVER`] before.
    first_ns: AtomicU64,
    seed: Option<u64>,
    tls: Option<Acceptor>,
}

/// Makes TLS of a connection; has no text of its own for `Debug`.
pub(super) struct Acceptor(pub(super) TlsAcceptor);

impl std::fmt::Debug for Acceptor {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("Acceptor")
    }
}

impl Shared {
    pub(super) fn new(behaviour: &Behaviour, workers: usize, tls: Option<Acceptor>) -> Self {
        Self {
            answers: Answers::new(behaviour),
            path: behaviour.path.clone(),
            is_echo: behaviour.body == Body::Echo,
            grpc: behaviour.grpc,
            counts: (0..workers).map(|_| Counts::default()).collect(),
            choice: Choice::new(&behaviour.statuses, behaviour.error_rate, behaviour.reset_rate),
            sampler: behaviour.latency.sampler(),
            stall: behaviour.stall,
            clock: Clock::start(),
            first_ns: AtomicU64::new(NEVER),
            seed: behaviour.seed,
            tls,
        }
    }

    /// What a request is answered with.
    pub(super) fn outcome(
        &self,
        worker: &Worker,
        verdict: Verdict,
        request: Standing,
    ) -> Outcome<'_> {
        match (verdict, request) {
            (Verdict::Reset, _) => {
                worker.counts().resets.add_one();
                Outcome::Reset
            }
            (Verdict::Error, _) => {
                worker.counts().errors.add_one();
                Outcome::Other(&self.answers.error)
            }
            (Verdict::Answer(_), Standing::NotFound) => Outcome::Other(&self.answers.not_found),
            (Verdict::Answer(_), Standing::TooLarge) => Outcome::Other(&self.answers.too_large),
            (Verdict::Answer(index), Standing::Good) => {
                Outcome::Asked(&self.answers.by_status[index])
            }
        }
    }

    /// When the first request of all arrived; now, if this is it.
    fn first_ns(&self, now_ns: u64) -> u64 {
        match self.first_ns.load(Ordering::Relaxed) {
            NEVER => {
                let (set, unset) = (Ordering::Relaxed, Ordering::Relaxed);
                match self.first_ns.compare_exchange(NEVER, now_ns, set, unset) {
                    Ok(_) => now_ns,
                    Err(first_ns) => first_ns,
                }
            }
            first_ns => first_ns,
        }
    }
}

/// How a request stands before chance decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Standing {
    /// It gets what was asked of the mock.
    #[default]
    Good,
    /// Its path is not the one that is answered.
    NotFound,
    /// Its body is too long to be echoed.
    TooLarge,
}

/// What a request is answered with.
#[derive(Debug)]
pub(super) enum Outcome<'a> {
    Reset,
    /// An answer that tells of something else.
    Other(&'a Answer),
    /// What was asked of the mock; an echo or a WebSocket takes its place.
    Asked(&'a Answer),
}

/// The state of one core.
#[derive(Debug)]
pub(super) struct Worker {
    pub(super) shared: Arc<Shared>,
    pub(super) scratch: RefCell<Box<[u8]>>,
    pub(super) head: RefCell<RequestHead>,
    /// What windows of HTTP/2 may grow by, on all connections of the core.
    pub(super) memory: Arc<MemoryBudget>,
    index: usize,
    deadlines: Deadlines,
    random: RefCell<Random>,
}

impl Worker {
    pub(super) fn new(shared: Arc<Shared>, index: usize) -> io::Result<Self> {
        let random = match shared.seed {
            Some(seed) => Random::seeded(seed.wrapping_add(index as u64)),
            None => Random::from_process_entropy(),
        };
        let clock = shared.clock;
        Ok(Self {
            shared,
            scratch: RefCell::new(vec![0; SCRATCH_BYTES].into_boxed_slice()),
            head: RefCell::default(),
            memory: MemoryBudget::new(HTTP2_BYTES_MAX),
            index,
            deadlines: Deadlines::new(clock)?,
            random: RefCell::new(random),
        })
    }

    /// Its counters.
    #[inline]
    pub(super) fn counts(&self) -> &Counts {
        &self.shared.counts[self.index]
    }

    /// Milliseconds on a clock that does not go back.
    #[inline]
    pub(super) fn now_ms(&self) -> u64 {
        self.deadlines.now_ns() / 1_000_000
    }

    /// What becomes of a request.
    #[inline]
    pub(super) fn verdict(&self) -> Verdict {
        self.shared.choice.verdict(&mut self.random.borrow_mut())
    }

    /// Whether answers wait at all.
    #[inline]
    pub(super) fn is_slow(&self) -> bool {
        !self.shared.sampler.is_none() || self.shared.stall.is_some()
    }

    /// When the answer to a request that has just arrived is due; `None` for at once.
    #[inline]
    pub(super) fn due_ns(&self) -> Option<u64> {
        if !self.is_slow() {
            return None;
        }
        let shared = &*self.shared;
        let latency_ns = shared.sampler.sample_ns(&mut self.random.borrow_mut());
        let now_ns = self.deadlines.now_ns();
        Some(match shared.stall {
            None => now_ns + latency_ns,
            Some(stall) => stall.due_ns(shared.first_ns(now_ns), now_ns, latency_ns),
        })
    }

    /// Waits for the moment that [`Self::due_ns`] told.
    ///
    /// # Errors
    /// When the timer is broken.
    pub(super) async fn until(&self, due_ns: Option<u64>) -> io::Result<()> {
        match due_ns {
            None => Ok(()),
            Some(due_ns) => self.deadlines.until(due_ns).await,
        }
    }
}

/// Runs a core on the calling thread until it is told to stop. Says first whether it could begin.
pub(super) fn run(
    shared: Arc<Shared>,
    index: usize,
    listeners: Vec<TcpListener>,
    mut stop: watch::Receiver<bool>,
    begun: &std::sync::mpsc::SyncSender<io::Result<()>>,
) {
    let started = start(shared, index, listeners);
    let outcome = started.map(|runtime| {
        // Nobody listens any more only when the mock is being dropped.
        let _ = begun.send(Ok(()));
        // An error means that the mock is gone, which is the same as being told.
        let _ = runtime.block_on(stop.wait_for(|is_over| *is_over));
    });
    if let Err(error) = outcome {
        let _ = begun.send(Err(error));
    }
}

fn start(
    shared: Arc<Shared>,
    index: usize,
    listeners: Vec<TcpListener>,
) -> io::Result<LocalRuntime> {
    let runtime: LocalRuntime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .build_local(Default::default())?;
    let guard = runtime.enter();
    let worker = Rc::new(Worker::new(shared, index)?);
    let listeners: io::Result<Vec<_>> =
        listeners.into_iter().map(tokio::net::TcpListener::from_std).collect();
    let listeners = listeners?;
    drop(guard);
    let timing = Rc::clone(&worker);
    runtime.spawn_local(async move { timing.deadlines.run().await });
    for listener in listeners {
        runtime.spawn_local(accept(Rc::clone(&worker), listener));
    }
    Ok(runtime)
}

async fn accept(worker: Rc<Worker>, listener: tokio::net::TcpListener) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                worker.counts().connections.add_one();
                spawn_local(connection(Rc::clone(&worker), stream));
            }
            Err(error) if is_of_the_client(&error) => {}
            Err(_) => {
                worker.counts().connections_refused.add_one();
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// A client that left while it was queued is nobody's failure.
fn is_of_the_client(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset)
}

async fn connection(worker: Rc<Worker>, stream: TcpStream) {
    match &worker.shared.tls {
        None => speak(&worker, stream).await,
        // Boxed: what TLS keeps is large, and plain connections should not have room for it.
        Some(acceptor) => Box::pin(encrypted(&worker, acceptor, stream)).await,
    }
    worker.counts().connections_ended.add_one();
}

async fn encrypted(worker: &Rc<Worker>, acceptor: &Acceptor, stream: TcpStream) {
    match acceptor.0.accept(stream).await {
        Ok(stream) => speak(worker, stream).await,
        Err(_) => worker.counts().malformed.add_one(),
    }
}

/// Serves HTTP/1 until the connection ends or turns out to speak something else.
async fn speak<S: Wire>(worker: &Rc<Worker>, stream: S) {
    let mut connection = http1::Connection::new(worker, stream);
    let after = connection.serve().await;
    let (stream, read) = connection.into_parts();
    match after {
        // The client is gone, or was told; either way there is nobody to tell of an error.
        Err(_) | Ok(After::End) => {}
        // A connection that cannot be reset any more is closed already.
        Ok(After::Reset) => drop(stream.tcp().set_zero_linger()),
        // Boxed, both: few connections come here, and those that do not should not pay.
        Ok(After::Http2) => Box::pin(http2::serve(worker, Replayed::new(read, stream))).await,
        Ok(After::WebSocket(key)) => {
            Box::pin(websocket::serve(worker, stream, read, &key)).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_is_small() {
        /// Of a plain connection's task, whatever it does: 50,000 of them take 50 MB at most.
        const BYTES_MAX: usize = 1_024;
        let runtime: LocalRuntime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .build_local(Default::default())
            .expect("a runtime");
        let size = runtime.block_on(async {
            let shared = Arc::new(Shared::new(&Behaviour::default(), 1, None));
            let worker = Rc::new(Worker::new(shared, 0).expect("a timer"));
            let listener = TcpListener::bind(("127.0.0.1", 0)).expect("loopback can be bound");
            let address = listener.local_addr().expect("bound");
            let stream = TcpStream::connect(address).await.expect("it listens");
            size_of_val(&connection(worker, stream))
        });
        assert!(size <= BYTES_MAX, "{size} bytes");
    }
}
