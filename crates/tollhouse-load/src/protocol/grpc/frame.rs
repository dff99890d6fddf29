//! gRPC message frames: flag, length, message, optionally compressed. Sans-I/O encoder and decoder.

use std::io::{Read, Write};

use bytes::Bytes;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;

/// Length of the frame header: one byte of flags, four bytes of length.
pub(super) const PREFIX_BYTES: usize = 5;

/// Compression of the messages of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Encoding {
    Identity,
    Gzip,
}

/// Encodes a frame with the message that `write` appends to a buffer.
pub(super) fn frame<E>(
    encoding: Encoding,
    write: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
) -> Result<Bytes, E> {
    /// Initial capacity; larger messages grow the buffer.
    const BYTES_USUAL: usize = 256;
    let mut framed = Vec::with_capacity(BYTES_USUAL);
    framed.extend_from_slice(&[0; PREFIX_BYTES]);
    write(&mut framed)?;
    if encoding == Encoding::Gzip {
        framed = gzip(&framed[PREFIX_BYTES..]);
        framed[0] = 1;
    }
    // Messages are limited by memory; the format itself limits the length to 32 bits.
    let length = u32::try_from(framed.len() - PREFIX_BYTES).unwrap_or(u32::MAX);
    framed[1..PREFIX_BYTES].copy_from_slice(&length.to_be_bytes());
    Ok(framed.into())
}

/// Compresses a message, leaving space for the frame header.
fn gzip(message: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(vec![0; PREFIX_BYTES], Compression::default());
    encoder
        .write_all(message)
        .and_then(|()| encoder.finish())
        .expect("writing into memory does not fail")
}

/// Incremental decoder for the frames of a response.
#[derive(Debug)]
pub(super) struct Frames {
    bytes_max: usize,
    keeps: Keeps,
    encoding: Encoding,
    prefix: [u8; PREFIX_BYTES],
    prefix_bytes: usize,
    /// Bytes of the current message still to come.
    left: usize,
    is_compressed: bool,
    /// Content of the current message, if needed.
    message: Vec<u8>,
    /// Last complete message, decompressed, if messages are kept.
    last: Vec<u8>,
    messages: u64,
    message_bytes: u64,
}

/// Part of the received messages that is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Keeps {
    /// Keeps the last message, for checks.
    Last,
    /// Only the lengths of messages are kept.
    Nothing,
}

/// Error in the messages of a response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum FrameError {
    /// A message exceeds the size limit of the case.
    TooLong { bytes: usize, bytes_max: usize },
    /// The frame violates gRPC's framing.
    Malformed(String),
}

impl Frames {
    pub(super) fn new(bytes_max: usize, keeps: Keeps) -> Self {
        Self {
            bytes_max,
            keeps,
            encoding: Encoding::Identity,
            prefix: [0; PREFIX_BYTES],
            prefix_bytes: 0,
            left: 0,
            is_compressed: false,
            message: Vec::new(),
            last: Vec::new(),
            messages: 0,
            message_bytes: 0,
        }
    }

    /// Starts a new response; `encoding` applies to its compressed messages.
    pub(super) fn begin(&mut self, encoding: Encoding) {
        self.encoding = encoding;
        self.prefix_bytes = 0;
        self.left = 0;
        self.message.clear();
        self.last.clear();
        self.messages = 0;
        self.message_bytes = 0;
    }

    /// Returns the number of complete messages so far.
    pub(super) fn messages(&self) -> u64 {
        self.messages
    }

    /// Returns the total length of the messages so far, as transmitted.
    pub(super) fn message_bytes(&self) -> u64 {
        self.message_bytes
    }

    /// Returns the last complete message; empty unless messages are kept.
    pub(super) fn last(&self) -> &[u8] {
        &self.last
    }

    /// Whether the data so far ends at a message boundary.
    pub(super) fn is_whole(&self) -> bool {
        self.prefix_bytes == 0
    }

