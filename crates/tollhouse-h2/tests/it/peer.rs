//! A peer that writes any frame, right or wrong, and a record of what the codec made of it.

use tollhouse_h2::frame::{FrameHeader, HEADER_BYTES, PREFACE, flag, kind, write_header};
use tollhouse_h2::{
    Connection, ConnectionError, ErrorCode, Event, Field, FieldSink, HeadKind, Limits, StreamId,
};
use tollhouse_stdx::MemoryBudget;

/// Sizes of the pieces that bytes arrive in: each must make no difference.
pub const PIECES: [usize; 8] = [usize::MAX, 1, 2, 3, 8, 9, 10, 100];

/// Bytes that a peer sends.
#[derive(Default, Clone)]
pub struct Script(pub Vec<u8>);

impl Script {
    /// A client's preface with empty SETTINGS.
    pub fn client() -> Self {
        Self(PREFACE.to_vec()).settings(&[])
    }

    /// A server's empty SETTINGS.
    pub fn server() -> Self {
        Self::default().settings(&[])
    }

    pub fn frame(mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Self {
        let length = payload.len() as u32;
        write_header(&mut self.0, FrameHeader { length, kind, flags, stream });
        self.0.extend_from_slice(payload);
        self
    }

    pub fn raw(mut self, bytes: &[u8]) -> Self {
        self.0.extend_from_slice(bytes);
        self
    }

    pub fn settings(self, entries: &[(u16, u32)]) -> Self {
        let bytes = entries
            .iter()
            .flat_map(|(id, value)| [&id.to_be_bytes()[..], &value.to_be_bytes()].concat());
        let payload: Vec<u8> = bytes.collect();
        self.frame(kind::SETTINGS, 0, 0, &payload)
    }

    pub fn settings_ack(self) -> Self {
        self.frame(kind::SETTINGS, flag::ACK, 0, &[])
    }

    /// HEADERS with END_HEADERS.
    pub fn head(self, stream: u32, flags: u8, block: &[u8]) -> Self {
        self.frame(kind::HEADERS, flags | flag::END_HEADERS, stream, block)
    }

    /// A GET that ends.
    pub fn get(self, stream: u32) -> Self {
        self.head(stream, flag::END_STREAM, &request(&[]))
    }

    /// A POST that goes on.
    pub fn post(self, stream: u32, fields: &[(&str, &str)]) -> Self {
        let mut block = block(&[
            (":method", "POST"),
            (":scheme", "https"),
            (":path", "/"),
            (":authority", "a"),
        ]);
        block.extend(self::block(fields));
        self.head(stream, 0, &block)
    }

    pub fn data(self, stream: u32, flags: u8, data: &[u8]) -> Self {
        self.frame(kind::DATA, flags, stream, data)
    }

    pub fn window_update(self, stream: u32, increment: u32) -> Self {
        self.frame(kind::WINDOW_UPDATE, 0, stream, &increment.to_be_bytes())
    }

    pub fn reset(self, stream: u32) -> Self {
        self.frame(kind::RST_STREAM, 0, stream, &ErrorCode::CANCEL.0.to_be_bytes())
    }
}

/// Fields as literals that no table remembers.
pub fn block(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, value) in fields {
        out.push(0);
        for text in [name, value] {
            if text.len() < 127 {
                out.push(text.len() as u8);
            } else {
                // A prefix of seven bits and two octets are enough for all tests.
                let rest = text.len() - 127;
                out.extend([127, (rest % 128) as u8 | 0x80, (rest / 128) as u8]);
            }
            out.extend_from_slice(text.as_bytes());
        }
    }
    out
}

/// The head of a GET, with more fields.
pub fn request(fields: &[(&str, &str)]) -> Vec<u8> {
    let line = [(":method", "GET"), (":scheme", "https"), (":path", "/"), (":authority", "a")];
    [block(&line), block(fields)].concat()
}

/// A frame that the codec sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    pub kind: u8,
    pub flags: u8,
    pub stream: u32,
    pub payload: Vec<u8>,
}

/// Takes output apart.
pub fn frames(bytes: &[u8]) -> Vec<Frame> {
    let mut rest = bytes.strip_prefix(&PREFACE[..]).unwrap_or(bytes);
    let mut frames = Vec::new();
    while let Some((header, after)) = rest.split_first_chunk::<HEADER_BYTES>() {
        let FrameHeader { length, kind, flags, stream } = FrameHeader::parse(header);
        let (payload, after) = after.split_at(length as usize);
        frames.push(Frame { kind, flags, stream, payload: payload.to_vec() });
        rest = after;
    }
    assert!(rest.is_empty(), "frames are written whole");
    frames
}

/// What the codec told of the bytes, DATA in pieces joined.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Told {
    Request { stream: u32, fields: String, ends: bool },
    Response { stream: u32, status: u16, fields: String, ends: bool },
    Interim { stream: u32, status: u16 },
    Data { stream: u32, data: Vec<u8>, ends: bool },
    Trailers { stream: u32, fields: String },
    Reset { stream: u32, code: ErrorCode },
    GoAway { last_stream: u32, code: ErrorCode },
    Settings,
    Pong([u8; 8]),
}

/// Fields as `name: value` lines.
#[derive(Default)]
pub struct Lines(pub String);

impl FieldSink for Lines {
    fn begin(&mut self, _: StreamId, _: HeadKind) {
        self.0.clear();
    }

