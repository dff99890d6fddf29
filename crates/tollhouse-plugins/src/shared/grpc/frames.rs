//! Frames of gRPC messages: one byte of flags, four bytes of length, the message.

use std::sync::Arc;

use tollhouse_stdx::{MemoryBudget, Reservation};

/// Length of a frame's head in bytes: flags and message length.
const HEAD_BYTES: usize = 5;

/// Flag in the first byte of a compressed message.
const COMPRESSED: u8 = 1;

/// Appends `message` in a frame with `flags`.
pub(crate) fn append_frame(flags: u8, message: &[u8], out: &mut Vec<u8>) {
    // Callers bound messages far below 4 GiB.
    let length = u32::try_from(message.len()).unwrap_or(u32::MAX);
    out.push(flags);
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(message);
}

/// Why frames cannot be read any further.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum FrameError {
    /// The declared length exceeds the limit.
    #[error("a message is longer than max_resp_body_size")]
    TooLong,
    /// A compressed message, although compression was not requested.
    #[error("a message is compressed, which was not asked for")]
    Compressed,
    /// The memory budget has no room for the message.
    #[error("not enough memory for a message")]
    NoMemory,
    /// The body ends within a message.
    #[error("the answer ends in the middle of a message")]
    Truncated,
}

/// Decoder of messages from a body that arrives in pieces.
#[derive(Debug)]
pub(crate) struct Deframer {
    buffer: Vec<u8>,
    /// End of the messages returned so far.
    read: usize,
    message_bytes_max: usize,
    /// Reservation for the buffer; `None` until the first piece.
    reservation: Option<Reservation>,
    memory: Arc<MemoryBudget>,
}

impl Deframer {
    /// Returns a decoder for messages of at most `message_bytes_max` bytes.
    pub(crate) fn new(message_bytes_max: u64, memory: Arc<MemoryBudget>) -> Self {
        let message_bytes_max = usize::try_from(message_bytes_max).unwrap_or(usize::MAX);
        Self { buffer: Vec::new(), read: 0, message_bytes_max, reservation: None, memory }
    }

    /// Appends the next piece of the body, for [`Self::message`].
    ///
    /// # Errors
    /// If the memory budget is exhausted.
    pub(crate) fn push(&mut self, input: &[u8]) -> Result<(), FrameError> {
        self.buffer.drain(..self.read);
        self.read = 0;
        let bytes = (self.buffer.len() + input.len()) as u64;
        let fits = match &mut self.reservation {
            Some(reservation) => reservation.resize(bytes),
            None => {
                self.reservation = self.memory.take(bytes);
                self.reservation.is_some()
            }
        };
        if !fits {
            return Err(FrameError::NoMemory);
        }
        self.buffer.extend_from_slice(input);
        Ok(())
    }

    /// Returns the next complete message; `None` until one has arrived.
    ///
    /// # Errors
    /// If the message is too long or compressed.
    pub(crate) fn message(&mut self) -> Result<Option<&[u8]>, FrameError> {
        let rest = &self.buffer[self.read..];
        let Some(([flags, a, b, c, d], rest)) = rest.split_first_chunk::<HEAD_BYTES>() else {
            return Ok(None);
        };
        let length = u32::from_be_bytes([*a, *b, *c, *d]) as usize;
        if length > self.message_bytes_max {
            return Err(FrameError::TooLong);
        }
        if flags & COMPRESSED != 0 {
            return Err(FrameError::Compressed);
        }
        let Some(message) = rest.get(..length) else { return Ok(None) };
        self.read += HEAD_BYTES + length;
        Ok(Some(message))
    }

    /// Returns the number of buffered bytes after `input_bytes` more, if they complete a message
    /// that began earlier.
    pub(crate) fn bytes_with(&self, input_bytes: usize) -> Option<usize> {
        let rest = &self.buffer[self.read..];
        let [_, a, b, c, d] = rest.first_chunk::<HEAD_BYTES>()?;
        let length = u32::from_be_bytes([*a, *b, *c, *d]) as usize;
        let bytes = rest.len() + input_bytes;
        (length <= self.message_bytes_max && bytes >= HEAD_BYTES + length).then_some(bytes)
    }

    /// Checks that the body ends after a message.
    ///
    /// # Errors
    /// If the last message is incomplete.
    pub(crate) fn finish(&self) -> Result<(), FrameError> {
        if self.read == self.buffer.len() { Ok(()) } else { Err(FrameError::Truncated) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Decodes `bytes`, passed in pieces of `piece_bytes`.
    fn read(bytes: &[u8], piece_bytes: usize) -> Result<Vec<Vec<u8>>, FrameError> {
        let mut frames = Deframer::new(10, MemoryBudget::new(100));
        let mut messages = Vec::new();
        for piece in bytes.chunks(piece_bytes) {
            frames.push(piece)?;
            while let Some(message) = frames.message()? {
                messages.push(message.to_vec());
            }
        }
        frames.finish().map(|()| messages)
    }

    #[test]
    fn messages_are_whole_however_their_bytes_arrive() {
        let mut bytes = Vec::new();
        for message in [&b"abc"[..], b"", b"0123456789"] {
            append_frame(0, message, &mut bytes);
        }
        for piece_bytes in 1..=bytes.len() {
            let expected = [&b"abc"[..], b"", b"0123456789"].map(<[u8]>::to_vec);
            assert_eq!(read(&bytes, piece_bytes), Ok(expected.to_vec()), "{piece_bytes}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_told_apart() {
        for (bytes, expected) in [
            (&b"\0\0\0\0\x0b"[..], FrameError::TooLong),
            (b"\0\xff\xff\xff\xff", FrameError::TooLong),
            (b"\x01\0\0\0\x01a", FrameError::Compressed),
            (b"\0\0\0\0\x02a", FrameError::Truncated),
            (b"\0\0", FrameError::Truncated),
        ] {
            assert_eq!(read(bytes, bytes.len()), Err(expected), "{bytes:?}");
        }
        let mut frames = Deframer::new(1_000, MemoryBudget::new(100));
        assert_eq!(frames.push(&[0; 101]), Err(FrameError::NoMemory));
    }

    #[test]
    fn memory_is_given_back_with_the_messages() {
        let memory = MemoryBudget::new(100);
        let mut frames = Deframer::new(10, Arc::clone(&memory));
        frames.push(b"\0\0\0\0\x01a").unwrap();
        assert_eq!(frames.message(), Ok(Some(&b"a"[..])));
        frames.push(b"\0").unwrap();
        assert_eq!(memory.held(), 1);
        drop(frames);
        assert_eq!(memory.held(), 0);
    }
}
