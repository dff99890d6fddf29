//! Header blocks: collected, decoded, checked and turned into events (RFC 9113 §4.3, §6.2, §6.10,
//! §8.1).

use super::{Connection, Ending};
use crate::event::{Event, FieldSink, ResetCause};
use crate::field::Malformed;
use crate::frame::{self, FrameHeader, flag, kind};
use crate::message::{EndStream, HeadKind, Method};
use crate::stream::{Half, Reset};
use crate::{ConnectionError, ErrorCode, Priority, Role, StreamId};

/// Header block whose CONTINUATION frames are still arriving.
#[derive(Debug, Clone, Copy)]
pub(super) struct Block {
    pub(super) number: u32,
    ends: EndStream,
    depends_on_itself: bool,
    continuations: u32,
}

/// The handling of a header block.
enum Admission {
    Open,
    /// Deliver it to a stream that is held.
    Message(StreamId, HeadKind),
    /// Decode the block to keep the HPACK table in step, and drop its fields.
    Discard,
    /// Decode it, drop it and reset its stream with this code.
    Refuse(ErrorCode),
}

/// `:status` 400 and 431, encoded without the dynamic table.
const ANSWER_BAD_REQUEST: &[u8] = b"\x08\x03400";
const ANSWER_TOO_LARGE: &[u8] = b"\x08\x03431";

