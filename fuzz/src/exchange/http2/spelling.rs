//! Frames from codes. A mutation of a code changes a field, a flag or an order more often than a
//! length.

use std::collections::BTreeMap;

use tollhouse_h2::frame::{PREFACE, flag, kind};

use super::{write_field, write_frame};

/// End of a frame within an answer of the node.
const FRAME: u8 = 0xfb;
/// End of a field's name.
const VALUE: u8 = 0xfc;
/// End of a field.
const FIELD: u8 = 0xfd;
/// The first of the bytes that represent words.
const WORDS: u8 = 0x80;

/// Field with the stream of a request; the answer repeats it.
pub const STREAM: &str = "x-s";

/// Text that inputs must not contain, so that it always comes from this program.
pub const SECRET: &[u8] = b"71ac0e";

/// Text before the stream in request bodies that name their stream.
pub const BODY: &str = "s71ac0e-";

/// Text before the stream in the node's own answers.
pub const REPLY: &str = "for71ac0e:";

/// Frames that a client sends.
#[derive(Debug, Default)]
pub struct Attack {
    /// Bytes by write.
    pub pieces: Vec<Vec<u8>>,
    /// Methods by stream with a head; empty if the method is unknown.
    pub methods: BTreeMap<u32, Vec<u8>>,
    /// Whether the client sends its own settings.
    pub has_settings: bool,
}

impl Attack {
    /// Spells the pieces of a client, with one frame each.
    pub fn spell(codes: &[&[u8]]) -> Self {
        let mut attack = Self::default();
        let mut opening = PREFACE.to_vec();
        write_frame(&mut opening, (kind::SETTINGS, 0), 0, &[]);
        write_frame(&mut opening, (kind::SETTINGS, flag::ACK), 0, &[]);
        attack.pieces.push(opening);
        for code in codes {
            attack.add(code);
        }
        attack
    }

    fn add(&mut self, code: &[u8]) {
        let [first, form, code @ ..] = code else { return };
        let stream = 2 * u32::from(first >> 3 & 7) + 1;
        let form = Form(*form);
        let mut out = Vec::new();
        match first & 7 {
            0 => self.head(&mut out, stream, form, &request(b"GET", stream), code),
            1 => self.head(&mut out, stream, form, &request(b"POST", stream), code),
            2 => self.head(&mut out, stream, form, &[], code),
            3 => {
                let own = format!("{BODY}{stream};").into_bytes();
                let data = if form.is_tagged() { own } else { spell(code, CLIENT_WORDS) };
                let (ends, data) = (u8::from(form.ends()), form.pad(data));
                write_frame(&mut out, (kind::DATA, ends | form.padded()), stream, &data);
            }
            4 => {
                let block = block(&[], &fields(code, CLIENT_WORDS), form);
                self.methods.entry(stream).or_default();
                let flags = flag::END_STREAM | flag::END_HEADERS;
                write_frame(&mut out, (kind::HEADERS, flags), stream, &block);
            }
            5 => self.control(&mut out, stream, form, code),
            6 => {
                // Any frame of any length.
                let [kind, flags, payload @ ..] = code else { return };
                self.has_settings |= *kind == kind::SETTINGS;
                if matches!(*kind, kind::HEADERS | kind::CONTINUATION) {
                    self.methods.entry(stream).or_default();
                }
                let stream = if form.0 & 1 == 0 { stream } else { 0 };
                write_frame(&mut out, (*kind, *flags), stream, payload);
            }
            _ => {
                self.methods.entry(stream).or_default();
                let flags = flag::END_HEADERS | u8::from(form.ends());
                write_frame(&mut out, (kind::HEADERS, flags), stream, code);
            }
        }
        match self.pieces.last_mut().filter(|_| form.is_joined()) {
            Some(last) => last.extend(out),
            None => self.pieces.push(out),
        }
    }

