//! A connection: a single task drives HTTP/2, accepts calls, sends the output of all calls, and
//! follows orders of the roster and of the shutdown.

use std::cell::Cell;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tollhouse_h2::{Connection, Limits, Rate};
use tollhouse_stdx::MemoryBudget;

use super::accept::Server;
use super::budget::Budget;
use super::call::{self, IncomingCall};
use super::limits::{
    CONNECTION_WINDOW_BYTES, EARLY_RESETS_MAX, HANDSHAKE_TIMEOUT, HEADER_BYTES_MAX, OUTPUT_BYTES,
    READS_PER_TURN, RESETS_PER_SECOND, STREAM_WINDOW_BYTES, STREAMS_MAX,
};
use super::presence::{Order, Presence};
use super::session::Session;
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
    /// Counter of reads that returned bytes.
    arrivals: Rc<Cell<u64>>,
    unsent: Rc<UnsentAnswers>,
    /// Set while the socket accepts no more bytes.
    blocked: Option<UnsentAnswer>,
    /// Reused list of the calls that one read has begun.
    begun: Vec<IncomingCall>,
    /// Whether the connection has had a call since it last released its memory.
    holds_memory: bool,
}

/// Progress of a read or write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Progress {
    /// There may be more to do.
    On,
    /// Everything possible is done for now.
    Waiting,
    Ended,
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
    let session = Session::new(codec);
    let link = Link {
        budget: Budget::new(server.budget.clone(), Rc::clone(&unsent)),
        session: Rc::clone(&session),
        peer,
        server: Rc::clone(&server),
    };
    let mut driver = Driver {
        stream,
        presence,
        listener: server.stopping.listener(),
        arrivals,
        unsent,
        link: Rc::new(link),
        blocked: None,
        begun: Vec::new(),
        holds_memory: true,
    };
    let shaken = tokio::time::timeout(
        HANDSHAKE_TIMEOUT,
        poll_fn(|cx| match driver.poll(cx) {
            Poll::Ready(()) => Poll::Ready(false),
            Poll::Pending if session.with_codec(|codec| codec.has_peer_settings()) => {
                Poll::Ready(true)
            }
            Poll::Pending => Poll::Pending,
        }),
    );
    match shaken.await {
        Ok(true) => poll_fn(|cx| driver.poll(cx)).await,
        Ok(false) if session.with_codec(|codec| codec.has_peer_settings()) => {}
        Ok(false) | Err(_) => server.counts.handshakes_failed.add_one(),
    }
    session.lose();
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
        let session = Rc::clone(&self.link.session);
        session.begin_turn(cx);
        let is_over = self.turn(cx, &session);
        session.end_turn();
        if is_over {
            return Poll::Ready(());
        }
        // Without calls no deadline of the protocol can pass, so that periodic checks are not
        // needed.
        self.holds_memory |= !session.is_idle();
        self.presence.set_wants_looks(self.holds_memory);
        Poll::Pending
    }

    /// Does everything that is possible now. Returns whether the connection has ended.
    fn turn(&mut self, cx: &mut Context<'_>, session: &Session) -> bool {
        if self.listener.has_begun(cx) {
            session.with_codec(|codec| codec.drain());
        }
        match self.presence.order(cx) {
            Some(Order::End) => return true,
            Some(Order::Ping) => session.with_codec(|codec| codec.ping(ALIVE_PING)),
            Some(Order::Look) => {
                // The consequence of a passed deadline is in the codec's output, which is written
                // below.
                let _ = session.tick(self.link.server.now_ms());
                if session.is_idle() {
                    session.release_memory();
                    self.begun = Vec::new();
                    self.holds_memory = false;
                }
            }
            None => {}
        }
        for _ in 0..READS_PER_TURN {
            let read = self.read(cx, session);
            if read == Progress::Ended {
                // Remaining output, such as a GOAWAY, is written as far as the socket accepts it at
                // once.
                let _ = self.write(cx, session);
                return true;
            }
            session.send_ready();
            match self.write(cx, session) {
                Progress::Ended => return true,
                Progress::On | Progress::Waiting if read == Progress::Waiting => return false,
                Progress::On | Progress::Waiting => {}
            }
        }
        // Yields, so that a busy client does not starve others.
        cx.waker().wake_by_ref();
        false
    }

    /// Reads once, and begins the calls that have arrived.
    fn read(&mut self, cx: &mut Context<'_>, session: &Session) -> Progress {
        if !session.with_codec(|codec| codec.wants_input()) {
            return Progress::Waiting;
        }
        let link = &self.link;
        let mut buffer = link.server.read_buffer.take();
        let read = poll_read(&mut self.stream, cx, &mut buffer);
        let moved = match read {
            Poll::Pending => Progress::Waiting,
            Poll::Ready(Ok(bytes)) if bytes > 0 => {
                self.arrivals.set(self.arrivals.get() + 1);
                let begun = &mut self.begun;
                let received =
                    session.receive(&buffer[..bytes], link.server.now_ms(), |stream, head| {
                        begun.push(IncomingCall::new(link, stream, head));
                    });
                match received {
                    Ok(()) => Progress::On,
                    Err(error) => {
                        link.server.note_fault(link.peer, &error);
                        Progress::Ended
                    }
                }
            }
            Poll::Ready(_) => Progress::Ended,
        };
        // Calls begin after the shared buffer was put back, because a call that reads at once needs
        // it.
        link.server.read_buffer.replace(buffer);
        for begun in self.begun.drain(..) {
            call::begin(link, begun, cx);
        }
        moved
    }

    /// Writes the pending output.
    fn write(&mut self, cx: &mut Context<'_>, session: &Session) -> Progress {
        loop {
            let stream = Pin::new(&mut self.stream);
            match session.write_out(|output| stream.poll_write(cx, output)) {
                Poll::Ready(Ok(0)) => break,
                Poll::Ready(Ok(bytes)) => {
                    if let Some(blocked) = &mut self.blocked {
                        blocked.advance(bytes);
                    }
                    session.send_ready();
                }
                Poll::Ready(Err(_)) => return Progress::Ended,
                Poll::Pending => {
                    self.blocked.get_or_insert_with(|| self.unsent.begin());
                    return Progress::Waiting;
                }
            }
        }
        self.blocked = None;
        match Pin::new(&mut self.stream).poll_flush(cx) {
            Poll::Ready(Err(_)) => Progress::Ended,
            Poll::Ready(Ok(())) if session.with_codec(|codec| codec.is_finished()) => {
                Progress::Ended
            }
            Poll::Ready(Ok(())) | Poll::Pending => Progress::On,
        }
    }
}

fn poll_read<S: AsyncRead + Unpin>(
    stream: &mut S,
    cx: &mut Context<'_>,
    buffer: &mut [u8],
) -> Poll<std::io::Result<usize>> {
    let mut into = ReadBuf::new(buffer);
    ready!(Pin::new(stream).poll_read(cx, &mut into))?;
    Poll::Ready(Ok(into.filled().len()))
}

#[cfg(test)]
mod tests;
