//! A connection as its streams share it: the codec, what each stream holds, and who is woken when
//! something has changed.
//!
//! All of it lives on one core. Nobody holds a borrow longer than one call, and waking a task only
//! queues it.

use std::cell::{Cell, RefCell};
use std::io::{self, ErrorKind, IoSlice};
use std::sync::Arc;
use std::task::{Poll, Waker};

use tollhouse_h2::{Connection, ConnectionError, Counters, ErrorCode, Event, Limits, StreamId};
use tollhouse_http::ResponseHead;
use tollhouse_stdx::MemoryBudget;

use super::head::{DecodedHead, Kind};
use super::inbound::Inbound;
use super::outbound::{Outbound, Sender, Written};
use super::websocket::Handshake;

/// One connection.
pub(super) struct Session {
    state: RefCell<State>,
    /// The task that moves its bytes.
    task: RefCell<Option<Waker>>,
    is_encrypted: bool,
    /// Whether that task has been woken since it last ran.
    is_woken: Cell<bool>,
}

struct State {
    codec: Connection,
    /// By slot.
    streams: Vec<Option<Held>>,
    decoded: DecodedHead,
    /// Room for heads that are written.
    written_head: ResponseHead,
    /// Streams whose heads wait for the socket to take what is there.
    crowded: Vec<StreamId>,
    /// Whether the socket is of no use any more.
    is_lost: bool,
}

/// What a stream holds.
struct Held {
    stream: StreamId,
    inbound: Inbound,
    outbound: Outbound,
    task: Option<Waker>,
    /// Whether it has ended before its time.
    is_broken: bool,
}

/// A stream that a client has opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Opened {
    pub(super) stream: StreamId,
    /// What it asks for.
    pub(super) kind: Kind,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Session").finish_non_exhaustive()
    }
}

impl Session {
    /// The server's side of a connection whose first bytes are still to be fed.
    pub(super) fn server(
        limits: Limits,
        budget: &Arc<MemoryBudget>,
        now_ms: u64,
        is_encrypted: bool,
    ) -> Self {
        let state = State {
            codec: Connection::server(limits, budget, now_ms),
            streams: Vec::new(),
            decoded: DecodedHead::default(),
            written_head: ResponseHead::default(),
            crowded: Vec::new(),
            is_lost: false,
        };
        Self {
            state: RefCell::new(state),
            task: RefCell::default(),
            is_encrypted,
            is_woken: Cell::new(false),
        }
    }

    /// Whether what passes is encrypted.
    pub(super) fn is_encrypted(&self) -> bool {
        self.is_encrypted
    }

    /// Says which task moves the bytes; every time that it runs.
    pub(super) fn attach(&self, task: &Waker) {
        self.is_woken.set(false);
        let mut kept = self.task.borrow_mut();
        if !kept.as_ref().is_some_and(|kept| kept.will_wake(task)) {
            *kept = Some(task.clone());
        }
    }

    /// Has the connection's task look at what there is to write.
    fn wake(&self) {
        if !self.is_woken.replace(true)
            && let Some(task) = &*self.task.borrow()
        {
            task.wake_by_ref();
        }
    }

    /// Takes bytes from the peer; streams that it has opened are added to `opened`, with `random` for
    /// keys that are needed.
    ///
    /// # Errors
    /// The connection is over once its output has been written.
    pub(super) fn receive(
        &self,
        mut input: &[u8],
        now_ms: u64,
        random: &dyn Fn() -> u64,
        opened: &mut Vec<Opened>,
    ) -> Result<(), ConnectionError> {
        let mut state = self.state.borrow_mut();
        let State { codec, streams, decoded, .. } = &mut *state;
        loop {
            let Some(event) = codec.receive(&mut input, now_ms, decoded)? else { return Ok(()) };
            match event {
                Event::Request { stream, ends } => {
                    let kind = decoded.kind();
                    put(streams, Held::asked(stream, kind, decoded, ends, random));
                    opened.push(Opened { stream, kind });
                }
                Event::Data { stream, data, ends } => {
                    if let Some(held) = find(streams, stream) {
                        held.inbound.push(data, ends);
                        held.wake();
                    }
                }
                Event::Trailers { stream } => {
                    if let Some(held) = find(streams, stream) {
                        held.inbound.end(decoded.lines());
                        held.wake();
                    }
                }
                Event::Reset { stream, .. } => break_off(streams, stream),
                // A client's, which opens no more streams; nothing that a server sends it is affected.
                Event::GoAway { .. } | Event::Settings | Event::Pong { .. } => {}
                // Of a client's side only.
                Event::Response { .. } | Event::Interim { .. } => {}
            }
        }
    }