    /// Parses the next received bytes.
    pub(super) fn take(&mut self, mut bytes: &[u8]) -> Result<(), FrameError> {
        while !bytes.is_empty() {
            if self.prefix_bytes < PREFIX_BYTES {
                let part = bytes.len().min(PREFIX_BYTES - self.prefix_bytes);
                self.prefix[self.prefix_bytes..][..part].copy_from_slice(&bytes[..part]);
                self.prefix_bytes += part;
                bytes = &bytes[part..];
                if self.prefix_bytes < PREFIX_BYTES {
                    return Ok(());
                }
                self.prefix_done()?;
            }
            let part = bytes.len().min(self.left);
            if self.keeps == Keeps::Last || self.is_compressed {
                self.message.extend_from_slice(&bytes[..part]);
            }
            self.left -= part;
            bytes = &bytes[part..];
            if self.left == 0 {
                self.message_done()?;
            }
        }
        Ok(())
    }

    fn prefix_done(&mut self) -> Result<(), FrameError> {
        let [flag, length @ ..] = self.prefix;
        let bytes = u32::from_be_bytes(length) as usize;
        self.is_compressed = match flag {
            0 => false,
            1 if self.encoding == Encoding::Gzip => true,
            1 => {
                return Err(FrameError::Malformed(
                    "a compressed message without an encoding".into(),
                ));
            }
            flag => return Err(FrameError::Malformed(format!("a message with the flag {flag}"))),
        };
        if bytes > self.bytes_max {
            return Err(FrameError::TooLong { bytes, bytes_max: self.bytes_max });
        }
        self.left = bytes;
        Ok(())
    }

    fn message_done(&mut self) -> Result<(), FrameError> {
        let [_, length @ ..] = self.prefix;
        self.messages += 1;
        self.message_bytes += u64::from(u32::from_be_bytes(length));
        self.prefix_bytes = 0;
        if self.is_compressed {
            self.last.clear();
            decompress(&self.message, self.bytes_max, &mut self.last)?;
            self.message.clear();
        } else if self.keeps == Keeps::Last {
            std::mem::swap(&mut self.last, &mut self.message);
            self.message.clear();
        }
        Ok(())
    }
}

/// Decompresses up to the size limit, so that a small frame cannot exhaust the memory.
fn decompress(bytes: &[u8], bytes_max: usize, out: &mut Vec<u8>) -> Result<(), FrameError> {
    let mut decoder = GzDecoder::new(bytes).take(bytes_max as u64 + 1);
    let read = decoder.read_to_end(out);
    let read =
        read.map_err(|error| FrameError::Malformed(format!("invalid gzip data: {error}")))?;
    if read > bytes_max {
        return Err(FrameError::TooLong { bytes: read, bytes_max });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn framed(encoding: Encoding, message: &[u8]) -> Bytes {
        let write = |out: &mut Vec<u8>| {
            out.extend_from_slice(message);
            Ok::<(), ()>(())
        };
        frame(encoding, write).expect("frame")
    }

    #[test]
    fn frames_come_back_however_they_are_cut() {
        for encoding in [Encoding::Identity, Encoding::Gzip] {
            let mut wire = framed(encoding, b"first").to_vec();
            wire.extend_from_slice(&framed(encoding, b""));
            wire.extend_from_slice(&framed(encoding, b"third"));
            for cut in 1..wire.len() {
                let mut frames = Frames::new(100, Keeps::Last);
                frames.begin(encoding);
                for part in wire.chunks(cut) {
                    frames.take(part).expect("frames");
                }
                assert!(frames.is_whole());
                assert_eq!((frames.messages(), frames.last()), (3, &b"third"[..]));
            }
        }
    }

    #[test]
    fn what_is_no_frame_is_refused() {
        let gzip = framed(Encoding::Gzip, &[0; 1000]);
        let cases: [(Encoding, &[u8], &str); 5] = [
            (Encoding::Identity, &[1, 0, 0, 0, 0], "without an encoding"),
            (Encoding::Identity, &[7, 0, 0, 0, 0], "flag 7"),
            (Encoding::Gzip, &[1, 0, 0, 0, 1, 9], "invalid gzip data"),
            (Encoding::Identity, &[0, 0, 0, 0, 101], "TooLong"),
            (Encoding::Gzip, &gzip, "TooLong"),
        ];
        for (encoding, wire, part) in cases {
            let mut frames = Frames::new(100, Keeps::Nothing);
            frames.begin(encoding);
            let error = frames.take(wire).expect_err(part);
            assert!(format!("{error:?}").contains(part), "{error:?}");
        }
    }
}
