//! Exchanges of a connection, and what they do with the peer's events.

use std::cell::RefCell;
use std::rc::Rc;

use bytes::Bytes;
use tollhouse_h2::driver::{Application, StreamTable, WakerSlot};
use tollhouse_h2::{
    Connection, EndStream, ErrorCode, Event, Field, FieldSink, HeadKind, Limits, Rate, StreamId,
};
use tollhouse_net::clock::Clock;
use tollhouse_stdx::MemoryBudget;

use super::{RequestHead, Room};
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

pub(super) struct Exchanges {
    pub(super) streams: StreamTable<Exchange>,
    fields: Fields,
    /// Whether the exchange whose head arrives wants its fields.
    wants_fields: bool,
    room: Rc<Room>,
    clock: Clock,
    /// Time of the last read.
    now_ns: u64,
    /// Bytes sent and received since they were last asked for.
    pub(super) traffic: (u64, u64),
    /// Error code of the peer's GOAWAY.
    pub(super) goodbye: Option<ErrorCode>,
    /// Failure that ended the connection, if it has ended.
    end: Option<Failure>,
    /// Whether opening streams has stopped for good.
    pub(super) is_left: bool,
}

/// State of one exchange on the connection.
pub(super) struct Exchange {
    intake: Rc<RefCell<dyn Intake>>,
    /// Data that did not fit into the windows or the output buffer.
    pub(super) unsent: Bytes,
    end_stream: EndStream,
    pub(super) outcome: Option<Result<(), Broken>>,
    pub(super) first_byte_ns: u64,
    pub(super) task: WakerSlot,
}

/// Creates the codec. Its limits are the defaults, with windows and rates that do not slow down a
/// correct server; deadlines are left to the request timeout.
pub(super) fn codec() -> Connection {
    let limits = Limits {
        stream_window_bytes: WINDOW_BYTES,
        stream_window_bytes_max: WINDOW_BYTES,
        window_growth_bytes: 0,
        connection_window_bytes: WINDOW_BYTES,
        resets: FRAME_RATE,
        pings: FRAME_RATE,
        window_updates: FRAME_RATE,
        ..Limits::default()
    };
    Connection::client(limits, &MemoryBudget::new(0), 0)
}

/// Whether the peer takes another stream now.
pub(super) fn has_room(codec: &Connection) -> bool {
    let is_early = !codec.has_peer_settings();
    codec.can_open() && !(is_early && codec.open_streams() >= STREAMS_AT_FIRST)
}

impl Exchanges {
    pub(super) fn new(clock: Clock, room: Rc<Room>) -> Self {
        Self {
            streams: StreamTable::default(),
            fields: Fields::default(),
            wants_fields: false,
            room,
            clock,
            now_ns: 0,
            traffic: (0, 0),
            goodbye: None,
            end: None,
            is_left: false,
        }
    }

    pub(super) fn is_usable(&self) -> bool {
        self.end.is_none() && self.goodbye.is_none() && !self.is_left
    }

    /// Whether the connection is no longer needed.
    pub(super) fn is_over(&self, codec: &Connection) -> bool {
        self.is_left && codec.open_streams() == 0
    }

    /// Returns the failure that ended the connection, or the reason why it accepts no requests.
    pub(super) fn end(&self) -> Failure {
        self.end.clone().unwrap_or_else(|| closed(self.goodbye))
    }

    /// Fails all exchanges.
    pub(super) fn lose(&mut self, failure: &Failure) {
        for (_, exchange) in self.streams.iter_mut() {
            exchange.finish(Err(failure.clone().into()));
        }
        self.end = Some(failure.clone());
        self.room.notify_all();
    }

    pub(super) fn open(
        &mut self,
        codec: &mut Connection,
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
            Some(number) => codec.open_repeated(number, &head.line, fields, ends),
            None => codec.open(&head.line, fields, ends),
        };
        let stream = opened.map_err(Broken::unsendable)?;
        intake.borrow_mut().begin();
        let exchange = self.streams.insert(stream, Exchange::new(intake));
        if let Some(body) = body.filter(|body| !body.is_empty()) {
            let sent = codec.send_data(stream, body, EndStream::Yes).map_err(Broken::unsendable)?;
            if sent < body.len() {
                exchange.unsent = body.slice(sent..);
                exchange.end_stream = EndStream::Yes;
            }
        }
        Ok(stream)
    }
}