    /// Wakes the streams that can send what they could not, the most urgent first.
    pub(super) fn wake_ready(&self) {
        let mut state = self.state.borrow_mut();
        let State { codec, streams, crowded, .. } = &mut *state;
        while let Some(stream) = codec.next_ready() {
            if let Some(held) = find(streams, stream) {
                held.wake();
            }
        }
        if codec.output().is_empty() {
            for stream in crowded.drain(..) {
                if let Some(held) = find(streams, stream) {
                    held.wake();
                }
            }
        }
    }

    /// Looks at the deadlines of the protocol.
    ///
    /// # Errors
    /// One has passed that ends the connection.
    pub(super) fn tick(&self, now_ms: u64) -> Result<(), ConnectionError> {
        let mut state = self.state.borrow_mut();
        let State { codec, streams, .. } = &mut *state;
        while let Some(event) = codec.tick(now_ms)? {
            if let Event::Reset { stream, .. } = event {
                break_off(streams, stream);
            }
        }
        Ok(())
    }

    /// Hands out what is to be written; `write` says how much was.
    pub(super) fn write_out(
        &self,
        write: impl FnOnce(&[u8]) -> Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        let mut state = self.state.borrow_mut();
        let output = state.codec.output();
        if output.is_empty() {
            return Poll::Ready(Ok(0));
        }
        let written = write(output);
        match written {
            Poll::Ready(Ok(0)) => Poll::Ready(Err(ErrorKind::WriteZero.into())),
            Poll::Ready(Ok(bytes)) => {
                state.codec.written(bytes);
                written
            }
            other => other,
        }
    }

    /// Asks something of the codec, or of it something.
    pub(super) fn with_codec<T>(&self, act: impl FnOnce(&mut Connection) -> T) -> T {
        act(&mut self.state.borrow_mut().codec)
    }

    /// What the codec has counted.
    pub(super) fn counters(&self) -> Counters {
        *self.state.borrow().codec.counters()
    }

    /// Whether any stream is held.
    pub(super) fn is_idle(&self) -> bool {
        self.state.borrow().codec.open_streams() == 0
    }

    /// Gives back what an idle connection need not hold.
    pub(super) fn release_memory(&self) {
        let mut state = self.state.borrow_mut();
        state.codec.release_memory();
        state.decoded.shrink();
        state.streams = Vec::new();
        state.crowded = Vec::new();
        state.written_head = ResponseHead::default();
    }

    /// Breaks off every stream: the peer is gone.
    pub(super) fn lose(&self) {
        let mut state = self.state.borrow_mut();
        state.is_lost = true;
        for held in state.streams.iter_mut().flatten() {
            held.is_broken = true;
            held.wake();
        }
    }

    /// Says which task serves a stream.
    pub(super) fn attach_stream(&self, stream: StreamId, task: &Waker) {
        if let Some(held) = find(&mut self.state.borrow_mut().streams, stream) {
            held.task = Some(task.clone());
        }
    }

    /// Whether a stream has ended before its time: whoever works on it need not go on.
    pub(super) fn is_broken(&self, stream: StreamId) -> bool {
        find(&mut self.state.borrow_mut().streams, stream).is_none_or(|held| held.is_broken)
    }

    /// Reads what a stream has received; the stream's task is woken when there is more.
    pub(super) fn read(&self, stream: StreamId, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        let mut state = self.state.borrow_mut();
        let State { codec, streams, .. } = &mut *state;
        let Some(held) = find(streams, stream) else { return gone() };
        let read = held.inbound.read(buffer);
        if read.data > 0 {
            let waiting = codec.output().len();
            codec.consume(stream, read.data);
            let has_more = codec.output().len() > waiting;
            drop(state);
            if has_more {
                self.wake();
            }
            return Poll::Ready(Ok(read.bytes));
        }
        match read.bytes {
            0 if held.inbound.is_at_end() => Poll::Ready(Ok(0)),
            0 if held.is_broken => gone(),
            0 => Poll::Pending,
            bytes => Poll::Ready(Ok(bytes)),
        }
    }

