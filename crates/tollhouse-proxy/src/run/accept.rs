//! Accepts connections of one listener and starts a task for each.

use std::future::poll_fn;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tollhouse_net::Stream;
use tollhouse_net::server_tls::ServerTls;
use tollhouse_telemetry::{ConnectionRefusal, ErrorCode};

use crate::answer::error;
use crate::connection::client::Client;
use crate::connection::handshake::{self, Shaken};
use crate::connection::serve;
use crate::error::GatewayError;
use crate::exchange::Exchange;
use crate::stages::account;
use crate::transfer::pump::RequestPump;
use crate::worker::{Phase, REFUSED_OPEN_MAX, Transport, Worker};

/// Pause after an error that only time mends, such as no file descriptors left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Accepts until the drain begins, then takes what the kernel has already queued: those clients
/// have a connection and would see a reset.
pub(super) async fn run(
    worker: Rc<Worker>,
    (listener, transport): (TcpListener, Transport),
    mut phase: watch::Receiver<Phase>,
) {
    loop {
        let accepted = tokio::select! {
            biased;
            _ = phase.wait_for(|phase| *phase != Phase::Serving) => break,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, peer)) => start(&worker, stream, peer, transport),
            Err(error) => pause(&worker, &error).await,
        }
    }
    worker.begin_drain();
    // Asked of the kernel itself: the reactor knows only of those that came before its last look.
    let Ok(listener) = listener.into_std() else { return };
    while let Ok((stream, peer)) = listener.accept() {
        if stream.set_nonblocking(true).is_err() {
            continue;
        }
        if let Ok(stream) = TcpStream::from_std(stream) {
            start(&worker, stream, peer, transport);
        }
    }
}

async fn pause(worker: &Worker, error: &io::Error) {
    // A client that left while it was queued is nobody's failure.
    if matches!(error.kind(), io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset) {
        return;
    }
    if let Some(unreported) = worker.accept_failures.admit(std::time::Instant::now()) {
        tracing::warn!(%error, untold = unreported, "connections cannot be accepted; check the limit of open files");
    }
    worker.metrics.downstream_connections_refused.increment(ConnectionRefusal::Accept);
    tokio::time::sleep(ACCEPT_PAUSE).await;
}

fn start(worker: &Rc<Worker>, stream: TcpStream, peer: SocketAddr, transport: Transport) {
    worker.metrics.downstream_connections_accepted.increment();
    worker.metrics.downstream_connections_open.increment();
    let refusal = refusal(worker, peer);
    if let Some(code) = refusal {
        // Where an answer takes a handshake first, it would be a flood's best weapon.
        if transport == Transport::Tls || worker.refused_open.get() >= REFUSED_OPEN_MAX {
            return drop_refused(worker, peer, code);
        }
        worker.refused_open.set(worker.refused_open.get() + 1);
    }
    worker.open.begin();
    let is_refused = refusal.is_some();
    let entry = Entry { worker: Rc::clone(worker), number: None, client: peer.ip(), is_refused };
    let local = stream.local_addr().unwrap_or(peer);
    let stream = match transport {
        Transport::Plain => Stream::Plain(stream),
        Transport::Tls => Stream::ServerTls(Box::new(ServerTls::new(stream))),
    };
    let client = Client::new(worker, stream, peer, local);
    let task = connection(entry, client, refusal);
    tokio::task::spawn_local(task);
}

/// Why a connection gets an answer and nothing else.
fn refusal(worker: &Worker, peer: SocketAddr) -> Option<ErrorCode> {
    let admitted = worker.open.admit(peer.ip());
    if worker.open.len() >= worker.settings.limits.connections_per_worker {
        return Some(ErrorCode::ConnectionLimit);
    }
    (!admitted).then_some(ErrorCode::ConnectionLimitPerAddress)
}

/// Forgets a connection that not even an answer is spent on; it closes as its stream is dropped.
fn drop_refused(worker: &Worker, peer: SocketAddr, code: ErrorCode) {
    worker.open.leave(peer.ip());
    worker.metrics.downstream_connections_open.decrement();
    account::count_refusal(worker, code);
}

/// A block and not a function that is `async`, which would hold its parameters twice.
#[expect(clippy::manual_async_fn, reason = "every idle connection would pay for the copies")]
fn connection(
    mut entry: Entry,
    mut client: Client,
    refusal: Option<ErrorCode>,
) -> impl Future<Output = ()> {
    async move {
        let task = poll_fn(|context| Poll::Ready(context.waker().clone())).await;
        entry.number = Some(entry.worker.open.enter(task));
        let worker = Rc::clone(&entry.worker);
        let refusal = match refusal {
            None if client.link.stream.server_tls().is_some() => {
                client.attach().await;
                match Box::pin(handshake::run(&worker, &mut client)).await {
                    Shaken::Open => None,
                    Shaken::Failed => return,
                    Shaken::PlainHttp => Some(ErrorCode::PlainHttpOnTls),
                }
            }
            refusal => refusal,
        };
        match refusal {
            None => serve::connection(&worker, &mut client).await,
            Some(code) => {
                client.attach().await;
                Box::pin(refuse(&worker, &mut client, code)).await;
                Box::pin(client.linger(&worker)).await;
            }
        }
    }
}

/// Answers a connection that is not let in, without having read anything.
async fn refuse(worker: &Worker, client: &mut Client, code: ErrorCode) {
    let mut state = worker.take_state();
    let mut body = RequestPump::none();
    let mut cx = Exchange::new(worker, client, &mut state, &mut body);
    error::refuse(&mut cx, GatewayError::from(code)).await;
    account::refused(&cx);
    worker.give_state(state);
}

/// Counts the connection as open until its task ends, however it ends.
struct Entry {
    worker: Rc<Worker>,
    /// Of its task, once that has begun.
    number: Option<u64>,
    client: IpAddr,
    is_refused: bool,
}

impl Drop for Entry {
    fn drop(&mut self) {
        let refused = &self.worker.refused_open;
        refused.set(refused.get() - usize::from(self.is_refused));
        self.worker.open.exit(self.number);
        self.worker.open.leave(self.client);
        self.worker.metrics.downstream_connections_open.decrement();
    }
}

#[cfg(test)]
mod tests;
