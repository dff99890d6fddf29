//! Sending heads, DATA, trailers and resets, and choosing the stream that sends next.

use std::fmt;

use super::{Connection, Ending};
use crate::field::{Field, Malformed, examine};
use crate::frame::{self, FrameHeader, HEADER_BYTES, flag, kind};
use crate::limits::UPDATES_PER_DATA_FRAME;
use crate::message::EndStream;
use crate::stream::{Half, Reset, Waiting};
use crate::{ErrorCode, Role, StreamId};

/// Once in this many turns the stream that waited longest sends, whatever its priority, so that no
/// stream starves (RFC 9218 §10).
const STARVATION_TURNS: u32 = 8;

/// Why something could not be sent. Nothing was written in this case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SendError {
    /// The stream was reset, already ended in this direction or was released, or the connection
    /// ended.
    Closed,
    /// A head was sent twice, or DATA was sent before a head.
    OutOfOrder,
    /// A field that is not allowed in the message.
    Field(Malformed),
    /// A stream cannot be opened now, because the peer's limit is reached or the connection is
    /// closing.
    NoStream,
}

impl fmt::Display for SendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Closed => "the stream is closed",
            Self::OutOfOrder => "part of a message is sent out of order",
            Self::Field(malformed) => malformed.reason(),
            Self::NoStream => "the peer accepts no more streams",
        })
    }
}

impl std::error::Error for SendError {}

fn status_digits(status: u16) -> [u8; 3] {
    let digit = |number: u16| b'0' + (number % 10) as u8;
    [digit(status / 100), digit(status / 10), digit(status)]
}