    fn head(
        &mut self,
        out: &mut Vec<u8>,
        stream: u32,
        form: Form,
        prelude: &[(&[u8], &[u8])],
        code: &[u8],
    ) {
        let fields = fields(code, CLIENT_WORDS);
        let mut named = prelude.iter().map(|(name, value)| (*name, *value));
        let mut spelt = fields.iter().map(|(name, value)| (&name[..], &value[..]));
        let is_method = |field: &(&[u8], &[u8])| field.0 == b":method";
        let method = named.find(is_method).or_else(|| spelt.find(is_method));
        let method = method.map(|(_, value)| value.to_vec()).unwrap_or_default();
        self.methods.entry(stream).or_insert(method);
        let block = form.pad(block(prelude, &fields, form));
        let ends = u8::from(form.ends()) | form.padded();
        if form.is_split() {
            let (head, rest) = block.split_at(block.len() / 2);
            write_frame(out, (kind::HEADERS, ends), stream, head);
            write_frame(out, (kind::CONTINUATION, flag::END_HEADERS), stream, rest);
        } else {
            write_frame(out, (kind::HEADERS, ends | flag::END_HEADERS), stream, &block);
        }
    }

    fn control(&mut self, out: &mut Vec<u8>, stream: u32, form: Form, code: &[u8]) {
        let word = |at: usize| -> [u8; 4] {
            code.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()).unwrap_or([0, 0, 1, 0])
        };
        match form.0 >> 5 {
            0 => write_frame(out, (kind::RST_STREAM, 0), stream, &[0, 0, 0, 8]),
            1 => write_frame(out, (kind::WINDOW_UPDATE, 0), stream, &word(0)),
            2 => write_frame(out, (kind::WINDOW_UPDATE, 0), 0, &word(0)),
            3 => {
                let id = code.first().map_or(4, |id| id % 10);
                let value = word(1);
                self.has_settings = true;
                write_frame(out, (kind::SETTINGS, 0), 0, &[&[0, id][..], &value].concat());
            }
            4 => write_frame(out, (kind::PING, form.0 & 1), 0, &[7; 8]),
            5 => write_frame(
                out,
                (kind::PRIORITY_UPDATE, 0),
                0,
                &[&[0, 0, 0, stream as u8], code].concat(),
            ),
            6 => write_frame(out, (kind::PRIORITY, 0), stream, &[0, 0, 0, 1, 9]),
            _ => write_frame(out, (kind::GOAWAY, 0), 0, &[0; 8]),
        }
    }
}

/// Form of a frame: its flags, and whether it is joined with the previous one.
#[derive(Clone, Copy)]
struct Form(u8);

impl Form {
    fn ends(self) -> bool {
        self.0 & 1 != 0
    }

    fn is_split(self) -> bool {
        self.0 & 2 != 0
    }

    fn is_padded(self) -> bool {
        self.0 & 4 != 0
    }

    fn is_remembered(self) -> bool {
        self.0 & 8 != 0
    }

    fn is_tagged(self) -> bool {
        self.0 & 8 != 0
    }

    fn is_joined(self) -> bool {
        self.0 & 16 != 0
    }

    fn padded(self) -> u8 {
        if self.is_padded() { flag::PADDED } else { 0 }
    }

    fn pad(self, payload: Vec<u8>) -> Vec<u8> {
        if self.is_padded() { [&[3][..], &payload, &[0; 3]].concat() } else { payload }
    }
}

/// A frame of a node's answer. It is on the stream of the request, except for frames of the
/// connection and frames on streams that were never opened.
#[derive(Debug, Clone)]
pub struct NodeFrame {
    /// Type of the frame. Its stream is [`Self::shift`] above the request's.
    kind: u8,
    flags: u8,
    shift: u32,
    payload: Vec<u8>,
    /// Whether a correct node could send it.
    pub is_honest: bool,
    /// Whether it ends the answer.
    pub ends: bool,
}

impl NodeFrame {
    /// Spells the frames of an answer.
    pub fn spell(code: &[u8]) -> Vec<Self> {
        code.split(|byte| *byte == FRAME).filter_map(Self::spell_one).collect()
    }

