//! Frames of Dubbo's protocol: a head of 16 bytes, and a body in the serialization that the head
//! names.

/// First two bytes of a frame.
const MAGIC: [u8; 2] = [0xda, 0xbb];

/// Length of a frame head in bytes.
const HEAD_BYTES: usize = 16;

/// Flags in the third byte of a frame head.
const REQUEST: u8 = 0x80;
const TWO_WAY: u8 = 0x40;
const EVENT: u8 = 0x20;
const SERIALIZATION: u8 = 0x1f;

/// Number of Hessian 2 among the serializations.
const HESSIAN2: u8 = 2;

/// Status of a successful reply.
pub const STATUS_OK: u8 = 20;

/// Largest body in bytes: the default of Dubbo's `payload` setting.
pub const BODY_BYTES_MAX: usize = 8 << 20;

/// Message in a received frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    /// Reply to a call.
    Reply {
        /// Id that the client chose for the call.
        id: u64,
        /// [`STATUS_OK`], or the kind of failure.
        status: u8,
        /// Hessian 2 encoding of the result.
        body: Vec<u8>,
    },
    /// Heartbeat of the peer, with the frame that answers it.
    Heartbeat(Vec<u8>),
    /// Message that needs no answer, for example that the peer shuts down.
    Notice,
}

/// Why no further frames can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The frame does not start with Dubbo's magic number.
    #[error("the peer does not speak Dubbo's protocol")]
    Magic,
    /// The body of a frame is too long.
    #[error("an answer has {0} bytes; at most {BODY_BYTES_MAX} are accepted")]
    TooLong(u32),
    /// The body of a reply is not in Hessian 2.
    #[error("an answer uses serialization {0}; only Hessian 2 (2) is supported")]
    Serialization(u8),
}

/// Encodes a request frame around a body.
pub fn request(id: u64, body: &[u8]) -> Vec<u8> {
    frame(REQUEST | TWO_WAY | HESSIAN2, 0, id, body)
}

fn frame(flags: u8, status: u8, id: u64, body: &[u8]) -> Vec<u8> {
    let mut made = Vec::with_capacity(HEAD_BYTES + body.len());
    made.extend_from_slice(&MAGIC);
    made.extend_from_slice(&[flags, status]);
    made.extend_from_slice(&id.to_be_bytes());
    // Callers limit bodies to far less than 4 GiB.
    made.extend_from_slice(&u32::try_from(body.len()).unwrap_or(u32::MAX).to_be_bytes());
    made.extend_from_slice(body);
    made
}

/// Decoder of frames from bytes that arrive in pieces.
#[derive(Debug, Default)]
pub struct Frames {
    buffer: Vec<u8>,
    /// Number of bytes already decoded. The rest moves to the front once per piece, not per frame,
    /// because a piece may contain thousands of frames.
    read: usize,
}

impl Frames {
    /// Appends the next received bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.drain(..std::mem::take(&mut self.read));
        self.buffer.extend_from_slice(bytes);
    }

    /// Whether the buffer ends inside a frame.
    pub fn is_within(&self) -> bool {
        self.read < self.buffer.len()
    }

    /// Decodes the next complete frame; `None` if more bytes are needed.
    ///
    /// # Errors
    ///
    /// If the bytes are not a frame, or its body is too long or not in Hessian 2.
    pub fn message(&mut self) -> Result<Option<Message>, FrameError> {
        let waiting = &self.buffer[self.read..];
        let Some((head, rest)) = waiting.split_first_chunk::<HEAD_BYTES>() else {
            let known = waiting.len().min(MAGIC.len());
            return match waiting[..known] == MAGIC[..known] {
                true => Ok(None),
                false => Err(FrameError::Magic),
            };
        };
        let [a, b, flags, status, id @ .., l0, l1, l2, l3] = *head;
        if [a, b] != MAGIC {
            return Err(FrameError::Magic);
        }
        let declared = u32::from_be_bytes([l0, l1, l2, l3]);
        let length = usize::try_from(declared).unwrap_or(usize::MAX);
        if length > BODY_BYTES_MAX {
            return Err(FrameError::TooLong(declared));
        }
        let Some(body) = rest.get(..length) else { return Ok(None) };
        let id = u64::from_be_bytes(id);
        let message = match (flags & EVENT != 0, flags & REQUEST != 0) {
            (true, true) if flags & TWO_WAY != 0 => {
                // `null` in Hessian 2.
                Message::Heartbeat(frame(EVENT | HESSIAN2, STATUS_OK, id, b"N"))
            }
            (true, _) | (_, true) => Message::Notice,
            (false, false) if flags & SERIALIZATION != HESSIAN2 => {
                return Err(FrameError::Serialization(flags & SERIALIZATION));
            }
            (false, false) => Message::Reply { id, status, body: body.to_vec() },
        };
        self.read += HEAD_BYTES + length;
        Ok(Some(message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_whole_however_their_bytes_arrive() {
        let mut bytes = frame(HESSIAN2, STATUS_OK, 7, b"\x91\x90");
        bytes.extend(frame(REQUEST | TWO_WAY | EVENT | HESSIAN2, 0, 8, b"N"));
        bytes.extend(frame(REQUEST | EVENT | HESSIAN2, 0, 9, b"\x01R"));
        bytes.extend(frame(HESSIAN2, 60, 10, b"\x01x"));
        for piece_bytes in 1..=bytes.len() {
            let mut frames = Frames::default();
            let mut messages = Vec::new();
            for piece in bytes.chunks(piece_bytes) {
                frames.push(piece);
                while let Some(message) = frames.message().expect("they are frames") {
                    messages.push(message);
                }
            }
            let expected = [
                Message::Reply { id: 7, status: 20, body: b"\x91\x90".to_vec() },
                Message::Heartbeat(frame(EVENT | HESSIAN2, STATUS_OK, 8, b"N")),
                Message::Notice,
                Message::Reply { id: 10, status: 60, body: b"\x01x".to_vec() },
            ];
            assert_eq!(messages, expected, "{piece_bytes}");
            assert!(!frames.is_within());
        }
    }

    #[test]
    fn a_flood_of_short_frames_moves_no_byte_more_than_once() {
        let mut flood = Vec::new();
        for id in 0..100_000 {
            flood.extend(frame(REQUEST | EVENT | HESSIAN2, 0, id, b"N"));
        }
        let mut frames = Frames::default();
        frames.push(&flood);
        let begin = frames.buffer.as_ptr();
        for _ in 0..100_000 {
            assert_eq!(frames.message(), Ok(Some(Message::Notice)));
            assert_eq!(frames.buffer.len(), flood.len(), "nothing is moved to the front");
        }
        assert_eq!((frames.message(), frames.is_within()), (Ok(None), false));
        assert_eq!(frames.buffer.as_ptr(), begin);
        frames.push(&MAGIC);
        assert_eq!(frames.buffer.len(), MAGIC.len());
    }

    #[test]
    fn what_is_no_frame_is_refused_as_soon_as_it_shows() {
        let cases = [
            (&b"H"[..], FrameError::Magic),
            (b"HTTP/1.1 400 Bad Request", FrameError::Magic),
            (
                &[0xda, 0xbb, 2, 20, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0, 0, 0],
                FrameError::TooLong(0xff00_0000),
            ),
            (
                &[0xda, 0xbb, 6, 20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
                FrameError::Serialization(6),
            ),
        ];
        for (bytes, expected) in cases {
            let mut frames = Frames::default();
            frames.push(bytes);
            assert_eq!(frames.message(), Err(expected));
        }
    }
}
