//! Receive buffer of a stream: an HTTP/1.1 head, body bytes, and the end of the message. Chunk
//! framing is added on reading, so that the memory held is bounded by the stream's window and not
//! by the number of DATA frames.

use tollhouse_http::chunked::SizeLine;

/// Capacity in bytes that is kept between two reads.
const ROOM_KEPT_BYTES_MAX: usize = 16 * 1024;

/// Largest capacity in bytes that is reused for another stream.
const ROOM_REUSED_BYTES_MAX: usize = 4 * 1024;

/// Receive buffers of a stream, reused after its end.
#[derive(Debug, Default)]
pub(super) struct Room {
    staged: Vec<u8>,
    data: Vec<u8>,
}

/// Framing of the body in the HTTP/1.1 form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Framing {
    #[default]
    Nothing,
    /// Unframed: the length is in the head, or the body is a tunnel.
    Plain,
    Chunked,
}

/// Number of bytes that a read has copied, and how many of them are body data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct ReadResult {
    /// Bytes written to the caller's buffer, framing included.
    pub(super) bytes: usize,
    /// Payload bytes among them, which are credited to the peer's window.
    pub(super) data: usize,
}

/// Receive half of a stream, converted to HTTP/1.1 bytes.
#[derive(Debug, Default)]
pub(super) struct Inbound {
    /// Bytes to be read before further data: a head, a chunk size, the end of a chunk, or trailers.
    staged: Vec<u8>,
    /// Number of bytes of `staged` that were read.
    staged_read: usize,
    data: Vec<u8>,
    /// Number of bytes of `data` that were read.
    data_read: usize,
    framing: Framing,
    /// Data bytes left in the current chunk.
    chunk_left: usize,
    /// Whether the message has been received completely.
    is_ended: bool,
    /// Whether the end of the message has been staged.
    is_closed: bool,
    /// Trailer lines, once received.
    trailers: Vec<u8>,
}

impl Inbound {
    /// Creates the receive half with reused buffers.
    pub(super) fn with_room(room: Room) -> Self {
        let Room { staged, data } = room;
        Self { staged, data, ..Self::default() }
    }

    /// Returns the emptied buffers for reuse; `None` if they are larger than
    /// `ROOM_REUSED_BYTES_MAX`.
    pub(super) fn into_room(self) -> Option<Room> {
        let Self { mut staged, mut data, .. } = self;
        staged.clear();
        data.clear();
        let is_usual = staged.capacity().max(data.capacity()) <= ROOM_REUSED_BYTES_MAX;
        is_usual.then_some(Room { staged, data })
    }

    /// Begins a message: `lay` appends its head and returns the framing of the body.
    pub(super) fn begin(&mut self, lay: impl FnOnce(&mut Vec<u8>) -> Framing) {
        self.framing = lay(&mut self.staged);
    }

    /// Returns the number of bytes of heads that are not read yet.
    pub(super) fn staged_bytes(&self) -> usize {
        self.staged.len() - self.staged_read
    }

    /// Whether the message may have a body.
    pub(super) fn takes_data(&self) -> bool {
        self.framing != Framing::Nothing
    }

    /// Appends body bytes; `ends` marks the last ones.
    pub(super) fn push(&mut self, data: &[u8], ends: bool) {
        self.data.extend_from_slice(data);
        self.is_ended |= ends;
    }

    /// Ends the message with its trailer lines, each with its line end.
    pub(super) fn end(&mut self, trailers: &[u8]) {
        self.trailers.extend_from_slice(trailers);
        self.is_ended = true;
    }

    /// Reads into `buffer` as much as fits; zero bytes if nothing has arrived.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> ReadResult {
        let mut read = ReadResult::default();
        while read.bytes < buffer.len() {
            let room = &mut buffer[read.bytes..];
            // Staged bytes come first: a chunk-size line that was only partly read must be
            // completed before the data of its chunk.
            if self.staged_read < self.staged.len() {
                read.bytes += copy(&self.staged, &mut self.staged_read, room);
                continue;
            }
            self.staged.clear();
            self.staged_read = 0;
            if self.data_read < self.data.len() {
                if self.framing == Framing::Chunked && self.chunk_left == 0 {
                    // All bytes received so far form one chunk, because the borders of DATA frames
                    // have no meaning.
                    self.chunk_left = self.data.len() - self.data_read;
                    self.staged.extend_from_slice(SizeLine::new(self.chunk_left).as_bytes());
                    continue;
                }
                let room = self.limited(room);
                let bytes = copy(&self.data, &mut self.data_read, room);
                read.bytes += bytes;
                read.data += bytes;
                self.count_read(bytes);
            } else if self.is_ended && !self.is_closed {
                self.close();
            } else {
                break;
            }
        }
        read
    }

    /// Drops all unread bytes; returns the number of payload bytes among them.
    pub(super) fn discard(&mut self) -> usize {
        let unread = self.data.len() - self.data_read;
        (self.data, self.data_read) = (Vec::new(), 0);
        (self.staged, self.staged_read) = (Vec::new(), 0);
        unread
    }

    /// Whether everything up to the peer's end of stream has been read.
    pub(super) fn is_at_end(&self) -> bool {
        self.is_closed && self.staged_read == self.staged.len()
    }

    /// Returns the part of `room` that the current chunk may fill.
    fn limited<'b>(&self, room: &'b mut [u8]) -> &'b mut [u8] {
        let most = if self.framing == Framing::Chunked { self.chunk_left } else { room.len() };
        let length = most.min(room.len());
        &mut room[..length]
    }

    fn count_read(&mut self, bytes: usize) {
        if self.framing == Framing::Chunked {
            self.chunk_left -= bytes;
            if self.chunk_left == 0 {
                self.staged.extend_from_slice(b"\r\n");
            }
        }
        if self.data_read == self.data.len() {
            self.data.clear();
            self.data.shrink_to(ROOM_KEPT_BYTES_MAX);
            self.data_read = 0;
        }
    }

    fn close(&mut self) {
        self.is_closed = true;
        if self.framing == Framing::Chunked {
            self.staged.extend_from_slice(b"0\r\n");
            self.staged.append(&mut self.trailers);
            self.staged.extend_from_slice(b"\r\n");
        }
    }
}

