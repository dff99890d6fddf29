//! A worker of a mock: the state of its thread, its listeners, and the protocol detection for
//! connections.

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

/// Size of the read buffer, shared by all connections of a worker.
const SCRATCH_BYTES: usize = 64 * 1024;

/// Maximum length of a body buffered for an echo.
pub(super) const ECHO_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Memory budget for growing the flow-control windows of a worker's HTTP/2 connections; beyond it,
/// windows stay unchanged.
const HTTP2_BYTES_MAX: u64 = 256 * 1024 * 1024;

/// Pause after an accept error that resolves only with time, such as a lack of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Instant that no clock reaches.
const NEVER: u64 = u64::MAX;

/// Data shared by all workers of a mock.
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
    /// Arrival of the first request, for the stall; [`NEVER`] before.
    first_ns: AtomicU64,
    seed: Option<u64>,
    tls: Option<Acceptor>,
}

/// TLS acceptor; wrapped because `TlsAcceptor` does not implement `Debug`.
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

    /// Determines the response to a request, and counts errors and resets.
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

    /// Returns the arrival time of the very first request; `now_ns` if this is the first.
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

/// Validity of a request, independent of random choices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Standing {
    #[default]
    Good,
    /// The path is not the configured one.
    NotFound,
    /// The body is too long to be echoed.
    TooLarge,
}

#[derive(Debug)]
pub(super) enum Outcome<'a> {
    Reset,
    Other(&'a Answer),
    /// The configured response, which an echo or a WebSocket may replace.
    Asked(&'a Answer),
}

/// State of one worker thread, shared by its connections.
#[derive(Debug)]
pub(super) struct Worker {
    pub(super) shared: Arc<Shared>,
    pub(super) scratch: RefCell<Box<[u8]>>,
    pub(super) head: RefCell<RequestHead>,
    /// Budget for growing HTTP/2 windows, over all connections of the worker.
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

    #[inline]
    pub(super) fn counts(&self) -> &Counts {
        &self.shared.counts[self.index]
    }

    /// Returns the milliseconds on a monotonic clock.
    #[inline]
    pub(super) fn now_ms(&self) -> u64 {
        self.deadlines.now_ns() / 1_000_000
    }

    #[inline]
    pub(super) fn verdict(&self) -> Verdict {
        self.shared.choice.verdict(&mut self.random.borrow_mut())
    }

    /// Whether responses may be delayed by latency or a stall.
    #[inline]
    pub(super) fn is_slow(&self) -> bool {
        !self.shared.sampler.is_none() || self.shared.stall.is_some()
    }

    /// Returns the due time of the response to a request that has just arrived; `None` for at once.
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

    /// Waits until the time returned by [`Self::due_ns`].
    ///
    /// # Errors
    /// If the timer fails.
    pub(super) async fn until(&self, due_ns: Option<u64>) -> io::Result<()> {
        match due_ns {
            None => Ok(()),
            Some(due_ns) => self.deadlines.until(due_ns).await,
        }
    }
}

/// Runs a worker on the calling thread until stopped. Reports to `begun` whether it could start.
pub(super) fn run(
    shared: Arc<Shared>,
    index: usize,
    listeners: Vec<TcpListener>,
    mut stop: watch::Receiver<bool>,
    begun: &std::sync::mpsc::SyncSender<io::Result<()>>,
) {
    let started = start(shared, index, listeners);
    let outcome = started.map(|runtime| {
        // Fails only while the mock is being dropped.
        let _ = begun.send(Ok(()));
        // An error means that the mock is dropped, which also ends the worker.
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

/// Whether a client left while it was queued, which is not a failure of the mock.
fn is_of_the_client(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset)
}

async fn connection(worker: Rc<Worker>, stream: TcpStream) {
    match &worker.shared.tls {
        None => speak(&worker, stream).await,
        // Boxed, so that plain connections do not reserve memory for the large TLS state.
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

/// Serves HTTP/1 until the connection ends or switches to another protocol.
async fn speak<S: Wire>(worker: &Rc<Worker>, stream: S) {
    let mut connection = http1::Connection::new(worker, stream);
    let after = connection.serve().await;
    let (stream, read) = connection.into_parts();
    match after {
        // The client is gone or has been answered, so that an error cannot be reported to it.
        Err(_) | Ok(After::End) => {}
        // Fails only if the connection is already closed.
        Ok(After::Reset) => drop(stream.tcp().set_zero_linger()),
        // Both are boxed, because few connections reach them and the others should not reserve the
        // memory.
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
        /// Maximum memory of a plain connection's task in bytes, so that 50,000 connections take 50
        /// MB at most.
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
