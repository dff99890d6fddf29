//! WebSocket frames (RFC 6455, section 5) for a server: encoder and decoder without I/O or
//! extensions.

use std::ops::Range;

/// Maximum length of an echoed frame, which is held in memory as a whole.
const FRAME_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Maximum payload of a control frame (RFC 6455, section 5.5).
const CONTROL_BYTES_MAX: usize = 125;

/// Close codes (RFC 6455, section 7.4.1).
pub(super) const PROTOCOL_ERROR: u16 = 1002;
pub(super) const TOO_BIG: u16 = 1009;
pub(super) const INTERNAL_ERROR: u16 = 1011;

pub(super) const CONTINUATION: u8 = 0;
pub(super) const CLOSE: u8 = 8;
pub(super) const PING: u8 = 9;
pub(super) const PONG: u8 = 10;

const FINAL_BIT: u8 = 0x80;
const RESERVED_BITS: u8 = 0x70;
const OPCODE_BITS: u8 = 0x0f;
const CONTROL_BIT: u8 = 0x08;
const MASK_BIT: u8 = 0x80;
const LENGTH_BITS: u8 = 0x7f;
const LENGTH_16: u8 = 126;
const LENGTH_64: u8 = 127;

/// Frame from a client, at the start of a buffer.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) opcode: u8,
    /// Whether the frame ends its message.
    pub(super) is_final: bool,
    mask: [u8; 4],
    payload: Range<usize>,
}

/// Parses the frame at the start of `bytes`; `None` if more bytes are needed. The error is the code
/// with which to close the connection.
pub(super) fn parse(bytes: &[u8]) -> Result<Option<Frame>, u16> {
    let [first, second, ..] = *bytes else { return Ok(None) };
    let opcode = first & OPCODE_BITS;
    let is_final = first & FINAL_BIT != 0;
    let is_control = opcode & CONTROL_BIT != 0;
    let is_known = matches!(opcode, CONTINUATION..=2 | CLOSE..=PONG);
    if first & RESERVED_BITS != 0 || second & MASK_BIT == 0 || !is_known {
        return Err(PROTOCOL_ERROR);
    }
    let (length, at) = match second & LENGTH_BITS {
        LENGTH_16 => match bytes.get(2..).and_then(<[u8]>::first_chunk) {
            Some(digits) => (usize::from(u16::from_be_bytes(*digits)), 4),
            None => return Ok(None),
        },
        LENGTH_64 => match bytes.get(2..).and_then(<[u8]>::first_chunk) {
            Some(digits) => {
                (usize::try_from(u64::from_be_bytes(*digits)).unwrap_or(usize::MAX), 10)
            }
            None => return Ok(None),
        },
        length => (usize::from(length), 2),
    };
    if is_control && (!is_final || length > CONTROL_BYTES_MAX) {
        return Err(PROTOCOL_ERROR);
    }
    // Rejected by the announced length, before any payload is awaited.
    if length > FRAME_BYTES_MAX {
        return Err(TOO_BIG);
    }
    let Some(mask) = bytes.get(at..).and_then(<[u8]>::first_chunk) else { return Ok(None) };
    let payload = at + mask.len()..at + mask.len() + length;
    if bytes.len() < payload.end {
        return Ok(None);
    }
    Ok(Some(Frame { opcode, is_final, mask: *mask, payload }))
}

impl Frame {
    /// Returns the total length of the frame in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.payload.end
    }

    /// Appends a server frame with this frame's payload and `opcode`.
    pub(super) fn write_back(&self, buffer: &[u8], opcode: u8, out: &mut Vec<u8>) {
        write_start(out, opcode | if self.is_final { FINAL_BIT } else { 0 }, self.payload.len());
        let payload = buffer.get(self.payload.clone()).unwrap_or_default();
        let mask = self.mask.iter().cycle();
        out.extend(payload.iter().zip(mask).map(|(byte, mask)| byte ^ mask));
    }
}

/// Appends a close frame with a status code.
pub(super) fn write_close(out: &mut Vec<u8>, code: u16) {
    write_start(out, CLOSE | FINAL_BIT, 2);
    out.extend_from_slice(&code.to_be_bytes());
}

fn write_start(out: &mut Vec<u8>, first: u8, length: usize) {
    out.push(first);
    match (u8::try_from(length), u16::try_from(length)) {
        (Ok(length), _) if length < LENGTH_16 => out.push(length),
        (_, Ok(length)) => {
            out.push(LENGTH_16);
            out.extend_from_slice(&length.to_be_bytes());
        }
        _ => {
            out.push(LENGTH_64);
            out.extend_from_slice(&(length as u64).to_be_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MASK: [u8; 4] = [1, 2, 3, 4];

    /// Returns a masked frame as a client sends it.
    fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        write_start(&mut bytes, first, payload.len());
        bytes[1] |= MASK_BIT;
        bytes.extend_from_slice(&MASK);
        bytes.extend(payload.iter().zip(MASK.iter().cycle()).map(|(byte, mask)| byte ^ mask));
        bytes
    }

    #[test]
    fn frames_of_every_length_come_back_unmasked() {
        for length in [0, 1, 125, 126, 65_535, 65_536] {
            let payload: Vec<u8> = (0..length).map(|index| index as u8).collect();
            let bytes = frame(0x82, &payload);
            for end in [0, 1, 2, 5, bytes.len() - 1] {
                assert_eq!(parse(&bytes[..end.min(bytes.len() - 1)]), Ok(None), "{length} {end}");
            }
            let parsed = parse(&bytes).expect("valid").expect("whole");
            assert_eq!((parsed.bytes(), parsed.opcode, parsed.is_final), (bytes.len(), 2, true));
            let (mut back, mut expected) = (Vec::new(), Vec::new());
            parsed.write_back(&bytes, 2, &mut back);
            write_start(&mut expected, 0x82, length);
            expected.extend_from_slice(&payload);
            assert_eq!(back, expected, "{length}");
        }
    }

    #[test]
    fn what_the_standard_forbids_closes_the_connection() {
        let unmasked = vec![0x81, 0];
        let mut huge = vec![0x82, 0xff];
        huge.extend_from_slice(&u64::MAX.to_be_bytes());
        for (bytes, code, why) in [
            (unmasked, PROTOCOL_ERROR, "unmasked"),
            (frame(0xc1, b""), PROTOCOL_ERROR, "reserved bit"),
            (frame(0x83, b""), PROTOCOL_ERROR, "unknown opcode"),
            (frame(0x09, b""), PROTOCOL_ERROR, "fragmented ping"),
            (frame(0x89, &[0; 126]), PROTOCOL_ERROR, "long ping"),
            (huge, TOO_BIG, "too long"),
        ] {
            assert_eq!(parse(&bytes), Err(code), "{why}");
        }
    }
}
