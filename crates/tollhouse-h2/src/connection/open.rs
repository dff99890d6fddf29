//! Opening streams as a client: encoding a request head, or reusing a previous encoding.

use super::{Connection, SendError};
use crate::field::Field;
use crate::frame::{self, FrameHeader, HEADER_BYTES, flag, kind};
use crate::message::{EndStream, Method};
use crate::stream::Half;
use crate::{Role, StreamId};

/// The pseudo-header fields of a request.
#[derive(Debug, Clone, Copy)]
pub struct RequestLine<'a> {
    /// Request method, a token (RFC 9110 §5.6.2).
    pub method: &'a [u8],
    /// `http` or `https`; empty for a plain CONNECT.
    pub scheme: &'a [u8],
    /// A host with or without a port.
    pub authority: &'a [u8],
    /// An origin form or `*`; empty for a plain CONNECT.
    pub path: &'a [u8],
    /// The protocol of an extended CONNECT (RFC 8441); empty otherwise.
    pub protocol: &'a [u8],
}

/// A head that was sent before, with its last encoding.
#[derive(Default)]
pub(super) struct RepeatedHead {
    key: u64,
    /// [`crate::hpack::Encoder::changes`] at that time; `None` when the head must be encoded again.
    changes: Option<u64>,
    block: Vec<u8>,
}

impl RepeatedHead {
    pub(super) fn memory_bytes(&self) -> usize {
        self.block.capacity()
    }
}

impl Connection {
    /// Whether [`Connection::open`] could open a stream now.
    pub fn can_open(&self) -> bool {
        self.role == Role::Client
            && self.failure.is_none()
            && self.peer_last.is_none()
            && !self.is_draining()
            && self.next_own <= frame::U31_MAX
            && self.streams.len() < self.peer.concurrent_streams
    }

    /// Opens a stream with a request head. The application holds the stream until it releases it.
    /// Field names are lower-cased; the kind of a field is ignored.
    ///
    /// # Errors
    /// No stream was opened.
    pub fn open<'f>(
        &mut self,
        line: &RequestLine<'_>,
        fields: impl IntoIterator<Item = Field<'f>>,
        ends: EndStream,
    ) -> Result<StreamId, SendError> {
        if !self.can_open() {
            return Err(SendError::NoStream);
        }
        self.write_request(line, fields, ends)?;
        Ok(self.begin_request(line.method, ends))
    }

    /// Opens a stream like [`Connection::open`], with a head that is sent repeatedly on this
    /// connection. Once both sides have its fields in their tables, the previous encoding is sent
    /// again. `key` identifies the head: equal keys must come with equal lines and fields. Each
    /// connection keeps one head.
    ///
    /// # Errors
    /// If no stream was opened.
    pub fn open_repeated<'f>(
        &mut self,
        key: u64,
        line: &RequestLine<'_>,
        fields: impl IntoIterator<Item = Field<'f>>,
        ends: EndStream,
    ) -> Result<StreamId, SendError> {
        if !self.can_open() {
            return Err(SendError::NoStream);
        }
        let changes = self.encoder.changes();
        let repeated = &self.repeated;
        if repeated.key == key && repeated.changes == Some(changes) {
            let flags = flag::END_HEADERS | ends.flag();
            let length = repeated.block.len() as u32;
            let stream = self.next_own;
            let header = FrameHeader { length, kind: kind::HEADERS, flags, stream };
            frame::write_header(&mut self.output.bytes, header);
            self.output.bytes.extend_from_slice(&repeated.block);
            return Ok(self.begin_request(line.method, ends));
        }
        let start = self.output.bytes.len() + HEADER_BYTES;
        self.write_request(line, fields, ends)?;
        let block = &self.output.bytes[start..];
        // Only keep a head that fits into one frame whatever the peer's limit, and that would not
        // be encoded differently next time.
        let is_steady = self.encoder.changes() == changes;
        self.repeated.changes = None;
        if is_steady && block.len() <= frame::PAYLOAD_BYTES_DEFAULT as usize {
            self.repeated.key = key;
            self.repeated.changes = Some(changes);
            self.repeated.block.clear();
            self.repeated.block.extend_from_slice(block);
        }
        Ok(self.begin_request(line.method, ends))
    }

    fn write_request<'f>(
        &mut self,
        line: &RequestLine<'_>,
        fields: impl IntoIterator<Item = Field<'f>>,
        ends: EndStream,
    ) -> Result<(), SendError> {
        let pseudo = [
            (&b":method"[..], line.method),
            (b":scheme", line.scheme),
            (b":authority", line.authority),
            (b":path", line.path),
            (b":protocol", line.protocol),
        ];
        let present = pseudo.into_iter().filter(|(_, value)| !value.is_empty());
        self.write_head(self.next_own, present, fields, ends)
    }

    /// Creates the stream for the request head that was just written.
    fn begin_request(&mut self, method: &[u8], ends: EndStream) -> StreamId {
        let number = self.next_own;
        self.next_own += 2;
        self.counters.streams += 1;
        let id = self.insert_stream(number);
        if let Some(stream) = self.streams.get_mut(id) {
            stream.method = Method::from_name(method);
            stream.sending = Half::after(ends);
        }
        id
    }
}
