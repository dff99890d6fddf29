//! Sessions of datagrams: each client address and port is bound to one node until it has been
//! silent for the idle timeout.
//!
//! Once a session has its node, nothing is queued: datagrams that a socket does not take are
//! dropped and counted, as are those that the kernel dropped before. Sources can be forged.
//! Therefore sessions are limited per core and per address, and sessions with an unproven source
//! are displaced by newer ones, and a turn of the listener starts few of them: datagrams of
//! sessions that exist, and other connections of the core, do not wait for a flood of new ones.

use std::future::poll_fn;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use rustix::net::RecvFlags;
use tokio::io::unix::{AsyncFd, AsyncFdReadyGuard};
use tokio::sync::watch;
use tokio::time::MissedTickBehavior;
use tollhouse_net::proxy_protocol;
use tollhouse_stdx::duration::to_ms;
use tollhouse_stdx::{LogLimit, lost_datagrams};
use tollhouse_telemetry::{DatagramDrop, ErrorCode};
use tollhouse_upstream::{Outcome, Picked};

use super::connection::{Connection, Ends, FirstBytes, Transport};
use super::finish;
use super::listener::StreamOptions;
use super::node;
use super::plugins::{self, Refusal};
use super::table::Arrival;
use crate::settings::DRAIN_IDLE_TIME;
use crate::snapshot::{Snapshot, UpstreamEntry};
use crate::turn;
use crate::worker::{Phase, Worker};

mod arrivals;
mod connected;
pub(crate) mod sessions;
mod slot;

use arrivals::{Arrivals, NewSession};
use connected::{ConnectedSocket, OverUdp};
use sessions::{DATAGRAM_BYTES_MAX, Session, SessionKey};
use slot::{NodeSocket, SessionSlot};

/// Datagrams that a listener forwards before it yields to other tasks.
const DATAGRAMS_PER_TURN: usize = 64;

/// Interval between queries of the kernel's count of lost datagrams.
const LOSSES_INTERVAL: Duration = Duration::from_secs(1);

/// Minimum time between log lines about losses.
const LOSSES_LOG_INTERVAL: Duration = Duration::from_secs(60);

/// Status of a session that had a node.
const SERVED_STATUS: u16 = 200;

/// A listening socket and the state that its sessions share.
struct Listener {
    worker: Rc<Worker>,
    socket: AsyncFd<UdpSocket>,
    local: SocketAddr,
    /// Number of the listener within its core.
    number: usize,
    options: StreamOptions,
}

/// Socket of a listener, with the listener's number and options.
pub(crate) struct Source {
    pub(crate) socket: UdpSocket,
    pub(crate) number: usize,
    pub(crate) options: StreamOptions,
}

/// Forwards datagrams until the drain begins. Sessions continue as long as their nodes respond.
pub(crate) async fn run(worker: Rc<Worker>, source: Source, mut phase: watch::Receiver<Phase>) {
    let Source { socket, number, options } = source;
    let (socket, local) = match register(socket) {
        Ok(bound) => bound,
        Err(error) => {
            tracing::error!(%error, "a socket for datagrams cannot be read from");
            return;
        }
    };
    let mut losses = Losses::new(&socket);
    let listener = Rc::new(Listener { worker, socket, local, number, options });
    let mut datagram = vec![0; DATAGRAM_BYTES_MAX];
    let mut arrivals = Arrivals::default();
    let mut interval = tokio::time::interval(LOSSES_INTERVAL);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            biased;
            _ = phase.wait_for(|phase| *phase != Phase::Serving) => break,
            // Polled before the datagrams, because during a flood, when losses occur, the socket is
            // always readable.
            _ = interval.tick() => losses.count(&listener),
            ready = listener.socket.readable() => {
                let Ok(ready) = ready else { break };
                listener.pass_some(ready, &mut datagram, &mut arrivals);
            }
            () = std::future::ready(()), if !arrivals.is_empty() => {}
        }
        arrivals.take_some().for_each(|new| start(&listener, new));
        tokio::task::yield_now().await;
    }
    arrivals.take_all().for_each(|new| start(&listener, new));
}

/// Registers a listening socket, which is in non-blocking mode, and returns its address.
fn register(socket: UdpSocket) -> io::Result<(AsyncFd<UdpSocket>, SocketAddr)> {
    let local = socket.local_addr()?;
    Ok((connected::register_for_reading(socket)?, local))
}

fn start(listener: &Rc<Listener>, new: NewSession) {
    tokio::task::spawn_local(serve(Rc::clone(listener), new));
}

/// Datagrams of a listener that the kernel dropped because its receive buffer was full.
struct Losses {
    /// Losses counted so far, which excludes those of a predecessor process. `None` if the kernel
    /// does not report them.
    counted: Option<u32>,
    log: LogLimit,
}

