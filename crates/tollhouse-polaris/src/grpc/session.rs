//! The calls of a connection: received and unsent bytes of each call, and the handle that a call has
//! of its stream.
//!
//! Everything is on one thread; [`tollhouse_h2::driver`] moves the bytes.

use std::cell::Cell;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::Bytes;
use tollhouse_h2::driver::{self, Application, StreamTable, WakerSlot};
use tollhouse_h2::{Connection, EndStream, Event, Field, StreamId};

use super::accept::Server;
use super::call::IncomingCall;
use super::fields::Head;
use super::limits::GATHERED_BYTES;
use super::payload::Payload;
use super::status::Status;

/// HTTP/2 connection of a client.
pub(super) type Session = driver::Session<Calls>;

/// Calls of one connection.
pub(super) struct Calls {
    server: Rc<Server>,
    streams: StreamTable<CallState>,
    /// Calls that the last read has begun.
    pub(super) begun: Vec<IncomingCall>,
    head: Head,
    /// Buffer for a frame whose bytes are in two places.
    scratch: Vec<u8>,
    /// Counter of reads that returned bytes.
    arrivals: Rc<Cell<u64>>,
}

/// State of a call.
#[derive(Default)]
struct CallState {
    received: VecDeque<Bytes>,
    /// Whether the client has ended its side.
    has_ended: bool,
    /// Whether the client has cancelled the call or disconnected.
    is_gone: bool,
    /// Answers that the client's window has not taken yet.
    unsent: VecDeque<Payload>,
    /// End of the call after these answers.
    last: Option<CallEnd>,
    /// Whether the call's `CallStream` was dropped.
    is_left: bool,
    task: WakerSlot,
}

#[derive(Debug)]
enum CallEnd {
    /// Trailers with a status.
    Status(Status),
    Body,
}

/// The client has cancelled the call or disconnected.
#[derive(Debug)]
pub(super) struct ClientGone;

/// Handle of a call on its connection; releases the stream on drop.
pub(super) struct CallStream {
    session: Rc<Session>,
    id: StreamId,
}

impl Calls {
    /// Creates the calls of a new connection, which counts its reads in `arrivals`.
    pub(super) fn new(server: Rc<Server>, arrivals: Rc<Cell<u64>>) -> Self {
        Self {
            server,
            streams: StreamTable::default(),
            begun: Vec::new(),
            head: Head::default(),
            scratch: Vec::new(),
            arrivals,
        }
    }

    /// Releases memory that an idle connection does not need.
    pub(super) fn release_memory(&mut self) {
        let (server, arrivals) = (Rc::clone(&self.server), Rc::clone(&self.arrivals));
        *self = Self::new(server, arrivals);
    }

    /// Ends all calls, because the client has disconnected.
    pub(super) fn lose(&mut self, codec: &mut Connection) {
        self.streams.retain(|stream, call| {
            call.give_up();
            if call.is_left {
                codec.release(stream);
            }
            !call.is_left
        });
    }

    /// Returns the call on a stream, unless its client has cancelled it or disconnected.
    fn present(&mut self, stream: StreamId) -> Result<&mut CallState, ClientGone> {
        self.streams.get_mut(stream).filter(|call| !call.is_gone).ok_or(ClientGone)
    }

    fn release(&mut self, codec: &mut Connection, stream: StreamId) {
        self.streams.remove(stream);
        codec.release(stream);
    }

    /// Marks a call as cancelled.
    fn give_up(&mut self, codec: &mut Connection, stream: StreamId) {
        let Some(call) = self.streams.get_mut(stream) else { return };
        call.give_up();
        if call.is_left {
            self.release(codec, stream);
        }
    }
}

impl Application for Calls {
    type Fields = Head;

    fn fields(&mut self) -> &mut Head {
        &mut self.head
    }

    fn received(&mut self, _: usize) -> u64 {
        self.arrivals.set(self.arrivals.get() + 1);
        self.server.now_ms()
    }

    fn event(&mut self, codec: &mut Connection, event: Event<'_>) {
        match event {
            Event::Request { stream, ends } => {
                self.streams.insert(stream, CallState { has_ended: ends, ..CallState::default() });
                self.begun.push(IncomingCall::new(&self.server, stream, &mut self.head));
            }
            Event::Data { stream, data, ends } => {
                // The call may have ended on this side already; its remaining input is ignored.
                let Some(call) = self.streams.get_mut(stream) else { return };
                if !data.is_empty() {
                    call.received.push_back(Bytes::copy_from_slice(data));
                }
                call.has_ended |= ends;
                call.task.wake();
            }
            Event::Trailers { stream } => {
                let Some(call) = self.streams.get_mut(stream) else { return };
                call.has_ended = true;
                call.task.wake();
            }
            Event::Reset { stream, .. } => self.give_up(codec, stream),
            _ => {}
        }
    }

    /// Sends the output of a call as far as the windows allow.
    fn send(&mut self, codec: &mut Connection, stream: StreamId) {
        let Some(call) = self.streams.get_mut(stream) else { return };
        while let Some(payload) = call.unsent.front_mut() {
            let (prefix, piece) = payload.front();
            let data = match (prefix, piece) {
                ([], piece) => piece,
                (prefix, []) => prefix,
                (prefix, piece) => {
                    // Joined, so that prefix and message are in one frame.
                    self.scratch.clear();
                    self.scratch.extend_from_slice(prefix);
                    self.scratch.extend_from_slice(&piece[..piece.len().min(GATHERED_BYTES)]);
                    self.scratch.as_slice()
                }
            };
            let length = data.len();
            let Ok(sent) = codec.send_data(stream, data, EndStream::No) else {
                return self.give_up(codec, stream);
            };
            payload.advance(sent);
            if sent < length {
                return;
            }
            if payload.remaining_bytes() == 0 {
                call.unsent.pop_front();
            }
        }
        // Fails only if the client has gone; the end is not needed then.
        match call.last.take() {
            Some(CallEnd::Status(status)) => {
                let _ = codec.send_trailers(stream, status.fields().iter());
            }
            Some(CallEnd::Body) => drop(codec.send_data(stream, &[], EndStream::Yes)),
            None => {}
        }
        if call.is_left {
            self.release(codec, stream);
        } else {
            call.task.wake();
        }
    }
}

