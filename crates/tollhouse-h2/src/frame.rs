//! Frames as bytes (RFC 9113 §4, §6): reads frame headers and writes all frames.
//!
//! The handling of frames is in `connection`; this module keeps no state.

use crate::ErrorCode;
use crate::settings::Settings;

/// The bytes a client connection begins with (RFC 9113 §3.4).
pub const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Size of a frame header in bytes.
pub const HEADER_BYTES: usize = 9;

/// Largest payload by default, and the smallest value of SETTINGS_MAX_FRAME_SIZE.
pub const PAYLOAD_BYTES_DEFAULT: u32 = 16_384;

/// Maximum value of SETTINGS_MAX_FRAME_SIZE in bytes.
pub const PAYLOAD_BYTES_MAX: u32 = (1 << 24) - 1;

/// Largest flow-control window, and largest stream identifier.
pub const U31_MAX: u32 = (1 << 31) - 1;

/// Frame types (RFC 9113 §6, RFC 9218 §7.1).
#[expect(missing_docs, reason = "each is the frame of that name")]
pub mod kind {
    pub const DATA: u8 = 0x0;
    pub const HEADERS: u8 = 0x1;
    pub const PRIORITY: u8 = 0x2;
    pub const RST_STREAM: u8 = 0x3;
    pub const SETTINGS: u8 = 0x4;
    pub const PUSH_PROMISE: u8 = 0x5;
    pub const PING: u8 = 0x6;
    pub const GOAWAY: u8 = 0x7;
    pub const WINDOW_UPDATE: u8 = 0x8;
    pub const CONTINUATION: u8 = 0x9;
    pub const PRIORITY_UPDATE: u8 = 0x10;
}

/// Flags in the header of a frame (RFC 9113 §6).
#[expect(missing_docs, reason = "each is the flag of that name")]
pub mod flag {
    pub const END_STREAM: u8 = 0x1;
    pub const ACK: u8 = 0x1;
    pub const END_HEADERS: u8 = 0x4;
    pub const PADDED: u8 = 0x8;
    pub const PRIORITY: u8 = 0x20;
}

/// The nine bytes before every payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameHeader {
    /// Length of the payload in bytes.
    pub length: u32,
    /// A constant of [`kind`], or the type of an extension frame.
    pub kind: u8,
    /// Combination of the constants in [`flag`].
    pub flags: u8,
    /// The stream; 0 for the connection.
    pub stream: u32,
}

impl FrameHeader {
    /// Returns the header of a frame without flags and payload.
    pub(crate) fn new(kind: u8, stream: u32) -> Self {
        Self { length: 0, kind, flags: 0, stream }
    }

    /// Parses a header; the reserved bit is ignored.
    #[inline]
    pub fn parse(bytes: &[u8; HEADER_BYTES]) -> Self {
        let [l0, l1, l2, kind, flags, s0, s1, s2, s3] = *bytes;
        Self {
            length: u32::from_be_bytes([0, l0, l1, l2]),
            kind,
            flags,
            stream: u32::from_be_bytes([s0, s1, s2, s3]) & U31_MAX,
        }
    }

    /// Encodes the header.
    ///
    /// # Panics
    /// If `length` needs more than 24 bits: the frame would get a different length.
    #[inline]
    pub fn to_bytes(self) -> [u8; HEADER_BYTES] {
        assert!(self.length <= PAYLOAD_BYTES_MAX, "a payload has at most 2^24 - 1 bytes");
        let [_, l0, l1, l2] = self.length.to_be_bytes();
        let [s0, s1, s2, s3] = self.stream.to_be_bytes();
        [l0, l1, l2, self.kind, self.flags, s0, s1, s2, s3]
    }

