//! The chunked transfer coding (RFC 9112 §7.1), decoded without copying.
//!
//! A body may be passed on as it stands, since everything that two readers could take differently
//! is refused here: bare line feeds, sizes with signs or blanks, control bytes in extensions.

use std::ops::Range;

use crate::ChunkError;
use crate::grammar::is_token_byte;
use crate::limits::{CHUNK_LINE_BYTES_MAX, TRAILER_BYTES_MAX};

/// Decodes one chunked body from slices of any size.
#[derive(Debug, Clone, Copy)]
pub struct ChunkedDecoder {
    state: State,
    /// Data bytes of the chunk still to come, or the size read so far.
    remaining: u64,
    /// Bytes of the size line or of the trailer section so far.
    line_bytes: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Before the first digit of a size.
    SizeStart,
    Size,
    Extension,
    SizeLineFeed,
    Data,
    DataReturn,
    DataLineFeed,
    /// At the start of a trailer line, or of the empty line that ends the body.
    TrailerStart,
    TrailerName,
    TrailerValue,
    TrailerLineFeed,
    EndLineFeed,
    Done,
}

/// What one step of the decoder found at the start of its input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decoded {
    /// Bytes of the input that were read.
    pub consumed: usize,
    /// Which of them are body data.
    pub data: Range<usize>,
}

impl Default for ChunkedDecoder {
    fn default() -> Self {
        Self::new()
    }
}

impl ChunkedDecoder {
    /// At the start of a body.
    pub fn new() -> Self {
        Self { state: State::SizeStart, remaining: 0, line_bytes: 0 }
    }

    /// Whether the body has ended.
    #[inline]
    pub fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// Reads up to and including the next run of data, or the end of `input` or of the body.
    ///
    /// # Errors
    /// The rule that the body breaks; it cannot be read further.
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
        }
        Ok(Decoded { consumed: at, data: at..at })
    }

    /// Reads as much of `input` as belongs to the body, without telling data from framing.
    /// Returns the number of bytes.
    ///
    /// # Errors
    /// The rule that the body breaks.
    pub fn skip(&mut self, input: &[u8]) -> Result<usize, ChunkError> {
        self.count(input).map(|(bytes, _)| bytes)
    }

    /// As [`Self::skip`], and tells how many of these bytes are data.
    ///
    /// # Errors
    /// The rule that the body breaks.
    pub fn count(&mut self, input: &[u8]) -> Result<(usize, usize), ChunkError> {
        let (mut at, mut data) = (0, 0);
        while at < input.len() && !self.is_done() {
            let step = self.step(&input[at..])?;
            at += step.consumed;
            data += step.data.len();
        }
        Ok((at, data))
    }

    fn byte(&mut self, byte: u8) -> Result<(), ChunkError> {
        self.state = match self.state {
            State::SizeStart | State::Size => self.size_byte(byte)?,
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
            _ => return Err(ChunkError::BadSize),
        };
        if self.remaining >> 60 != 0 {
            return Err(ChunkError::BadSize);
        }
        self.remaining = self.remaining << 4 | u64::from(digit);
        Ok(State::Size)
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

/// Appends the line that opens a chunk of `bytes` data bytes.
pub fn write_chunk_size(out: &mut Vec<u8>, bytes: usize) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digits = (usize::BITS - bytes.leading_zeros()).div_ceil(4).max(1);
    for place in (0..digits).rev() {
        out.push(DIGITS[bytes >> (4 * place) & 15]);
    }
    out.extend_from_slice(b"\r\n");
}

/// The last chunk, without trailers.
pub const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

#[cfg(test)]
mod tests;
