//! Driver of a connection on one thread: moves bytes between a socket and the codec, and holds the
//! state that the streams of the connection share.
//!
//! A program writes an [`Application`]: its streams, usually in a [`StreamTable`], and the reaction
//! to each [`Event`]. One task owns the [`Transport`] and calls [`Session::poll_turn`], or
//! [`Session::poll_read`] and [`Session::poll_write`] if it acts between them. All other tasks use
//! the connection through [`Session::with`], which wakes that task when there is something to
//! write.
//!
//! Dispatch is static, and nothing is allocated for an event. No borrow outlasts a call, and waking
//! a task only queues it. Deadlines, keep-alive and idle time are up to the task that owns the
//! socket.

mod socket;
mod table;
mod waker;

use std::cell::{Cell, RefCell};
use std::fmt;
use std::io::{self, ErrorKind};
use std::task::{Context, Poll, ready};

use crate::{Connection, ConnectionError, Event, FieldSink, StreamId};

pub use socket::{Socket, Transport};
pub use table::StreamTable;
pub use waker::WakerSlot;

/// Maximum number of reads in [`Session::poll_turn`], so that a busy peer does not starve the other
/// tasks of the thread.
const READS_PER_TURN: u32 = 8;

/// State of a connection's streams, and the reactions to what the peer does.
pub trait Application {
    /// Receiver of header fields.
    type Fields: FieldSink;

    /// Returns the receiver of header fields. Those of a head have arrived when its event does.
    fn fields(&mut self) -> &mut Self::Fields;

    /// Returns the current time in milliseconds. Called after each read, before its events.
    fn received(&mut self, bytes: usize) -> u64;

    /// Handles an event of the peer, or of a deadline that has passed.
    fn event(&mut self, codec: &mut Connection, event: Event<'_>);

    /// Sends more DATA of a stream named by [`Connection::next_ready`].
    fn send(&mut self, codec: &mut Connection, stream: StreamId);

    /// Handles a write of output; called after each write.
    fn written(&mut self, codec: &mut Connection, bytes: usize) {
        let _ = (codec, bytes);
    }
}

/// End of a connection.
#[derive(Debug)]
pub enum End {
    /// The connection was drained or closed, and all output is written.
    Finished,
    /// The peer broke the protocol. [`Connection::output`] holds the GOAWAY that says so.
    Fault(ConnectionError),
    /// The peer ended its side of the transport.
    Closed,
    /// The transport failed.
    Broken(io::Error),
}

/// Connection shared by the task that owns the socket and by the tasks of its streams.
pub struct Session<A> {
    state: RefCell<State<A>>,
    /// Task that owns the socket.
    task: RefCell<WakerSlot>,
    /// Whether that task runs or was woken; it writes pending output before it waits.
    is_awake: Cell<bool>,
}

struct State<A> {
    codec: Connection,
    application: A,
}

impl<A> fmt::Debug for Session<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").finish_non_exhaustive()
    }
}

impl<A> Session<A> {
    /// Creates a session; the codec's preface or settings are still to be written.
    pub fn new(codec: Connection, application: A) -> Self {
        Self {
            state: RefCell::new(State { codec, application }),
            task: RefCell::default(),
            is_awake: Cell::new(false),
        }
    }

    /// Runs `act` on codec and application, and wakes the socket's task if that has added output.
    /// `act` must not use the session.
    #[inline]
    pub fn with<T>(&self, act: impl FnOnce(&mut Connection, &mut A) -> T) -> T {
        let mut state = self.state.borrow_mut();
        let State { codec, application } = &mut *state;
        let pending = codec.output().len();
        let result = act(codec, application);
        let has_more = codec.output().len() > pending;
        drop(state);
        if has_more {
            self.wake();
        }
        result
    }

    /// Wakes the socket's task, unless it is awake.
    pub fn wake(&self) {
        if !self.is_awake.replace(true) {
            self.task.borrow().wake();
        }
    }

    /// Runs `act` as a turn of the socket's task: output added meanwhile does not wake it, and from
    /// then on [`Session::wake`] does.
    pub fn turn<T>(&self, cx: &mut Context<'_>, act: impl FnOnce(&mut Context<'_>) -> T) -> T {
        self.is_awake.set(true);
        self.task.borrow_mut().register(cx.waker());
        let result = act(cx);
        self.is_awake.set(false);
        result
    }
}

