//! A connection as its streams share it: the codec, what each stream holds, and who is woken when
//! something has changed.
//!
//! All of it lives on one core. Nobody holds a borrow longer than one call, and waking a task only
//! queues it.

use std::cell::{Cell, RefCell};
use std::io::{self, ErrorKind, IoSlice};
use std::sync::Arc;
use std::task::{Poll, Waker};

use tollhouse_h2::{
    Bucket, Connection, ConnectionError, Counters, ErrorCode, Event, Limits, Rate, ResetCause,
    Role, StreamId,
};
use tollhouse_http::{RequestHead, ResponseHead};
use tollhouse_stdx::MemoryBudget;
use tollhouse_telemetry::ErrorCode as GatewayCode;

use super::cancellations::Conduct;
use super::head::{DecodedHead, Kind};
use super::inbound::{Inbound, Room};
use super::liveness::Signs;
use super::outbound::{Outbound, Sender, Written};
use super::request_head;
use super::websocket::Handshake;

/// Interim answers that a stream holds unread, in bytes: heads have no windows, and whoever reads them
/// may have to wait.
const INTERIM_BYTES_MAX: usize = 64 * 1024;

/// Bytes of requests that wait for the socket before further requests go elsewhere.
const REQUESTS_WAITING_BYTES_MAX: usize = 128 * 1024;

/// Rooms of streams that are over, which those to come get: as many as are under way at a time on a busy connection.
const ROOMS_MAX: usize = 16;

/// Streams that a node is taken to allow until its settings have come (RFC 9113 §6.5.2 recommends to
/// allow no fewer).
pub(super) const STREAMS_ASSUMED: u32 = 100;

/// For how long a node that has refused a stream gets no further one, in milliseconds.
const REFUSAL_PAUSE_MS: u64 = 1000;

/// Resets that a node gets on one connection, here at most 110 in 30 seconds and 170 in a minute. Netty ends a
/// connection, with all calls on it, at 200 in 30 seconds, and Armeria at 400 in a minute. Beyond this rate, cancelled
/// streams end by themselves, and the connection takes no further requests.
const NODE_RESETS: Rate = Rate { burst: 50, per_second: 2 };

/// One connection.
pub(crate) struct Session {
    state: RefCell<State>,
    /// The task that moves its bytes.
    task: RefCell<Option<Waker>>,
    is_encrypted: bool,
    /// Whether that task has been woken since it last ran.
    is_woken: Cell<bool>,
    /// When anything came last, in milliseconds, and how often anything did.
    received_ms: Cell<u64>,
    received: Cell<u64>,
    /// Whether somebody has waited in vain, and nothing had come meanwhile.
    is_suspect: Cell<bool>,
    /// Until when the node gets no further stream, since it has refused one.
    refusing_until_ms: Cell<u64>,
    /// How clients from its address behave.
    conduct: Cell<Conduct>,
}

struct State {
    codec: Connection,
    /// By slot.
    streams: Vec<Option<Held>>,
    rooms: Vec<Room>,
    decoded: DecodedHead,
    /// Room for heads that are written.
    written_head: ResponseHead,
    written_request: RequestHead,
    /// Streams whose heads wait for the socket to take what is there.
    crowded: Vec<StreamId>,
    /// Whether the socket is of no use any more.
    is_lost: bool,
    /// Streams that a node may still be told to end early.
    resets: Bucket,
    /// Cancelled streams that were not reset and are still open at the node.
    abandoned: u32,
}