impl CallState {
    /// Drops what is unsent, because the client has gone.
    fn give_up(&mut self) {
        self.is_gone = true;
        self.unsent.clear();
        self.task.wake();
    }
}

impl CallStream {
    /// Creates the handle of the call on `stream`, which has just begun.
    pub(super) fn new(session: &Rc<Session>, stream: StreamId) -> Self {
        Self { session: Rc::clone(session), id: stream }
    }

    fn with<T>(&self, act: impl FnOnce(&mut Connection, &mut Calls) -> T) -> T {
        self.session.with(act)
    }

    /// Polls the call unless the client has gone; a call that waits is woken by its next event.
    fn poll<T>(
        &self,
        cx: &Context<'_>,
        poll: impl FnOnce(&mut CallState) -> Option<T>,
    ) -> Poll<Result<T, ClientGone>> {
        self.with(|_, calls| {
            let call = calls.present(self.id)?;
            match poll(call) {
                Some(ready) => Poll::Ready(Ok(ready)),
                None => {
                    call.task.register(cx.waker());
                    Poll::Pending
                }
            }
        })
    }

    /// Returns the next piece of the request body; `None` at its end.
    pub(super) fn poll_data(&self, cx: &Context<'_>) -> Poll<Option<Result<Bytes, ClientGone>>> {
        self.with(|codec, calls| {
            let Some(call) = calls.streams.get_mut(self.id) else {
                return Poll::Ready(Some(Err(ClientGone)));
            };
            if let Some(piece) = call.received.pop_front() {
                codec.consume(self.id, piece.len());
                return Poll::Ready(Some(Ok(piece)));
            }
            if call.has_ended {
                return Poll::Ready(None);
            }
            if call.is_gone {
                return Poll::Ready(Some(Err(ClientGone)));
            }
            call.task.register(cx.waker());
            Poll::Pending
        })
    }

    /// Waits for the end of the request body, and discards it.
    pub(super) async fn until_end(&self) -> Result<(), ClientGone> {
        while let Some(piece) = poll_fn(|cx| self.poll_data(cx)).await {
            piece?;
        }
        Ok(())
    }

    /// Whether the whole request body was consumed.
    pub(super) fn is_at_end(&self) -> bool {
        self.with(|_, calls| {
            let call = calls.streams.get(self.id);
            call.is_none_or(|call| call.has_ended && call.received.is_empty())
        })
    }

    /// Sends a response head; `ends` if nothing follows.
    pub(super) fn respond<'f>(
        &self,
        status: u16,
        fields: impl IntoIterator<Item = Field<'f>>,
        ends: EndStream,
    ) -> Result<(), ClientGone> {
        self.with(|codec, _| codec.respond(self.id, status, fields, ends).map_err(|_| ClientGone))
    }

    /// Queues an answer without waiting.
    pub(super) fn send(&self, payload: Payload) -> Result<(), ClientGone> {
        self.with(|codec, calls| {
            let call = calls.present(self.id)?;
            call.unsent.push_back(payload);
            // Otherwise earlier answers are sent first, when the window opens.
            if call.unsent.len() == 1 {
                calls.send(codec, self.id);
            }
            Ok(())
        })
    }

    /// Ends the call with a status, after the queued answers.
    pub(super) fn end(&self, status: Status) -> Result<(), ClientGone> {
        self.end_with(CallEnd::Status(status))
    }

    /// Sends a plain HTTP response, for requests other than gRPC calls.
    pub(super) fn answer<'f>(
        &self,
        status: u16,
        fields: impl IntoIterator<Item = Field<'f>>,
        body: Payload,
    ) -> Result<(), ClientGone> {
        self.respond(status, fields, EndStream::No)?;
        self.send(body)?;
        self.end_with(CallEnd::Body)
    }

    fn end_with(&self, last: CallEnd) -> Result<(), ClientGone> {
        self.with(|codec, calls| {
            let call = calls.present(self.id)?;
            call.last = Some(last);
            if call.unsent.is_empty() {
                calls.send(codec, self.id);
            }
            Ok(())
        })
    }

    /// Waits until the client's window has taken all queued answers.
    pub(super) fn poll_taken(&self, cx: &Context<'_>) -> Poll<Result<(), ClientGone>> {
        self.poll(cx, |call| call.unsent.is_empty().then_some(()))
    }

    /// Becomes ready when the client has cancelled the call.
    pub(super) fn poll_gone(&self, cx: &Context<'_>) -> Poll<ClientGone> {
        self.poll(cx, |_| None::<ClientGone>).map(|(Ok(gone) | Err(gone))| gone)
    }
}

impl Drop for CallStream {
    fn drop(&mut self) {
        self.with(|codec, calls| match calls.streams.get_mut(self.id) {
            Some(call) if call.last.is_some() && !call.is_gone => {
                call.is_left = true;
                call.task.clear();
            }
            Some(_) => calls.release(codec, self.id),
            None => {}
        });
        // A connection that is draining may have ended with its last call.
        self.session.wake();
    }
}
