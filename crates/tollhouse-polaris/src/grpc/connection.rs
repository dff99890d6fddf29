//! A connection: a single task drives HTTP/2, accepts calls, sends the output of all calls, and
//! follows orders of the roster and of the shutdown.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite};
use tollhouse_h2::driver::{End, Socket, Transport};
use tollhouse_h2::{Connection, Limits, Rate};
use tollhouse_stdx::MemoryBudget;

use super::accept::Server;
use super::budget::Budget;
use super::call::{self, IncomingCall};
use super::limits::{
    CONNECTION_WINDOW_BYTES, EARLY_RESETS_MAX, HANDSHAKE_TIMEOUT, HEADER_BYTES_MAX, OUTPUT_BYTES,
    RESETS_PER_SECOND, STREAM_WINDOW_BYTES, STREAMS_MAX,
};
use super::presence::{Order, Presence};
use super::session::{Calls, Session};
use super::stopping::Listener;
use super::unsent::{UnsentAnswer, UnsentAnswers};

/// Payload of the PING that checks whether a client is alive.
const ALIVE_PING: [u8; 8] = *b"tollhous";

/// State shared by the calls of a connection.
pub(super) struct Link {
    pub(super) server: Rc<Server>,
    pub(super) peer: SocketAddr,
    pub(super) budget: Budget,
    pub(super) session: Rc<Session>,
}

struct Driver<S> {
    link: Rc<Link>,
    stream: S,
    presence: Presence,
    listener: Listener,
    unsent: Rc<UnsentAnswers>,
    /// Answer whose rest is not sent yet; `None` while the socket accepts bytes.
    blocked: Option<UnsentAnswer>,
    /// Reused list of the calls that one read has begun.
    begun: Vec<IncomingCall>,
    /// Whether the connection has had a call since it last released its memory.
    holds_memory: bool,
}

/// Serves a connection until the client or the server ends it.
pub(super) async fn serve<S>(server: Rc<Server>, stream: S, peer: SocketAddr, presence: Presence)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let (arrivals, unsent) = (presence.arrivals(), presence.unsent());
    // No further memory limit is needed, because windows do not grow and the connection's window
    // bounds unread bytes.
    let codec = Connection::server(limits(), &MemoryBudget::unlimited(), server.now_ms());
    let session = Rc::new(Session::new(codec, Calls::new(Rc::clone(&server), arrivals)));
    let link = Rc::new(Link {
        budget: Budget::new(server.budget.clone(), Rc::clone(&unsent)),
        session: Rc::clone(&session),
        peer,
        server: Rc::clone(&server),
    });
    let mut driver = Driver {
        link,
        stream,
        presence,
        listener: server.stopping.listener(),
        unsent,
        blocked: None,
        begun: Vec::new(),
        holds_memory: true,
    };
    let has_settings = || session.with(|codec, _| codec.has_peer_settings());
    let shaken = tokio::time::timeout(
        HANDSHAKE_TIMEOUT,
        poll_fn(|cx| match driver.poll(cx) {
            Poll::Ready(()) => Poll::Ready(false),
            Poll::Pending if has_settings() => Poll::Ready(true),
            Poll::Pending => Poll::Pending,
        }),
    );
    match shaken.await {
        Ok(true) => poll_fn(|cx| driver.poll(cx)).await,
        Ok(false) if has_settings() => {}
        Ok(false) | Err(_) => server.counts.handshakes_failed.add_one(),
    }
    session.with(|codec, calls| calls.lose(codec));
}

fn limits() -> Limits {
    let resets = Rate { burst: EARLY_RESETS_MAX, per_second: RESETS_PER_SECOND };
    Limits {
        concurrent_streams: STREAMS_MAX,
        header_list_bytes: HEADER_BYTES_MAX,
        stream_window_bytes: STREAM_WINDOW_BYTES,
        stream_window_bytes_max: STREAM_WINDOW_BYTES,
        window_growth_bytes: 0,
        connection_window_bytes: CONNECTION_WINDOW_BYTES,
        unread_bytes: CONNECTION_WINDOW_BYTES,
        output_bytes: OUTPUT_BYTES,
        resets,
        // Disabled here, because the roster pings and ends silent connections.
        settings_ack_ms: u64::MAX,
        ..Limits::default()
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Driver<S> {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let link = Rc::clone(&self.link);
        if self.presence.order(cx).is_some_and(|order| self.obey(order)) {
            return Poll::Ready(());
        }
        if self.listener.has_begun(cx) {
            link.session.with(|codec, _| codec.drain());
        }
        match link.session.poll_turn(cx, self) {
            Poll::Ready(End::Fault(error)) => {
                link.server.note_fault(link.peer, &error);
                return Poll::Ready(());
            }
            Poll::Ready(_) => return Poll::Ready(()),
            Poll::Pending => {}
        }
        // Without calls no deadline of the protocol can pass, so that periodic checks are not
        // needed.
        self.holds_memory |= link.session.with(|codec, _| codec.open_streams() > 0);
        self.presence.set_wants_looks(self.holds_memory);
        Poll::Pending
    }

    /// Carries out an order of the roster; its output is written in the turn that follows. Returns
    /// whether the connection must end at once.
    fn obey(&mut self, order: Order) -> bool {
        let session = &self.link.session;
        match order {
            Order::End => return true,
            Order::Ping => session.with(|codec, _| codec.ping(ALIVE_PING)),
            Order::Look => {
                // The consequence of a passed deadline is in the codec's output.
                let _ = session.tick(self.link.server.now_ms());
                let is_idle = session.with(|codec, calls| {
                    let is_idle = codec.open_streams() == 0;
                    if is_idle {
                        codec.release_memory();
                        calls.release_memory();
                    }
                    is_idle
                });
                if is_idle {
                    self.begun = Vec::new();
                    self.holds_memory = false;
                }
            }
        }
        false
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Transport for Driver<S> {
    fn poll_read<T>(
        &mut self,
        cx: &mut Context<'_>,
        take: impl FnOnce(&[u8]) -> T,
    ) -> Poll<io::Result<T>> {
        Socket::new(&mut self.stream, &self.link.server.read_buffer).poll_read(cx, take)
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, output: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, output);
        match (&written, &mut self.blocked) {
            (Poll::Ready(Ok(bytes)), Some(blocked)) => blocked.advance(*bytes),
            (Poll::Pending, None) => self.blocked = Some(self.unsent.begin()),
            _ => {}
        }
        written
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.blocked = None;
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn after_read(&mut self, cx: &mut Context<'_>) {
        let Self { link, begun, .. } = self;
        link.session.with(|_, calls| std::mem::swap(&mut calls.begun, begun));
        for begun in begun.drain(..) {
            call::begin(link, begun, cx);
        }
    }
}

#[cfg(test)]
mod tests;
