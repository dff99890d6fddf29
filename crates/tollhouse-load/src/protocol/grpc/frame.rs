//! Messages on the wire: a flag, a length, the message; compressed when asked to. Sans-IO, both ways.

use std::io::{Read, Write};

use bytes::Bytes;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;

/// A flag and a length in front of every message.
pub(super) const PREFIX_BYTES: usize = 5;

/// Whether messages are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Encoding {
    Identity,
    Gzip,
}

/// Makes a frame of a message that `write` appends to a buffer.
pub(super) fn frame<E>(
    encoding: Encoding,
    write: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
) -> Result<Bytes, E> {
    /// Most messages fit; larger ones grow the buffer.
    const BYTES_USUAL: usize = 256;
    let mut framed = Vec::with_capacity(BYTES_USUAL);
    framed.extend_from_slice(&[0; PREFIX_BYTES]);
    write(&mut framed)?;
    if encoding == Encoding::Gzip {
        framed = gzip(&framed[PREFIX_BYTES..]);
        framed[0] = 1;
    }
    // A message is bounded by the memory that made it; gRPC's own limit is the field's 32 bits.
    let length = u32::try_from(framed.len() - PREFIX_BYTES).unwrap_or(u32::MAX);
    framed[1..PREFIX_BYTES].copy_from_slice(&length.to_be_bytes());
    Ok(framed.into())
}

/// The compressed message, with room for its prefix.
fn gzip(message: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(vec![0; PREFIX_BYTES], Compression::default());
    encoder
        .write_all(message)
        .and_then(|()| encoder.finish())
        .expect("writing into memory does not fail")
}

/// Takes the frames of an answer apart, however they arrive in pieces.
#[derive(Debug)]
pub(super) struct Frames {
    bytes_max: usize,
    keeps: Keeps,
    encoding: Encoding,
    prefix: [u8; PREFIX_BYTES],
    prefix_bytes: usize,
    /// Bytes of the current message that are still to come.
    left: usize,
    is_compressed: bool,
    /// The current message, when it has to be looked at.
    message: Vec<u8>,
    /// The last whole message, decompressed, when messages are kept.
    last: Vec<u8>,
    messages: u64,
    message_bytes: u64,
}

/// Whether the content of messages matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Keeps {
    /// The last message is kept, to be judged.
    Last,
    /// Only lengths count.
    Nothing,
}

/// What is wrong with an answer's messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum FrameError {
    /// A message is longer than the case takes.
    TooLong { bytes: usize, bytes_max: usize },
    /// It is not of the protocol.
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

    /// Starts with an answer whose compressed messages are of this encoding.
    pub(super) fn begin(&mut self, encoding: Encoding) {
        self.encoding = encoding;
        self.prefix_bytes = 0;
        self.left = 0;
        self.message.clear();
        self.last.clear();
        self.messages = 0;
        self.message_bytes = 0;
    }

    /// Whole messages so far.
    pub(super) fn messages(&self) -> u64 {
        self.messages
    }

    /// Bytes of messages so far, as they were sent.
    pub(super) fn message_bytes(&self) -> u64 {
        self.message_bytes
    }

    /// The last whole message, when messages are kept.
    pub(super) fn last(&self) -> &[u8] {
        &self.last
    }

    /// Whether it ended between two messages.
    pub(super) fn is_whole(&self) -> bool {
        self.prefix_bytes == 0
    }

    /// Takes the next bytes in.
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

/// No further than the limit: a small frame must not fill the memory.
fn decompress(bytes: &[u8], bytes_max: usize, out: &mut Vec<u8>) -> Result<(), FrameError> {
    let mut decoder = GzDecoder::new(bytes).take(bytes_max as u64 + 1);
    let read = decoder.read_to_end(out);
    let read = read.map_err(|error| FrameError::Malformed(format!("no gzip: {error}")))?;
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
            (Encoding::Gzip, &[1, 0, 0, 0, 1, 9], "no gzip"),
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
