//! State that the streams of a connection share, with the buffers of each stream.
//!
//! Everything lives on one core; [`tollhouse_h2::driver`] moves the bytes. Methods run within
//! [`Session::with`], which wakes the connection's task for output; others say so.

mod events;

use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice};
use std::task::{Poll, Waker};

use tollhouse_h2::driver::{self, StreamTable, WakerSlot};
use tollhouse_h2::{Bucket, Connection, ErrorCode, Rate, Role, StreamId};
use tollhouse_http::{RequestHead, ResponseHead};
use tollhouse_stdx::Random;
use tollhouse_telemetry::ErrorCode as GatewayCode;

use super::cancellations::Conduct;
use super::head::{DecodedHead, Kind};
use super::inbound::{Inbound, Room};
use super::liveness::Signs;
use super::outbound::{Outbound, Sender, WriteResult};
use super::request_head;

/// Pending output in bytes above which new requests use another connection.
const REQUESTS_WAITING_BYTES_MAX: usize = 128 * 1024;

/// Maximum number of pooled stream buffers; covers the concurrent streams of a busy connection.
const ROOMS_MAX: usize = 16;

/// Concurrent streams assumed until the node's settings arrive (RFC 9113 §6.5.2 recommends at least
/// as many).
pub(super) const STREAMS_ASSUMED: u32 = 100;

/// Resets sent to a node on one connection: at most 110 in 30 seconds and 170 in a minute. Netty
/// ends a connection with all its calls at 200 in 30 seconds, and Armeria at 400 in a minute.
/// Beyond this rate, cancelled streams are left to end by themselves, and the connection takes no
/// further requests.
const NODE_RESETS: Rate = Rate { burst: 50, per_second: 2 };

/// An HTTP/2 connection, shared by the task of its socket and the tasks of its streams.
pub(crate) type Session = driver::Session<Streams>;

/// Streams of a connection, and what is known about its peer.
pub(crate) struct Streams {
    table: StreamTable<StreamState>,
    rooms: Vec<Room>,
    decoded: DecodedHead,
    /// Scratch memory for heads that are written.
    written_head: ResponseHead,
    written_request: RequestHead,
    /// Streams whose heads wait until the socket has taken pending output.
    crowded: Vec<StreamId>,
    /// Streams opened by a client that no task serves yet, the oldest first. The codec limits their
    /// number, because each counts as open.
    pub(super) opened: VecDeque<OpenedStream>,
    random: Random,
    is_encrypted: bool,
    /// Whether the socket has failed or ended.
    is_lost: bool,
    /// Budget of resets sent to the node.
    resets: Bucket,
    /// Cancelled streams that were not reset and are still open at the node.
    abandoned: u32,
    /// Time of the current turn of the connection's task, in milliseconds.
    pub(super) now_ms: u64,
    /// Time of the last read in milliseconds; below, the number of reads.
    received_ms: u64,
    received: u64,
    /// Whether a stream timed out and nothing has been received since it was opened.
    is_suspect: bool,
    /// End of the pause after a refused stream, in milliseconds.
    refusing_until_ms: u64,
    /// Time since which no stream is open, in milliseconds; `None` while one is.
    pub(super) idle_since_ms: Option<u64>,
    /// Conduct of the clients from this connection's address.
    pub(super) conduct: Conduct,
}

/// State of one stream.
struct StreamState {
    inbound: Inbound,
    outbound: Outbound,
    task: WakerSlot,
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

impl Streams {
    /// Creates the streams of a new connection; `random` makes keys of WebSocket handshakes.
    pub(super) fn new(now_ms: u64, random: Random, is_encrypted: bool) -> Self {
        Self {
            table: StreamTable::default(),
            rooms: Vec::new(),
            decoded: DecodedHead::default(),
            written_head: ResponseHead::default(),
            written_request: RequestHead::default(),
            crowded: Vec::new(),
            opened: VecDeque::new(),
            random,
            is_encrypted,
            is_lost: false,
            resets: Bucket::default(),
            abandoned: 0,
            now_ms,
            received_ms: now_ms,
            received: 0,
            is_suspect: false,
            refusing_until_ms: 0,
            idle_since_ms: None,
            conduct: Conduct::default(),
        }
    }

    pub(super) fn is_encrypted(&self) -> bool {
        self.is_encrypted
    }

    /// Whether streams are still served. The codec may count streams that are not: a header block
    /// that ends the connection has opened one.
    pub(super) fn serves_any(&self) -> bool {
        !self.table.is_empty()
    }