impl Losses {
    fn new(socket: &AsyncFd<UdpSocket>) -> Self {
        Self { counted: lost_datagrams(socket).ok(), log: LogLimit::new(LOSSES_LOG_INTERVAL) }
    }

    fn count(&mut self, listener: &Listener) {
        let Some((counted, lost)) = self.counted.zip(lost_datagrams(&listener.socket).ok()) else {
            return;
        };
        let more = lost.wrapping_sub(counted);
        if more == 0 {
            return;
        }
        self.counted = Some(lost);
        let metrics = &listener.worker.metrics;
        metrics.udp_datagrams_dropped.get(DatagramDrop::ReceiveBuffer).add(u64::from(more));
        if self.log.admit(std::time::Instant::now()).is_some() {
            tracing::warn!(
                listener = %listener.local, lost = more,
                "datagrams came faster than they were read, and the system has dropped some; \
                 more workers read faster, and a higher net.core.rmem_max lets more wait"
            );
        }
    }
}

impl Listener {
    /// Forwards received datagrams, at most `DATAGRAMS_PER_TURN`. Those of new sources are appended
    /// to `arrivals`.
    fn pass_some(
        &self,
        mut ready: AsyncFdReadyGuard<'_, UdpSocket>,
        datagram: &mut [u8],
        arrivals: &mut Arrivals,
    ) {
        self.worker.clock.refresh();
        for _ in 0..DATAGRAMS_PER_TURN {
            match ready.try_io(|socket| socket.get_ref().recv_from(datagram)) {
                Ok(Ok((bytes, client))) => self.pass(&datagram[..bytes], client, arrivals),
                // Error of an earlier datagram to a client that is gone.
                Ok(Err(_)) => {}
                Err(_would_block) => return,
            }
        }
    }

    fn pass(&self, datagram: &[u8], client: SocketAddr, arrivals: &mut Arrivals) {
        let key = SessionKey { listener: self.number, client };
        let worker = &self.worker;
        match worker.sessions.get(&key) {
            Some(session) => {
                session.note_follower(&worker.sessions);
                if let Err(drop) = session.send(worker, datagram) {
                    worker.metrics.udp_datagrams_dropped.increment(drop);
                }
            }
            None => {
                if let Err(drop) = self.begin(key, datagram, arrivals) {
                    worker.metrics.udp_datagrams_dropped.increment(drop);
                }
            }
        }
    }

    /// Takes a place for a new session with its first datagram.
    fn begin(
        &self,
        key: SessionKey,
        datagram: &[u8],
        arrivals: &mut Arrivals,
    ) -> Result<(), DatagramDrop> {
        let worker = &self.worker;
        let snapshot = worker.snapshot.take();
        let address = key.client.ip().to_canonical();
        let arrival = Arrival { client: address, local: self.local, server_name: None };
        // Routed before a place is taken, so that a datagram without a route costs only the
        // look-up.
        let Some(route) = snapshot.streams.find(&arrival).cloned() else {
            worker.metrics.stream_failed.increment(ErrorCode::RouteNotFound);
            return Err(DatagramDrop::Refused);
        };
        let place = SessionSlot::take(worker, key, datagram.len())?;
        let first = FirstBytes::Datagram(datagram.into());
        arrivals.push(NewSession { place, first, route });
        Ok(())
    }
}

/// Serves a session until it ends.
async fn serve(listener: Rc<Listener>, new: NewSession) {
    let NewSession { mut place, first, route } = new;
    place.enter().await;
    let client = place.client();
    let ends = Ends { client, peer: client, local: listener.local, listener: listener.local };
    let mut connection = Connection::new(&listener.worker, Transport::Udp, ends, first);
    connection.attach().await;
    connection.entry = Some(route);
    let snapshot = Arc::clone(&listener.worker.snapshot.take());
    let session = place.session();
    let relayed = {
        let mut relaying = pin!(relay(&mut connection, &listener, session, snapshot));
        // Checked at every poll, also while a node is being selected.
        poll_fn(|context| match session.is_displaced() {
            true => Poll::Ready(session.displaced()),
            false => relaying.as_mut().poll(context),
        })
        .await
    };
    let refusal = relayed.err();
    finish::run(&mut connection, refusal);
}

