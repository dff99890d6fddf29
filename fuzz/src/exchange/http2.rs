//! HTTP/2 at both ends of a play: frames of which any may be wrong, and a reader that is stricter
//! than any application. `spelling` turns codes into frames, `client` attacks with them and checks
//! the answers, and `node` is the origin.

pub mod client;
pub mod node;
pub mod spelling;

use tollhouse_h2::frame::{FrameHeader, HEADER_BYTES, PAYLOAD_BYTES_DEFAULT, flag, kind};
use tollhouse_h2::hpack::Decoder;
use tollhouse_h2::{Field, frame};

/// A field's name and value.
pub type Line = (Vec<u8>, Vec<u8>);

/// Limit for the length of a header block from the gateway.
const BLOCK_BYTES_MAX: usize = 512 * 1024;

/// A frame, or a complete head of several frames.
#[derive(Debug, PartialEq, Eq)]
pub enum Frame {
    /// Settings of the peer, which have to be acknowledged.
    Settings,
    /// A head, or trailers.
    Head {
        /// Stream of the head.
        stream: u32,
        /// Fields of the head.
        fields: Vec<Line>,
        /// Whether the stream ends with it.
        ends: bool,
    },
    Data {
        /// Stream of the body.
        stream: u32,
        /// Data without padding.
        data: Vec<u8>,
        /// Whether the stream ends with it.
        ends: bool,
    },
    /// A reset of a stream.
    Reset {
        /// Stream that is reset.
        stream: u32,
    },
    /// A ping with its data.
    Ping([u8; 8]),
    /// End of the connection, with this code.
    Goaway(u32),
    /// A frame that needs no answer.
    Other,
}

/// Reader for the gateway's frames, all of which must be valid.
#[derive(Default)]
pub struct FrameReader {
    buffer: Vec<u8>,
    decoder: Decoder,
    block: Option<Block>,
    has_settings: bool,
    /// Whether the gateway was told other limits than the protocol's defaults.
    is_lenient: bool,
}

/// An incomplete head.
struct Block {
    stream: u32,
    ends: bool,
    bytes: Vec<u8>,
}

impl FrameReader {
    /// Returns a reader for a peer that may have been told to send longer frames and to use a
    /// larger table.
    pub fn lenient() -> Self {
        let mut reader = Self { is_lenient: true, ..Self::default() };
        reader.decoder.set_limit(u32::MAX);
        reader
    }

    /// Appends bytes that were read.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// Returns the next frame, if it is complete.
    ///
    /// # Errors
    /// If a frame is invalid; the message describes it.
    pub fn next(&mut self) -> Result<Option<Frame>, String> {
        loop {
            let Some((bytes, rest)) = self.buffer.split_first_chunk::<HEADER_BYTES>() else {
                return Ok(None);
            };
            let header = FrameHeader::parse(bytes);
            if header.length > PAYLOAD_BYTES_DEFAULT && !self.is_lenient {
                return Err(format!("a frame is too long: {header:?}"));
            }
            let Some(payload) = rest.get(..header.length as usize) else { return Ok(None) };
            let payload = payload.to_vec();
            self.buffer.drain(..HEADER_BYTES + payload.len());
            if let Some(frame) = self.read(header, payload)? {
                return Ok(Some(frame));
            }
        }
    }

    /// Reads a frame; returns `None` for a part of a head that others follow.
    fn read(&mut self, header: FrameHeader, payload: Vec<u8>) -> Result<Option<Frame>, String> {
        if !self.has_settings && (header.kind != kind::SETTINGS || header.has(flag::ACK)) {
            return Err(format!("the first frame is not SETTINGS: {header:?}"));
        }
        self.has_settings = true;
        if self.block.is_some() != (header.kind == kind::CONTINUATION) {
            return Err(format!("a head is interrupted, or goes on without one: {header:?}"));
        }
        if header.has(flag::PADDED) && matches!(header.kind, kind::DATA | kind::HEADERS) {
            return Err("the gateway pads nothing".to_owned());
        }
        let is_of_stream = matches!(
            header.kind,
            kind::DATA | kind::HEADERS | kind::CONTINUATION | kind::RST_STREAM
        );
        let is_of_connection = matches!(header.kind, kind::SETTINGS | kind::PING | kind::GOAWAY);
        if is_of_stream && header.stream == 0 || is_of_connection && header.stream != 0 {
            return Err(format!("a frame is on a wrong stream: {header:?}"));
        }
        let (stream, ends) = (header.stream, header.has(flag::END_STREAM));
        match header.kind {
            kind::HEADERS => {
                let bytes = match header.has(flag::PRIORITY) {
                    true => payload.get(5..).ok_or("a head without its priority")?.to_vec(),
                    false => payload,
                };
                self.block = Some(Block { stream, ends, bytes });
                self.end_block(header)
            }
            kind::CONTINUATION => {
                let block = self.block.as_mut().ok_or("seen above")?;
                if block.stream != stream {
                    return Err("a head goes on in another stream".to_owned());
                }
                block.bytes.extend(payload);
                if block.bytes.len() > BLOCK_BYTES_MAX {
                    return Err("a head has no end".to_owned());
                }
                self.end_block(header)
            }
            kind::DATA => Ok(Some(Frame::Data { stream, data: payload, ends })),
            kind::RST_STREAM => Ok(Some(Frame::Reset { stream })),
            kind::SETTINGS if header.has(flag::ACK) => Ok(Some(Frame::Other)),
            kind::SETTINGS => Ok(Some(Frame::Settings)),
            kind::PING if header.has(flag::ACK) => Ok(Some(Frame::Other)),
            kind::PING => payload
                .try_into()
                .map(|payload| Some(Frame::Ping(payload)))
                .map_err(|_| "a PING does not have eight bytes".to_owned()),
            kind::GOAWAY => match payload.get(4..8).and_then(|code| code.try_into().ok()) {
                Some(code) => Ok(Some(Frame::Goaway(u32::from_be_bytes(code)))),
                None => Err("a GOAWAY is cut".to_owned()),
            },
            kind::WINDOW_UPDATE => Ok(Some(Frame::Other)),
            _ => Err(format!("the gateway sends an unknown frame: {header:?}")),
        }
    }

