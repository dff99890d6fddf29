//! HTTP/2 in a mock: each stream is answered when it is due, independent of the others.
//!
//! One task transfers the bytes of a connection between socket and codec and sends the due
//! responses; one write carries the data of all streams. Failed streams end silently.

mod exchange;
mod head;

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::rc::{Rc, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::task::spawn_local;
use tokio::time::{Instant, Sleep, sleep, timeout};
use tollhouse_h2::driver::{Application, End, Session, Socket, StreamTable};
use tollhouse_h2::{Connection, Event, Limits, Rate, StreamId};

use super::worker::Worker;
use exchange::{Exchange, Progress};
use head::Head;

/// Maximum number of concurrent streams per connection; more than any load generator uses.
const STREAMS_MAX: u32 = 4_096;

/// Flow-control window of a stream, so that usual bodies arrive without waiting.
const STREAM_WINDOW_BYTES: u32 = 1 << 20;

/// Flow-control window of a connection in bytes.
const CONNECTION_WINDOW_BYTES: u32 = 1 << 24;

/// Permitted rate of resets, pings and window updates of a connection: that of a correct generator
/// at full speed. Each costs no more than a request.
const FRAME_RATE: Rate = Rate { burst: 1_000_000, per_second: 1_000_000 };

/// Interval at which the protocol's deadlines are checked while any is pending: before both sides'
/// settings are known, with an open stream, or within a frame. An idle connection is not woken.
const TICK: Duration = Duration::from_secs(1);

/// Time a client has to read the final frame before the socket is closed.
const LINGER_TIME: Duration = Duration::from_secs(1);

/// Limits for a client: more than in a gateway, because the purpose of a mock is to be loaded.
fn limits() -> Limits {
    Limits {
        concurrent_streams: STREAMS_MAX,
        stream_window_bytes: STREAM_WINDOW_BYTES,
        stream_window_bytes_max: STREAM_WINDOW_BYTES,
        connection_window_bytes: CONNECTION_WINDOW_BYTES,
        unread_bytes: CONNECTION_WINDOW_BYTES,
        resets: FRAME_RATE,
        pings: FRAME_RATE,
        window_updates: FRAME_RATE,
        ..Limits::default()
    }
}

/// Serves a connection until the client ends it.
pub(super) async fn serve<S>(worker: &Rc<Worker>, stream: S)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut serving = Serving::new(worker, stream);
    {
        let mut tick = pin!(sleep(TICK));
        poll_fn(|context| serving.poll(context, tick.as_mut())).await;
    }
    if serving.session.with(|codec, _| codec.failure().is_some()) {
        linger(serving.socket.stream).await;
    }
}

/// Reads and discards the client's data, so that the kernel does not discard the final frame.
async fn linger<S: AsyncRead + AsyncWrite + Unpin>(mut stream: S) {
    let mut ignored = [0; 1024];
    let reading = async {
        // An error means that the client is gone.
        let _ = stream.shutdown().await;
        while stream.read(&mut ignored).await.is_ok_and(|count| count > 0) {}
    };
    // A slower client does not receive the reason.
    let _ = timeout(LINGER_TIME, reading).await;
}

/// Connection that is being served.
struct Serving<'a, S> {
    worker: &'a Worker,
    session: Rc<Session<Exchanges>>,
    socket: Socket<'a, S, Box<[u8]>>,
    /// Whether the tick timer is set.
    is_ticking: bool,
}

impl<'a, S: AsyncRead + AsyncWrite + Unpin> Serving<'a, S> {
    fn new(worker: &'a Rc<Worker>, stream: S) -> Self {
        let codec = Connection::server(limits(), &worker.memory, worker.now_ms());
        let session = Rc::new_cyclic(|session| {
            let exchanges = Exchanges {
                worker: Rc::clone(worker),
                head: Head::default(),
                unfinished: StreamTable::default(),
                session: Weak::clone(session),
            };
            Session::new(codec, exchanges)
        });
        Self { worker, session, socket: Socket::new(stream, &worker.scratch), is_ticking: true }
    }

