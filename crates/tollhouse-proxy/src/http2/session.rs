//! State of a connection that its streams share: the codec, the buffers of each stream, and the
//! wakers.
//!
//! The session lives on one core. Every borrow ends with the call that takes it, and waking a task
//! only queues it.

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
use super::outbound::{Outbound, Sender, WriteResult};
use super::request_head;
use super::websocket::Handshake;

/// Maximum bytes of unread interim responses per stream. Heads are not covered by flow-control
/// windows, and their reader may be delayed.
const INTERIM_BYTES_MAX: usize = 64 * 1024;

/// Pending output in bytes above which new requests use another connection.
const REQUESTS_WAITING_BYTES_MAX: usize = 128 * 1024;

/// Maximum number of pooled stream buffers; covers the concurrent streams of a busy connection.
const ROOMS_MAX: usize = 16;

/// Concurrent streams assumed until the node's settings arrive (RFC 9113 §6.5.2 recommends at least
/// as many).
pub(super) const STREAMS_ASSUMED: u32 = 100;

/// Pause in milliseconds before new streams on a connection to a node that refused one.
const REFUSAL_PAUSE_MS: u64 = 1000;

/// Resets sent to a node on one connection: at most 110 in 30 seconds and 170 in a minute. Netty
/// ends a connection with all its calls at 200 in 30 seconds, and Armeria at 400 in a minute.
/// Beyond this rate, cancelled streams are left to end by themselves, and the connection takes no
/// further requests.
const NODE_RESETS: Rate = Rate { burst: 50, per_second: 2 };

/// State of an HTTP/2 connection, shared by its driver and its streams.
pub(crate) struct Session {
    state: RefCell<State>,
    /// Task that moves the bytes of the connection.
    task: RefCell<Option<Waker>>,
    is_encrypted: bool,
    /// Whether that task has been woken since it last ran.
    is_woken: Cell<bool>,
    /// Time of the last read in milliseconds; below, the number of reads.
    received_ms: Cell<u64>,
    received: Cell<u64>,
    /// Whether a stream timed out and nothing has been received since it was opened.
    is_suspect: Cell<bool>,
    /// End of the pause after a refused stream, in milliseconds.
    refusing_until_ms: Cell<u64>,
    /// Conduct of the clients from this connection's address.
    conduct: Cell<Conduct>,
}

struct State {
    codec: Connection,
    /// Streams by slot.
    streams: Vec<Option<StreamState>>,
    rooms: Vec<Room>,
    decoded: DecodedHead,
    /// Scratch memory for heads that are written.
    written_head: ResponseHead,
    written_request: RequestHead,
    /// Streams whose heads wait until the socket has taken pending output.
    crowded: Vec<StreamId>,
    /// Whether the socket has failed or ended.
    is_lost: bool,
    /// Budget of resets sent to the node.
    resets: Bucket,
    /// Cancelled streams that were not reset and are still open at the node.
    abandoned: u32,
}

/// State of one stream.
struct StreamState {
    stream: StreamId,
    inbound: Inbound,
    outbound: Outbound,
    task: Option<Waker>,
    /// Whether the stream ended before its message was complete.
    is_broken: bool,
    /// Whether the node did not process the request, so that it may be sent again.
    is_refused: bool,
    /// Whether the stream was cut because the memory budget was exhausted.
    is_unbudgeted: bool,
    /// Whether the stream was cancelled without a reset; what the node still sends is dropped.
    is_abandoned: bool,
    /// Number of reads on the connection when the stream was opened.
    opened_at: u64,
}

/// A stream opened by a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct OpenedStream {
    pub(super) stream: StreamId,
    pub(super) kind: Kind,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Session").finish_non_exhaustive()
    }
}

impl Session {
    /// Creates the server side of a connection; its first bytes have not been processed yet.
    pub(super) fn server(
        limits: Limits,
        budget: &Arc<MemoryBudget>,
        now_ms: u64,
        is_encrypted: bool,
    ) -> Self {
        Self::new(Connection::server(limits, budget, now_ms), now_ms, is_encrypted)
    }

    /// Creates the client side of a new connection.
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

    pub(super) fn is_encrypted(&self) -> bool {
        self.is_encrypted
    }