/// What a stream holds.
struct Held {
    stream: StreamId,
    inbound: Inbound,
    outbound: Outbound,
    task: Option<Waker>,
    /// Whether it has ended before its time.
    is_broken: bool,
    /// Whether the node has done nothing about it, so that it may be sent again.
    is_refused: bool,
    /// Whether it was cut because the memory budget was used up.
    is_unbudgeted: bool,
    /// Whether it was cancelled without a reset: what the node still sends is dropped.
    is_abandoned: bool,
    /// How often anything had come when it was opened.
    opened_at: u64,
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
        Self::new(Connection::server(limits, budget, now_ms), now_ms, is_encrypted)
    }

    /// The client's side of a connection that was just opened.
    pub(super) fn client(
        limits: Limits,
        budget: &Arc<MemoryBudget>,
        now_ms: u64,
        is_encrypted: bool,
    ) -> Self {
        Self::new(Connection::client(limits, budget, now_ms), now_ms, is_encrypted)
    }

    fn new(codec: Connection, now_ms: u64, is_encrypted: bool) -> Self {
        let state = State {
            codec,
            streams: Vec::new(),
            rooms: Vec::new(),
            decoded: DecodedHead::default(),
            written_head: ResponseHead::default(),
            written_request: RequestHead::default(),
            crowded: Vec::new(),
            is_lost: false,
            resets: Bucket::default(),
            abandoned: 0,
        };
        Self {
            state: RefCell::new(state),
            task: RefCell::default(),
            is_encrypted,
            is_woken: Cell::new(false),
            received_ms: Cell::new(now_ms),
            received: Cell::new(0),
            is_suspect: Cell::new(false),
            refusing_until_ms: Cell::new(0),
            conduct: Cell::default(),
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
    pub(super) fn wake(&self) {
        if !self.is_woken.replace(true)
            && let Some(task) = &*self.task.borrow()
        {
            task.wake_by_ref();
        }
    }

    /// Takes bytes from the peer; streams that a client has opened are added to `opened`, with `random`
    /// for keys that are needed.
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
        self.received_ms.set(now_ms);
        self.received.set(self.received.get() + 1);
        self.is_suspect.set(false);
        let mut state = self.state.borrow_mut();
        let State { codec, streams, rooms, decoded, .. } = &mut *state;
        loop {
            let Some(event) = codec.receive(&mut input, now_ms, decoded)? else { return Ok(()) };
            match event {
                Event::Request { stream, ends } => {
                    let kind = decoded.kind();
                    let inbound = Inbound::with_room(rooms.pop().unwrap_or_default());
                    put(streams, Held::asked((stream, inbound), kind, decoded, ends, random));
                    opened.push(Opened { stream, kind });
                }
                Event::Response { stream, status, ends } => {
                    if let Some(held) = find_awaited(streams, stream) {
                        let asked_head = held.outbound.is_head();
                        held.inbound
                            .begin(|out| decoded.write_response(status, ends, asked_head, out));
                        held.inbound.push(&[], ends);
                        held.wake();
                    }
                }
                Event::Interim { stream, status } => {
                    let Some(held) = find_awaited(streams, stream) else { continue };
                    if held.inbound.staged_bytes() > INTERIM_BYTES_MAX {
                        codec.reset(stream, ErrorCode::ENHANCE_YOUR_CALM);
                        break_off(streams, stream);
                        continue;
                    }
                    held.inbound.begin(|out| decoded.write_interim(status, out));
                    held.wake();
                }
                Event::Data { stream, data, ends } => {
                    let Some(held) = find(streams, stream) else { continue };
                    if held.is_abandoned {
                        codec.consume(stream, data.len());
                        continue;
                    }
                    if !data.is_empty() && !held.inbound.takes_data() {
                        // Of an answer that has no body, whatever its sender thinks.
                        codec.reset(stream, ErrorCode::PROTOCOL_ERROR);
                        break_off(streams, stream);
                        continue;
                    }
                    held.inbound.push(data, ends);
                    held.wake();
                }
                Event::Trailers { stream } => {
                    if let Some(held) = find_awaited(streams, stream) {
                        held.inbound.end(decoded.lines());
                        held.wake();
                    }
                }
                Event::Reset { stream, code, cause } => {
                    if code == ErrorCode::REFUSED_STREAM {
                        self.refusing_until_ms.set(now_ms + REFUSAL_PAUSE_MS);
                    }
                    note_reset(streams, stream, code, cause);
                }
                // Of a client, this changes nothing: streams that it has opened are served.
                Event::GoAway { last_stream, .. } if codec.role() == Role::Client => {
                    refuse_beyond(streams, last_stream);
                }
                Event::GoAway { .. } | Event::Settings | Event::Pong { .. } => {}
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

    /// Lets go of what was abandoned and has ended; closes a connection on which nothing else is left.
    pub(super) fn look_at_abandoned(&self) {
        let mut state = self.state.borrow_mut();
        if state.abandoned > 0 {
            state.release_abandoned();
        }
    }

    /// Streams that are held.
    pub(super) fn open_streams(&self) -> u32 {
        self.state.borrow().codec.open_streams()
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
        state.rooms = Vec::new();
        state.crowded = Vec::new();
        state.written_head = ResponseHead::default();
        state.written_request = RequestHead::default();
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

    /// What is known of the peer's being there.
    pub(super) fn signs(&self) -> Signs {
        Signs {
            received: self.received.get(),
            received_ms: self.received_ms.get(),
            is_awaited: !self.is_idle(),
            is_suspect: self.is_suspect.get(),
        }
    }

    /// Whether a node would take one more stream.
    pub(super) fn takes_streams(&self, now_ms: u64) -> bool {
        let state = self.state.borrow();
        let codec = &state.codec;
        let is_assumed = !codec.has_peer_settings() && codec.open_streams() >= STREAMS_ASSUMED;
        !state.is_lost
            && !is_assumed
            && codec.can_open()
            && codec.output().len() <= REQUESTS_WAITING_BYTES_MAX
            && !self.is_suspect.get()
            && now_ms >= self.refusing_until_ms.get()
    }

    /// Opens a stream to a node with the head that `input` begins with, to be served by `task`. Gives
    /// the stream and the bytes that were taken.
    ///
    /// # Errors
    /// `ConnectionRefused` where the node takes no stream; else the head is none.
    pub(super) fn open(&self, input: &[u8], task: &Waker) -> io::Result<(StreamId, usize)> {
        let mut state = self.state.borrow_mut();
        let State { codec, streams, rooms, written_request, is_lost, .. } = &mut *state;
        if *is_lost {
            return Err(ErrorKind::ConnectionRefused.into());
        }
        let asked = request_head::open(codec, written_request, input, self.is_encrypted)?;
        let held = Held {
            stream: asked.stream,
            inbound: Inbound::with_room(rooms.pop().unwrap_or_default()),
            outbound: asked.outbound,
            task: Some(task.clone()),
            is_broken: false,
            is_refused: false,
            is_unbudgeted: false,
            is_abandoned: false,
            opened_at: self.received.get(),
        };
        put(streams, held);
        drop(state);
        self.wake();
        Ok((asked.stream, asked.head_bytes))
    }

    /// Notes that a node has been silent on a stream for as long as it may be. Where it has been
    /// silent altogether, it is asked whether it is there, and gets no further streams until it says so.
    pub(super) fn note_silence(&self, stream: StreamId) {
        let opened_at =
            find(&mut self.state.borrow_mut().streams, stream).map(|held| held.opened_at);
        if opened_at == Some(self.received.get()) {
            self.is_suspect.set(true);
            self.wake();
        }
    }

    /// Whether a node has done nothing about a stream that has broken.
    pub(super) fn is_refused(&self, stream: StreamId) -> bool {
        find(&mut self.state.borrow_mut().streams, stream).is_some_and(|held| held.is_refused)
    }

    /// Says which task serves a stream.
    pub(super) fn attach_stream(&self, stream: StreamId, task: &Waker) {
        if let Some(held) = find(&mut self.state.borrow_mut().streams, stream) {
            held.task = Some(task.clone());
        }
    }

    /// Reason why work for a client's stream should stop: it has ended before its time. Requests of a flooding
    /// client are finished nevertheless, so that each keeps its place until then.
    pub(super) fn withdrawn(&self, stream: StreamId) -> Option<GatewayCode> {
        let mut state = self.state.borrow_mut();
        match find(&mut state.streams, stream) {
            Some(held) if !held.is_broken => None,
            Some(held) if held.is_unbudgeted => Some(GatewayCode::MemoryLimit),
            _ if self.conduct.get() == Conduct::Flooding => None,
            _ => Some(GatewayCode::DownstreamGone),
        }
    }

    /// How clients from its address behave.
    pub(super) fn conduct(&self) -> Conduct {
        self.conduct.get()
    }

    pub(super) fn set_conduct(&self, conduct: Conduct) {
        self.conduct.set(conduct);
    }

    /// Whether a stream is a client's request for a WebSocket (RFC 8441).
    pub(super) fn asks_websocket(&self, stream: StreamId) -> bool {
        let mut state = self.state.borrow_mut();
        find(&mut state.streams, stream).is_some_and(|held| held.outbound.handshake().is_some())
    }

    /// Whether `accept`, the node's `Sec-WebSocket-Accept`, confirms the WebSocket.
    pub(super) fn accepts_switch(&self, stream: StreamId, accept: &[u8]) -> bool {
        let mut state = self.state.borrow_mut();
        let held = find(&mut state.streams, stream);
        let handshake = held.and_then(|held| held.outbound.handshake());
        handshake.is_some_and(|handshake| handshake.is_accepted(accept))
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
        let held = find(streams, stream).filter(|held| !*is_lost && !held.is_broken);
        let Some(held) = held else { return gone() };
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
    /// sent for all of it; or left to itself, where a node has been told so too often.
    pub(super) fn release(&self, stream: StreamId) {
        let mut state = self.state.borrow_mut();
        if state.has_no_reset_for(stream) {
            state.abandon(stream);
            drop(state);
            return self.wake();
        }
        let State { codec, streams, rooms, crowded, .. } = &mut *state;
        crowded.retain(|other| *other != stream);
        let held = take(streams, stream);
        if let Some(held) = &held
            && !held.outbound.is_ended()
        {
            // A tunnel ends as its client would end it (RFC 8441 §5), and so does a request.
            let is_cancelled = codec.role() == Role::Client || held.outbound.is_tunnel();
            let code = if is_cancelled { ErrorCode::CANCEL } else { ErrorCode::INTERNAL_ERROR };
            codec.reset(stream, code);
        }
        codec.release(stream);
        if rooms.len() < ROOMS_MAX
            && let Some(room) = held.and_then(|held| held.inbound.into_room())
        {
            rooms.push(room);
        }
        drop(state);
        self.wake();
    }
}

impl State {
    /// Whether a stream to a node is cancelled, and the node has had as many resets as it may get.
    fn has_no_reset_for(&mut self, stream: StreamId) -> bool {
        let codec = &self.codec;
        let is_cancelled = codec.role() == Role::Client
            && !self.is_lost
            && codec.failure().is_none()
            && codec.is_unfinished(stream)
            && find(&mut self.streams, stream).is_some_and(|held| !held.is_broken);
        is_cancelled && !self.resets.take(NODE_RESETS, codec.now_ms())
    }

    /// Leaves a stream to end by itself at the node, on a connection that takes no further ones.
    fn abandon(&mut self, stream: StreamId) {
        let Some(held) = find(&mut self.streams, stream) else { return };
        held.is_abandoned = true;
        held.task = None;
        let unread = held.inbound.discard();
        self.abandoned += 1;
        self.codec.consume(stream, unread);
        self.codec.forget_waiting(stream);
        self.codec.drain();
    }

    /// Releases abandoned streams that have ended at the node.
    fn release_abandoned(&mut self) {
        let Self { codec, streams, abandoned, .. } = self;
        for place in streams.iter_mut() {
            let is_over = |held: &&mut Held| held.is_abandoned && !codec.is_unfinished(held.stream);
            if let Some(held) = place.as_mut().filter(is_over) {
                codec.release(held.stream);
                *abandoned -= 1;
                *place = None;
            }
        }
        // Only cancelled streams are left.
        if *abandoned > 0 && *abandoned == codec.open_streams() {
            codec.close(ErrorCode::NO_ERROR, "all that is left was cancelled");
        }
    }
}

impl Held {
    /// What a client has asked for, laid out as a request of HTTP/1.1.
    fn asked(
        (stream, mut inbound): (StreamId, Inbound),
        kind: Kind,
        decoded: &DecodedHead,
        ends: bool,
        random: &dyn Fn() -> u64,
    ) -> Self {
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
        Self {
            stream,
            inbound,
            outbound,
            task: None,
            is_broken: false,
            is_refused: false,
            is_unbudgeted: false,
            is_abandoned: false,
            opened_at: 0,
        }
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

/// The stream, unless it was abandoned.
fn find_awaited(streams: &mut [Option<Held>], stream: StreamId) -> Option<&mut Held> {
    find(streams, stream).filter(|held| !held.is_abandoned)
}

fn take(streams: &mut [Option<Held>], stream: StreamId) -> Option<Held> {
    find(streams, stream)?;
    streams.get_mut(stream.slot())?.take()
}

/// Breaks off the streams that a node says it has not dealt with.
fn refuse_beyond(streams: &mut [Option<Held>], last_stream: u32) {
    let refused = |held: &&mut Held| held.stream.number() > last_stream;
    for held in streams.iter_mut().flatten().filter(refused) {
        held.is_refused = true;
        held.is_broken = true;
        held.wake();
    }
}

/// Notes why a stream was reset, and breaks it off.
fn note_reset(streams: &mut [Option<Held>], stream: StreamId, code: ErrorCode, cause: ResetCause) {
    if let Some(held) = find(streams, stream) {
        held.is_unbudgeted = cause == ResetCause::Memory;
        held.is_refused |= code == ErrorCode::REFUSED_STREAM;
    }
    break_off(streams, stream);
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