impl FieldSink for Exchanges {
    fn begin(&mut self, stream: StreamId, _: HeadKind) {
        self.fields.clear();
        let exchange = self.streams.get(stream);
        self.wants_fields =
            exchange.is_some_and(|exchange| exchange.intake.borrow().wants_fields());
    }

    #[inline]
    fn field(&mut self, field: Field<'_>) {
        if self.wants_fields && !field.kind.is_pseudo() {
            self.fields.push(field.name, field.value);
        }
    }
}

impl Application for Exchanges {
    type Fields = Self;

    fn fields(&mut self) -> &mut Self {
        self
    }

    fn received(&mut self, bytes: usize) -> u64 {
        self.traffic.1 += bytes as u64;
        self.now_ns = self.clock.now_ns();
        self.now_ns / 1_000_000
    }

    fn written(&mut self, _: &mut Connection, bytes: usize) {
        self.traffic.0 += bytes as u64;
    }

    fn event(&mut self, codec: &mut Connection, event: Event<'_>) {
        let Self { streams, fields, .. } = self;
        match event {
            Event::Response { stream, status, ends } => {
                let Some(exchange) = streams.get_mut(stream) else { return };
                exchange.first_byte_ns = self.now_ns;
                exchange.take(ends, |intake| intake.head(status, fields));
            }
            Event::Data { stream, data, ends } => {
                let Some(exchange) = streams.get_mut(stream) else { return };
                exchange.take(ends, |intake| match data.is_empty() {
                    true => Ok(Flow::More),
                    false => intake.data(data),
                });
                // A finished stream needs no window update.
                if !ends {
                    codec.consume(stream, data.len());
                }
            }
            Event::Trailers { stream } => {
                let Some(exchange) = streams.get_mut(stream) else { return };
                let fields = &*fields;
                exchange.take(false, |intake| intake.end(Some(fields)).map(|()| Flow::Enough));
            }
            Event::Reset { stream, code, cause } => {
                let Some(exchange) = streams.get_mut(stream) else { return };
                exchange.finish(Err(Broken::by_reset(code, cause)));
            }
            Event::GoAway { last_stream, code } => {
                self.goodbye = Some(code);
                for (stream, exchange) in streams.iter_mut() {
                    if stream.number() > last_stream {
                        exchange.finish(Err(Broken::by_go_away(code)));
                    }
                }
                self.room.notify_all();
            }
            Event::Settings => self.room.notify_all(),
            Event::Interim { .. } | Event::Pong { .. } | Event::Request { .. } => {}
        }
    }

    fn send(&mut self, codec: &mut Connection, stream: StreamId) {
        let Some(exchange) = self.streams.get_mut(stream) else { return };
        let sent = codec.send_data(stream, &exchange.unsent, exchange.end_stream);
        // An error means that the peer has ended the stream; the exchange receives that as an
        // event.
        let sent = sent.unwrap_or(exchange.unsent.len());
        let _ = exchange.unsent.split_to(sent);
        if exchange.unsent.is_empty() {
            exchange.task.wake();
        }
    }
}

impl Exchange {
    fn new(intake: &Rc<RefCell<dyn Intake>>) -> Self {
        Self {
            intake: Rc::clone(intake),
            unsent: Bytes::new(),
            end_stream: EndStream::No,
            outcome: None,
            first_byte_ns: 0,
            task: WakerSlot::default(),
        }
    }

    /// Passes a piece of the response to the intake and acts on its decision; `ends` marks the last
    /// piece of a message without trailers.
    fn take(&mut self, ends: bool, give: impl FnOnce(&mut dyn Intake) -> Result<Flow, Failure>) {
        if self.outcome.is_some() {
            return;
        }
        let flow = {
            let intake = &mut *self.intake.borrow_mut();
            give(intake).and_then(|flow| match flow {
                Flow::More | Flow::Look if ends => intake.end(None).map(|()| Flow::Enough),
                flow => Ok(flow),
            })
        };
        match flow {
            Ok(Flow::More) => {}
            Ok(Flow::Look) => self.task.wake(),
            Ok(Flow::Enough) => self.finish(Ok(())),
            Err(failure) => self.finish(Err(failure.into())),
        }
    }

    fn finish(&mut self, outcome: Result<(), Broken>) {
        if self.outcome.is_none() {
            self.outcome = Some(outcome);
            self.task.wake();
        }
    }
}