    fn field(&mut self, field: Field<'_>) {
        let mark = if field.is_sensitive { "!" } else { "" };
        let name = String::from_utf8_lossy(field.name);
        let value = String::from_utf8_lossy(field.value);
        self.0 += &format!("{mark}{name}: {value}\n");
    }
}

/// A connection under test, and what it told.
pub struct Subject {
    pub connection: Connection,
    pub told: Vec<Told>,
    /// Streams by their numbers.
    pub streams: Vec<StreamId>,
    pub error: Option<ConnectionError>,
    /// All that was written so far.
    pub written: Vec<u8>,
}

impl Subject {
    pub fn server(limits: Limits) -> Self {
        Self::new(Connection::server(limits, &MemoryBudget::unlimited(), 0))
    }

    pub fn client(limits: Limits) -> Self {
        Self::new(Connection::client(limits, &MemoryBudget::unlimited(), 0))
    }

    fn new(connection: Connection) -> Self {
        let (told, streams) = (Vec::new(), Vec::new());
        Self { connection, told, streams, error: None, written: Vec::new() }
    }

    /// The stream with this number.
    pub fn stream(&self, number: u32) -> StreamId {
        *self.streams.iter().find(|id| id.number() == number).expect("the stream was told of")
    }

    /// Feeds bytes in pieces.
    pub fn feed(&mut self, script: &Script, piece: usize) -> &mut Self {
        self.feed_at(script, piece, 0)
    }

    pub fn feed_at(&mut self, script: &Script, piece: usize, now_ms: u64) -> &mut Self {
        let mut lines = Lines::default();
        for bytes in script.0.chunks(piece.min(script.0.len().max(1))) {
            let mut input = bytes;
            loop {
                match self.connection.receive(&mut input, now_ms, &mut lines) {
                    Ok(None) => break,
                    Ok(Some(event)) => self.note(event, &lines.0),
                    Err(error) => {
                        self.error = Some(error);
                        return self;
                    }
                }
            }
            assert!(input.is_empty(), "all bytes are taken");
        }
        self
    }

    fn note(&mut self, event: Event<'_>, fields: &str) {
        let fields = fields.to_owned();
        let told = match event {
            Event::Request { stream, ends } => {
                self.streams.push(stream);
                Told::Request { stream: stream.number(), fields, ends }
            }
            Event::Response { stream, status, ends } => {
                Told::Response { stream: stream.number(), status, fields, ends }
            }
            Event::Interim { stream, status } => Told::Interim { stream: stream.number(), status },
            Event::Data { stream, data, ends } => {
                return self.note_data(stream.number(), data, ends);
            }
            Event::Trailers { stream } => Told::Trailers { stream: stream.number(), fields },
            Event::Reset { stream, code, .. } => Told::Reset { stream: stream.number(), code },
            Event::GoAway { last_stream, code } => Told::GoAway { last_stream, code },
            Event::Settings => Told::Settings,
            Event::Pong { payload } => Told::Pong(payload),
        };
        self.told.push(told);
    }

    fn note_data(&mut self, number: u32, bytes: &[u8], now_ends: bool) {
        if let Some(Told::Data { stream, data, ends: ends @ false }) = self.told.last_mut()
            && *stream == number
        {
            data.extend_from_slice(bytes);
            *ends = now_ends;
            return;
        }
        self.told.push(Told::Data { stream: number, data: bytes.to_vec(), ends: now_ends });
    }

    /// Takes what is to be written.
    pub fn take_output(&mut self) -> Vec<Frame> {
        let bytes = self.connection.output().to_vec();
        self.connection.written(bytes.len());
        self.written.extend_from_slice(&bytes);
        frames(&bytes)
    }
}

/// How a connection reacted to a script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reaction {
    /// Nothing was refused.
    Fine,
    /// RST_STREAM.
    Stream(u32, ErrorCode),
    /// GOAWAY.
    Connection(ErrorCode),
}

/// What the frames that were sent say: the last GOAWAY, else the last RST_STREAM.
pub fn reaction(sent: &[Frame]) -> Reaction {
    let code = |bytes: &[u8]| ErrorCode(u32::from_be_bytes(bytes.try_into().unwrap()));
    let last = |wanted: u8| sent.iter().rfind(|frame| frame.kind == wanted);
    if let Some(frame) = last(kind::GOAWAY) {
        return Reaction::Connection(code(&frame.payload[4..8]));
    }
    match last(kind::RST_STREAM) {
        Some(frame) => Reaction::Stream(frame.stream, code(&frame.payload)),
        None => Reaction::Fine,
    }
}

/// Runs a script against fresh connections, in pieces of every size, and gives the one that all agree
/// with.
pub fn run(make: impl Fn() -> Subject, script: &Script) -> (Subject, Reaction) {
    let run = |piece: usize| {
        let mut subject = make();
        subject.feed(script, piece);
        let sent = subject.take_output();
        (subject, reaction(&sent))
    };
    let (whole, expected) = run(PIECES[0]);
    for piece in &PIECES[1..] {
        let (subject, found) = run(*piece);
        assert_eq!(subject.told, whole.told, "in pieces of {piece}");
        assert_eq!(subject.error, whole.error, "in pieces of {piece}");
        assert_eq!(subject.written, whole.written, "in pieces of {piece}");
        assert_eq!(found, expected, "in pieces of {piece}");
    }
    (whole, expected)
}

/// A server with the default limits that was fed a script.
pub fn serve(script: &Script) -> (Subject, Reaction) {
    run(|| Subject::server(Limits::default()), script)
}