    fn spell_one(code: &[u8]) -> Option<Self> {
        let [first, form, code @ ..] = code else { return None };
        let form = Form(*form);
        let ends = u8::from(form.ends());
        let head =
            |prelude: &[(&[u8], &[u8])]| form.pad(block(prelude, &fields(code, NODE_WORDS), form));
        let head_flags = flag::END_HEADERS | form.padded();
        let (kind, flags, payload) = match first & 7 {
            0 => (kind::HEADERS, head_flags | ends, head(&[(b":status", b"200")])),
            1 => (kind::DATA, ends | form.padded(), form.pad(spell(code, NODE_WORDS))),
            2 => (kind::HEADERS, head_flags | flag::END_STREAM, head(&[])),
            3 => (kind::HEADERS, head_flags, head(&[(b":status", b"103")])),
            4 => (kind::HEADERS, head_flags | ends, head(&[])),
            5 => (kind::RST_STREAM, 0, vec![0, 0, 0, code.first().copied().unwrap_or(8)]),
            6 => match form.0 >> 6 {
                0 => {
                    (kind::GOAWAY, 0, vec![0, 0, 0, code.first().copied().unwrap_or(1), 0, 0, 0, 0])
                }
                1 => (kind::SETTINGS, 0, vec![0, code.first().map_or(4, |id| id % 10), 0, 0, 0, 9]),
                2 => (kind::WINDOW_UPDATE, 0, vec![0, 0, 0, code.first().copied().unwrap_or(1)]),
                _ => (kind::PING, form.0 & 1, vec![7; 8]),
            },
            _ => match code {
                [kind, flags, payload @ ..] => (*kind, *flags, payload.to_vec()),
                _ => return None,
            },
        };
        // The higher number avoids streams that the gateway may open later for other requests.
        let shift = if first & 0x80 != 0 && kind != kind::GOAWAY { 1000 } else { 0 };
        Some(Self {
            kind,
            flags,
            shift,
            payload,
            is_honest: matches!(first & 0x87, 0..=3),
            ends: matches!(kind, kind::DATA | kind::HEADERS) && flags & flag::END_STREAM != 0
                || kind == kind::RST_STREAM,
        })
    }

    /// Appends the frame for the request of `stream`.
    pub fn write(&self, out: &mut Vec<u8>, stream: u32) {
        let is_of_connection = matches!(self.kind, kind::GOAWAY | kind::SETTINGS | kind::PING);
        let stream = if is_of_connection { 0 } else { stream + self.shift };
        write_frame(out, (self.kind, self.flags), stream, &self.payload);
    }
}

/// Returns the fields of a well-formed request, with the number of its stream.
fn request(method: &'static [u8], stream: u32) -> [(&'static [u8], &'static [u8]); 5] {
    const STREAMS: [&[u8]; 8] = [b"1", b"3", b"5", b"7", b"9", b"11", b"13", b"15"];
    [
        (b":method", method),
        (b":scheme", b"http"),
        (b":authority", b"a"),
        (b":path", b"/a?q=1"),
        (STREAM.as_bytes(), STREAMS[stream as usize / 2 % 8]),
    ]
}

fn block(prelude: &[(&[u8], &[u8])], fields: &[super::Line], form: Form) -> Vec<u8> {
    let mut block = Vec::new();
    // Pseudo-headers in the code replace those of the prelude.
    for (name, value) in prelude {
        let other = fields.iter().find(|(other, _)| name.starts_with(b":p") && other == name);
        let value = other.map_or(*value, |(_, value)| value);
        write_field(&mut block, name, value, form.is_remembered());
    }
    for (name, value) in fields {
        if !(prelude.len() > 1 && name == b":path") {
            write_field(&mut block, name, value, form.is_remembered());
        }
    }
    block
}

fn fields(code: &[u8], words: &[&[u8]]) -> Vec<super::Line> {
    let spelt = spell(code, words);
    spelt
        .split(|byte| *byte == FIELD)
        .filter(|field| !field.is_empty())
        .map(|field| {
            let mut halves = field.splitn(2, |byte| *byte == VALUE);
            let name = halves.next().unwrap_or_default().to_vec();
            (name, halves.next().unwrap_or_default().to_vec())
        })
        .collect()
}

/// Replaces each byte from [`WORDS`] on with a word; other bytes remain unchanged.
fn spell(code: &[u8], words: &[&[u8]]) -> Vec<u8> {
    super::super::script::spell(code, WORDS, words)
}

