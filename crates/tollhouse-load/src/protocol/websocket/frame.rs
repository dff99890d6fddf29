//! WebSocket frames (RFC 6455, section 5) for a client: encoder and decoder without I/O or
//! extensions.

/// Size limit of a frame, which is held in memory as a whole.
pub(super) const FRAME_BYTES_MAX: u64 = 16 * 1024 * 1024;

const FINAL_BIT: u8 = 0x80;
const RESERVED_BITS: u8 = 0x70;
const OPCODE_BITS: u8 = 0x0f;
const MASK_BIT: u8 = 0x80;
const LENGTH_BITS: u8 = 0x7f;
/// Length code: the length follows in two bytes.
const LENGTH_16: u8 = 126;
/// Length code: the length follows in eight bytes.
const LENGTH_64: u8 = 127;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Opcode {
    Continuation,
    Text,
    Binary,
    Close,
    Ping,
    Pong,
}

impl Opcode {
    const ALL: [(u8, Opcode); 6] = [
        (0, Opcode::Continuation),
        (1, Opcode::Text),
        (2, Opcode::Binary),
        (8, Opcode::Close),
        (9, Opcode::Ping),
        (10, Opcode::Pong),
    ];

    fn code(self) -> u8 {
        Self::ALL.iter().find(|(_, opcode)| *opcode == self).map_or(0, |(code, _)| *code)
    }
}

/// Frame from a server, at the start of a buffer.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Frame<'a> {
    pub(super) opcode: Opcode,
    /// Whether the frame ends its message.
    pub(super) is_final: bool,
    pub(super) payload: &'a [u8],
    /// Total length of the frame in bytes.
    pub(super) bytes: usize,
}

/// Parses the frame at the start of a buffer; `None` if more bytes are needed.
///
/// # Errors
/// If the frame is invalid or too large.
pub(super) fn parse(buffer: &[u8]) -> Result<Option<Frame<'_>>, String> {
    let Some((&[first, second], rest)) = buffer.split_first_chunk() else { return Ok(None) };
    let code = first & OPCODE_BITS;
    let known = Opcode::ALL.iter().find(|(known, _)| *known == code);
    let Some((_, opcode)) = known.filter(|_| first & RESERVED_BITS == 0) else {
        return Err(format!("a WebSocket frame that begins with {first:#04x}"));
    };
    if second & MASK_BIT != 0 {
        return Err("a masked WebSocket frame from a server".into());
    }
    let (length, rest) = match second & LENGTH_BITS {
        LENGTH_16 => match rest.split_first_chunk() {
            Some((digits, rest)) => (u64::from(u16::from_be_bytes(*digits)), rest),
            None => return Ok(None),
        },
        LENGTH_64 => match rest.split_first_chunk() {
            Some((digits, rest)) => (u64::from_be_bytes(*digits), rest),
            None => return Ok(None),
        },
        length => (u64::from(length), rest),
    };
    if length > FRAME_BYTES_MAX {
        return Err(format!("a WebSocket frame of {length} bytes"));
    }
    // The cast is lossless, because the limit is far below `usize::MAX`.
    let Some(payload) = rest.get(..length as usize) else { return Ok(None) };
    let bytes = buffer.len() - rest.len() + payload.len();
    Ok(Some(Frame { opcode: *opcode, is_final: first & FINAL_BIT != 0, payload, bytes }))
}

/// Appends a complete frame, masked as required of clients.
pub(super) fn put(opcode: Opcode, payload: &[u8], mask: [u8; 4], out: &mut Vec<u8>) {
    out.push(FINAL_BIT | opcode.code());
    match payload.len() {
        length @ 0..=125 => out.push(MASK_BIT | length as u8),
        length @ 126..=0xffff => {
            out.push(MASK_BIT | LENGTH_16);
            out.extend_from_slice(&(length as u16).to_be_bytes());
        }
        length => {
            out.push(MASK_BIT | LENGTH_64);
            out.extend_from_slice(&(length as u64).to_be_bytes());
        }
    }
    out.extend_from_slice(&mask);
    let from = out.len();
    out.extend_from_slice(payload);
    for (index, byte) in out[from..].iter_mut().enumerate() {
        *byte ^= mask[index % mask.len()];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a frame as a server would send it, unmasked.
    fn unmasked(opcode: Opcode, payload: &[u8]) -> Vec<u8> {
        let mut frame = Vec::new();
        put(opcode, payload, [0; 4], &mut frame);
        frame[1] &= !MASK_BIT;
        let at = frame.len() - payload.len();
        frame.drain(at - 4..at);
        frame
    }

    #[test]
    fn frames_of_all_lengths_come_back() {
        for length in [0, 1, 125, 126, 65_535, 65_536] {
            let payload = vec![7; length];
            let frame = unmasked(Opcode::Binary, &payload);
            for cut in [1, 2, 3, frame.len() - 1] {
                if cut < frame.len() {
                    assert_eq!(parse(&frame[..cut]), Ok(None), "{length}: {cut}");
                }
            }
            let parsed = parse(&frame).expect("frame").expect("whole");
            assert_eq!((parsed.payload, parsed.bytes), (&payload[..], frame.len()));
        }
    }

    #[test]
    fn the_example_of_the_standard_is_written() {
        let mut frame = Vec::new();
        put(Opcode::Text, b"Hello", [0x37, 0xfa, 0x21, 0x3d], &mut frame);
        let expected = [0x81, 0x85, 0x37, 0xfa, 0x21, 0x3d, 0x7f, 0x9f, 0x4d, 0x51, 0x58];
        assert_eq!(frame, expected);
    }

    #[test]
    fn what_is_no_frame_of_a_server_is_refused() {
        for frame in
            [&[0xc1, 0][..], &[0x83, 0], &[0x81, 0x80], &[0x82, 127, 1, 0, 0, 0, 0, 0, 0, 0]]
        {
            assert!(parse(frame).is_err(), "{frame:?}");
        }
    }
}