impl Connection {
    /// Sends a response head; statuses 100 to 199 are interim and do not change the stream's state.
    ///
    /// # Errors
    /// Nothing was sent.
    pub fn respond<'f>(
        &mut self,
        id: StreamId,
        status: u16,
        fields: impl IntoIterator<Item = Field<'f>>,
        ends: EndStream,
    ) -> Result<(), SendError> {
        if self.sending(id)? != Half::Idle {
            return Err(SendError::OutOfOrder);
        }
        let is_interim = status < 200;
        if !(100..1000).contains(&status) || status == 101 || (is_interim && ends == EndStream::Yes)
        {
            return Err(SendError::Field(Malformed::PseudoValue));
        }
        let digits = status_digits(status);
        self.write_head(id.number(), [(&b":status"[..], &digits[..])], fields, ends)?;
        if !is_interim {
            self.set_sending(id, Half::after(ends));
        }
        Ok(())
    }

    /// Sends trailers, which end the message.
    ///
    /// # Errors
    /// Nothing was sent.
    pub fn send_trailers<'f>(
        &mut self,
        id: StreamId,
        fields: impl IntoIterator<Item = Field<'f>>,
    ) -> Result<(), SendError> {
        if self.sending(id)? != Half::Body {
            return Err(SendError::OutOfOrder);
        }
        self.write_head(id.number(), [], fields, EndStream::Yes)?;
        self.set_sending(id, Half::Closed);
        Ok(())
    }

    /// Sends as much of `data` as the windows and the output have room for, and returns how much
    /// that was. [`EndStream::Yes`] ends the message with the last byte. Send the rest when
    /// [`Connection::next_ready`] names the stream.
    ///
    /// # Errors
    /// Nothing was sent.
    pub fn send_data(
        &mut self,
        id: StreamId,
        data: &[u8],
        ends: EndStream,
    ) -> Result<usize, SendError> {
        if self.sending(id)? != Half::Body {
            return Err(SendError::OutOfOrder);
        }
        let room = self.output_room();
        let Some(stream) = self.streams.get_mut(id) else { return Err(SendError::Closed) };
        let window = stream.send_window.min(self.windows.send).max(0) as usize;
        let frame_bytes = self.peer.frame_bytes as usize;
        let mut allowed = data.len().min(window).min(room);
        if !self.ready.is_empty() {
            // Other streams are waiting: one frame each.
            allowed = allowed.min(frame_bytes);
        }
        stream.send_window -= allowed as i32;
        self.windows.send -= allowed as i32;
        let is_all = allowed == data.len();
        let completes = is_all && ends == EndStream::Yes;
        let out = &mut self.output.bytes;
        let mut rest = &data[..allowed];
        let mut frames = 0;
        while !rest.is_empty() || completes {
            let (piece, after) = rest.split_at(rest.len().min(frame_bytes));
            let is_last = completes && after.is_empty();
            let flags = if is_last { flag::END_STREAM } else { 0 };
            let length = piece.len() as u32;
            let header = FrameHeader { length, kind: kind::DATA, flags, stream: id.number() };
            frame::write_header(out, header);
            out.extend_from_slice(piece);
            rest = after;
            frames += 1;
            if is_last {
                break;
            }
        }
        // Each frame allows for the window updates it will cause: a short response causes as many
        // as a long one.
        self.buckets.window_updates.pay(frames * UPDATES_PER_DATA_FRAME);
        // Peers, gRPC among them, measure the path with a PING for data they receive.
        self.buckets.pings.refund(frames);
        if is_all {
            self.forget_waiting(id);
            if completes {
                self.set_sending(id, Half::Closed);
            }
        } else {
            self.wait(id);
        }
        Ok(allowed)
    }

    /// Returns the bytes of DATA that a stream could send now.
    pub fn send_capacity(&self, id: StreamId) -> usize {
        let Some(stream) = self.streams.get(id) else { return 0 };
        let window = stream.send_window.min(self.windows.send).max(0);
        self.output_room().min(window as usize)
    }

    /// Queues a stream whose DATA could not be sent completely.
    fn wait(&mut self, id: StreamId) {
        let Some(stream) = self.streams.get_mut(id) else { return };
        stream.waiting_since_ms.get_or_insert(self.now_ms);
        if stream.waiting == Waiting::Ready {
            return;
        }
        if stream.send_window > 0 {
            stream.waiting = Waiting::Ready;
            self.ready.push(id);
        } else {
            stream.waiting = Waiting::ForWindow;
        }
    }

    /// Returns the stream that should now send the DATA that [`Connection::send_data`] did not
    /// accept. Call it after receiving or writing bytes, until it returns `None`. A stream that it
    /// names should send; otherwise it is not named again.
    ///
    /// The most urgent stream comes first (RFC 9218 §10). Among streams of equal urgency,
    /// non-incremental ones are ordered by their number, incremental ones take turns.
    pub fn next_ready(&mut self) -> Option<StreamId> {
        if self.ready.is_empty() || self.windows.send <= 0 || self.output_room() == 0 {
            return None;
        }
        self.turn = self.turn.wrapping_add(1);
        let is_turn_of_longest = self.turn.is_multiple_of(STARVATION_TURNS);
        let age = |turn: u32| u32::MAX - self.turn.wrapping_sub(turn);
        let rank = |id: &StreamId| {
            let Some(stream) = self.streams.get(*id) else { return (0, 0) };
            match (is_turn_of_longest, stream.priority.is_incremental) {
                (true, _) => (0, age(stream.turn)),
                (false, true) => (stream.priority.urgency, age(stream.turn)),
                (false, false) => (stream.priority.urgency, stream.number),
            }
        };
        let position = (0..self.ready.len()).min_by_key(|index| rank(&self.ready[*index]))?;
        let id = self.ready.swap_remove(position);
        let turn = self.turn;
        if let Some(stream) = self.streams.get_mut(id) {
            stream.waiting = Waiting::No;
            stream.turn = turn;
        }
        Some(id)
    }

    /// Removes a stream from the list of streams that wait to send DATA. Must be called if the
    /// stream will send no more DATA.
    pub fn forget_waiting(&mut self, id: StreamId) {
        let Some(stream) = self.streams.get_mut(id) else { return };
        stream.waiting_since_ms = None;
        if std::mem::take(&mut stream.waiting) == Waiting::Ready {
            self.ready.retain(|other| *other != id);
        }
    }

    /// Closes both directions of a stream with RST_STREAM; the stream must still be released.
    pub fn reset(&mut self, id: StreamId, code: ErrorCode) {
        let Some(stream) = self.streams.get(id) else { return };
        if !stream.is_closed() && self.failure.is_none() {
            frame::write_reset(&mut self.output.bytes, id.number(), code);
            self.close_stream(id, Reset::ByUs);
        }
    }

    /// Releases a stream: it appears in no further event and no longer counts as open. A stream
    /// that has not ended is reset: with NO_ERROR if a server's response is complete, which only
    /// stops the upload (RFC 9113 §8.1), otherwise with CANCEL.
    pub fn release(&mut self, id: StreamId) {
        let Some(stream) = self.streams.get(id) else { return };
        let is_answered = self.role == Role::Server && stream.sending == Half::Closed;
        self.reset(id, if is_answered { ErrorCode::NO_ERROR } else { ErrorCode::CANCEL });
        let Some(stream) = self.streams.get(id) else { return };
        let (unread, target, reset) = (stream.unread, stream.window_target, stream.reset);
        self.windows.unread -= u64::from(unread);
        self.give_back_unread();
        if reset == Reset::None {
            self.counters.completed_streams += 1;
            if self.role == Role::Server {
                self.buckets.resets.refund(1);
            }
        }
        self.narrow(target);
        self.streams.remove(id);
        self.remember(
            id.number(),
            match reset {
                Reset::None => Ending::Complete,
                Reset::ByUs => Ending::ByUs,
                Reset::ByPeer => Ending::ByPeer,
            },
        );
    }

    /// Returns the state of our side of the stream, or an error if it can send nothing more.
    fn sending(&self, id: StreamId) -> Result<Half, SendError> {
        let stream = self.streams.get(id).filter(|_| self.failure.is_none());
        let sending = stream.map(|stream| stream.sending).filter(|half| *half != Half::Closed);
        sending.ok_or(SendError::Closed)
    }

    fn set_sending(&mut self, id: StreamId, half: Half) {
        if let Some(stream) = self.streams.get_mut(id) {
            stream.sending = half;
        }
    }

    /// Writes a header block in as many frames as the peer's limit requires.
    pub(super) fn write_head<'p, 'f>(
        &mut self,
        number: u32,
        pseudo: impl IntoIterator<Item = (&'p [u8], &'p [u8])>,
        fields: impl IntoIterator<Item = Field<'f>>,
        ends: EndStream,
    ) -> Result<(), SendError> {
        let start = self.output.bytes.len();
        self.output.bytes.extend_from_slice(&[0; HEADER_BYTES]);
        if let Err(malformed) = self.encode(pseudo, fields) {
            self.output.bytes.truncate(start);
            self.encoder.forget();
            return Err(SendError::Field(malformed));
        }
        self.buckets.pings.refund(1);
        let length = self.output.bytes.len() - start - HEADER_BYTES;
        let flags = ends.flag();
        if length > self.peer.frame_bytes as usize {
            self.write_long_head(start, number, flags);
            return Ok(());
        }
        let flags = flags | flag::END_HEADERS;
        let header =
            FrameHeader { length: length as u32, kind: kind::HEADERS, flags, stream: number };
        self.output.bytes[start..start + HEADER_BYTES].copy_from_slice(&header.to_bytes());
        Ok(())
    }

    #[inline]
    fn encode<'p, 'f>(
        &mut self,
        pseudo: impl IntoIterator<Item = (&'p [u8], &'p [u8])>,
        fields: impl IntoIterator<Item = Field<'f>>,
    ) -> Result<(), Malformed> {
        let Self { encoder, output, lowered, .. } = self;
        let out = &mut output.bytes;
        encoder.begin(out);
        for (name, value) in pseudo {
            encoder.field(Field::new(name, value), out, check)?;
        }
        for field in fields {
            if field.name.first() == Some(&b':') {
                return Err(Malformed::MisplacedPseudo);
            }
            let name = in_lower_case(field.name, lowered);
            encoder.field(Field { name, ..field }, out, check)?;
        }
        Ok(())
    }

    /// Splits the block written from `start` on into HEADERS and CONTINUATION frames.
    #[cold]
    fn write_long_head(&mut self, start: usize, number: u32, flags: u8) {
        let out = &mut self.output.bytes;
        let block = out.split_off(start + HEADER_BYTES);
        out.truncate(start);
        let pieces = block.chunks(self.peer.frame_bytes as usize);
        let last = pieces.len() - 1;
        for (index, piece) in pieces.enumerate() {
            let (kind, flags) =
                if index == 0 { (kind::HEADERS, flags) } else { (kind::CONTINUATION, 0) };
            let flags = if index == last { flags | flag::END_HEADERS } else { flags };
            let length = piece.len() as u32;
            frame::write_header(out, FrameHeader { length, kind, flags, stream: number });
            out.extend_from_slice(piece);
        }
    }
}