/// Copies as many bytes as fit from `from[*read..]` and advances `read`.
fn copy(from: &[u8], read: &mut usize, to: &mut [u8]) -> usize {
    let bytes = (from.len() - *read).min(to.len());
    to[..bytes].copy_from_slice(&from[*read..*read + bytes]);
    *read += bytes;
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Everything that can be read, `step` bytes at a time, and the number of payload bytes in it.
    fn drain(inbound: &mut Inbound, step: usize) -> (String, usize) {
        let (mut text, mut data) = (Vec::new(), 0);
        let mut room = vec![0; step];
        loop {
            let read = inbound.read(&mut room);
            if read.bytes == 0 {
                return (String::from_utf8(text).expect("text"), data);
            }
            text.extend_from_slice(&room[..read.bytes]);
            data += read.data;
        }
    }

    fn begun(framing: Framing) -> Inbound {
        let mut inbound = Inbound::default();
        inbound.begin(|out| {
            out.extend_from_slice(b"head\r\n\r\n");
            framing
        });
        inbound
    }

    #[test]
    fn bodies_are_framed_as_they_are_read_whatever_the_room() {
        for step in [1, 2, 3, 7, 100] {
            for (framing, trailers, expected) in [
                (Framing::Nothing, "", "head\r\n\r\n"),
                (Framing::Plain, "", "head\r\n\r\nhello world"),
                (Framing::Chunked, "", "head\r\n\r\nb\r\nhello world\r\n0\r\n\r\n"),
                (Framing::Chunked, "a: b\r\n", "head\r\n\r\nb\r\nhello world\r\n0\r\na: b\r\n\r\n"),
            ] {
                let mut inbound = begun(framing);
                if framing != Framing::Nothing {
                    inbound.push(b"hello ", false);
                    inbound.push(b"world", false);
                }
                inbound.end(trailers.as_bytes());
                let data = if framing == Framing::Nothing { 0 } else { 11 };
                assert_eq!(drain(&mut inbound, step), (expected.to_owned(), data), "{step}");
                assert!(inbound.is_at_end());
            }
        }
    }

    #[test]
    fn room_that_is_reused_holds_nothing_of_the_stream_before() {
        let mut inbound = begun(Framing::Plain);
        inbound.push(b"secret", false);
        let mut room = [0; 4];
        inbound.read(&mut room);
        let room = inbound.into_room().expect("it is short");
        let mut next = Inbound::with_room(room);
        assert_eq!(drain(&mut next, 100), (String::new(), 0));
        next.begin(|out| {
            out.extend_from_slice(b"next\r\n\r\n");
            Framing::Plain
        });
        next.push(b"own", true);
        assert_eq!(drain(&mut next, 100), ("next\r\n\r\nown".to_owned(), 3));
        next.push(&[0; ROOM_REUSED_BYTES_MAX + 1], true);
        assert!(next.into_room().is_none(), "what is unusual is given back");
    }

    #[test]
    fn what_comes_later_is_a_chunk_of_its_own() {
        let mut inbound = begun(Framing::Chunked);
        assert_eq!(drain(&mut inbound, 100).0, "head\r\n\r\n");
        inbound.push(b"a", false);
        assert_eq!(drain(&mut inbound, 100), ("1\r\na\r\n".to_owned(), 1));
        assert!(!inbound.is_at_end());
        inbound.push(b"", true);
        assert_eq!(drain(&mut inbound, 100), ("0\r\n\r\n".to_owned(), 0));
        assert!(inbound.is_at_end());
    }

    #[test]
    fn a_chunk_that_is_being_read_does_not_grow() {
        let mut inbound = begun(Framing::Chunked);
        inbound.push(b"abc", false);
        let mut room = [0; 12];
        assert_eq!(inbound.read(&mut room).bytes, 12);
        assert_eq!(&room, b"head\r\n\r\n3\r\na");
        inbound.push(b"de", true);
        assert_eq!(drain(&mut inbound, 100).0, "bc\r\n2\r\nde\r\n0\r\n\r\n");
    }
}
