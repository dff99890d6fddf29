//! A thread of a server: accepts connections, runs them as tasks, monitors them, and stops
//! gracefully.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::spawn_local;
use tokio::time::{Instant, timeout};
use tollhouse_h2::ConnectionError;
use tollhouse_net::listener_tls::ListenerTls;
use tollhouse_net::slots::{LOG_INTERVAL, Slots};
use tollhouse_stdx::LogLimit;
use tollhouse_trace::Tracer;

use super::budget::ThreadBudget;
use super::connection;
use super::connections::Connections;
use super::limits::{ACCEPT_PAUSE, CONNECTIONS_MAX, DRAIN_TIMEOUT, MESSAGE_BYTES_MAX, READ_BYTES};
use super::presence::{Presence, Roster};
use super::service::Services;
use super::stopping::Stopping;

/// Options of a server; fixed limits are in [`super::limits`].
#[derive(Debug, Clone)]
pub struct Options {
    /// Maximum length of a message in bytes.
    pub message_bytes_max: usize,
    /// Connection slots, shared by the threads of a listener.
    pub slots: Slots,
    /// Counters; may be shared by threads.
    pub counts: Arc<Counts>,
    /// Table of open connections; may be shared by threads.
    pub connections: Connections,
    /// Certificate of the listeners; `None` is plaintext.
    pub tls: Option<ListenerTls>,
    /// Tracing of calls; `None` is off.
    pub tracer: Option<Arc<Tracer>>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            message_bytes_max: MESSAGE_BYTES_MAX,
            slots: Slots::new("registry gRPC", CONNECTIONS_MAX),
            counts: Arc::default(),
            connections: Connections::default(),
            tls: None,
            tracer: None,
        }
    }
}

/// Counter that only increases, shared between threads.
#[derive(Debug, Default)]
pub struct Count(AtomicU64);