    /// Registers the task that moves the bytes; called every time it runs.
    pub(super) fn attach(&self, task: &Waker) {
        self.is_woken.set(false);
        let mut registered = self.task.borrow_mut();
        if !registered.as_ref().is_some_and(|it| it.will_wake(task)) {
            *registered = Some(task.clone());
        }
    }

    /// Wakes the connection's task to write pending output.
    pub(super) fn wake(&self) {
        if !self.is_woken.replace(true)
            && let Some(task) = &*self.task.borrow()
        {
            task.wake_by_ref();
        }
    }

    /// Processes bytes from the peer. Streams opened by a client are added to `opened`; `random`
    /// provides WebSocket keys.
    ///
    /// # Errors
    /// If the connection has failed; its pending output is still to be written.
    pub(super) fn receive(
        &self,
        mut input: &[u8],
        now_ms: u64,
        random: &dyn Fn() -> u64,
        opened: &mut Vec<OpenedStream>,
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
                    let room = rooms.pop().unwrap_or_default();
                    let (inbound, outbound) = begin_request(decoded, ends, room, random);
                    put(streams, StreamState::new(stream, inbound, outbound));
                    opened.push(OpenedStream { stream, kind: decoded.kind() });
                }
                Event::Response { stream, status, ends } => {
                    if let Some(entry) = find_awaited(streams, stream) {
                        let asked_head = entry.outbound.is_head();
                        entry
                            .inbound
                            .begin(|out| decoded.write_response(status, ends, asked_head, out));
                        entry.inbound.push(&[], ends);
                        entry.wake();
                    }
                }
                Event::Interim { stream, status } => {
                    let Some(entry) = find_awaited(streams, stream) else { continue };
                    if entry.inbound.staged_bytes() > INTERIM_BYTES_MAX {
                        codec.reset(stream, ErrorCode::ENHANCE_YOUR_CALM);
                        break_off(streams, stream);
                        continue;
                    }
                    entry.inbound.begin(|out| decoded.write_interim(status, out));
                    entry.wake();
                }
                Event::Data { stream, data, ends } => {
                    let Some(entry) = find(streams, stream) else { continue };
                    if entry.is_abandoned {
                        codec.consume(stream, data.len());
                        continue;
                    }
                    if !data.is_empty() && !entry.inbound.takes_data() {
                        // Data for a response that may not have a body.
                        codec.reset(stream, ErrorCode::PROTOCOL_ERROR);
                        break_off(streams, stream);
                        continue;
                    }
                    entry.inbound.push(data, ends);
                    entry.wake();
                }
                Event::Trailers { stream } => {
                    if let Some(entry) = find_awaited(streams, stream) {
                        entry.inbound.end(decoded.lines());
                        entry.wake();
                    }
                }
                Event::Reset { stream, code, cause } => {
                    if code == ErrorCode::REFUSED_STREAM {
                        self.refusing_until_ms.set(now_ms + REFUSAL_PAUSE_MS);
                    }
                    note_reset(streams, stream, code, cause);
                }
                // A client's GOAWAY changes nothing, because its open streams are served to the
                // end.
                Event::GoAway { last_stream, .. } if codec.role() == Role::Client => {
                    refuse_beyond(streams, last_stream);
                }
                Event::GoAway { .. } | Event::Settings | Event::Pong { .. } => {}
            }
        }
    }

    /// Wakes the streams that can send again, the most urgent first.
    pub(super) fn wake_ready(&self) {
        let mut state = self.state.borrow_mut();
        let State { codec, streams, crowded, .. } = &mut *state;
        while let Some(stream) = codec.next_ready() {
            if let Some(entry) = find(streams, stream) {
                entry.wake();
            }
        }
        if codec.output().is_empty() {
            for stream in crowded.drain(..) {
                if let Some(entry) = find(streams, stream) {
                    entry.wake();
                }
            }
        }
    }

    /// Checks the protocol's deadlines.
    ///
    /// # Errors
    /// If an expired deadline ends the connection.
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

    /// Passes pending output to `write`, which returns the number of bytes written.
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

    pub(super) fn with_codec<T>(&self, act: impl FnOnce(&mut Connection) -> T) -> T {
        act(&mut self.state.borrow_mut().codec)
    }

    pub(super) fn counters(&self) -> Counters {
        *self.state.borrow().codec.counters()
    }

    /// Releases abandoned streams that have ended, and closes a connection that has only abandoned
    /// ones left.
    pub(super) fn look_at_abandoned(&self) {
        let mut state = self.state.borrow_mut();
        if state.abandoned > 0 {
            state.release_abandoned();
        }
    }

    pub(super) fn open_streams(&self) -> u32 {
        self.state.borrow().codec.open_streams()
    }

    /// Whether streams are still served. The codec may count streams that are not: a header block
    /// that ends the connection has opened one.
    pub(super) fn serves_any(&self) -> bool {
        self.state.borrow().streams.iter().any(Option::is_some)
    }

    pub(super) fn is_idle(&self) -> bool {
        self.state.borrow().codec.open_streams() == 0
    }

    /// Releases memory that an idle connection does not need.
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

    /// Breaks all streams, because the peer is gone.
    pub(super) fn lose(&self) {
        let mut state = self.state.borrow_mut();
        state.is_lost = true;
        for entry in state.streams.iter_mut().flatten() {
            entry.is_broken = true;
            entry.wake();
        }
    }

    /// Evidence that the peer is alive.
    pub(super) fn signs(&self) -> Signs {
        Signs {
            received: self.received.get(),
            received_ms: self.received_ms.get(),
            is_awaited: !self.is_idle(),
            is_suspect: self.is_suspect.get(),
        }
    }

    /// Whether a new stream to the node may be opened.
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

    /// Opens a stream to a node with the head at the start of `input`; `task` serves it. Returns
    /// the stream and the number of bytes taken.
    ///
    /// # Errors
    /// `ConnectionRefused` if the node accepts no stream; `InvalidData` if the head is invalid.
    pub(super) fn open(&self, input: &[u8], task: &Waker) -> io::Result<(StreamId, usize)> {
        let mut state = self.state.borrow_mut();
        let State { codec, streams, rooms, written_request, is_lost, .. } = &mut *state;
        if *is_lost {
            return Err(ErrorKind::ConnectionRefused.into());
        }
        let request = request_head::open(codec, written_request, input, self.is_encrypted)?;
        let inbound = Inbound::with_room(rooms.pop().unwrap_or_default());
        let entry = StreamState {
            task: Some(task.clone()),
            opened_at: self.received.get(),
            ..StreamState::new(request.stream, inbound, request.outbound)
        };
        put(streams, entry);
        drop(state);
        self.wake();
        Ok((request.stream, request.head_bytes))
    }

    /// Records that a stream exceeded the node's read timeout. If nothing at all was received since
    /// the stream was opened, a PING is sent, and no new streams are opened until it is answered.
    pub(super) fn note_silence(&self, stream: StreamId) {
        let opened_at =
            find(&mut self.state.borrow_mut().streams, stream).map(|entry| entry.opened_at);
        if opened_at == Some(self.received.get()) {
            self.is_suspect.set(true);
            self.wake();
        }
    }

    /// Whether the node reported that it did not process a broken stream.
    pub(super) fn is_refused(&self, stream: StreamId) -> bool {
        find(&mut self.state.borrow_mut().streams, stream).is_some_and(|entry| entry.is_refused)
    }

    /// Registers the task that serves a stream.
    pub(super) fn attach_stream(&self, stream: StreamId, task: &Waker) {
        if let Some(entry) = find(&mut self.state.borrow_mut().streams, stream) {
            entry.task = Some(task.clone());
        }
    }

    /// Reason to stop work for a client's stream, if it ended early. The requests of a flooding
    /// client are finished nevertheless, so that they keep occupying its concurrency limit.
    pub(super) fn withdrawn(&self, stream: StreamId) -> Option<GatewayCode> {
        let mut state = self.state.borrow_mut();
        match find(&mut state.streams, stream) {
            Some(entry) if !entry.is_broken => None,
            Some(entry) if entry.is_unbudgeted => Some(GatewayCode::MemoryLimit),
            _ if self.conduct.get() == Conduct::Flooding => None,
            _ => Some(GatewayCode::DownstreamGone),
        }
    }

    /// Conduct of the clients from this connection's address.
    pub(super) fn conduct(&self) -> Conduct {
        self.conduct.get()
    }

    pub(super) fn set_conduct(&self, conduct: Conduct) {
        self.conduct.set(conduct);
    }

    /// Whether a stream is a client's request for a WebSocket (RFC 8441).
    pub(super) fn asks_websocket(&self, stream: StreamId) -> bool {
        let mut state = self.state.borrow_mut();
        find(&mut state.streams, stream).is_some_and(|entry| entry.outbound.handshake().is_some())
    }

    /// Whether `accept`, the node's `Sec-WebSocket-Accept`, confirms the WebSocket.
    pub(super) fn accepts_switch(&self, stream: StreamId, accept: &[u8]) -> bool {
        let mut state = self.state.borrow_mut();
        let entry = find(&mut state.streams, stream);
        let handshake = entry.and_then(|entry| entry.outbound.handshake());
        handshake.is_some_and(|handshake| handshake.is_accepted(accept))
    }

    /// Reads received bytes of a stream; its task is woken when more arrive.
    pub(super) fn read(&self, stream: StreamId, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        let mut state = self.state.borrow_mut();
        let State { codec, streams, .. } = &mut *state;
        let Some(entry) = find(streams, stream) else { return gone() };
        let read = entry.inbound.read(buffer);
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
            0 if entry.inbound.is_at_end() => Poll::Ready(Ok(0)),
            0 if entry.is_broken => gone(),
            0 => Poll::Pending,
            bytes => Poll::Ready(Ok(bytes)),
        }
    }

    /// Writes to a stream; its task is woken when it can take more.
    pub(super) fn write(&self, stream: StreamId, parts: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        let mut state = self.state.borrow_mut();
        let State { codec, streams, written_head, crowded, is_lost, .. } = &mut *state;
        let entry = find(streams, stream).filter(|entry| !*is_lost && !entry.is_broken);
        let Some(entry) = entry else { return gone() };
        let mut sender = Sender { codec, stream, head: written_head };
        let written = entry.outbound.write(&mut sender, parts);
        let written = match written {
            Ok(WriteResult::Some(bytes)) => Poll::Ready(Ok(bytes)),
            Ok(WriteResult::Blocked) => Poll::Pending,
            Ok(WriteResult::Crowded) => {
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

    /// Ends the write direction of a stream.
    pub(super) fn shut_down(&self, stream: StreamId) -> io::Result<()> {
        let mut state = self.state.borrow_mut();
        let State { codec, streams, written_head, .. } = &mut *state;
        let Some(entry) = find(streams, stream) else { return Err(ErrorKind::BrokenPipe.into()) };
        let outcome = entry.outbound.shut_down(&mut Sender { codec, stream, head: written_head });
        drop(state);
        self.wake();
        outcome
    }

    /// Releases a stream. A stream with an incomplete message is reset, so that the peer does not
    /// take the message for complete. If the node's budget of resets is exhausted, the stream is
    /// abandoned without a reset.
    pub(super) fn release(&self, stream: StreamId) {
        let mut state = self.state.borrow_mut();
        if state.has_no_reset_for(stream) {
            state.abandon(stream);
            drop(state);
            return self.wake();
        }
        let State { codec, streams, rooms, crowded, .. } = &mut *state;
        crowded.retain(|other| *other != stream);
        let entry = take(streams, stream);
        if let Some(entry) = &entry
            && !entry.outbound.is_ended()
        {
            // A cancelled tunnel is reset as its client would do it (RFC 8441 §5), and so is a
            // request.
            let is_cancelled = codec.role() == Role::Client || entry.outbound.is_tunnel();
            let code = if is_cancelled { ErrorCode::CANCEL } else { ErrorCode::INTERNAL_ERROR };
            codec.reset(stream, code);
        }
        codec.release(stream);
        if rooms.len() < ROOMS_MAX
            && let Some(room) = entry.and_then(|entry| entry.inbound.into_room())
        {
            rooms.push(room);
        }
        drop(state);
        self.wake();
    }
}

impl State {
    /// Whether a stream to a node is being cancelled while the node's budget of resets is
    /// exhausted.
    fn has_no_reset_for(&mut self, stream: StreamId) -> bool {
        let codec = &self.codec;
        let is_cancelled = codec.role() == Role::Client
            && !self.is_lost
            && codec.failure().is_none()
            && codec.is_unfinished(stream)
            && find(&mut self.streams, stream).is_some_and(|entry| !entry.is_broken);
        is_cancelled && !self.resets.take(NODE_RESETS, codec.now_ms())
    }

    /// Leaves a stream to end by itself at the node; the connection takes no further streams.
    fn abandon(&mut self, stream: StreamId) {
        let Some(entry) = find(&mut self.streams, stream) else { return };
        entry.is_abandoned = true;
        entry.task = None;
        let unread = entry.inbound.discard();
        self.abandoned += 1;
        self.codec.consume(stream, unread);
        self.codec.forget_waiting(stream);
        self.codec.drain();
    }

    /// Releases abandoned streams that have ended at the node.
    fn release_abandoned(&mut self) {
        let Self { codec, streams, abandoned, .. } = self;
        for place in streams.iter_mut() {
            let is_over =
                |entry: &&mut StreamState| entry.is_abandoned && !codec.is_unfinished(entry.stream);
            if let Some(entry) = place.as_mut().filter(is_over) {
                codec.release(entry.stream);
                *abandoned -= 1;
                *place = None;
            }
        }
        // Only abandoned streams are left.
        if *abandoned > 0 && *abandoned == codec.open_streams() {
            codec.close(ErrorCode::NO_ERROR, "all remaining streams were cancelled");
        }
    }
}

impl StreamState {
    fn new(stream: StreamId, inbound: Inbound, outbound: Outbound) -> Self {
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

/// Begins both halves of a client's request, formatted as HTTP/1.1.
fn begin_request(
    decoded: &DecodedHead,
    ends: bool,
    room: Room,
    random: &dyn Fn() -> u64,
) -> (Inbound, Outbound) {
    let mut inbound = Inbound::with_room(room);
    let mut handshake = None;
    inbound.begin(|out| match decoded.kind() {
        Kind::Exchange => decoded.write_request(ends, out),
        Kind::WebSocket => {
            let handshake = handshake.insert(Box::new(Handshake::new([random(), random()])));
            decoded.write_upgrade(handshake, out)
        }
        Kind::Connect | Kind::UnknownProtocol => decoded.write_refused(out),
    });
    if ends {
        inbound.push(&[], true);
    }
    (inbound, Outbound::new(decoded.is_head(), handshake))
}

fn put(streams: &mut Vec<Option<StreamState>>, entry: StreamState) {
    let slot = entry.stream.slot();
    if streams.len() <= slot {
        streams.resize_with(slot + 1, || None);
    }
    streams[slot] = Some(entry);
}

fn find(streams: &mut [Option<StreamState>], stream: StreamId) -> Option<&mut StreamState> {
    let entry = streams.get_mut(stream.slot())?.as_mut();
    entry.filter(|entry| entry.stream == stream)
}

/// The stream, unless it was abandoned.
fn find_awaited(streams: &mut [Option<StreamState>], stream: StreamId) -> Option<&mut StreamState> {
    find(streams, stream).filter(|entry| !entry.is_abandoned)
}

fn take(streams: &mut [Option<StreamState>], stream: StreamId) -> Option<StreamState> {
    find(streams, stream)?;
    streams.get_mut(stream.slot())?.take()
}

/// Breaks the streams that the node's GOAWAY declares as not processed.
fn refuse_beyond(streams: &mut [Option<StreamState>], last_stream: u32) {
    let refused = |entry: &&mut StreamState| entry.stream.number() > last_stream;
    for entry in streams.iter_mut().flatten().filter(refused) {
        entry.is_refused = true;
        entry.is_broken = true;
        entry.wake();
    }
}

/// Records why a stream was reset, and breaks it.
fn note_reset(
    streams: &mut [Option<StreamState>],
    stream: StreamId,
    code: ErrorCode,
    cause: ResetCause,
) {
    if let Some(entry) = find(streams, stream) {
        entry.is_unbudgeted = cause == ResetCause::Memory;
        entry.is_refused |= code == ErrorCode::REFUSED_STREAM;
    }
    break_off(streams, stream);
}

fn break_off(streams: &mut [Option<StreamState>], stream: StreamId) {
    if let Some(entry) = find(streams, stream) {
        entry.is_broken = true;
        entry.wake();
    }
}

fn gone<T>() -> Poll<io::Result<T>> {
    Poll::Ready(Err(ErrorKind::ConnectionReset.into()))
}
