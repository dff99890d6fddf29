//! HTTP/2 of a mock: each stream is answered when its time comes, whatever the others do.
//!
//! One task moves the bytes of a connection between its socket and the codec, and answers what is due;
//! what all streams have to say leaves in one write. A stream that fails is its client's affair and ends
//! silently.

mod exchange;
mod head;

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::task::spawn_local;
use tokio::time::{Instant, Sleep, sleep, timeout};
use tollhouse_h2::{Connection, Event, Limits, Rate, StreamId};

use super::worker::Worker;
use exchange::{Exchange, Progress};
use head::Head;

/// Streams that a client may have open at once on a connection; more than any generator asks for.
const STREAMS_MAX: u32 = 4_096;

/// Bytes that a client may send ahead on one stream: usual bodies come without waiting.
const STREAM_WINDOW_BYTES: u32 = 1 << 20;

/// The same for all streams of a connection.
const CONNECTION_WINDOW_BYTES: u32 = 1 << 24;

/// Resets, pings and window updates that a connection may send: those of an honest generator at full
/// speed, of which each costs no more than a request.
const FRAME_RATE: Rate = Rate { burst: 1_000_000, per_second: 1_000_000 };

/// How often the protocol's own deadlines are looked at while one is under way: before both sides' settings
/// are known, with a stream open, inside of a frame. A connection at rest is not woken.
const TICK: Duration = Duration::from_secs(1);

/// How long a client that was sent the last frame may take to read it before the socket is closed.
const LINGER_TIME: Duration = Duration::from_secs(1);

/// What a mock allows a client: more ahead than a gateway would, since it is there to be loaded.
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
pub(super) async fn serve<S>(worker: &Rc<Worker>, mut stream: S)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut serving = Serving {
        worker,
        codec: Connection::server(limits(), &worker.memory, worker.now_ms()),
        head: Head::default(),
        exchanges: HashMap::new(),
        due: Rc::default(),
        is_ticking: true,
    };
    {
        let mut tick = pin!(sleep(TICK));
        poll_fn(|context| serving.poll(context, &mut stream, tick.as_mut())).await;
    }
    if serving.codec.failure().is_some() {
        linger(stream).await;
    }
}

/// Takes what the client has sent meanwhile, so that the kernel does not throw the last frame away.
async fn linger<S: AsyncRead + AsyncWrite + Unpin>(mut stream: S) {
    let mut ignored = [0; 1024];
    let reading = async {
        // An error means that there is nobody left to be waited for.
        let _ = stream.shutdown().await;
        while stream.read(&mut ignored).await.is_ok_and(|count| count > 0) {}
    };
    // Whoever takes longer misses the reason.
    let _ = timeout(LINGER_TIME, reading).await;
}

/// Streams whose answer is due, named by the tasks that waited for them.
#[derive(Default)]
struct Due {
    streams: RefCell<Vec<StreamId>>,
    waker: Cell<Option<Waker>>,
}