    /// Completes when the connection is over.
    fn poll(&mut self, context: &mut Context<'_>, mut tick: Pin<&mut Sleep>) -> Poll<()> {
        if self.is_ticking && tick.as_mut().poll(context).is_ready() {
            self.is_ticking = false;
            // An error ends the connection with the next output.
            let _ = self.session.tick(self.worker.now_ms());
        }
        let end = self.session.poll_turn(context, &mut self.socket);
        if let Poll::Ready(End::Fault(_)) = end {
            self.worker.counts().malformed.add_one();
        }
        while end.is_pending()
            && !self.is_ticking
            && self.session.with(|codec, _| codec.has_deadlines())
        {
            tick.as_mut().reset(Instant::now() + TICK);
            // Polled once, so that this task is woken.
            self.is_ticking = tick.as_mut().poll(context).is_pending();
        }
        end.map(drop)
    }
}

/// Requests of a connection whose response is incomplete.
struct Exchanges {
    worker: Rc<Worker>,
    /// Request head that the decoder completed last.
    head: Head,
    unfinished: StreamTable<Exchange>,
    /// Connection, for tasks that wait until a response is due.
    session: Weak<Session<Self>>,
}

impl Application for Exchanges {
    type Fields = Head;

    fn fields(&mut self) -> &mut Head {
        &mut self.head
    }

    fn received(&mut self, _: usize) -> u64 {
        self.worker.now_ms()
    }

    fn event(&mut self, codec: &mut Connection, event: Event<'_>) {
        match event {
            Event::Request { stream, ends } => {
                self.worker.counts().requests.add_one();
                let mut exchange = Exchange::new(&self.worker, &self.head, ends);
                if exchange.is_timed_from_head() || ends {
                    schedule(&self.worker, &self.session, stream, &mut exchange);
                }
                // Most requests are completed here without entering the table.
                if exchange.advance(&self.worker, codec, stream) == Progress::Over {
                    codec.release(stream);
                } else {
                    self.unfinished.insert(stream, exchange);
                }
            }
            Event::Data { stream, data, ends } => {
                let Some(exchange) = self.unfinished.get_mut(stream) else {
                    return codec.consume(stream, data.len());
                };
                exchange.feed(&self.worker, codec, stream, data);
                if ends {
                    self.end(stream);
                }
                self.send(codec, stream);
            }
            Event::Trailers { stream } => {
                self.end(stream);
                self.send(codec, stream);
            }
            Event::Reset { stream, .. } => {
                self.unfinished.remove(stream);
                codec.release(stream);
            }
            _ => {}
        }
    }

    /// Continues an exchange, and removes it when it is over.
    fn send(&mut self, codec: &mut Connection, stream: StreamId) {
        let Some(exchange) = self.unfinished.get_mut(stream) else { return };
        if exchange.advance(&self.worker, codec, stream) == Progress::Over {
            self.unfinished.remove(stream);
            codec.release(stream);
        }
    }
}

impl Exchanges {
    /// Marks a request as complete; requests with a body are answered after its end.
    fn end(&mut self, stream: StreamId) {
        let Some(exchange) = self.unfinished.get_mut(stream) else { return };
        exchange.has_ended = true;
        if !exchange.is_timed_from_head() {
            schedule(&self.worker, &self.session, stream, exchange);
        }
    }
}

/// Makes an exchange due: at once, or by a task that waits for its deadline.
fn schedule(
    worker: &Rc<Worker>,
    session: &Weak<Session<Exchanges>>,
    stream: StreamId,
    exchange: &mut Exchange,
) {
    let due_ns = worker.due_ns();
    if due_ns.is_none() {
        exchange.is_due = true;
        return;
    }
    let (worker, session) = (Rc::clone(worker), Weak::clone(session));
    spawn_local(async move {
        // With a failed timer, requests are no longer answered.
        let is_due = worker.until(due_ns).await.is_ok();
        if let Some(session) = session.upgrade().filter(|_| is_due) {
            session.with(|codec, exchanges| {
                // The stream may have been reset in the meantime.
                if let Some(exchange) = exchanges.unfinished.get_mut(stream) {
                    exchange.is_due = true;
                    exchanges.send(codec, stream);
                }
            });
        }
    });
}

#[cfg(test)]
mod tests;