/// Lower-cases a name eight bytes at a time, in a buffer that is reused between names.
#[inline]
fn in_lower_case<'r>(name: &[u8], room: &'r mut Vec<u8>) -> &'r [u8] {
    if room.len() < name.len() {
        room.resize(name.len(), 0);
    }
    let room = &mut room[..name.len()];
    let (words, rest) = name.as_chunks::<8>();
    for (word, to) in words.iter().zip(room.as_chunks_mut::<8>().0) {
        *to = lower_word(u64::from_le_bytes(*word)).to_le_bytes();
    }
    if rest.is_empty() {
        return room;
    }
    // Lower-cases the last bytes together with some of those before them, which is cheaper than one
    // byte at a time.
    if let (Some(last), Some(to)) = (name.last_chunk::<8>(), room.last_chunk_mut::<8>()) {
        *to = lower_word(u64::from_le_bytes(*last)).to_le_bytes();
    } else if let (Some(first), Some(last)) = (name.first_chunk::<4>(), name.last_chunk::<4>()) {
        let (first, last) = (u32::from_le_bytes(*first), u32::from_le_bytes(*last));
        let word = lower_word(u64::from(first) | u64::from(last) << 32);
        let [a, b, c, d, e, f, g, h] = word.to_le_bytes();
        room[..4].copy_from_slice(&[a, b, c, d]);
        let start = name.len() - 4;
        room[start..].copy_from_slice(&[e, f, g, h]);
    } else {
        for (byte, to) in name.iter().zip(room.iter_mut()) {
            *to = byte.to_ascii_lowercase();
        }
    }
    room
}