impl Connection {
    pub(super) fn take_headers<S: FieldSink>(
        &mut self,
        header: FrameHeader,
        payload: &[u8],
        sink: &mut S,
    ) -> Result<Option<Event<'static>>, ConnectionError> {
        if header.stream == 0 {
            return Err(ConnectionError::protocol("HEADERS without a stream"));
        }
        let too_short = ConnectionError::frame_size("HEADERS too short for its flags");
        let mut rest = payload;
        let mut padding = 0;
        if header.has(flag::PADDED) {
            let (&length, after) = rest.split_first().ok_or(too_short)?;
            (padding, rest) = (usize::from(length), after);
        }
        // RFC 7540 priorities are read only to detect the one form that is still an error. It is a
        // stream error: the block must be decoded first to keep the table in sync.
        let mut depends_on_itself = false;
        if header.has(flag::PRIORITY) {
            let (priority, after) = rest.split_first_chunk::<5>().ok_or(too_short)?;
            depends_on_itself = dependency(priority) == header.stream;
            rest = after;
        }
        let fragment = rest.len().checked_sub(padding).map(|length| &rest[..length]);
        let fragment =
            fragment.ok_or(ConnectionError::protocol("HEADERS with more padding than payload"))?;
        let ends = EndStream::from(header.has(flag::END_STREAM));
        let block = Block { number: header.stream, ends, depends_on_itself, continuations: 0 };
        if header.has(flag::END_HEADERS) {
            return self.take_block(block, fragment, sink);
        }
        self.input.block = Some(block);
        self.gather(fragment)?;
        Ok(None)
    }

    pub(super) fn take_continuation<S: FieldSink>(
        &mut self,
        header: FrameHeader,
        payload: &[u8],
        sink: &mut S,
    ) -> Result<Option<Event<'static>>, ConnectionError> {
        self.counters.continuations += 1;
        let no_block = ConnectionError::protocol("CONTINUATION without a header block");
        let block = self.input.block.as_mut().ok_or(no_block)?;
        block.continuations += 1;
        if block.continuations > self.limits.continuation_frames {
            return Err(ConnectionError::calm("a header block spans too many frames"));
        }
        let block = *block;
        self.gather(payload)?;
        if !header.has(flag::END_HEADERS) {
            return Ok(None);
        }
        self.input.block = None;
        let bytes = std::mem::take(&mut self.input.block_bytes);
        let event = self.take_block(block, &bytes, sink);
        self.keep_block_buffer(bytes);
        event
    }

    fn gather(&mut self, fragment: &[u8]) -> Result<(), ConnectionError> {
        let length = self.input.block_bytes.len() + fragment.len();
        if length > self.limits.block_bytes as usize {
            return Err(ConnectionError::calm("a header block is too large"));
        }
        self.input.block_bytes.extend_from_slice(fragment);
        Ok(())
    }

    /// Decodes a complete block even if it will be dropped, so that the tables stay in sync.
    fn take_block<S: FieldSink>(
        &mut self,
        block: Block,
        bytes: &[u8],
        sink: &mut S,
    ) -> Result<Option<Event<'static>>, ConnectionError> {
        if bytes.len() > self.limits.block_bytes as usize {
            return Err(ConnectionError::calm("a header block is too large"));
        }
        match self.admit(block)? {
            Admission::Open => self.open_stream(block, bytes, sink),
            Admission::Message(stream, kind) => {
                sink.begin(stream, kind);
                self.decode(kind, bytes, sink)?;
                self.take_message(stream, kind, block.ends)
            }
            Admission::Discard => {
                self.counters.late_frames += 1;
                self.decode(HeadKind::Trailers, bytes, &mut ())?;
                Ok(None)
            }
            Admission::Refuse(code) => {
                self.decode(HeadKind::Trailers, bytes, &mut ())?;
                match self.streams.find(block.number) {
                    Some(id) => self.reset_held(id, code).map(Some),
                    None => self.reset_unheld(block.number, code).map(|()| None),
                }
            }
        }
    }

    /// Decides what to do with a block by the stream's number and state.
    fn admit(&mut self, block: Block) -> Result<Admission, ConnectionError> {
        let number = block.number;
        if block.depends_on_itself && self.fails_on_faults() {
            return Err(ConnectionError::protocol("a stream depends on itself"));
        }
        if let Some(id) = self.streams.find(number) {
            return self.admit_to_held(id);
        }
        if self.is_idle(number) {
            return self.admit_new(block);
        }
        match self.ending(number) {
            Some(Ending::ByUs) => Ok(Admission::Discard),
            Some(Ending::Complete | Ending::ByPeer) => {
                Err(ConnectionError::new(ErrorCode::STREAM_CLOSED, "HEADERS on a closed stream"))
            }
            // Streams that we reset are remembered for a while. Afterwards trailers may still be in
            // flight to a client, but new heads to a server cannot be.
            None if self.role == Role::Client => Ok(Admission::Discard),
            None => Err(ConnectionError::protocol("HEADERS for a stream that was skipped")),
        }
    }

    fn admit_to_held(&mut self, id: StreamId) -> Result<Admission, ConnectionError> {
        let Some(stream) = self.streams.get(id) else { return Ok(Admission::Discard) };
        match (stream.reset, stream.receiving) {
            (Reset::ByUs, _) => Ok(Admission::Discard),
            (Reset::None, Half::Body) => Ok(Admission::Message(id, HeadKind::Trailers)),
            (Reset::None, Half::Idle) => Ok(Admission::Message(id, HeadKind::Response)),
            (Reset::ByPeer, _) => {
                Err(ConnectionError::new(ErrorCode::STREAM_CLOSED, "HEADERS after RST_STREAM"))
            }
            (Reset::None, Half::Closed) if self.fails_on_faults() => {
                Err(ConnectionError::new(ErrorCode::STREAM_CLOSED, "HEADERS after END_STREAM"))
            }
            (Reset::None, Half::Closed) => Ok(Admission::Refuse(ErrorCode::STREAM_CLOSED)),
        }
    }

    fn admit_new(&mut self, block: Block) -> Result<Admission, ConnectionError> {
        let number = block.number;
        if self.role == Role::Client || number.is_multiple_of(2) {
            return Err(ConnectionError::protocol("HEADERS for a stream that only we may open"));
        }
        if self.is_beyond_goaway(number) {
            self.highest_peer = number;
            self.remember(number, Ending::ByUs);
            return Ok(Admission::Discard);
        }
        self.highest_peer = number;
        if block.depends_on_itself {
            return Ok(Admission::Refuse(ErrorCode::PROTOCOL_ERROR));
        }
        if self.streams.len() >= self.limits.concurrent_streams {
            self.counters.refused_streams += 1;
            return Ok(Admission::Refuse(ErrorCode::REFUSED_STREAM));
        }
        Ok(Admission::Open)
    }

    fn decode<S: FieldSink>(
        &mut self,
        kind: HeadKind,
        bytes: &[u8],
        sink: &mut S,
    ) -> Result<(), ConnectionError> {
        let Self { decoder, check, limits, .. } = self;
        check.begin(kind, limits);
        let outcome = decoder.decode(bytes, &mut |field| {
            if check.admit(&field, limits) {
                sink.field(field);
            }
        });
        outcome.map_err(|error| ConnectionError::new(ErrorCode::COMPRESSION_ERROR, error.reason()))
    }

    /// Opens a new stream for a client's request.
    fn open_stream<S: FieldSink>(
        &mut self,
        block: Block,
        bytes: &[u8],
        sink: &mut S,
    ) -> Result<Option<Event<'static>>, ConnectionError> {
        let id = self.insert_stream(block.number);
        sink.begin(id, HeadKind::Request);
        self.decode(HeadKind::Request, bytes, sink)?;
        let ends = block.ends;
        let outcome = self.check.finish(ends).and_then(|()| self.request_body(ends));
        let body_left = match outcome {
            Ok(body_left) => body_left,
            Err(malformed) => return self.refuse_request(id, malformed, ends).map(|()| None),
        };
        let early = self.early_priority.take_if(|(number, _)| *number == block.number);
        let priority = early.map(|(_, priority)| priority).or(self.check.priority);
        if let Some(stream) = self.streams.get_mut(id) {
            stream.receiving = Half::after(ends);
            stream.body_left = body_left;
            stream.priority = priority.unwrap_or(Priority::UNSAID);
        }
        self.counters.streams += 1;
        Ok(Some(Event::Request { stream: id, ends: ends == EndStream::Yes }))
    }

    /// Returns the DATA bytes that a request declares; none for CONNECT, which carries a tunnel.
    fn request_body(&self, ends: EndStream) -> Result<Option<u64>, Malformed> {
        let length = self.check.content_length.filter(|_| self.check.method != Method::Connect);
        if ends == EndStream::Yes && length.is_some_and(|length| length > 0) {
            return Err(Malformed::BodyLength);
        }
        Ok(length)
    }

    /// Refuses a malformed request with a reset (RFC 9113 §8.1.1). Two kinds also get a status
    /// code, which helps honest clients.
    fn refuse_request(
        &mut self,
        id: StreamId,
        malformed: Malformed,
        ends: EndStream,
    ) -> Result<(), ConnectionError> {
        self.streams.remove(id);
        self.note_malformed(malformed);
        let answer = match malformed {
            Malformed::Host => Some(ANSWER_BAD_REQUEST),
            Malformed::TooLarge => Some(ANSWER_TOO_LARGE),
            _ => None,
        };
        let Some(answer) = answer else {
            return self.reset_unheld(id.number(), ErrorCode::PROTOCOL_ERROR);
        };
        let header = FrameHeader {
            length: answer.len() as u32,
            kind: kind::HEADERS,
            flags: flag::END_HEADERS | flag::END_STREAM,
            stream: id.number(),
        };
        frame::write_header(&mut self.output.bytes, header);
        self.output.bytes.extend_from_slice(answer);
        // A client that is still sending learns that it can stop, and keeps the response (RFC 9113
        // §8.1).
        let code = match ends {
            EndStream::Yes => ErrorCode::PROTOCOL_ERROR,
            EndStream::No => ErrorCode::NO_ERROR,
        };
        self.reset_unheld(id.number(), code)
    }

    pub(super) fn note_malformed(&mut self, malformed: Malformed) {
        self.last_malformed = Some(malformed);
        self.counters.malformed_messages += 1;
        if malformed == Malformed::TooLarge {
            self.counters.oversized_heads += 1;
        }
    }

    /// Handles a response, or trailers from either side.
    fn take_message(
        &mut self,
        id: StreamId,
        kind: HeadKind,
        ends: EndStream,
    ) -> Result<Option<Event<'static>>, ConnectionError> {
        if let Err(malformed) = self.check.finish(ends) {
            return self.reset_malformed(id, malformed).map(Some);
        }
        let Some(stream) = self.streams.get_mut(id) else { return Ok(None) };
        if kind == HeadKind::Trailers {
            if stream.body_left.is_some_and(|left| left > 0) {
                return self.reset_malformed(id, Malformed::BodyLength).map(Some);
            }
            stream.receiving = Half::Closed;
            return Ok(Some(Event::Trailers { stream: id }));
        }
        let status = self.check.status;
        if self.check.is_interim() {
            return Ok(Some(Event::Interim { stream: id, status }));
        }
        // Here `Content-Length` says nothing about the body that follows (RFC 9110 §8.6).
        let is_tunnel = stream.method == Method::Connect && (200..300).contains(&status);
        let is_bodiless = stream.method == Method::Head || matches!(status, 204 | 304);
        stream.body_left = match self.check.content_length {
            _ if is_bodiless => Some(0),
            _ if is_tunnel => None,
            length => length,
        };
        let is_ended = ends == EndStream::Yes;
        if is_ended && stream.body_left.is_some_and(|left| left > 0) {
            return self.reset_malformed(id, Malformed::BodyLength).map(Some);
        }
        stream.receiving = Half::after(ends);
        Ok(Some(Event::Response { stream: id, status, ends: is_ended }))
    }

    pub(super) fn reset_malformed(
        &mut self,
        id: StreamId,
        malformed: Malformed,
    ) -> Result<Event<'static>, ConnectionError> {
        self.note_malformed(malformed);
        self.reset_held(id, ErrorCode::PROTOCOL_ERROR)
    }

    /// Resets a stream for an error of the peer, and counts it as one of the peer's resets.
    pub(super) fn reset_held(
        &mut self,
        id: StreamId,
        code: ErrorCode,
    ) -> Result<Event<'static>, ConnectionError> {
        self.write_caused_reset(id.number(), code)?;
        self.close_stream(id, Reset::ByUs);
        Ok(Event::Reset { stream: id, code, cause: ResetCause::Fault })
    }

    /// Like `reset_held`, for a stream that never reached the application or was released.
    pub(super) fn reset_unheld(
        &mut self,
        number: u32,
        code: ErrorCode,
    ) -> Result<(), ConnectionError> {
        self.remember(number, Ending::ByUs);
        self.write_caused_reset(number, code)
    }

    /// Writes a reset that the peer caused, and counts it as one of the peer's resets.
    pub(super) fn write_caused_reset(
        &mut self,
        number: u32,
        code: ErrorCode,
    ) -> Result<(), ConnectionError> {
        self.counters.resets_caused += 1;
        self.count_control()?;
        frame::write_reset(&mut self.output.bytes, number, code);
        self.take_reset_token()
    }
}

/// Returns the stream number in the five priority octets.
pub(super) fn dependency(priority: &[u8; 5]) -> u32 {
    let [d0, d1, d2, d3, _] = *priority;
    u32::from_be_bytes([d0, d1, d2, d3]) & frame::U31_MAX
}