    /// Releases memory that an idle connection does not need.
    pub(super) fn release_memory(&mut self, codec: &mut Connection) {
        codec.release_memory();
        self.decoded.shrink();
        self.table = StreamTable::default();
        self.rooms = Vec::new();
        self.crowded = Vec::new();
        self.opened = VecDeque::new();
        self.written_head = ResponseHead::default();
        self.written_request = RequestHead::default();
    }

    /// Breaks all streams, because the peer is gone.
    pub(super) fn lose(&mut self) {
        self.is_lost = true;
        for (_, entry) in self.table.iter_mut() {
            entry.break_off();
        }
    }

    /// Returns the evidence that the peer is alive.
    pub(super) fn signs(&self, codec: &Connection) -> Signs {
        Signs {
            received: self.received,
            received_ms: self.received_ms,
            is_awaited: codec.open_streams() > 0,
            is_suspect: self.is_suspect,
        }
    }

    /// Whether a new stream to the node may be opened.
    pub(super) fn takes_streams(&self, codec: &Connection, now_ms: u64) -> bool {
        let is_assumed = !codec.has_peer_settings() && codec.open_streams() >= STREAMS_ASSUMED;
        !self.is_lost
            && !is_assumed
            && codec.can_open()
            && codec.output().len() <= REQUESTS_WAITING_BYTES_MAX
            && !self.is_suspect
            && now_ms >= self.refusing_until_ms
    }

    /// Opens a stream to a node with the head at the start of `input`; `task` serves it. Returns
    /// the stream and the number of bytes taken.
    ///
    /// # Errors
    /// `ConnectionRefused` if the node accepts no stream; `InvalidData` if the head is invalid.
    pub(super) fn open(
        &mut self,
        codec: &mut Connection,
        input: &[u8],
        task: &Waker,
    ) -> io::Result<(StreamId, usize)> {
        if self.is_lost {
            return Err(ErrorKind::ConnectionRefused.into());
        }
        let request =
            request_head::open(codec, &mut self.written_request, input, self.is_encrypted)?;
        let inbound = Inbound::with_room(self.rooms.pop().unwrap_or_default());
        let mut entry = StreamState::new(inbound, request.outbound);
        entry.task.register(task);
        entry.opened_at = self.received;
        self.table.insert(request.stream, entry);
        Ok((request.stream, request.head_bytes))
    }

    /// Records that a stream exceeded the node's read timeout. If nothing at all was received since
    /// the stream was opened, a PING is sent, and no new streams are opened until it is answered:
    /// the caller wakes the connection's task.
    pub(super) fn note_silence(&mut self, stream: StreamId) {
        let opened_at = self.table.get(stream).map(|entry| entry.opened_at);
        self.is_suspect |= opened_at == Some(self.received);
    }

    /// Whether the node reported that it did not process a broken stream.
    pub(super) fn is_refused(&self, stream: StreamId) -> bool {
        self.table.get(stream).is_some_and(|entry| entry.is_refused)
    }

    /// Registers the task that serves a stream.
    pub(super) fn attach(&mut self, stream: StreamId, task: &Waker) {
        if let Some(entry) = self.table.get_mut(stream) {
            entry.task.register(task);
        }
    }

    /// Returns the reason to stop work for a client's stream, if it ended early. The requests of a
    /// flooding client are finished nevertheless, so that they keep occupying its concurrency
    /// limit.
    pub(super) fn withdrawn(&self, stream: StreamId) -> Option<GatewayCode> {
        match self.table.get(stream) {
            Some(entry) if !entry.is_broken => None,
            Some(entry) if entry.is_unbudgeted => Some(GatewayCode::MemoryLimit),
            _ if self.conduct == Conduct::Flooding => None,
            _ => Some(GatewayCode::DownstreamGone),
        }
    }

    /// Whether a stream is a client's request for a WebSocket (RFC 8441).
    pub(super) fn asks_websocket(&self, stream: StreamId) -> bool {
        self.table.get(stream).is_some_and(|entry| entry.outbound.handshake().is_some())
    }

    /// Whether `accept`, the node's `Sec-WebSocket-Accept`, confirms the WebSocket.
    pub(super) fn accepts_switch(&self, stream: StreamId, accept: &[u8]) -> bool {
        let handshake = self.table.get(stream).and_then(|entry| entry.outbound.handshake());
        handshake.is_some_and(|handshake| handshake.is_accepted(accept))
    }