    /// Writes to a stream; its task is woken when it can take more.
    pub(super) fn write(&self, stream: StreamId, parts: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        let mut state = self.state.borrow_mut();
        let State { codec, streams, written_head, crowded, is_lost, .. } = &mut *state;
        let Some(held) = find(streams, stream).filter(|_| !*is_lost) else { return gone() };
        let mut sender = Sender { codec, stream, head: written_head };
        let written = held.outbound.write(&mut sender, parts);
        let written = match written {
            Ok(Written::Some(bytes)) => Poll::Ready(Ok(bytes)),
            Ok(Written::Blocked) => Poll::Pending,
            Ok(Written::Crowded) => {
                crowded.push(stream);
                Poll::Pending
            }
            Err(error) => Poll::Ready(Err(error)),
        };
        let has_output = !codec.output().is_empty();
        drop(state);
        if has_output {
            self.wake();
        }
        written
    }

    /// Ends our direction of a stream.
    pub(super) fn shut_down(&self, stream: StreamId) -> io::Result<()> {
        let mut state = self.state.borrow_mut();
        let State { codec, streams, written_head, .. } = &mut *state;
        let Some(held) = find(streams, stream) else { return Err(ErrorKind::BrokenPipe.into()) };
        let outcome = held.outbound.shut_down(&mut Sender { codec, stream, head: written_head });
        drop(state);
        self.wake();
        outcome
    }

    /// Lets go of a stream. One whose answer is not complete is reset, so that nobody takes what was
    /// sent for all of it.
    pub(super) fn release(&self, stream: StreamId) {
        let mut state = self.state.borrow_mut();
        let State { codec, streams, crowded, .. } = &mut *state;
        crowded.retain(|other| *other != stream);
        if let Some(held) = take(streams, stream)
            && !held.outbound.is_ended()
        {
            // A tunnel ends as its client would end it (RFC 8441 §5).
            let code = if held.outbound.is_tunnel() {
                ErrorCode::CANCEL
            } else {
                ErrorCode::INTERNAL_ERROR
            };
            codec.reset(stream, code);
        }
        codec.release(stream);
        drop(state);
        self.wake();
    }
}

impl Held {
    /// What a client has asked for, laid out as a request of HTTP/1.1.
    fn asked(
        stream: StreamId,
        kind: Kind,
        decoded: &DecodedHead,
        ends: bool,
        random: &dyn Fn() -> u64,
    ) -> Self {
        let mut inbound = Inbound::default();
        let mut handshake = None;
        inbound.begin(|out| match kind {
            Kind::Exchange => decoded.write_request(ends, out),
            Kind::WebSocket => {
                let asked = handshake.insert(Box::new(Handshake::new([random(), random()])));
                decoded.write_upgrade(asked, out)
            }
            Kind::Connect | Kind::UnknownProtocol => decoded.write_refused(out),
        });
        if ends {
            inbound.push(&[], true);
        }
        let outbound = Outbound::new(decoded.is_head(), handshake);
        Self { stream, inbound, outbound, task: None, is_broken: false }
    }

    fn wake(&self) {
        if let Some(task) = &self.task {
            task.wake_by_ref();
        }
    }
}

fn put(streams: &mut Vec<Option<Held>>, held: Held) {
    let slot = held.stream.slot();
    if streams.len() <= slot {
        streams.resize_with(slot + 1, || None);
    }
    streams[slot] = Some(held);
}

fn find(streams: &mut [Option<Held>], stream: StreamId) -> Option<&mut Held> {
    let held = streams.get_mut(stream.slot())?.as_mut();
    held.filter(|held| held.stream == stream)
}

fn take(streams: &mut [Option<Held>], stream: StreamId) -> Option<Held> {
    find(streams, stream)?;
    streams.get_mut(stream.slot())?.take()
}

fn break_off(streams: &mut [Option<Held>], stream: StreamId) {
    if let Some(held) = find(streams, stream) {
        held.is_broken = true;
        held.wake();
    }
}

fn gone<T>() -> Poll<io::Result<T>> {
    Poll::Ready(Err(ErrorKind::ConnectionReset.into()))
}
