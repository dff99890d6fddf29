//! HTTP/2 in a mock: each stream is answered when it is due, independent of the others.
//!
//! One task transfers the bytes of a connection between socket and codec and sends the due
//! responses; one write carries the data of all streams. Failed streams end silently.

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

/// Streams whose response is due, reported by the tasks that waited until then.
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

/// Connection that is being served, with the exchanges on it.
struct Serving<'a> {
    worker: &'a Rc<Worker>,
    codec: Connection,
    /// Request head that the decoder completed last.
    head: Head,
    /// Exchanges whose response is incomplete, by stream.
    exchanges: HashMap<StreamId, Exchange>,
    due: Rc<Due>,
    /// Whether the tick timer is set.
    is_ticking: bool,
}

impl Serving<'_> {
    /// Completes when the connection is over and all output is written.
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
            // Polled once, so that this task is woken.
            self.is_ticking = tick.as_mut().poll(context).is_pending();
        }
        polled
    }

    /// Transfers bytes and sends due responses.
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

    /// Reads once and processes the data; `None` if the client has ended the connection.
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
                // The codec has already written the error to its output.
                Err(_) => {
                    worker.counts().malformed.add_one();
                    break;
                }
            }
        }
        Poll::Ready(Some(()))
    }

    /// Writes all pending output, in as few writes as the socket allows.
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

    /// Continues responses that were limited by windows or the output buffer.
    fn send_ready(&mut self) {
        while let Some(stream) = self.codec.next_ready() {
            advance(self.worker, &mut self.codec, &mut self.exchanges, stream);
        }
    }

    fn answer_due(&mut self) {
        while let Some(stream) = self.due.streams.borrow_mut().pop() {
            // The stream may have been reset in the meantime.
            if let Some(exchange) = self.exchanges.get_mut(&stream) {
                exchange.is_due = true;
                advance(self.worker, &mut self.codec, &mut self.exchanges, stream);
            }
        }
    }

    fn look_at_deadlines(&mut self) {
        let now_ms = self.worker.now_ms();
        // An error ends the connection with the next output.
        while let Ok(Some(event)) = self.codec.tick(now_ms) {
            let (worker, due) = (self.worker, &self.due);
            take(worker, &mut self.codec, &self.head, &mut self.exchanges, due, event);
        }
    }
}

/// Processes an event of the codec.
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
            // Most requests are completed here without entering the table.
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

/// Marks a request as complete if it has ended; requests with a body are answered after its end.
fn end(worker: &Rc<Worker>, due: &Rc<Due>, stream: StreamId, exchange: &mut Exchange, ends: bool) {
    if !ends {
        return;
    }
    exchange.has_ended = true;
    if !exchange.is_timed_from_head() {
        schedule(worker, due, stream, exchange);
    }
}

/// Makes an exchange due: at once, or by a task that waits for its deadline.
fn schedule(worker: &Rc<Worker>, due: &Rc<Due>, stream: StreamId, exchange: &mut Exchange) {
    let due_ns = worker.due_ns();
    if due_ns.is_none() {
        exchange.is_due = true;
        return;
    }
    let (worker, due) = (Rc::clone(worker), Rc::clone(due));
    spawn_local(async move {
        // With a failed timer, requests are no longer answered.
        if worker.until(due_ns).await.is_ok() {
            due.push(stream);
        }
    });
}

/// Continues an exchange, and removes it when it is over.
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
