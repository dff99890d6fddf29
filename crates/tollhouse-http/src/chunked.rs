//! Chunked transfer coding (RFC 9112 §7.1): decoding in place, and encoding.
//!
//! Input that two readers could interpret differently is refused: bare line feeds, sizes with signs
//! or leading blanks, control bytes in extensions. Other unusual forms, such as leading zeros,
//! blanks before an extension (§7.1.1), extensions, and sizes beyond 32 bits, are accepted but
//! never passed on, because chunks are always written anew. Some old servers pad sizes with blanks,
//! against the grammar. Padding is accepted in responses only, where no request can be smuggled.

use std::ops::Range;

use crate::ChunkError;
use crate::grammar::is_token_byte;
use crate::limits::{CHUNK_LINE_BYTES_MAX, TRAILER_BYTES_MAX};

/// Decoder of one chunked body, fed with slices of any size.
#[derive(Debug, Clone, Copy)]
pub struct ChunkedDecoder {
    state: State,
    /// Data bytes left in the chunk, or the size parsed so far.
    remaining: u64,
    /// Bytes of the size line or the trailer section so far.
    line_bytes: u32,
    padding: Padding,
}

/// Treatment of blanks between a size and the end of its line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Padding {
    Refused,
    Skipped,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// The first digit of a size comes next.
    SizeStart,
    Size,
    /// Blanks after a chunk size are skipped.
    SizeBlank,
    Extension,
    SizeLineFeed,
    Data,
    DataReturn,
    DataLineFeed,
    /// A trailer line, or the empty line that ends the body, comes next.
    TrailerStart,
    TrailerName,
    TrailerValue,
    TrailerLineFeed,
    EndLineFeed,
    Done,
}

/// Bytes read and bytes decoded by a step of decoding in place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Undone {
    /// Bytes that belong to the body, framing included.
    pub consumed: usize,
    /// Number of data bytes, which are now at the front.
    pub data: usize,
}

/// Bytes read by a decoder step, and the data among them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decoded {
    /// Bytes of the input that were consumed.
    pub consumed: usize,
    /// Range of the input that is body data.
    pub data: Range<usize>,
}

impl Default for ChunkedDecoder {
    fn default() -> Self {
        Self::new()
    }
}

impl ChunkedDecoder {
    /// Creates a decoder for a request body.
    pub fn new() -> Self {
        let padding = Padding::Refused;
        Self { state: State::SizeStart, remaining: 0, line_bytes: 0, padding }
    }

    /// Creates a decoder for a response body, in which sizes may be padded with blanks.
    pub fn for_answer() -> Self {
        Self { padding: Padding::Skipped, ..Self::new() }
    }

    #[inline]
    pub fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// Decodes up to the end of the next data range, up to the trailer section, or to the end of
    /// `input` or of the body.
    ///
    /// # Errors
    /// The rule that the body violates; decoding cannot continue.
    #[inline]
    pub fn step(&mut self, input: &[u8]) -> Result<Decoded, ChunkError> {
        let mut at = 0;
        while at < input.len() && self.state != State::Done {
            if self.state == State::Data {
                let bytes = usize::try_from(self.remaining).unwrap_or(usize::MAX);
                let end = at + bytes.min(input.len() - at);
                self.remaining -= (end - at) as u64;
                if self.remaining == 0 {
                    self.state = State::DataReturn;
                }
                return Ok(Decoded { consumed: end, data: at..end });
            }
            self.byte(input[at])?;
            at += 1;
            if self.state == State::TrailerStart && self.line_bytes == 0 {
                break;
            }
        }
        Ok(Decoded { consumed: at, data: at..at })
    }

    /// Reads as much of `input` as belongs to the body, without changing it; returns the number of
    /// bytes.
    ///
    /// # Errors
    /// The rule that the body violates.
    pub fn skip(&mut self, input: &[u8]) -> Result<usize, ChunkError> {
        let mut at = 0;
        while at < input.len() && !self.is_done() {
            at += self.step(&input[at..])?.consumed;
        }
        Ok(at)
    }

    /// Decodes `bytes` in place: the data moves to the front, in order. Lines of the trailer
    /// section, including the final empty line, are passed to `trailer` in pieces.
    ///
    /// # Errors
    /// The rule that the body violates.
    pub fn undo(
        &mut self,
        bytes: &mut [u8],
        mut trailer: impl FnMut(&[u8]),
    ) -> Result<Undone, ChunkError> {
        let mut undone = Undone::default();
        while undone.consumed < bytes.len() && !self.is_done() {
            let at = undone.consumed;
            let is_trailer = self.is_in_trailers();
            let step = self.step(&bytes[at..])?;
            if is_trailer {
                trailer(&bytes[at..at + step.consumed]);
            }
            let data = at + step.data.start..at + step.data.end;
            // Within a long chunk, the data is in place already.
            if data.start != undone.data {
                bytes.copy_within(data.clone(), undone.data);
            }
            undone.data += data.len();
            undone.consumed += step.consumed;
        }
        Ok(undone)
    }

    /// Whether the decoder is within the data of a chunk.
    #[inline]
    pub fn is_inside_chunk(&self) -> bool {
        self.state == State::Data
    }

    /// Whether only the trailer section is left.
    pub fn is_in_trailers(&self) -> bool {
        matches!(
            self.state,
            State::TrailerStart
                | State::TrailerName
                | State::TrailerValue
                | State::TrailerLineFeed
                | State::EndLineFeed
        )
    }

