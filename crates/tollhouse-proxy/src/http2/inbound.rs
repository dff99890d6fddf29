//! What a stream has received and nobody has read yet: a head of HTTP/1.1, the body's bytes, and
//! what ends them. Chunks are framed while they are read, so that what is held is bounded by the
//! stream's window and not by how many frames it came in.

use tollhouse_http::chunked::SizeLine;

/// Room that is kept between two reads, in bytes.
const ROOM_KEPT_BYTES_MAX: usize = 16 * 1024;

/// The longest room that another stream gets, in bytes.
const ROOM_REUSED_BYTES_MAX: usize = 4 * 1024;

/// Where a stream lays out what it receives.
#[derive(Debug, Default)]
pub(super) struct Room {
    staged: Vec<u8>,
    data: Vec<u8>,
}

/// How the body stands behind its head.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Framing {
    /// There is none.
    #[default]
    Nothing,
    /// As it is: by the length in the head, or as a tunnel.
    Plain,
    Chunked,
}

/// What came of a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Read {
    /// Bytes that were read.
    pub(super) bytes: usize,
    /// Of these, the ones that the peer's window is charged with.
    pub(super) data: usize,
}

/// The receiving half of a stream.
#[derive(Debug, Default)]
pub(super) struct Inbound {
    /// What comes before further data: a head, the size of a chunk, its end, trailers.
    staged: Vec<u8>,
    /// Bytes of it that were read.
    staged_read: usize,
    data: Vec<u8>,
    /// Bytes of it that were read.
    data_read: usize,
    framing: Framing,
    /// Bytes of data that the chunk under way still takes.
    chunk_left: usize,
    /// Whether nothing follows what is here.
    is_ended: bool,
    /// Whether the end has been staged.
    is_closed: bool,
    /// Lines of the trailers.
    trailers: Vec<u8>,
}

impl Inbound {
    /// One that has the room of a stream that is over.
    pub(super) fn with_room(room: Room) -> Self {
        let Room { staged, data } = room;
        Self { staged, data, ..Self::default() }
    }

    /// Its room, emptied, where that is no more than most streams take.
    pub(super) fn into_room(self) -> Option<Room> {
        let Self { mut staged, mut data, .. } = self;
        staged.clear();
        data.clear();
        let is_usual = staged.capacity().max(data.capacity()) <= ROOM_REUSED_BYTES_MAX;
        is_usual.then_some(Room { staged, data })
    }

    /// Begins a message: `lay` appends its head and says how the body follows.
    pub(super) fn begin(&mut self, lay: impl FnOnce(&mut Vec<u8>) -> Framing) {
        self.framing = lay(&mut self.staged);
    }

    /// Bytes of heads that nobody has read yet.
    pub(super) fn staged_bytes(&self) -> usize {
        self.staged.len() - self.staged_read
    }

    /// Whether data may follow the head.
    pub(super) fn takes_data(&self) -> bool {
        self.framing != Framing::Nothing
    }

    /// Takes data; `ends` is whether it is the last.
    pub(super) fn push(&mut self, data: &[u8], ends: bool) {
        self.data.extend_from_slice(data);
        self.is_ended |= ends;
    }

    /// Takes the lines behind the body, each with its end.
    pub(super) fn end(&mut self, trailers: &[u8]) {
        self.trailers.extend_from_slice(trailers);
        self.is_ended = true;
    }

    /// Reads what fits into `buffer`; nothing where there is nothing yet.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> Read {
        let mut read = Read::default();
        while read.bytes < buffer.len() {
            let room = &mut buffer[read.bytes..];
            // What was begun is finished first: a size line that stands half in one buffer and half
            // in the next belongs before its chunk.
            if self.staged_read < self.staged.len() {
                read.bytes += copy(&self.staged, &mut self.staged_read, room);
                continue;
            }
            self.staged.clear();
            self.staged_read = 0;
            if self.data_read < self.data.len() {
                if self.framing == Framing::Chunked && self.chunk_left == 0 {
                    // One chunk for all that has arrived, as HTTP/1.1 peers send it; frame borders
                    // mean nothing.
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

    /// Drops all unread bytes; returns how many of them are data.
    pub(super) fn discard(&mut self) -> usize {
        let unread = self.data.len() - self.data_read;
        (self.data, self.data_read) = (Vec::new(), 0);
        (self.staged, self.staged_read) = (Vec::new(), 0);
        unread
    }

    /// Whether the peer's end of stream is all there is to read.
    pub(super) fn is_at_end(&self) -> bool {
        self.is_closed && self.staged_read == self.staged.len()
    }

    /// As much of `room` as the chunk under way may fill.
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

/// Copies what fits from behind `read`, which moves on.
fn copy(from: &[u8], read: &mut usize, to: &mut [u8]) -> usize {
    let bytes = (from.len() - *read).min(to.len());
    to[..bytes].copy_from_slice(&from[*read..*read + bytes]);
    *read += bytes;
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All that can be read, `step` bytes at a time; how much of it was data.
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
