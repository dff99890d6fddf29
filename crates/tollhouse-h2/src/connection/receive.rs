//! Turns bytes into frames. Complete frames are read in place, partial ones are buffered until
//! complete, and DATA is passed on in pieces.

use super::Connection;
use super::body::DataFrame;
use super::heads::Block;
use crate::event::{Event, FieldSink};
use crate::frame::{FrameHeader, HEADER_BYTES, PREFACE, kind};
use crate::{ConnectionError, ErrorCode, Role};

/// Largest capacity to keep in the buffers for partial frames and blocks; larger ones are rarely
/// needed.
const BUFFER_BYTES_KEPT: usize = 4096;

/// The part of the input that is read next.
#[derive(Debug, Clone, Copy)]
enum Reading {
    /// The client's preface, of which this many bytes have arrived.
    Preface(usize),
    /// The next frame header, part of which may be buffered.
    Header,
    /// The payload of a frame that is handled once complete.
    Payload(FrameHeader),
    Data(DataFrame),
    /// The rest of an ignored frame: this number of bytes.
    Skip(u32),
}

/// State of parsing between two calls.
pub(super) struct Input {
    reading: Reading,
    header: [u8; HEADER_BYTES],
    header_bytes: usize,
    /// The first bytes of an incomplete payload.
    payload: Vec<u8>,
    /// A header block that continues in CONTINUATION frames.
    pub(super) block: Option<Block>,
    pub(super) block_bytes: Vec<u8>,
    /// Time at which the current frame or block became incomplete.
    pub(super) incomplete_since_ms: Option<u64>,
}