async fn relay(
    connection: &mut Connection<'_>,
    listener: &Listener,
    session: &Session,
    snapshot: Arc<Snapshot>,
) -> Result<(), Refusal> {
    let Some(route) = connection.entry.clone() else { return Ok(()) };
    let chosen = plugins::access(connection, &route, &snapshot).await?;
    let upstream = node::upstream(&snapshot, &route, &chosen)?;
    // Released before relaying, because a session may last for days and would keep the whole
    // configuration alive.
    drop(snapshot);
    let (socket, picked) = node::connect(connection, &upstream, &OverUdp).await?;
    connection.record.status = SERVED_STATUS;
    let mut header = Vec::new();
    // Version 1 of the PROXY protocol does not support datagrams.
    let own = upstream.terms.proxy_protocol.map(|_| proxy_protocol::Version::V2Datagram);
    if let Some(version) = own.or_else(|| listener.options.header_out.for_datagrams()) {
        proxy_protocol::write(version, connection.ends.client, connection.ends.local, &mut header);
    }
    let socket = Rc::new(socket);
    // Released, because a session may last for days.
    let nothing = FirstBytes::Datagram(Box::default());
    if let FirstBytes::Datagram(first) = std::mem::replace(&mut connection.first, nothing) {
        let node = NodeSocket { socket: Rc::clone(&socket), header };
        session.open(connection.worker, &first, node);
    }
    let answers = NodeResponses { listener, session, socket: &socket, upstream: &upstream, picked };
    answers.pass_all(connection).await.map_err(Refusal::from)
}

/// Datagrams from the node of a session.
struct NodeResponses<'s> {
    listener: &'s Listener,
    session: &'s Session,
    socket: &'s ConnectedSocket,
    upstream: &'s UpstreamEntry,
    picked: Picked<'s>,
}

impl NodeResponses<'_> {
    /// Forwards responses until no datagram has passed in either direction for the idle timeout.
    async fn pass_all(&self, connection: &mut Connection<'_>) -> Result<(), ErrorCode> {
        let idle_time = connection.worker.settings.streams.udp_idle_time;
        connection.arm(idle_time);
        let mut has_answered = false;
        let ended = poll_fn(|context| {
            let polled = self.poll_answers(context, connection, &mut has_answered);
            connection.record.bytes_received = self.session.bytes_received();
            if let Poll::Ready(error) = polled {
                return Poll::Ready(Err(error));
            }
            if let Some(error) = self.session.take_failure() {
                return Poll::Ready(Err(error));
            }
            self.poll_end(connection, idle_time)
        })
        .await;
        let Err(error) = ended else { return Ok(()) };
        let worker = connection.worker;
        worker.failures.note(self.picked.address(), &error);
        self.upstream.state.report(&self.picked, Outcome::Failed, worker.clock.now_ms());
        Err(ErrorCode::UpstreamReset)
    }

    /// Forwards datagrams from the node; ready if its socket fails.
    fn poll_answers(
        &self,
        context: &mut Context<'_>,
        connection: &mut Connection<'_>,
        has_answered: &mut bool,
    ) -> Poll<io::Error> {
        let worker = connection.worker;
        let mut datagram = worker.sessions.scratch();
        for _ in 0..DATAGRAMS_PER_TURN {
            let mut ready = match self.socket.poll_read_ready(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Err(error)) => return Poll::Ready(error),
                Poll::Ready(Ok(ready)) => ready,
            };
            let received = ready.try_io(|socket| {
                let (bytes, _) = rustix::net::recv(socket, &mut **datagram, RecvFlags::empty())?;
                Ok(bytes)
            });
            let answer = match received {
                // Registers for the next datagram.
                Err(_would_block) => continue,
                Ok(Err(error)) => return Poll::Ready(error),
                Ok(Ok(bytes)) => &datagram[..bytes],
            };
            self.session.touch(worker.clock.refresh());
            if !std::mem::replace(has_answered, true) {
                self.session.note_answered(&worker.sessions);
                self.note_answer(connection);
            }
            match self.listener.socket.get_ref().send_to(answer, connection.ends.client) {
                Ok(sent) => {
                    connection.record.bytes_sent += sent as u64;
                    worker.metrics.stream_sent_bytes.add(sent as u64);
                }
                Err(_) => worker.metrics.udp_datagrams_dropped.increment(DatagramDrop::Send),
            }
        }
        turn::give_way(context)
    }

    /// Reports the node as healthy, because only a response proves that it is alive.
    fn note_answer(&self, connection: &Connection<'_>) {
        let now_ms = connection.worker.clock.now_ms();
        let response_time = Duration::from_millis(connection.session_ms());
        let outcome = Outcome::Answered { status: SERVED_STATUS, response_time };
        self.upstream.state.report(&self.picked, outcome, now_ms);
    }

    /// Becomes ready when the session has been silent for the idle timeout, which is shorter during
    /// a drain.
    fn poll_end(
        &self,
        connection: &Connection<'_>,
        idle_time: Duration,
    ) -> Poll<Result<(), io::Error>> {
        let worker = connection.worker;
        let time = if worker.is_draining() { DRAIN_IDLE_TIME } else { idle_time };
        let now_ms = worker.clock.now_ms();
        let silent_ms = now_ms.saturating_sub(self.session.touched_ms());
        let time_ms = to_ms(time);
        if silent_ms >= time_ms {
            return Poll::Ready(Ok(()));
        }
        connection.arm(Duration::from_millis(time_ms - silent_ms));
        Poll::Pending
    }
}

#[cfg(test)]
mod tests;