    fn byte(&mut self, byte: u8) -> Result<(), ChunkError> {
        self.state = match self.state {
            State::SizeStart | State::Size => self.size_byte(byte)?,
            State::SizeBlank => self.size_blank(byte)?,
            State::Extension => self.extension_byte(byte)?,
            State::SizeLineFeed => self.size_end(byte)?,
            State::DataReturn if byte == b'\r' => State::DataLineFeed,
            State::DataLineFeed if byte == b'\n' => self.size_start(),
            State::DataReturn | State::DataLineFeed => return Err(ChunkError::BadEnd),
            State::EndLineFeed if byte == b'\n' => State::Done,
            _ => self.trailer_byte(byte)?,
        };
        Ok(())
    }

    fn size_start(&mut self) -> State {
        self.remaining = 0;
        self.line_bytes = 0;
        State::SizeStart
    }

    fn size_byte(&mut self, byte: u8) -> Result<State, ChunkError> {
        self.count_line_byte()?;
        let digit = match byte {
            b'0'..=b'9' => byte - b'0',
            b'a'..=b'f' => byte - b'a' + 10,
            b'A'..=b'F' => byte - b'A' + 10,
            b'\r' if self.state == State::Size => return Ok(State::SizeLineFeed),
            b';' if self.state == State::Size => return Ok(State::Extension),
            b' ' | b'\t' if self.state == State::Size => return Ok(State::SizeBlank),
            _ => return Err(ChunkError::BadSize),
        };
        if self.remaining >> 60 != 0 {
            return Err(ChunkError::BadSize);
        }
        self.remaining = self.remaining << 4 | u64::from(digit);
        Ok(State::Size)
    }

    fn size_blank(&mut self, byte: u8) -> Result<State, ChunkError> {
        self.count_line_byte()?;
        match byte {
            b' ' | b'\t' => Ok(State::SizeBlank),
            b';' => Ok(State::Extension),
            b'\r' if self.padding == Padding::Skipped => Ok(State::SizeLineFeed),
            _ => Err(ChunkError::BadSize),
        }
    }

    fn extension_byte(&mut self, byte: u8) -> Result<State, ChunkError> {
        self.count_line_byte()?;
        match byte {
            b'\r' => Ok(State::SizeLineFeed),
            b'\t' | b' '..=b'~' => Ok(State::Extension),
            _ => Err(ChunkError::BadSize),
        }
    }

    fn size_end(&mut self, byte: u8) -> Result<State, ChunkError> {
        match byte {
            b'\n' if self.remaining == 0 => {
                self.line_bytes = 0;
                Ok(State::TrailerStart)
            }
            b'\n' => Ok(State::Data),
            _ => Err(ChunkError::BadSize),
        }
    }

    fn count_line_byte(&mut self) -> Result<(), ChunkError> {
        self.line_bytes += 1;
        if self.line_bytes > CHUNK_LINE_BYTES_MAX { Err(ChunkError::BadSize) } else { Ok(()) }
    }

    fn trailer_byte(&mut self, byte: u8) -> Result<State, ChunkError> {
        self.line_bytes += 1;
        if self.line_bytes > TRAILER_BYTES_MAX {
            return Err(ChunkError::BadTrailer);
        }
        match (self.state, byte) {
            (State::TrailerStart, b'\r') => Ok(State::EndLineFeed),
            (State::TrailerName, b':') => Ok(State::TrailerValue),
            (State::TrailerStart | State::TrailerName, _) if is_token_byte(byte) => {
                Ok(State::TrailerName)
            }
            (State::TrailerValue, b'\r') => Ok(State::TrailerLineFeed),
            (State::TrailerValue, b'\t' | b' '..=b'~' | 0x80..) => Ok(State::TrailerValue),
            (State::TrailerLineFeed, b'\n') => Ok(State::TrailerStart),
            _ => Err(ChunkError::BadTrailer),
        }
    }
}

/// Size line of a chunk, with its line end.
#[derive(Debug, Clone, Copy)]
pub struct SizeLine {
    bytes: [u8; SIZE_LINE_BYTES],
    start: u8,
}

/// Maximum length of a size line in bytes: sixteen digits and CRLF.
const SIZE_LINE_BYTES: usize = 18;

impl SizeLine {
    /// Creates the size line of a chunk with `bytes` bytes of data, without leading zeros.
    #[inline]
    pub fn new(mut bytes: usize) -> Self {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut line = [0; SIZE_LINE_BYTES];
        let mut start = SIZE_LINE_BYTES - 2;
        line[start..].copy_from_slice(b"\r\n");
        loop {
            start -= 1;
            line[start] = DIGITS[bytes & 15];
            bytes >>= 4;
            if bytes == 0 {
                return Self { bytes: line, start: start as u8 };
            }
        }
    }

    /// Returns the part of the line that has not been sent.
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[usize::from(self.start)..]
    }

    #[inline]
    pub fn consume(&mut self, bytes: usize) {
        self.start = (usize::from(self.start) + bytes).min(SIZE_LINE_BYTES) as u8;
    }
}

impl Default for SizeLine {
    /// Returns an empty line, of which nothing is left to send.
    fn default() -> Self {
        Self { bytes: [0; SIZE_LINE_BYTES], start: SIZE_LINE_BYTES as u8 }
    }
}

/// Last chunk of a body without trailers.
pub const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

#[cfg(test)]
mod tests;
