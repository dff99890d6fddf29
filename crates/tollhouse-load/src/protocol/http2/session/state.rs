//! Mutable state of a connection: the codec with its limits, and the exchanges by stream slot.

use std::cell::RefCell;
use std::rc::Rc;
use std::task::{Context, Waker};

use bytes::Bytes;
use tollhouse_h2::{Connection, EndStream, ErrorCode, Field, Limits, Rate, StreamId};
use tollhouse_stdx::MemoryBudget;

use super::RequestHead;
use crate::failure::Failure;
use crate::protocol::http2::failure::{Broken, closed};
use crate::protocol::http2::fields::Fields;
use crate::protocol::http2::intake::{Flow, Intake};

/// Largest window in HTTP/2, so that flow control does not throttle the measurement. Received data
/// is processed at once and not buffered, so that the window does not imply memory use.
const WINDOW_BYTES: u32 = (1 << 31) - 1;

/// Permitted rate of the peer's resets, pings and window updates: that of a correct server at full
/// speed. Handling such a frame costs no more than a response.
const FRAME_RATE: Rate = Rate { burst: 1_000_000, per_second: 1_000_000 };

/// Stream limit before the peer's settings arrive: the minimum recommended in RFC 9113, section
/// 6.5.2, so that few streams are refused.
pub(super) const STREAMS_AT_FIRST: u32 = 100;

pub(super) struct State {
    pub(super) codec: Connection,
    pub(super) held: Vec<Option<Held>>,
    pub(super) fields: Fields,
    /// Error code of the peer's GOAWAY.
    pub(super) goodbye: Option<ErrorCode>,
    /// Failure that ended the connection, if it has ended.
    pub(super) end: Option<Failure>,
    /// Whether opening streams has stopped for good.
    pub(super) is_left: bool,
}

/// State of one exchange on the connection.
pub(in crate::protocol::http2) struct Held {
    pub(super) stream: StreamId,
    pub(in crate::protocol::http2) intake: Rc<RefCell<dyn Intake>>,
    /// Data that did not fit into the windows or the output buffer.
    pub(super) unsent: Bytes,
    end_stream: EndStream,
    pub(super) outcome: Option<Result<(), Broken>>,
    pub(super) first_byte_ns: u64,
    task: Option<Waker>,
}

/// Limits for the peer: the codec's defaults, with windows and rates that do not slow down a
/// correct server. Deadlines are left to the request timeout.
fn limits() -> Limits {
    Limits {
        stream_window_bytes: WINDOW_BYTES,
        stream_window_bytes_max: WINDOW_BYTES,
        window_growth_bytes: 0,
        connection_window_bytes: WINDOW_BYTES,
        resets: FRAME_RATE,
        pings: FRAME_RATE,
        window_updates: FRAME_RATE,
        ..Limits::default()
    }
}

impl State {
    pub(super) fn new() -> Self {
        Self {
            codec: Connection::client(limits(), &MemoryBudget::new(0), 0),
            held: Vec::new(),
            fields: Fields::default(),
            goodbye: None,
            end: None,
            is_left: false,
        }
    }

    pub(super) fn is_usable(&self) -> bool {
        self.end.is_none() && self.goodbye.is_none() && !self.is_left
    }

    /// Returns the failure that ended the connection, or the reason why it accepts no requests.
    pub(super) fn end(&self) -> Failure {
        self.end.clone().unwrap_or_else(|| closed(self.goodbye))
    }

    pub(super) fn has_room(&self) -> bool {
        let is_early = !self.codec.has_peer_settings();
        self.codec.can_open() && !(is_early && self.codec.open_streams() >= STREAMS_AT_FIRST)
    }

    pub(super) fn open(
        &mut self,
        head: &RequestHead<'_>,
        body: Option<&Bytes>,
        intake: &Rc<RefCell<dyn Intake>>,
    ) -> Result<StreamId, Broken> {
        let ends = EndStream::from(body.is_some_and(Bytes::is_empty));
        let fields = head.headers.iter();
        let fields =
            fields.map(|(name, value)| Field::new(name.as_str().as_bytes(), value.as_bytes()));
        // Repeated heads are encoded once and then copied, because a generator sends the same one a
        // million times.
        let opened = match head.number {
            Some(number) => self.codec.open_repeated(number, &head.line, fields, ends),
            None => self.codec.open(&head.line, fields, ends),
        };
        let stream = opened.map_err(Broken::unsendable)?;
        intake.borrow_mut().begin();
        let slot = stream.slot();
        if self.held.len() <= slot {
            self.held.resize_with(slot + 1, || None);
        }
        let held = Held {
            stream,
            intake: Rc::clone(intake),
            unsent: Bytes::new(),
            end_stream: EndStream::No,
            outcome: None,
            first_byte_ns: 0,
            task: None,
        };
        let held = self.held[slot].insert(held);
        if let Some(body) = body.filter(|body| !body.is_empty()) {
            let sent =
                self.codec.send_data(stream, body, EndStream::Yes).map_err(Broken::unsendable)?;
            if sent < body.len() {
                held.unsent = body.slice(sent..);
                held.end_stream = EndStream::Yes;
            }
        }
        Ok(stream)
    }

    /// Sends pending data for which there is room again.
    pub(super) fn send_ready(&mut self) {
        let Self { codec, held, .. } = self;
        while let Some(stream) = codec.next_ready() {
            let Some(held) = find(held, stream) else { continue };
            let sent = codec.send_data(stream, &held.unsent, held.end_stream);
            // An error means that the peer has ended the stream; the exchange receives that as an
            // event.
            let sent = sent.unwrap_or(held.unsent.len());
            let _ = held.unsent.split_to(sent);
            if held.unsent.is_empty() {
                held.wake();
            }
        }
    }
}

impl Held {
    /// Passes an event to the intake and acts on its decision.
    pub(super) fn take(&mut self, give: impl FnOnce(&mut dyn Intake) -> Result<Flow, Failure>) {
        if self.outcome.is_some() {
            return;
        }
        let flow = give(&mut *self.intake.borrow_mut());
        match flow {
            Ok(Flow::More) => {}
            Ok(Flow::Look) => self.wake(),
            Ok(Flow::Enough) => self.finish(Ok(())),
            Err(failure) => self.finish(Err(failure.into())),
        }
    }

    pub(super) fn finish(&mut self, outcome: Result<(), Broken>) {
        if self.outcome.is_none() {
            self.outcome = Some(outcome);
            self.wake();
        }
    }

    fn wake(&self) {
        if let Some(task) = &self.task {
            task.wake_by_ref();
        }
    }

    pub(super) fn register(&mut self, context: &Context<'_>) {
        if !self.task.as_ref().is_some_and(|task| task.will_wake(context.waker())) {
            self.task = Some(context.waker().clone());
        }
    }
}

pub(super) fn find(held: &mut [Option<Held>], stream: StreamId) -> Option<&mut Held> {
    let held = held.get_mut(stream.slot())?.as_mut();
    held.filter(|held| held.stream == stream)
}