const CLIENT_WORDS: &[&[u8]] = &[
    b":method\xfcCONNECT\xfd:protocol\xfcwebsocket\xfd:scheme\xfchttp\xfd\
      :path\xfc/ws\xfd:authority\xfca\xfdsec-websocket-version\xfc13\xfd",
    b":method\xfcPOST\xfd:scheme\xfchttp\xfd:path\xfc/p\xfd:authority\xfca\xfd",
    b":path\xfc/",
    b":path\xfc/%0d%0a?q=",
    b":path\xfc*\xfd",
    b":method\xfcHEAD\xfd",
    b":method\xfcCONNECT\xfd",
    b":method\xfcOPTIONS\xfd",
    b":method\xfc",
    b":scheme\xfchttp\xfd",
    b":scheme\xfchttps\xfd",
    b":authority\xfca\xfd",
    b":authority\xfc",
    b":protocol\xfcwebsocket\xfd",
    b":status\xfc200\xfd",
    b"host\xfca\xfd",
    b"host\xfcb\xfd",
    b"content-length\xfc5\xfd",
    b"content-length\xfc0\xfd",
    b"content-length\xfc",
    b"transfer-encoding\xfcchunked\xfd",
    b"connection\xfcclose\xfd",
    b"connection\xfcupgrade\xfd",
    b"upgrade\xfcwebsocket\xfd",
    b"sec-websocket-version\xfc13\xfd",
    b"sec-websocket-key\xfcdGhlIHNhbXBsZSBub25jZQ==\xfd",
    b"te\xfctrailers\xfd",
    b"te\xfcgzip\xfd",
    b"trailer\xfcx-a\xfd",
    b"expect\xfc100-continue\xfd",
    b"x-consumer-username\xfcroot\xfd",
    b"x_consumer_username\xfcroot\xfd",
    b"x.consumer-groups\xfcroot\xfd",
    b"x-mark\xfcforged\xfd",
    b"x-forwarded-for\xfc1.2.3.4\xfd",
    b"content-type\xfcapplication/json\xfd",
    b"content-type\xfcapplication/grpc\xfd",
    b"content-type\xfcapplication/grpc-web+proto\xfd",
    b"content-type\xfcapplication/grpc-web-text\xfd",
    b"content-type\xfcapplication/x-www-form-urlencoded\xfd",
    b"grpc-timeout\xfc1S\xfd",
    b"accept-encoding\xfcgzip, br\xfd",
    b"cache-control\xfcno-cache\xfd",
    b"authorization\xfcBasic Zm9vOmJhcg==\xfd",
    b"apikey\xfckey-one\xfd",
    b"cookie\xfca=b\xfd",
    b"range\xfcbytes=0-1\xfd",
    b"priority\xfcu=0\xfd",
    b"x-h\xfc",
    b"X-Upper\xfca\xfd",
    b"\xfc",
    b"\xfd",
    b"%0d%0a",
    b"%20HTTP/1.1%0d%0aHost:%20x%0d%0a%0d%0aGET%20/two%20HTTP/1.1%0d%0aHost:%20y%0d%0a%0d%0a",
    b"%3F",
    b"%00",
    b"%2e%2e/",
    b"?q=",
    b"&h=",
    b"\r\n",
    b"GET /two HTTP/1.1\r\nHost: y\r\n\r\n",
    b"0\r\n\r\n",
    b"hello",
    b"{\"a\":1}",
    b"a=1&b=2",
    b"\0\0\0\0\x05hello",
    b"AAAAAAVoZWxsbw==",
];

const NODE_WORDS: &[&[u8]] = &[
    b":status\xfc200\xfd",
    b":status\xfc204\xfd",
    b":status\xfc304\xfd",
    b":status\xfc100\xfd",
    b":status\xfc101\xfd",
    b":status\xfc500\xfd",
    b":status\xfc",
    b"content-length\xfc5\xfd",
    b"content-length\xfc0\xfd",
    b"content-length\xfc40\xfd",
    b"content-length\xfc",
    b"transfer-encoding\xfcchunked\xfd",
    b"connection\xfcclose\xfd",
    b"cache-control\xfcmax-age=60\xfd",
    b"content-type\xfctext/html\xfd",
    b"content-type\xfcapplication/grpc\xfd",
    b"content-encoding\xfcgzip\xfd",
    b"grpc-status\xfc0\xfd",
    b"grpc-status\xfc13\xfd",
    b"grpc-message\xfc%0d%0a\xfd",
    b"set-cookie\xfca=b\xfd",
    b"location\xfc/x\xfd",
    b"trailer\xfcx-t\xfd",
    b"x-t\xfc1\xfd",
    b"x-t\xfc",
    b"\xfc",
    b"\xfd",
    b"\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nforged",
    b"0\r\n\r\n",
    b"hello",
    b"forged",
    b"\0\0\0\0\x05hello",
];