    fn end_block(&mut self, header: FrameHeader) -> Result<Option<Frame>, String> {
        if !header.has(flag::END_HEADERS) {
            return Ok(None);
        }
        let Some(Block { stream, ends, bytes }) = self.block.take() else { return Ok(None) };
        let mut fields = Vec::new();
        let mut keep = |field: Field<'_>| fields.push((field.name.to_vec(), field.value.to_vec()));
        self.decoder.decode(&bytes, &mut keep).map_err(|error| format!("a head: {error:?}"))?;
        Ok(Some(Frame::Head { stream, fields, ends }))
    }
}

/// Checks that the fields of a head are valid, at either end.
///
/// # Errors
/// If a field is invalid; the message names it.
pub fn check_fields(fields: &[Line]) -> Result<(), String> {
    let mut is_behind_regular = false;
    for (name, value) in fields {
        let shown = name.escape_ascii();
        let bare = name.strip_prefix(b":").unwrap_or(name);
        let is_token = |byte: &u8| {
            byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"!#$%&'*+-.^_`|~".contains(byte)
        };
        if bare.is_empty() || !bare.iter().all(is_token) {
            return Err(format!("a field has the name {shown}"));
        }
        if value.iter().any(|byte| matches!(byte, b'\r' | b'\n' | 0)) {
            return Err(format!("the value of {shown} holds a byte that ends it"));
        }
        if name.len() == bare.len() {
            is_behind_regular = true;
        } else if is_behind_regular {
            return Err(format!("{shown} follows other fields"));
        }
        let is_of_connection = [
            &b"connection"[..],
            b"keep-alive",
            b"proxy-connection",
            b"transfer-encoding",
            b"upgrade",
        ]
        .contains(&&name[..]);
        if is_of_connection || name == b"te" && value != b"trailers" {
            return Err(format!("{shown} belongs to the connection"));
        }
    }
    Ok(())
}

/// Returns the value of the first field named `name`.
pub fn value<'f>(fields: &'f [Line], name: &str) -> Option<&'f [u8]> {
    let found = fields.iter().find(|(found, _)| found == name.as_bytes());
    found.map(|(_, value)| &value[..])
}

/// Checks that a body of `bytes` has the length in its head.
///
/// # Errors
/// If the length differs.
pub fn check_length(fields: &[Line], bytes: usize) -> Result<(), String> {
    match value(fields, "content-length") {
        Some(told) if told != bytes.to_string().as_bytes() => {
            Err(format!("a body of {bytes} bytes is said to have {}", told.escape_ascii()))
        }
        _ => Ok(()),
    }
}

/// Appends a frame.
pub fn write_frame(out: &mut Vec<u8>, (kind, flags): (u8, u8), stream: u32, payload: &[u8]) {
    let length = u32::try_from(payload.len()).unwrap_or(u32::MAX);
    frame::write_header(out, FrameHeader { length, kind, flags, stream });
    out.extend_from_slice(payload);
}

/// Appends a field with any bytes to a block, as a literal without Huffman coding.
pub fn write_field(block: &mut Vec<u8>, name: &[u8], value: &[u8], is_remembered: bool) {
    block.push(if is_remembered { 0x40 } else { 0 });
    for text in [name, value] {
        write_integer(block, text.len());
        block.extend_from_slice(text);
    }
}

/// Appends an integer with a prefix of seven bits (RFC 7541 §5.1).
fn write_integer(block: &mut Vec<u8>, value: usize) {
    if value < 127 {
        block.push(value as u8);
        return;
    }
    block.push(127);
    let mut rest = value - 127;
    while rest >= 128 {
        block.push((rest % 128) as u8 | 0x80);
        rest /= 128;
    }
    block.push(rest as u8);
}