impl Count {
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    pub(super) fn add_one(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[derive(Debug, Default)]
pub struct Counts {
    /// Number of accepted connections.
    pub connections: Count,
    /// Number of accepted connections that have ended.
    pub connections_ended: Count,
    /// Connections closed at once because the limit was reached.
    pub connections_refused: Count,
    /// Accepted connections that were closed for a protocol violation of the client.
    pub connections_faulted: Count,
    /// Failures to accept for lack of a resource, such as file descriptors.
    pub accept_failures: Count,
    /// Accepted connections that did not speak HTTP/2, or failed the TLS handshake.
    pub handshakes_failed: Count,
    /// Number of calls that have begun.
    pub calls: Count,
    /// Calls that ended with a status other than OK.
    pub calls_failed: Count,
    /// Number of handlers that panicked.
    pub panics: Count,
}

/// State shared by the connections of a thread.
pub(super) struct Server {
    pub(super) services: Services,
    pub(super) message_bytes_max: usize,
    pub(super) counts: Arc<Counts>,
    pub(super) stopping: Rc<Stopping>,
    /// Read buffer, used by one connection at a time.
    pub(super) read_buffer: RefCell<Vec<u8>>,
    pub(super) roster: Rc<Roster>,
    pub(super) budget: ThreadBudget,
    pub(super) tracer: Option<Arc<Tracer>>,
    slots: Slots,
    connections: Connections,
    tls: Option<ListenerTls>,
    started: Instant,
    /// Rate limit for log lines about protocol violations.
    faults: LogLimit,
}

/// Serves `listeners` until `stop` becomes true or its sender is dropped, then lets calls in
/// progress finish for up to [`DRAIN_TIMEOUT`]. Must run on a local runtime or in a local set.
///
/// # Errors
/// If a listener cannot be used.
pub async fn serve(
    listeners: Vec<std::net::TcpListener>,
    services: Services,
    options: Options,
    mut stop: watch::Receiver<bool>,
) -> io::Result<()> {
    let listeners: io::Result<Vec<_>> = listeners.into_iter().map(adopt).collect();
    let listeners = listeners?;
    let server = Rc::new(Server::new(services, options));
    tokio::select! {
        () = accept(&server, &listeners) => {}
        () = server.roster.watch() => {}
        _ = stop.wait_for(|is_over| *is_over) => {}
    }
    drop(listeners);
    server.stopping.begin();
    if timeout(DRAIN_TIMEOUT, server.roster.until_empty()).await.is_err() {
        server.roster.end_all();
        server.roster.until_empty().await;
    }
    Ok(())
}

fn adopt(listener: std::net::TcpListener) -> io::Result<TcpListener> {
    listener.set_nonblocking(true)?;
    TcpListener::from_std(listener)
}

/// Accepts connections until the future is dropped.
async fn accept(server: &Rc<Server>, listeners: &[TcpListener]) {
    let failures = LogLimit::new(LOG_INTERVAL);
    // Next listener to poll first, so that a busy listener does not starve the others.
    let mut turn = 0;
    loop {
        let accepted = poll_fn(|cx| {
            for _ in listeners {
                turn = (turn + 1) % listeners.len();
                if let Poll::Ready(accepted) = listeners[turn].poll_accept(cx) {
                    return Poll::Ready(accepted);
                }
            }
            Poll::Pending
        });
        match accepted.await {
            Ok((stream, peer)) => server.take(stream, peer),
            Err(error) if is_of_the_client(&error) => {}
            Err(error) => {
                server.counts.accept_failures.add_one();
                if let Some(suppressed) = failures.admit(std::time::Instant::now()) {
                    tracing::warn!(%error, suppressed, "cannot accept connections of registry clients");
                }
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Whether the failure is due to a client that left while it was queued.
fn is_of_the_client(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset)
}

impl Server {
    pub(super) fn new(services: Services, options: Options) -> Self {
        Self {
            services,
            message_bytes_max: options.message_bytes_max,
            counts: options.counts,
            stopping: Rc::default(),
            read_buffer: RefCell::new(vec![0; READ_BYTES]),
            started: Instant::now(),
            faults: LogLimit::new(LOG_INTERVAL),
            roster: Rc::default(),
            budget: ThreadBudget::default(),
            tracer: options.tracer,
            slots: options.slots,
            connections: options.connections,
            tls: options.tls.map(|tls| tls.for_http2()),
        }
    }

    /// Returns the milliseconds since the server started.
    pub(super) fn now_ms(&self) -> u64 {
        self.started.elapsed().as_millis() as u64
    }

    /// Counts a connection that is closed for a protocol violation, and logs it at a limited rate,
    /// so that an operator finds the reason for a client that reconnects again and again.
    pub(super) fn note_fault(&self, peer: SocketAddr, error: &ConnectionError) {
        self.counts.connections_faulted.add_one();
        if let Some(suppressed) = self.faults.admit(std::time::Instant::now()) {
            let reason = error.reason;
            tracing::warn!(%peer, reason, suppressed, "a registry client's connection is ended for what it sent");
        }
    }

    fn take(self: &Rc<Self>, stream: TcpStream, peer: SocketAddr) {
        let Some(slot) = self.slots.take(peer.ip()) else {
            return self.counts.connections_refused.add_one();
        };
        self.counts.connections.add_one();
        // An error here means that the connection is closed; reading will report it.
        let _ = stream.set_nodelay(true);
        let server = Rc::clone(self);
        let presence = self.roster.enter();
        let (registration, ending) = (self.connections.enter(peer), presence.ending());
        spawn_local(async move {
            let mut conversation = pin!(server.converse(stream, peer, presence));
            tokio::select! {
                biased;
                () = &mut conversation => {}
                () = registration.closed() => {
                    ending.end();
                    conversation.await;
                }
            }
            drop(slot);
        });
    }

    async fn converse(self: Rc<Self>, stream: TcpStream, peer: SocketAddr, presence: Presence) {
        let counts = Arc::clone(&self.counts);
        match &self.tls {
            None => connection::serve(self, stream, peer, presence).await,
            Some(tls) => match tls.accept(stream).await {
                Ok(stream) => connection::serve(self, stream, peer, presence).await,
                Err(error) => {
                    counts.handshakes_failed.add_one();
                    tracing::debug!(%peer, %error, "a TLS handshake with the registry failed");
                }
            },
        }
        counts.connections_ended.add_one();
    }
}
