//! The client that attacks with frames, the checks of what it reads, and the client that comes
//! after it.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;

use tollhouse_h2::frame::{PREFACE, flag, kind};

use super::spelling::{Attack, REPLY};
use super::{
    Frame, FrameReader, Line, check_fields, check_length, value, write_field, write_frame,
};

/// Everything that an HTTP/2 client has read.
#[derive(Debug, Default)]
pub struct Streams {
    /// Answers by stream.
    by_stream: BTreeMap<u32, Answer>,
    /// Violations that were found.
    pub findings: Vec<String>,
    /// Whether no more answers can follow.
    is_over: bool,
}

/// Answer on one stream.
#[derive(Debug, Default)]
pub struct Answer {
    status: u16,
    head: Vec<Line>,
    body: Vec<u8>,
    /// Whether the answer was marked as complete.
    is_whole: bool,
    is_reset: bool,
}

impl Answer {
    fn has_ended(&self) -> bool {
        self.is_whole || self.is_reset
    }
}

/// Sends an attack, and reads until every request is answered or no more bytes arrive.
pub fn attack(stream: &mut TcpStream, attack: &Attack) -> Streams {
    for piece in attack.pieces.iter().filter(|piece| !piece.is_empty()) {
        if stream.write_all(piece).is_err() {
            break;
        }
    }
    let reader = if attack.has_settings { FrameReader::lenient() } else { FrameReader::default() };
    listen(stream, reader, &attack.methods)
}

/// Sends one valid request with `lines` after its head.
pub fn ask(stream: &mut TcpStream, path: &str, lines: &[(&str, &str)]) {
    let mut out = PREFACE.to_vec();
    write_frame(&mut out, (kind::SETTINGS, 0), 0, &[]);
    let mut block = Vec::new();
    let head = [
        (":method", "GET"),
        (":scheme", "http"),
        (":authority", "victim.example"),
        (":path", path),
    ];
    for (name, value) in head.iter().chain(lines) {
        write_field(&mut block, name.as_bytes(), value.as_bytes(), false);
    }
    write_frame(&mut out, (kind::HEADERS, flag::END_HEADERS | flag::END_STREAM), 1, &block);
    let _ = stream.write_all(&out);
}

/// Reads the answer to [`ask`].
pub fn hear(stream: &mut TcpStream) -> Streams {
    listen(stream, FrameReader::default(), &BTreeMap::from([(1, b"GET".to_vec())]))
}

fn listen(
    stream: &mut TcpStream,
    mut reader: FrameReader,
    methods: &BTreeMap<u32, Vec<u8>>,
) -> Streams {
    let mut streams = Streams::default();
    let mut bytes = [0; 16 * 1024];
    while !streams.is_answered(methods) {
        let read = match stream.read(&mut bytes) {
            Ok(0) => break,
            Ok(read) => read,
            // The fuzzer's own alarm signal interrupts reads.
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(_) => break,
        };
        reader.feed(&bytes[..read]);
        loop {
            match reader.next() {
                Ok(Some(frame)) => {
                    if matches!(frame, Frame::Settings) {
                        let _ = stream.write_all(&[0, 0, 0, kind::SETTINGS, flag::ACK, 0, 0, 0, 0]);
                    }
                    if let Err(finding) = streams.take(frame, methods) {
                        streams.findings.push(finding);
                        return streams;
                    }
                }
                Ok(None) => break,
                Err(finding) => {
                    streams.findings.push(finding);
                    return streams;
                }
            }
        }
    }
    streams
}

impl Streams {
    fn is_answered(&self, methods: &BTreeMap<u32, Vec<u8>>) -> bool {
        let has_ended = |stream| self.by_stream.get(stream).is_some_and(Answer::has_ended);
        self.is_over || !methods.is_empty() && methods.keys().all(has_ended)
    }

