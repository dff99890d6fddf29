//! What a connection holds: the codec with its bounds, and the exchanges by their slots.

use std::cell::RefCell;
use std::rc::Rc;
use std::task::{Context, Waker};

use bytes::Bytes;
use tollhouse_h2::{Connection, ErrorCode, Field, Limits, Rate, StreamId};
use tollhouse_stdx::MemoryBudget;

use super::RequestHead;
use crate::failure::Failure;
use crate::protocol::http2::failure::{Broken, closed};
use crate::protocol::http2::fields::Fields;
use crate::protocol::http2::intake::{Flow, Intake};

/// The largest window that HTTP/2 knows: flow control must not throttle what is measured. What arrives is
/// dealt with at once and not kept, so that no window stands for memory.
const WINDOW_BYTES: u32 = (1 << 31) - 1;

/// Resets, pings and window updates that the peer may send: as many as an honest server at full speed, each
/// of which costs no more than an answer.
const FRAME_RATE: Rate = Rate { burst: 1_000_000, per_second: 1_000_000 };

/// Streams before the peer has said how many it takes: the least that RFC 9113 §6.5.2 recommends, so that
/// few of them are refused.
pub(super) const STREAMS_AT_FIRST: u32 = 100;

/// All that changes.
pub(super) struct State {
    pub(super) codec: Connection,
    /// By slot.
    pub(super) held: Vec<Option<Held>>,
    pub(super) fields: Fields,
    /// What the peer said in its GOAWAY.
    pub(super) goodbye: Option<ErrorCode>,
    /// How the connection ended.
    pub(super) end: Option<Failure>,
    /// Whether nobody opens streams any more.
    pub(super) is_left: bool,
}

/// What one exchange has on the connection.
pub(in crate::protocol::http2) struct Held {
    pub(super) stream: StreamId,
    pub(in crate::protocol::http2) intake: Rc<RefCell<dyn Intake>>,
    /// Bytes that windows or output had no room for.
    pub(super) unsent: Bytes,
    ends_behind_unsent: bool,
    pub(super) outcome: Option<Result<(), Broken>>,
    pub(super) first_byte_ns: u64,
    task: Option<Waker>,
}

/// What a peer may make a connection hold: the defaults for strangers, with windows and rates that do not
/// slow an honest server down. Deadlines are none of the codec's: an exchange has its time-out.
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

    /// How it ended, or why it takes nothing more.
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
        let ends = body.is_some_and(Bytes::is_empty);
        let fields = head.headers.iter();
        let fields =
            fields.map(|(name, value)| Field::new(name.as_str().as_bytes(), value.as_bytes()));
        // Heads that repeat are encoded once and copied after that: a generator sends the same one
        // a million times.
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
            ends_behind_unsent: false,
            outcome: None,
            first_byte_ns: 0,
            task: None,
        };
        let held = self.held[slot].insert(held);
        if let Some(body) = body.filter(|body| !body.is_empty()) {
            let sent = self.codec.send_data(stream, body, true).map_err(Broken::unsendable)?;
            if sent < body.len() {
                held.unsent = body.slice(sent..);
                held.ends_behind_unsent = true;
            }
        }
        Ok(stream)
    }

    /// Sends what there is room for again.
    pub(super) fn send_ready(&mut self) {
        let Self { codec, held, .. } = self;
        while let Some(stream) = codec.next_ready() {
            let Some(held) = find(held, stream) else { continue };
            let sent = codec.send_data(stream, &held.unsent, held.ends_behind_unsent);
            // An error means that the peer has ended the stream, which its exchange learns otherwise.
            let sent = sent.unwrap_or(held.unsent.len());
            let _ = held.unsent.split_to(sent);
            if held.unsent.is_empty() {
                held.wake();
            }
        }
    }
}

impl Held {
    /// Gives something to the intake, and notes what it makes of it.
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
