//! Raw HTTP/2 frames (RFC 9113, section 4.1), as far as attackers and nodes need them: stateless,
//! with literal header fields without Huffman coding.

use std::io::{Read, Result};

pub(crate) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

pub(super) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(super) const RST_STREAM: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
pub(super) const PING: u8 = 6;
pub(super) const GOAWAY: u8 = 7;
pub(super) const WINDOW_UPDATE: u8 = 8;

pub(crate) const ACK: u8 = 1;
pub(crate) const END_STREAM: u8 = 1;
pub(crate) const END_HEADERS: u8 = 4;

/// Default maximum length of a frame payload, in bytes.
pub(super) const FRAME_BYTES_MAX: usize = 16_384;

const HEAD_BYTES: usize = 9;

/// Header of a frame without its length: type, flags and stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) stream: u32,
}

impl Head {
    pub(crate) fn new(kind: u8, flags: u8, stream: u32) -> Self {
        Self { kind, flags, stream }
    }

    /// Appends the frame with its payload.
    pub(crate) fn write(self, payload: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(&(payload.len() as u32).to_be_bytes()[1..]);
        out.extend_from_slice(&[self.kind, self.flags]);
        out.extend_from_slice(&self.stream.to_be_bytes());
        out.extend_from_slice(payload);
    }
}

/// Reads one frame; its payload replaces the content of `payload`.
pub(crate) fn read(from: &mut impl Read, payload: &mut Vec<u8>) -> Result<Head> {
    let mut head = [0; HEAD_BYTES];
    from.read_exact(&mut head)?;
    let [a, b, c, kind, flags, stream @ ..] = head;
    payload.resize(u32::from_be_bytes([0, a, b, c]) as usize, 0);
    from.read_exact(payload)?;
    Ok(Head { kind, flags, stream: u32::from_be_bytes(stream) & 0x7fff_ffff })
}

/// Returns the header block of a POST (RFC 7541): method, scheme and names from the static table,
/// literal values.
pub(crate) fn request_block(path: &str) -> Vec<u8> {
    let mut block = vec![METHOD_POST, SCHEME_HTTP];
    write_literal(&mut block, PATH_NAME, path);
    write_literal(&mut block, AUTHORITY_NAME, "localhost");
    block
}

/// Encoding of `:method: POST`, an entry of HPACK's static table.
const METHOD_POST: u8 = 0x83;
/// Encoding of `:status: 200`, an entry of HPACK's static table.
const STATUS_200: u8 = 0x88;

const SCHEME_HTTP: u8 = 0x86;
const AUTHORITY_NAME: u8 = 1;
const PATH_NAME: u8 = 4;
/// Encoding of the name `content-length`, an entry of HPACK's static table, in a literal field. The
/// index does not fit into the four bits of the first byte.
const CONTENT_LENGTH_NAME: [u8; 2] = [0x0f, 13];

/// Writes a literal field without indexing, with a name index below 15.
fn write_literal(block: &mut Vec<u8>, name: u8, value: &str) {
    block.push(name);
    block.push(value.len() as u8);
    block.extend_from_slice(value.as_bytes());
}

/// Returns the header block of a response with this content length.
pub(super) fn answer_block(length: usize) -> Vec<u8> {
    let mut block = vec![STATUS_200];
    block.extend_from_slice(&CONTENT_LENGTH_NAME);
    let text = length.to_string();
    block.push(text.len() as u8);
    block.extend_from_slice(text.as_bytes());
    block
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let mut bytes = Vec::new();
        let head = Head::new(HEADERS, END_HEADERS, 3);
        head.write(&request_block("/x"), &mut bytes);
        let mut payload = Vec::new();
        assert_eq!(read(&mut bytes.as_slice(), &mut payload).unwrap(), head);
        assert_eq!(payload, b"\x83\x86\x04\x02/x\x01\x09localhost");
        assert_eq!(answer_block(2), b"\x88\x0f\x0d\x012");
    }
}