    /// Whether all bits of `flag` are set.
    #[inline]
    pub fn has(self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// Appends the nine bytes of a frame header.
#[inline]
pub fn write_header(out: &mut Vec<u8>, header: FrameHeader) {
    out.extend_from_slice(&header.to_bytes());
}

/// Appends a frame with a short, fixed payload, whose length replaces that of the header.
fn write_fixed<const BYTES: usize>(out: &mut Vec<u8>, header: FrameHeader, payload: [u8; BYTES]) {
    write_header(out, FrameHeader { length: BYTES as u32, ..header });
    out.extend_from_slice(&payload);
}

/// Appends a RST_STREAM frame with an error code.
pub fn write_reset(out: &mut Vec<u8>, stream: u32, code: ErrorCode) {
    write_fixed(out, FrameHeader::new(kind::RST_STREAM, stream), code.0.to_be_bytes());
}

/// Appends a WINDOW_UPDATE frame; `stream` 0 is the connection.
pub fn write_window_update(out: &mut Vec<u8>, stream: u32, increment: u32) {
    debug_assert!(0 < increment && increment <= U31_MAX, "an increment of 31 bits");
    write_fixed(out, FrameHeader::new(kind::WINDOW_UPDATE, stream), increment.to_be_bytes());
}

/// Appends a PING frame; with [`flag::ACK`], the reply to one.
pub fn write_ping(out: &mut Vec<u8>, flags: u8, payload: [u8; 8]) {
    write_fixed(out, FrameHeader { flags, ..FrameHeader::new(kind::PING, 0) }, payload);
}

/// Appends a GOAWAY frame with debug text for people who read logs.
pub fn write_goaway(out: &mut Vec<u8>, last_stream: u32, code: ErrorCode, text: &str) {
    let length = 8 + text.len() as u32;
    write_header(out, FrameHeader { length, kind: kind::GOAWAY, flags: 0, stream: 0 });
    out.extend_from_slice(&last_stream.to_be_bytes());
    out.extend_from_slice(&code.0.to_be_bytes());
    out.extend_from_slice(text.as_bytes());
}

/// Appends a SETTINGS frame with all settings that differ from the defaults.
pub fn write_settings(out: &mut Vec<u8>, settings: &Settings) {
    let start = out.len();
    write_header(out, FrameHeader::new(kind::SETTINGS, 0));
    settings.write(out);
    let length = (out.len() - start - HEADER_BYTES) as u32;
    let header = FrameHeader { length, kind: kind::SETTINGS, flags: 0, stream: 0 };
    out[start..start + HEADER_BYTES].copy_from_slice(&header.to_bytes());
}

/// Appends a SETTINGS frame with the ACK flag.
pub fn write_settings_ack(out: &mut Vec<u8>) {
    write_header(out, FrameHeader { flags: flag::ACK, ..FrameHeader::new(kind::SETTINGS, 0) });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_read_as_written_but_for_the_reserved_bit() {
        let header = FrameHeader { length: 0x01_0203, kind: 9, flags: 0x2d, stream: U31_MAX };
        let mut bytes = header.to_bytes();
        assert_eq!(FrameHeader::parse(&bytes), header);
        bytes[5] |= 0x80;
        assert_eq!(FrameHeader::parse(&bytes), header);
    }

    #[test]
    #[should_panic = "at most 2^24 - 1"]
    fn a_length_beyond_24_bits_is_never_written() {
        FrameHeader { length: 1 << 24, kind: 0, flags: 0, stream: 1 }.to_bytes();
    }

    #[test]
    fn frames_have_the_lengths_that_they_announce() {
        let mut out = Vec::new();
        write_reset(&mut out, 1, ErrorCode::CANCEL);
        write_window_update(&mut out, 0, 7);
        write_ping(&mut out, flag::ACK, *b"12345678");
        write_goaway(&mut out, 5, ErrorCode::NO_ERROR, "bye");
        write_settings(&mut out, &Settings { connect_protocol: true, ..Settings::default() });
        write_settings_ack(&mut out);
        let mut kinds = Vec::new();
        let mut rest = &out[..];
        while let Some((bytes, after)) = rest.split_first_chunk::<HEADER_BYTES>() {
            let header = FrameHeader::parse(bytes);
            kinds.push((header.kind, header.length));
            rest = &after[header.length as usize..];
        }
        assert_eq!(kinds, [(3, 4), (8, 4), (6, 8), (7, 11), (4, 6), (4, 0)]);
    }
}