impl Due {
    fn push(&self, stream: StreamId) {
        self.streams.borrow_mut().push(stream);
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

/// A connection that is served.
struct Serving<'a> {
    worker: &'a Rc<Worker>,
    codec: Connection,
    /// The head that came last.
    head: Head,
    /// Requests that are not answered whole.
    exchanges: HashMap<StreamId, Exchange>,
    due: Rc<Due>,
    /// Whether the tick is set.
    is_ticking: bool,
}

impl Serving<'_> {
    /// Ready when the connection is over and nothing is left to be written.
    fn poll<S>(
        &mut self,
        context: &mut Context<'_>,
        stream: &mut S,
        mut tick: Pin<&mut Sleep>,
    ) -> Poll<()>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        if self.is_ticking && tick.as_mut().poll(context).is_ready() {
            self.is_ticking = false;
            self.look_at_deadlines();
        }
        let polled = self.poll_bytes(context, stream);
        while polled.is_pending() && !self.is_ticking && self.codec.has_deadlines() {
            tick.as_mut().reset(Instant::now() + TICK);
            // So that this task is woken then.
            self.is_ticking = tick.as_mut().poll(context).is_pending();
        }
        polled
    }

    /// Moves bytes and answers what is due.
    fn poll_bytes<S>(&mut self, context: &mut Context<'_>, stream: &mut S) -> Poll<()>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        self.due.waker.set(Some(context.waker().clone()));
        self.answer_due();
        loop {
            let written = self.write(context, stream);
            if matches!(written, Poll::Ready(Err(_))) {
                return Poll::Ready(());
            }
            if self.codec.failure().is_some() || self.codec.is_finished() {
                return written.map(drop);
            }
            if !self.codec.wants_input() {
                return Poll::Pending;
            }
            if ready!(self.read(context, stream)).is_none() {
                return Poll::Ready(());
            }
        }
    }

    /// Reads once and takes all of it in; `None` where the client has ended the connection.
    fn read<S>(&mut self, context: &mut Context<'_>, stream: &mut S) -> Poll<Option<()>>
    where
        S: AsyncRead + Unpin,
    {
        let worker = self.worker;
        let mut scratch = worker.scratch.borrow_mut();
        let mut buffer = ReadBuf::new(&mut scratch);
        let read = ready!(Pin::new(stream).poll_read(context, &mut buffer));
        let mut input = buffer.filled();
        if read.is_err() || input.is_empty() {
            return Poll::Ready(None);
        }
        let now_ms = worker.now_ms();
        loop {
            match self.codec.receive(&mut input, now_ms, &mut self.head) {
                Ok(Some(event)) => {
                    take(
                        worker,
                        &mut self.codec,
                        &self.head,
                        &mut self.exchanges,
                        &self.due,
                        event,
                    );
                }
                Ok(None) => break,
                // What is to be said of it stands in the output.
                Err(_) => {
                    worker.counts().malformed.add_one();
                    break;
                }
            }
        }
        Poll::Ready(Some(()))
    }

    /// Writes all that there is, in as few writes as the socket allows.
    fn write<S>(
        &mut self,
        context: &mut Context<'_>,
        stream: &mut S,
    ) -> Poll<Result<(), std::io::Error>>
    where
        S: AsyncWrite + Unpin,
    {
        self.send_ready();
        while !self.codec.output().is_empty() {
            let written = Pin::new(&mut *stream).poll_write(context, self.codec.output());
            match ready!(written) {
                Ok(0) => return Poll::Ready(Err(std::io::ErrorKind::WriteZero.into())),
                Ok(count) => self.codec.written(count),
                Err(error) => return Poll::Ready(Err(error)),
            }
            self.send_ready();
        }
        Pin::new(stream).poll_flush(context)
    }

    /// Goes on with the answers that windows or output had no room for.
    fn send_ready(&mut self) {
        while let Some(stream) = self.codec.next_ready() {
            advance(self.worker, &mut self.codec, &mut self.exchanges, stream);
        }
    }

    fn answer_due(&mut self) {
        while let Some(stream) = self.due.streams.borrow_mut().pop() {
            // One that was reset meanwhile is not there any more.
            if let Some(exchange) = self.exchanges.get_mut(&stream) {
                exchange.is_due = true;
                advance(self.worker, &mut self.codec, &mut self.exchanges, stream);
            }
        }
    }

    fn look_at_deadlines(&mut self) {
        let now_ms = self.worker.now_ms();
        // An error ends the connection with what is written next.
        while let Ok(Some(event)) = self.codec.tick(now_ms) {
            let (worker, due) = (self.worker, &self.due);
            take(worker, &mut self.codec, &self.head, &mut self.exchanges, due, event);
        }
    }
}

/// Deals with one thing that the client did.
fn take(
    worker: &Rc<Worker>,
    codec: &mut Connection,
    head: &Head,
    exchanges: &mut HashMap<StreamId, Exchange>,
    due: &Rc<Due>,
    event: Event<'_>,
) {
    let stream = match event {
        Event::Request { stream, ends } => {
            worker.counts().requests.add_one();
            let mut exchange = Exchange::new(worker, head, ends);
            if exchange.is_timed_from_head() || ends {
                schedule(worker, due, stream, &mut exchange);
            }
            // Most are answered here and never stand in the table.
            if exchange.advance(worker, codec, stream) == Progress::Over {
                codec.release(stream);
            } else {
                exchanges.insert(stream, exchange);
            }
            return;
        }
        Event::Data { stream, data, ends } => {
            match exchanges.get_mut(&stream) {
                None => codec.consume(stream, data.len()),
                Some(exchange) => {
                    exchange.feed(worker, codec, stream, data);
                    end(worker, due, stream, exchange, ends);
                }
            }
            stream
        }
        Event::Trailers { stream } => {
            if let Some(exchange) = exchanges.get_mut(&stream) {
                end(worker, due, stream, exchange, true);
            }
            stream
        }
        Event::Reset { stream, .. } => {
            exchanges.remove(&stream);
            codec.release(stream);
            return;
        }
        _ => return,
    };
    advance(worker, codec, exchanges, stream);
}

/// Notes that a request is complete, where it is; a body is answered after its end.
fn end(worker: &Rc<Worker>, due: &Rc<Due>, stream: StreamId, exchange: &mut Exchange, ends: bool) {
    if !ends {
        return;
    }
    exchange.has_ended = true;
    if !exchange.is_timed_from_head() {
        schedule(worker, due, stream, exchange);
    }
}

/// Lets an exchange's time come: at once, or when a task of its own has waited for it.
fn schedule(worker: &Rc<Worker>, due: &Rc<Due>, stream: StreamId, exchange: &mut Exchange) {
    let due_ns = worker.due_ns();
    if due_ns.is_none() {
        exchange.is_due = true;
        return;
    }
    let (worker, due) = (Rc::clone(worker), Rc::clone(due));
    spawn_local(async move {
        // With a broken timer nothing is answered any more.
        if worker.until(due_ns).await.is_ok() {
            due.push(stream);
        }
    });
}

/// Goes on with an exchange, and forgets it when it is over.
fn advance(
    worker: &Worker,
    codec: &mut Connection,
    exchanges: &mut HashMap<StreamId, Exchange>,
    stream: StreamId,
) {
    let Some(exchange) = exchanges.get_mut(&stream) else { return };
    if exchange.advance(worker, codec, stream) == Progress::Over {
        exchanges.remove(&stream);
        codec.release(stream);
    }
}

#[cfg(test)]
mod tests;
