//! Accepts the connections of one listener and starts a task for each.

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
use crate::l4::proxy_header::{self, ProxiedAddresses};
use crate::stages::account;
use crate::transfer::pump::RequestPump;
use crate::worker::{Phase, REFUSED_OPEN_MAX, Transport, Worker};

/// Pause after an accept error that only time can resolve, such as a lack of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Accepts until the drain begins, then takes the connections already queued in the kernel, because
/// their clients would otherwise see a reset.
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

/// Pauses after an accept error that only time can resolve.
pub(crate) async fn pause(worker: &Worker, error: &io::Error) {
    // A client that left while it was queued needs no pause.
    if matches!(error.kind(), io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset) {
        return;
    }
    if let Some(unreported) = worker.accept_failures.admit(std::time::Instant::now()) {
        tracing::warn!(%error, suppressed = unreported, "connections cannot be accepted; check the limit of open files");
    }
    worker.metrics.downstream_connections_refused.increment(ConnectionRefusal::Accept);
    tokio::time::sleep(ACCEPT_PAUSE).await;
}

/// Serves a plain connection whose peer is the client.
pub(crate) fn start(worker: &Rc<Worker>, stream: TcpStream, peer: SocketAddr) {
    start_over(worker, stream, peer, Transport::Plain);
}

/// Serves a TLS connection whose peer is the client.
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

/// Serves a connection that begins with a PROXY protocol header, on behalf of the client that it
/// names. `transport` tells what follows the header.
pub(super) fn start_proxied(
    worker: &Rc<Worker>,
    stream: TcpStream,
    peer: SocketAddr,
    transport: Transport,
) {
    let mut entry = Entry::begin(worker);
    // The client is not known yet, so a connection beyond the limit is closed without a response.
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
        Ok(None) => ProxiedAddresses { client: peer, local },
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

/// Returns the future of a connection. This is an async block, because an `async fn` would store
/// its parameters twice.
#[expect(clippy::manual_async_fn, reason = "every idle connection would pay for the copies")]
fn connection(
    mut entry: Entry,
    mut client: Client,
    refusal: Option<ErrorCode>,
) -> impl Future<Output = ()> {
    async move {
        // Waker of this task, which wakes it for a drain; available only inside the task.
        let task = poll_fn(|context| Poll::Ready(context.waker().clone())).await;
        entry.enter_as(task);
        let worker = Rc::clone(&entry.worker);
        let refusal = match refusal {
            None if client.link.stream.server_tls().is_some() => {
                let (stream, from) = (&mut client.link.stream, client.peer.address);
                let shaken = handshake::run(&worker, stream, from, Carries::Requests);
                // Boxed, because an open connection would otherwise keep the handshake's state
                // until its end.
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

/// Sends the refusal of a connection that was not admitted, without reading from it.
async fn refuse(worker: &Worker, client: &mut Client, code: ErrorCode) {
    let mut state = worker.take_state();
    let mut body = RequestPump::none();
    let mut cx = Exchange::new(worker, client, &mut state, &mut body);
    error::refuse(&mut cx, GatewayError::from(code)).await;
    account::refused(&cx);
    worker.give_state(state);
}

/// Counts a connection as open until its task ends.
pub(crate) struct Entry {
    worker: Rc<Worker>,
    /// Number of the connection's task, once the task runs.
    number: Option<u64>,
    /// Client address that the connection is counted for, once known.
    client: Option<IpAddr>,
    is_refused: bool,
}

impl Entry {
    /// Counts an accepted connection until the entry is dropped.
    pub(crate) fn begin(worker: &Rc<Worker>) -> Self {
        worker.metrics.downstream_connections_accepted.increment();
        worker.metrics.downstream_connections_open.increment();
        worker.open.begin();
        Self { worker: Rc::clone(worker), number: None, client: None, is_refused: false }
    }

    pub(crate) fn worker(&self) -> &Rc<Worker> {
        &self.worker
    }

    /// Counts the connection for `client`, if known.
    ///
    /// # Errors
    /// If the core or the client has too many connections.
    pub(crate) fn admit(&mut self, client: Option<IpAddr>) -> Result<(), ErrorCode> {
        let open = &self.worker.open;
        let is_within = client.is_none_or(|client| open.admit(client));
        self.client = client;
        if open.len() > self.worker.settings.limits.connections_per_worker {
            return Err(ErrorCode::ConnectionLimit);
        }
        if is_within { Ok(()) } else { Err(ErrorCode::ConnectionLimitPerAddress) }
    }

    /// Whether a refused connection may receive a response; `true` without a refusal. Otherwise the
    /// refusal is counted here and the connection closes silently.
    fn may_be_answered(&mut self, refusal: Option<ErrorCode>, transport: Transport) -> bool {
        let Some(code) = refusal else { return true };
        let refused = &self.worker.refused_open;
        // A response over TLS would need a handshake first, whose cost an attacker could exploit.
        if transport == Transport::Tls || refused.get() >= REFUSED_OPEN_MAX {
            account::count_refusal(&self.worker, code);
            return false;
        }
        refused.set(refused.get() + 1);
        self.is_refused = true;
        true
    }

    /// Registers the current task to be woken by a drain.
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