    fn take(&mut self, frame: Frame, methods: &BTreeMap<u32, Vec<u8>>) -> Result<(), String> {
        let stream = match &frame {
            Frame::Head { stream, .. } | Frame::Data { stream, .. } | Frame::Reset { stream } => {
                *stream
            }
            Frame::Goaway(_) => {
                self.is_over = true;
                return Ok(());
            }
            Frame::Settings | Frame::Ping(_) | Frame::Other => return Ok(()),
        };
        let is_reset = matches!(frame, Frame::Reset { .. });
        // Frames that are refused without a request may have been DATA.
        if !methods.contains_key(&stream) && !is_reset {
            return Err(format!("an answer to nothing on stream {stream}"));
        }
        let answer = self.by_stream.entry(stream).or_default();
        if answer.has_ended() && !is_reset {
            return Err(format!("more follows the answer of stream {stream}"));
        }
        match frame {
            Frame::Reset { .. } => answer.is_reset = true,
            Frame::Data { .. } if answer.status == 0 => {
                return Err(format!("stream {stream} has a body and no head"));
            }
            Frame::Data { data, ends, .. } => {
                answer.body.extend(data);
                answer.is_whole = ends;
            }
            Frame::Head { fields, ends, .. } => answer.take_head(stream, fields, ends)?,
            Frame::Goaway(_) | Frame::Settings | Frame::Ping(_) | Frame::Other => {}
        }
        if !answer.is_whole {
            return Ok(());
        }
        let method = methods.get(&stream).map_or(&b""[..], Vec::as_slice);
        answer.check(method).map_err(|finding| format!("stream {stream}: {finding}"))
    }

    /// Checks that each stream got its own answer from the node.
    ///
    /// # Errors
    /// If a stream got the answer of another one; the message names the stream.
    pub fn check_owners(&self) -> Result<(), String> {
        for (stream, answer) in &self.by_stream {
            let text = String::from_utf8_lossy(&answer.body);
            if let Some(rest) = text.split(REPLY).nth(1)
                && !rest.starts_with(&format!("{stream};"))
            {
                return Err(format!("stream {stream} reads the answer of another: {text}"));
            }
        }
        Ok(())
    }

    /// Returns the status and body of the only answer to a client that comes after an attack.
    ///
    /// # Errors
    /// If a complete answer is missing.
    pub fn only(&self) -> Result<(u16, &[u8]), String> {
        match self.by_stream.get(&1) {
            Some(answer) if answer.is_whole => Ok((answer.status, &answer.body)),
            other => Err(format!("a client after the attack is left without an answer: {other:?}")),
        }
    }
}

impl Answer {
    /// Takes the head of an interim answer or of the answer, or trailers.
    fn take_head(&mut self, stream: u32, fields: Vec<Line>, ends: bool) -> Result<(), String> {
        check_fields(&fields).map_err(|finding| format!("stream {stream}: {finding}"))?;
        let pseudo: Vec<_> = fields.iter().filter(|(name, _)| name.starts_with(b":")).collect();
        if self.status != 0 {
            self.is_whole = ends;
            return match (pseudo.is_empty(), ends) {
                (true, true) => Ok(()),
                _ => Err(format!("stream {stream} has invalid trailers: {fields:?}")),
            };
        }
        let [(name, told)] = &pseudo[..] else {
            return Err(format!("stream {stream} must have one status: {fields:?}"));
        };
        let status = std::str::from_utf8(told).ok().and_then(|told| told.parse().ok());
        match status.filter(|status| name == b":status" && (100..1000).contains(status)) {
            Some(101) => Err(format!("stream {stream} switches protocols")),
            Some(100..200) if ends => Err(format!("stream {stream} ends with an interim answer")),
            Some(100..200) => Ok(()),
            Some(status) => {
                self.status = status;
                self.head = fields;
                self.is_whole = ends;
                Ok(())
            }
            None => Err(format!("stream {stream} has an invalid status: {pseudo:?}")),
        }
    }

    /// Checks that a complete answer has the body that its head describes.
    fn check(&self, method: &[u8]) -> Result<(), String> {
        if method.is_empty() {
            return Ok(());
        }
        let has_none = method == b"HEAD" || matches!(self.status, 204 | 304);
        if has_none {
            return if self.body.is_empty() { Ok(()) } else { Err("it has a body".to_owned()) };
        }
        if value(&self.head, "content-length").is_some() && method != b"CONNECT" {
            return check_length(&self.head, self.body.len());
        }
        Ok(())
    }
}
