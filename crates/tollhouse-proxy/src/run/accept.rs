//! Accepts connections of one listener and starts a task for each.

use std::future::poll_fn;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::task::{Poll, Waker};
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::sync::watch;
use tollhouse_net::Stream;
use tollhouse_net::server_tls::ServerTls;
use tollhouse_net::unix::{Acceptor, UNIX_PEER};
use tollhouse_telemetry::{ConnectionRefusal, ErrorCode};

use crate::answer::error;
use crate::connection::client::Client;
use crate::connection::handshake::{self, Carries, Shaken};
use crate::connection::link::Link;
use crate::connection::serve;
use crate::error::GatewayError;
use crate::exchange::Exchange;
use crate::l4::proxy_header::{self, Proxied};
use crate::stages::account;
use crate::transfer::pump::RequestPump;
use crate::worker::{Phase, REFUSED_OPEN_MAX, Transport, Worker};

/// Pause after an error that only time mends, such as no file descriptors left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Accepts until the drain begins, then takes what the kernel has already queued: those clients
/// have a connection and would see a reset.
pub(super) async fn run(
    worker: Rc<Worker>,
    listener: Acceptor,
    mut phase: watch::Receiver<Phase>,
    start: impl Fn(&Rc<Worker>, TcpStream, SocketAddr),
) {
    loop {
        let accepted = tokio::select! {
            biased;
            _ = phase.wait_for(|phase| *phase != Phase::Serving) => break,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, peer)) => start(&worker, stream, peer),
            Err(error) => pause(&worker, &error).await,
        }
    }
    worker.begin_drain();
    for (stream, peer) in listener.into_queue() {
        start(&worker, stream, peer);
    }
}

/// Waits after an error of accepting, where waiting helps.
pub(crate) async fn pause(worker: &Worker, error: &io::Error) {
    // A client that left while it was queued is nobody's failure.
    if matches!(error.kind(), io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset) {
        return;
    }
    if let Some(unreported) = worker.accept_failures.admit(std::time::Instant::now()) {
        tracing::warn!(%error, suppressed = unreported, "connections cannot be accepted; check the limit of open files");
    }
    worker.metrics.downstream_connections_refused.increment(ConnectionRefusal::Accept);
    tokio::time::sleep(ACCEPT_PAUSE).await;
}

/// Serves a connection whose peer is the client.
pub(crate) fn start(worker: &Rc<Worker>, stream: TcpStream, peer: SocketAddr) {
    start_over(worker, stream, peer, Transport::Plain);
}

/// The same where the client is to speak TLS.
pub(super) fn start_tls(worker: &Rc<Worker>, stream: TcpStream, peer: SocketAddr) {
    start_over(worker, stream, peer, Transport::Tls);
}

fn start_over(worker: &Rc<Worker>, stream: TcpStream, peer: SocketAddr, transport: Transport) {
    let mut entry = Entry::begin(worker);
    // Those of a Unix socket have no address that could have too many.
    let address = (peer != UNIX_PEER).then(|| peer.ip());
    let refusal = entry.admit(address).err();
    if !entry.may_be_answered(refusal, transport) {
        return;
    }
    let local = stream.local_addr().unwrap_or(peer);
    let stream = match transport {
        Transport::Plain => Stream::from(stream),
        Transport::Tls => Stream::ServerTls(Box::new(ServerTls::new(stream))),
    };
    let client = Client::new(worker, stream, peer, local);
    let task = connection(entry, client, refusal);
    tokio::task::spawn_local(task);
}

/// Serves a connection that begins with a PROXY header, on behalf of whom that names; `transport` is
/// what follows behind the header.
pub(super) fn start_proxied(
    worker: &Rc<Worker>,
    stream: TcpStream,
    peer: SocketAddr,
    transport: Transport,
) {
    let mut entry = Entry::begin(worker);
    // Nobody knows yet for whom an answer would be: one too many is closed.
    if let Err(code) = entry.admit(None) {
        return account::count_refusal(worker, code);
    }
    tokio::task::spawn_local(proxied(entry, stream, peer, transport));
}