/// Lower-cases the ASCII letters in eight bytes.
#[inline]
fn lower_word(word: u64) -> u64 {
    const EACH: u64 = 0x0101_0101_0101_0101;
    // The high bit of each byte: whether it is at least `A`, and whether it is above `Z`.
    let low = word & (EACH * 0x7f);
    let from_a = low + EACH * (0x80 - b'A' as u64);
    let beyond_z = low + EACH * (0x7f - b'Z' as u64);
    // Leave non-ASCII bytes unchanged.
    let is_upper = from_a & !beyond_z & !word & (EACH * 0x80);
    word | (is_upper >> 2)
}

fn check(name: &[u8], value: &[u8]) -> Result<(), Malformed> {
    examine(name, value).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_any_length_and_bytes_are_put_in_lower_case() {
        let all: Vec<u8> = (0..=u8::MAX).collect();
        let mut room = Vec::new();
        for start in 0..all.len() {
            for name in all[start..].windows(1).chain(all[start..].windows(23)).take(2) {
                assert_eq!(in_lower_case(name, &mut room), name.to_ascii_lowercase());
            }
        }
        for length in 0..40 {
            let name = &b"X-Long-Name-Of-A-Header-Line-[]{}@`Z-az-AZ"[..length];
            assert_eq!(in_lower_case(name, &mut room), name.to_ascii_lowercase());
        }
    }
}