    /// Reads received bytes of a stream; its task is woken when more arrive.
    pub(super) fn read(
        &mut self,
        codec: &mut Connection,
        stream: StreamId,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let Some(entry) = self.table.get_mut(stream) else { return gone() };
        let read = entry.inbound.read(buffer);
        if read.data > 0 {
            codec.consume(stream, read.data);
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
    pub(super) fn write(
        &mut self,
        codec: &mut Connection,
        stream: StreamId,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let is_lost = self.is_lost;
        let entry = self.table.get_mut(stream).filter(|entry| !is_lost && !entry.is_broken);
        let Some(entry) = entry else { return gone() };
        let mut sender = Sender { codec, stream, head: &mut self.written_head };
        match entry.outbound.write(&mut sender, parts) {
            Ok(WriteResult::Some(bytes)) => Poll::Ready(Ok(bytes)),
            Ok(WriteResult::Blocked) => Poll::Pending,
            Ok(WriteResult::Crowded) => {
                self.crowded.push(stream);
                Poll::Pending
            }
            Err(error) => Poll::Ready(Err(error)),
        }
    }

    /// Ends the write direction of a stream.
    pub(super) fn shut_down(&mut self, codec: &mut Connection, stream: StreamId) -> io::Result<()> {
        let Some(entry) = self.table.get_mut(stream) else {
            return Err(ErrorKind::BrokenPipe.into());
        };
        entry.outbound.shut_down(&mut Sender { codec, stream, head: &mut self.written_head })
    }

    /// Releases a stream. A stream with an incomplete message is reset, so that the peer does not
    /// take the message for complete. If the node's budget of resets is exhausted, the stream is
    /// abandoned without a reset. The connection may have ended with it: the caller wakes its task.
    pub(super) fn release(&mut self, codec: &mut Connection, stream: StreamId) {
        if self.has_no_reset_for(codec, stream) {
            return self.abandon(codec, stream);
        }
        self.crowded.retain(|other| *other != stream);
        let entry = self.table.remove(stream);
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
        if self.rooms.len() < ROOMS_MAX
            && let Some(room) = entry.and_then(|entry| entry.inbound.into_room())
        {
            self.rooms.push(room);
        }
    }

    /// Whether a stream to a node is being cancelled while the node's budget of resets is
    /// exhausted.
    fn has_no_reset_for(&mut self, codec: &Connection, stream: StreamId) -> bool {
        let is_cancelled = codec.role() == Role::Client
            && !self.is_lost
            && codec.failure().is_none()
            && codec.is_unfinished(stream)
            && self.table.get(stream).is_some_and(|entry| !entry.is_broken);
        is_cancelled && !self.resets.take(NODE_RESETS, codec.now_ms())
    }

    /// Leaves a stream to end by itself at the node; the connection takes no further streams.
    fn abandon(&mut self, codec: &mut Connection, stream: StreamId) {
        let Some(entry) = self.table.get_mut(stream) else { return };
        entry.is_abandoned = true;
        entry.task.clear();
        let unread = entry.inbound.discard();
        self.abandoned += 1;
        codec.consume(stream, unread);
        codec.forget_waiting(stream);
        codec.drain();
    }

    /// Releases abandoned streams that have ended at the node, and closes a connection that has only
    /// abandoned ones left.
    pub(super) fn release_abandoned(&mut self, codec: &mut Connection) {
        if self.abandoned == 0 {
            return;
        }
        let abandoned = &mut self.abandoned;
        self.table.retain(|stream, entry| {
            let is_over = entry.is_abandoned && !codec.is_unfinished(stream);
            if is_over {
                codec.release(stream);
                *abandoned -= 1;
            }
            !is_over
        });
        // Only abandoned streams are left.
        if *abandoned > 0 && *abandoned == codec.open_streams() {
            codec.close(ErrorCode::NO_ERROR, "all remaining streams were cancelled");
        }
    }
}

impl StreamState {
    fn new(inbound: Inbound, outbound: Outbound) -> Self {
        Self {
            inbound,
            outbound,
            task: WakerSlot::default(),
            is_broken: false,
            is_refused: false,
            is_unbudgeted: false,
            is_abandoned: false,
            opened_at: 0,
        }
    }

    fn break_off(&mut self) {
        self.is_broken = true;
        self.task.wake();
    }
}

fn gone<T>() -> Poll<io::Result<T>> {
    Poll::Ready(Err(ErrorKind::ConnectionReset.into()))
}