async fn proxied(mut entry: Entry, stream: TcpStream, peer: SocketAddr, transport: Transport) {
    entry.enter().await;
    let worker = Rc::clone(&entry.worker);
    let local = stream.local_addr().unwrap_or(peer);
    let mut link = Link::new(Stream::from(stream));
    let ends = match proxy_header::read(&worker, &mut link, peer).await {
        Ok(None) => Proxied { client: peer, local },
        Ok(Some(proxied)) => proxied,
        Err(code) => {
            link.release_buffer(&worker.buffers);
            return account::count_refusal(&worker, code);
        }
    };
    let refusal = entry.admit(Some(ends.client.ip())).err();
    if !entry.may_be_answered(refusal, transport) {
        return link.release_buffer(&worker.buffers);
    }
    let link = match transport {
        Transport::Plain => link,
        Transport::Tls => link.expecting_tls(&worker.buffers),
    };
    let client = Client::with_link(&worker, link, ends.client, ends.local);
    connection(entry, client, refusal).await;
}

/// A block and not a function that is `async`, which would hold its parameters twice.
#[expect(clippy::manual_async_fn, reason = "every idle connection would pay for the copies")]
fn connection(
    mut entry: Entry,
    mut client: Client,
    refusal: Option<ErrorCode>,
) -> impl Future<Output = ()> {
    async move {
        // The waker of this task, by which housekeeping ends it; known only from inside.
        let task = poll_fn(|context| Poll::Ready(context.waker().clone())).await;
        entry.enter_as(task);
        let worker = Rc::clone(&entry.worker);
        let refusal = match refusal {
            None if client.link.stream.server_tls().is_some() => {
                let (stream, from) = (&mut client.link.stream, client.peer.address);
                let shaken = handshake::run(&worker, stream, from, Carries::Requests);
                // Boxed for as long as it takes: an open connection would hold its state to the
                // end.
                match Box::pin(shaken).await {
                    Shaken::Open(peer) => {
                        client.tls = Some(Rc::new(peer));
                        None
                    }
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
pub(crate) struct Entry {
    worker: Rc<Worker>,
    /// Of its task, once that has begun.
    number: Option<u64>,
    /// For whom it counts, once that is known.
    client: Option<IpAddr>,
    is_refused: bool,
}

impl Entry {
    /// Counts a connection that was accepted.
    pub(crate) fn begin(worker: &Rc<Worker>) -> Self {
        worker.metrics.downstream_connections_accepted.increment();
        worker.metrics.downstream_connections_open.increment();
        worker.open.begin();
        Self { worker: Rc::clone(worker), number: None, client: None, is_refused: false }
    }

    /// Whose connections it is counted among.
    pub(crate) fn worker(&self) -> &Rc<Worker> {
        &self.worker
    }

    /// Counts it as `client`'s, where that is known by now.
    ///
    /// # Errors
    /// There are too many connections, or too many of that client.
    pub(crate) fn admit(&mut self, client: Option<IpAddr>) -> Result<(), ErrorCode> {
        let open = &self.worker.open;
        let is_within = client.is_none_or(|client| open.admit(client));
        self.client = client;
        if open.len() > self.worker.settings.limits.connections_per_worker {
            return Err(ErrorCode::ConnectionLimit);
        }
        if is_within { Ok(()) } else { Err(ErrorCode::ConnectionLimitPerAddress) }
    }

    /// Whether a refusal, where it is one, may take a place to be answered in; otherwise it is
    /// counted, and the connection closes without a word.
    fn may_be_answered(&mut self, refusal: Option<ErrorCode>, transport: Transport) -> bool {
        let Some(code) = refusal else { return true };
        let refused = &self.worker.refused_open;
        // Where an answer takes a handshake first, it would be a flood's best weapon.
        if transport == Transport::Tls || refused.get() >= REFUSED_OPEN_MAX {
            account::count_refusal(&self.worker, code);
            return false;
        }
        refused.set(refused.get() + 1);
        self.is_refused = true;
        true
    }

    /// Has a drain wake the task that calls this.
    pub(crate) async fn enter(&mut self) {
        let task = poll_fn(|context| Poll::Ready(context.waker().clone())).await;
        self.enter_as(task);
    }

    fn enter_as(&mut self, task: Waker) {
        if self.number.is_none() {
            self.number = Some(self.worker.open.enter(task));
        }
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        let refused = &self.worker.refused_open;
        refused.set(refused.get() - usize::from(self.is_refused));
        self.worker.open.exit(self.number);
        if let Some(client) = self.client {
            self.worker.open.leave(client);
        }
        self.worker.metrics.downstream_connections_open.decrement();
    }
}

#[cfg(test)]
mod tests;