impl Input {
    pub(super) fn new(role: Role) -> Self {
        let reading = match role {
            Role::Server => Reading::Preface(0),
            Role::Client => Reading::Header,
        };
        Self {
            reading,
            header: [0; HEADER_BYTES],
            header_bytes: 0,
            payload: Vec::new(),
            block: None,
            block_bytes: Vec::new(),
            incomplete_since_ms: None,
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.payload.capacity() + self.block_bytes.capacity()
    }

    pub(super) fn shrink(&mut self) {
        for buffer in [&mut self.payload, &mut self.block_bytes] {
            if buffer.is_empty() {
                *buffer = Vec::new();
            }
        }
    }

    fn is_between_frames(&self) -> bool {
        let is_between = match self.reading {
            Reading::Header => self.header_bytes == 0,
            Reading::Data(_) => true,
            Reading::Preface(_) | Reading::Payload(_) | Reading::Skip(_) => false,
        };
        is_between && self.block.is_none()
    }
}

impl Connection {
    /// Reads bytes from the front of `input` up to the next event, or all of them if they contain
    /// no event; call it until it returns `None`. Fields go to `sink`. `now_ms` is the time of any
    /// monotonic clock.
    ///
    /// # Errors
    /// The connection has failed. The remaining output, which ends with a GOAWAY, should still be
    /// written.
    #[inline]
    pub fn receive<'a, S: FieldSink>(
        &mut self,
        input: &mut &'a [u8],
        now_ms: u64,
        sink: &mut S,
    ) -> Result<Option<Event<'a>>, ConnectionError> {
        if let Some(failure) = self.failure {
            return Err(failure);
        }
        self.now_ms = self.now_ms.max(now_ms);
        self.advance(input, sink).map_err(|error| self.fail(error))
    }

    fn advance<'a, S: FieldSink>(
        &mut self,
        input: &mut &'a [u8],
        sink: &mut S,
    ) -> Result<Option<Event<'a>>, ConnectionError> {
        loop {
            let event = match self.input.reading {
                Reading::Header => {
                    let Some(header) = self.read_header(input) else { break };
                    self.begin_frame(header)?;
                    self.pending_event.take()
                }
                Reading::Payload(header) => {
                    match self.read_payload(header, input, sink)? {
                        // The payload is not complete yet.
                        None => break,
                        Some(event) => event,
                    }
                }
                Reading::Data(frame) => match self.read_data(frame, input)? {
                    None => break,
                    Some(event) => event,
                },
                Reading::Skip(left) => {
                    if left > 0 && input.is_empty() {
                        break;
                    }
                    let skipped = (left as usize).min(input.len());
                    *input = &input[skipped..];
                    self.skip(left - skipped as u32);
                    None
                }
                Reading::Preface(matched) => {
                    if input.is_empty() {
                        break;
                    }
                    self.read_preface(matched, input)?;
                    None
                }
            };
            if event.is_some() {
                return Ok(event);
            }
        }
        self.note_incomplete();
        Ok(None)
    }

    /// Updates the time since which input has been incomplete, for its deadline.
    #[inline]
    fn note_incomplete(&mut self) {
        if self.input.is_between_frames() {
            self.input.incomplete_since_ms = None;
        } else if self.input.incomplete_since_ms.is_none() {
            self.input.incomplete_since_ms = Some(self.now_ms);
        }
    }

    fn read_preface(&mut self, matched: usize, input: &mut &[u8]) -> Result<(), ConnectionError> {
        let rest = &PREFACE[matched..];
        let length = rest.len().min(input.len());
        if input[..length] != rest[..length] {
            return Err(ConnectionError::protocol("the connection does not begin with a preface"));
        }
        *input = &input[length..];
        let is_whole = length == rest.len();
        self.input.reading =
            if is_whole { Reading::Header } else { Reading::Preface(matched + length) };
        Ok(())
    }

    #[inline]
    fn read_header(&mut self, input: &mut &[u8]) -> Option<FrameHeader> {
        if self.input.header_bytes == 0
            && let Some((bytes, rest)) = input.split_first_chunk::<HEADER_BYTES>()
        {
            *input = rest;
            return Some(FrameHeader::parse(bytes));
        }
        let kept = self.input.header_bytes;
        let length = (HEADER_BYTES - kept).min(input.len());
        self.input.header[kept..kept + length].copy_from_slice(&input[..length]);
        *input = &input[length..];
        self.input.header_bytes = (kept + length) % HEADER_BYTES;
        (kept + length == HEADER_BYTES).then(|| FrameHeader::parse(&self.input.header))
    }

    /// Checks a frame by its header alone, and starts reading its payload.
    fn begin_frame(&mut self, header: FrameHeader) -> Result<(), ConnectionError> {
        self.counters.frames += 1;
        if header.length > self.local.frame_bytes {
            return Err(ConnectionError::frame_size("a frame is larger than was allowed"));
        }
        // Nothing may come between the parts of a header block (RFC 9113 §4.3): the decoder's table
        // is in an intermediate state.
        if let Some(block) = &self.input.block
            && (header.kind != kind::CONTINUATION || header.stream != block.number)
        {
            return Err(ConnectionError::protocol("a header block is interrupted"));
        }
        if !self.has_peer_settings && header.kind != kind::SETTINGS {
            return Err(ConnectionError::protocol("the first frame is not SETTINGS"));
        }
        match header.kind {
            // DATA is passed on as it arrives; every other frame is collected first, up to a limit.
            kind::DATA => self.begin_data(header),
            kind::CONTINUATION if self.input.block.is_none() => {
                Err(ConnectionError::protocol("CONTINUATION without a header block"))
            }
            kind::HEADERS..=kind::CONTINUATION | kind::PRIORITY_UPDATE => {
                self.input.reading = Reading::Payload(header);
                Ok(())
            }
            _ => {
                self.counters.unknown_frames += 1;
                self.skip(header.length);
                self.take_empty_frame()
            }
        }
    }

    /// Counts a frame without content.
    pub(super) fn take_empty_frame(&mut self) -> Result<(), ConnectionError> {
        if self.buckets.empty_frames.take(self.limits.empty_frames, self.now_ms) {
            return Ok(());
        }
        Err(ConnectionError::calm("too many empty or unknown frames"))
    }

    /// Ignores the next `bytes` bytes of input.
    pub(super) fn skip(&mut self, bytes: u32) {
        self.input.reading = if bytes == 0 { Reading::Header } else { Reading::Skip(bytes) };
    }

    pub(super) fn read_on_with_data(&mut self, frame: DataFrame) {
        self.input.reading = Reading::Data(frame);
    }

    /// Handles a frame once its payload is complete; `None` until then.
    #[inline]
    fn read_payload<S: FieldSink>(
        &mut self,
        header: FrameHeader,
        input: &mut &[u8],
        sink: &mut S,
    ) -> Result<Option<Option<Event<'static>>>, ConnectionError> {
        let length = header.length as usize;
        if self.input.payload.is_empty()
            && let Some((payload, rest)) = input.split_at_checked(length)
        {
            *input = rest;
            self.input.reading = Reading::Header;
            return self.take_frame(header, payload, sink).map(Some);
        }
        let missing = (length - self.input.payload.len()).min(input.len());
        self.input.payload.extend_from_slice(&input[..missing]);
        *input = &input[missing..];
        if self.input.payload.len() < length {
            return Ok(None);
        }
        self.input.reading = Reading::Header;
        let mut payload = std::mem::take(&mut self.input.payload);
        let event = self.take_frame(header, &payload, sink);
        if payload.capacity() <= BUFFER_BYTES_KEPT {
            payload.clear();
            self.input.payload = payload;
        }
        event.map(Some)
    }

    fn take_frame<S: FieldSink>(
        &mut self,
        header: FrameHeader,
        payload: &[u8],
        sink: &mut S,
    ) -> Result<Option<Event<'static>>, ConnectionError> {
        match header.kind {
            kind::HEADERS => self.take_headers(header, payload, sink),
            kind::CONTINUATION => self.take_continuation(header, payload, sink),
            kind::PRIORITY => self.take_priority(header, payload),
            kind::RST_STREAM => self.take_reset(header, payload),
            kind::SETTINGS => self.take_settings(header, payload),
            kind::PUSH_PROMISE => Err(ConnectionError::protocol("PUSH_PROMISE was not allowed")),
            kind::PING => self.take_ping(header, payload),
            kind::GOAWAY => self.take_goaway(header, payload),
            kind::WINDOW_UPDATE => self.take_window_update(header, payload),
            kind::PRIORITY_UPDATE => self.take_priority_update(header, payload),
            _ => Err(ConnectionError::new(ErrorCode::INTERNAL_ERROR, "a frame of unknown type")),
        }
    }

    /// Keeps the header block buffer unless it grew too large.
    pub(super) fn keep_block_buffer(&mut self, mut buffer: Vec<u8>) {
        if buffer.capacity() <= BUFFER_BYTES_KEPT {
            buffer.clear();
            self.input.block_bytes = buffer;
        }
    }
}