impl<A: Application> Session<A> {
    /// Processes bytes from the peer, and sends what has become possible.
    ///
    /// # Errors
    /// If the peer broke the protocol; pending output is still to be written.
    pub fn receive(&self, mut input: &[u8]) -> Result<(), ConnectionError> {
        let mut state = self.state.borrow_mut();
        let State { codec, application } = &mut *state;
        let now_ms = application.received(input.len());
        while let Some(event) = codec.receive(&mut input, now_ms, application.fields())? {
            application.event(codec, event);
        }
        send_ready(codec, application);
        Ok(())
    }

    /// Checks the deadlines of the protocol.
    ///
    /// # Errors
    /// If a deadline has passed that ends the connection; pending output is still to be written.
    pub fn tick(&self, now_ms: u64) -> Result<(), ConnectionError> {
        let mut state = self.state.borrow_mut();
        let State { codec, application } = &mut *state;
        while let Some(event) = codec.tick(now_ms)? {
            application.event(codec, event);
        }
        Ok(())
    }

    /// Reads once. If so much output is pending that it leaves no room for replies, writes first.
    /// Returns the number of bytes.
    ///
    /// # Errors
    /// The end of the connection; after a fault, pending output is still to be written.
    pub fn poll_read(
        &self,
        cx: &mut Context<'_>,
        transport: &mut impl Transport,
    ) -> Poll<Result<usize, End>> {
        let wants_input = self.state.borrow().codec.wants_input();
        if !wants_input {
            ready!(self.poll_write(cx, transport))?;
        }
        let read = transport.poll_read(cx, |bytes| match bytes.len() {
            0 => Err(End::Closed),
            length => self.receive(bytes).map(|()| length).map_err(End::Fault),
        });
        let received = ready!(read).map_err(End::Broken)?;
        transport.after_read(cx);
        Poll::Ready(received)
    }

    /// Writes all output, in as few writes as the transport allows, and flushes the transport.
    ///
    /// # Errors
    /// [`End::Finished`] if the connection has ended and everything is written; [`End::Broken`] if
    /// the transport fails.
    pub fn poll_write(
        &self,
        cx: &mut Context<'_>,
        transport: &mut impl Transport,
    ) -> Poll<Result<(), End>> {
        let mut state = self.state.borrow_mut();
        let State { codec, application } = &mut *state;
        while !codec.output().is_empty() {
            let bytes = match ready!(transport.poll_write(cx, codec.output())) {
                Ok(0) => return Poll::Ready(Err(End::Broken(ErrorKind::WriteZero.into()))),
                Ok(bytes) => bytes,
                Err(error) => return Poll::Ready(Err(End::Broken(error))),
            };
            codec.written(bytes);
            application.written(codec, bytes);
            send_ready(codec, application);
        }
        ready!(transport.poll_flush(cx)).map_err(End::Broken)?;
        Poll::Ready(if codec.is_finished() { Err(End::Finished) } else { Ok(()) })
    }

    /// Reads and writes in turn as long as the transport allows, and yields after a number of
    /// reads. Ready at the end of the connection. After a fault, the GOAWAY is written as far as
    /// the transport takes it at once.
    pub fn poll_turn(&self, cx: &mut Context<'_>, transport: &mut impl Transport) -> Poll<End> {
        self.turn(cx, |cx| {
            for _ in 0..READS_PER_TURN {
                let read = self.poll_read(cx, transport);
                let written = self.poll_write(cx, transport);
                match (read, written) {
                    (Poll::Ready(Err(end)), _) | (_, Poll::Ready(Err(end))) => {
                        return Poll::Ready(end);
                    }
                    (Poll::Pending, _) => return Poll::Pending,
                    (Poll::Ready(Ok(_)), _) => {}
                }
            }
            cx.waker().wake_by_ref();
            Poll::Pending
        })
    }
}

/// Sends the streams whose window has opened or for which the output has room, the most urgent
/// first.
#[inline]
fn send_ready<A: Application>(codec: &mut Connection, application: &mut A) {
    while let Some(stream) = codec.next_ready() {
        application.send(codec, stream);
    }
}

#[cfg(test)]
mod tests;
