//! Reactions of a connection's streams to what the peer does.

use tollhouse_h2::driver::{Application, StreamTable};
use tollhouse_h2::{Connection, ErrorCode, Event, ResetCause, Role, StreamId};

use super::{OpenedStream, StreamState, Streams};
use crate::http2::head::{DecodedHead, Kind};
use crate::http2::inbound::{Inbound, Room};
use crate::http2::outbound::Outbound;
use crate::http2::websocket::Handshake;

/// Maximum bytes of unread interim responses per stream. Heads are not covered by flow-control
/// windows, and their reader may be delayed.
const INTERIM_BYTES_MAX: usize = 64 * 1024;

/// Pause in milliseconds before new streams on a connection to a node that refused one.
const REFUSAL_PAUSE_MS: u64 = 1000;

impl Application for Streams {
    type Fields = DecodedHead;

    fn fields(&mut self) -> &mut DecodedHead {
        &mut self.decoded
    }

    fn received(&mut self, _: usize) -> u64 {
        self.received_ms = self.now_ms;
        self.received += 1;
        self.is_suspect = false;
        self.now_ms
    }

    fn event(&mut self, codec: &mut Connection, event: Event<'_>) {
        match event {
            Event::Request { stream, ends } => {
                let room = self.rooms.pop().unwrap_or_default();
                let (inbound, outbound) = self.begin_request(ends, room);
                self.table.insert(stream, StreamState::new(inbound, outbound));
                self.opened.push_back(OpenedStream { stream, kind: self.decoded.kind() });
            }
            Event::Response { stream, status, ends } => {
                let Some(entry) = awaited(&mut self.table, stream) else { return };
                let (asked_head, decoded) = (entry.outbound.is_head(), &self.decoded);
                entry.inbound.begin(|out| decoded.write_response(status, ends, asked_head, out));
                entry.inbound.push(&[], ends);
                entry.task.wake();
            }
            Event::Interim { stream, status } => {
                let Some(entry) = awaited(&mut self.table, stream) else { return };
                if entry.inbound.staged_bytes() > INTERIM_BYTES_MAX {
                    codec.reset(stream, ErrorCode::ENHANCE_YOUR_CALM);
                    return entry.break_off();
                }
                let decoded = &self.decoded;
                entry.inbound.begin(|out| decoded.write_interim(status, out));
                entry.task.wake();
            }
            Event::Data { stream, data, ends } => {
                let Some(entry) = self.table.get_mut(stream) else { return };
                if entry.is_abandoned {
                    return codec.consume(stream, data.len());
                }
                if !data.is_empty() && !entry.inbound.takes_data() {
                    // Data for a response that may not have a body.
                    codec.reset(stream, ErrorCode::PROTOCOL_ERROR);
                    return entry.break_off();
                }
                entry.inbound.push(data, ends);
                entry.task.wake();
            }
            Event::Trailers { stream } => {
                let Some(entry) = awaited(&mut self.table, stream) else { return };
                entry.inbound.end(self.decoded.lines());
                entry.task.wake();
            }
            Event::Reset { stream, code, cause } => {
                let is_refused = code == ErrorCode::REFUSED_STREAM;
                if is_refused {
                    self.refusing_until_ms = codec.now_ms() + REFUSAL_PAUSE_MS;
                }
                let Some(entry) = self.table.get_mut(stream) else { return };
                entry.is_unbudgeted = cause == ResetCause::Memory;
                entry.is_refused |= is_refused;
                entry.break_off();
            }
            // A client's GOAWAY changes nothing, because its open streams are served to the end.
            Event::GoAway { last_stream, .. } if codec.role() == Role::Client => {
                self.refuse_beyond(last_stream);
            }
            Event::GoAway { .. } | Event::Settings | Event::Pong { .. } => {}
        }
    }

    /// Wakes the task of a stream that can send again.
    fn send(&mut self, _: &mut Connection, stream: StreamId) {
        if let Some(entry) = self.table.get_mut(stream) {
            entry.task.wake();
        }
    }

    fn written(&mut self, codec: &mut Connection, _: usize) {
        if codec.output().is_empty() {
            for stream in self.crowded.drain(..) {
                if let Some(entry) = self.table.get_mut(stream) {
                    entry.task.wake();
                }
            }
        }
    }
}

impl Streams {
    /// Begins both halves of a client's request, formatted as HTTP/1.1.
    fn begin_request(&mut self, ends: bool, room: Room) -> (Inbound, Outbound) {
        let Self { decoded, random, .. } = self;
        let mut inbound = Inbound::with_room(room);
        let mut handshake = None;
        inbound.begin(|out| match decoded.kind() {
            Kind::Exchange => decoded.write_request(ends, out),
            Kind::WebSocket => {
                let key = [random.next_u64(), random.next_u64()];
                let handshake = handshake.insert(Box::new(Handshake::new(key)));
                decoded.write_upgrade(handshake, out)
            }
            Kind::Connect | Kind::UnknownProtocol => decoded.write_refused(out),
        });
        if ends {
            inbound.push(&[], true);
        }
        (inbound, Outbound::new(decoded.is_head(), handshake))
    }

    /// Breaks the streams that the node's GOAWAY declares as not processed.
    fn refuse_beyond(&mut self, last_stream: u32) {
        for (stream, entry) in self.table.iter_mut() {
            if stream.number() > last_stream {
                entry.is_refused = true;
                entry.break_off();
            }
        }
    }
}

/// Returns the stream, unless it was abandoned.
fn awaited(table: &mut StreamTable<StreamState>, stream: StreamId) -> Option<&mut StreamState> {
    table.get_mut(stream).filter(|entry| !entry.is_abandoned)
}
