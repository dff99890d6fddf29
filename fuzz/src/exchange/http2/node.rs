//! The origin over HTTP/2. It reads the gateway's frames as strictly as over HTTP/1.1, and answers
//! with the frames of an input.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};

use tollhouse_h2::frame::{PREFACE, flag, kind};

use super::super::node::{CONSUMERS, Shared, VICTIM};
use super::super::script::Answer;
use super::spelling::{BODY, REPLY, STREAM};
use super::{
    Frame, FrameReader, Line, check_fields, check_length, value, write_field, write_frame,
};

/// A connection of the gateway that began with the preface.
pub struct Http2Connection<'s> {
    shared: &'s Shared,
    stream: TcpStream,
    reader: FrameReader,
    requests: BTreeMap<u32, Request>,
    last_stream: u32,
}

/// A request that is not answered yet.
#[derive(Default)]
struct Request {
    fields: Vec<Line>,
    body: Vec<u8>,
    answer: Option<Answer>,
}

/// Decision after a step.
enum Step {
    Go,
    End,
}

impl<'s> Http2Connection<'s> {
    /// Creates a connection from which `bytes`, with the preface, have been read.
    pub fn new(shared: &'s Shared, stream: TcpStream, bytes: &[u8]) -> Self {
        let mut reader = FrameReader::lenient();
        reader.feed(&bytes[PREFACE.len()..]);
        Self { shared, stream, reader, requests: BTreeMap::new(), last_stream: 0 }
    }

    /// Serves the connection until its end.
    pub fn serve(mut self) {
        let mut hello = Vec::new();
        write_frame(&mut hello, (kind::SETTINGS, 0), 0, &[]);
        if self.stream.write_all(&hello).is_ok() {
            while let Step::Go = self.turn() {}
        }
        let _ = self.stream.shutdown(Shutdown::Both);
    }

    fn found(&self, finding: String) -> Step {
        self.shared.found(format!("over http/2: {finding}"));
        Step::End
    }

    fn turn(&mut self) -> Step {
        loop {
            let step = match self.reader.next() {
                Ok(Some(frame)) => self.take(frame),
                Ok(None) => break,
                Err(finding) => self.found(finding),
            };
            if let Step::End = step {
                return Step::End;
            }
        }
        let mut bytes = [0; 16 * 1024];
        match self.stream.read(&mut bytes) {
            Ok(0) | Err(_) => Step::End,
            Ok(read) => {
                self.reader.feed(&bytes[..read]);
                Step::Go
            }
        }
    }

    fn take(&mut self, frame: Frame) -> Step {
        match frame {
            Frame::Settings => self.write(&frame_bytes((kind::SETTINGS, flag::ACK), &[])),
            Frame::Ping(payload) => self.write(&frame_bytes((kind::PING, flag::ACK), &payload)),
            Frame::Head { stream, fields, ends } if stream > self.last_stream => {
                self.last_stream = stream;
                if stream % 2 == 0 {
                    return self.found(format!("the gateway opens stream {stream}"));
                }
                self.begin(stream, fields, ends)
            }
            Frame::Head { stream, fields, ends } => {
                let is_known = self.requests.contains_key(&stream);
                if is_known && (!ends || check_fields(&fields).is_err() || has_pseudo(&fields)) {
                    return self.found(format!("no trailers: {fields:?}"));
                }
                self.end(stream)
            }
            Frame::Data { stream, data, ends } => {
                let used = u32::try_from(data.len()).unwrap_or(0).to_be_bytes();
                if let Some(request) = self.requests.get_mut(&stream) {
                    request.body.extend(data);
                }
                if used != [0; 4] {
                    let mut out = frame_bytes((kind::WINDOW_UPDATE, 0), &used);
                    if !ends {
                        write_frame(&mut out, (kind::WINDOW_UPDATE, 0), stream, &used);
                    }
                    let _ = self.stream.write_all(&out);
                }
                if ends { self.end(stream) } else { Step::Go }
            }
            Frame::Reset { stream } => {
                self.requests.remove(&stream);
                Step::Go
            }
            Frame::Goaway(0) | Frame::Other => Step::Go,
            // The node's own errors are intended.
            Frame::Goaway(_) => Step::End,
        }
    }

    fn begin(&mut self, stream: u32, fields: Vec<Line>, ends: bool) -> Step {
        if let Err(finding) = check_request(&fields, self.shared.mark()) {
            return self.found(format!("{finding}: {fields:?}"));
        }
        let mut seen = Vec::new();
        for (name, value) in &fields {
            seen.extend_from_slice(&[name, &b": "[..], value, b"\r\n"].concat());
        }
        self.shared.saw(seen);
        let victim = value(&fields, VICTIM).is_some();
        let answer = if victim { None } else { self.shared.pop_answer() };
        let is_early = answer.as_ref().is_some_and(|answer| answer.is_early);
        self.requests.insert(stream, Request { fields, body: Vec::new(), answer });
        if is_early {
            let step = self.answer(stream);
            if let Step::End = step {
                return Step::End;
            }
        }
        if ends { self.end(stream) } else { Step::Go }
    }

    /// Handles the end of a request.
    fn end(&mut self, stream: u32) -> Step {
        let Some(request) = self.requests.get(&stream) else { return Step::Go };
        if let Err(finding) = request.check_body() {
            return self.found(finding);
        }
        let step = self.answer(stream);
        self.requests.remove(&stream);
        step
    }

    fn answer(&mut self, stream: u32) -> Step {
        let Some(request) = self.requests.get_mut(&stream) else { return Step::Go };
        let answer = request.answer.take();
        let body = match (value(&request.fields, VICTIM), value(&request.fields, STREAM)) {
            (Some(token), _) => [b"token:", token].concat(),
            (None, Some(of)) => [REPLY.as_bytes(), of, b";"].concat(),
            (None, None) => b"ok".to_vec(),
        };
        let is_head = value(&request.fields, ":method") == Some(b"HEAD");
        let frames = answer.as_ref().map_or(&[][..], |answer| &answer.frames[..]);
        if frames.is_empty() {
            let mut out = Vec::new();
            let mut block = Vec::new();
            write_field(&mut block, b":status", b"200", false);
            let ends = u8::from(is_head);
            write_frame(&mut out, (kind::HEADERS, flag::END_HEADERS | ends), stream, &block);
            if !is_head {
                write_frame(&mut out, (kind::DATA, flag::END_STREAM), stream, &body);
            }
            // An early answer would be sent again at the end of the request.
            self.requests.remove(&stream);
            return self.write(&out);
        }
        let answer = answer.unwrap_or_default();
        self.requests.remove(&stream);
        self.play(stream, &answer)
    }

    /// Writes the frames of an answer. An honest node writes the last ones later if the answer is
    /// held back.
    fn play(&mut self, stream: u32, answer: &Answer) -> Step {
        let is_honest = answer.frames.iter().all(|frame| frame.is_honest);
        let held_back = answer.frames.len() * usize::from(answer.held_back) / 256;
        let now = answer.frames.len() - if is_honest { held_back } else { 0 };
        let mut out = Vec::new();
        answer.frames[..now].iter().for_each(|frame| frame.write(&mut out, stream));
        if let Step::End = self.write(&out) {
            return Step::End;
        }
        if now < answer.frames.len() {
            self.shared.wait_for_release();
            out.clear();
            answer.frames[now..].iter().for_each(|frame| frame.write(&mut out, stream));
            if let Step::End = self.write(&out) {
                return Step::End;
            }
        }
        // The rest of an incomplete answer will never follow.
        if answer.frames.last().is_some_and(|frame| frame.ends) {
            return if answer.closes { Step::End } else { Step::Go };
        }
        out.clear();
        write_frame(&mut out, (kind::RST_STREAM, 0), stream, &[0, 0, 0, 2]);
        self.write(&out)
    }

    fn write(&mut self, bytes: &[u8]) -> Step {
        if self.stream.write_all(bytes).is_ok() { Step::Go } else { Step::End }
    }
}

impl Request {
    /// Checks that the body has the length in its head, and belongs to this request.
    fn check_body(&self) -> Result<(), String> {
        check_length(&self.fields, self.body.len())?;
        check_owner(value(&self.fields, STREAM), &self.body)
    }
}

/// Checks that a body which names its stream arrived with the head of that stream.
///
/// # Errors
/// If the body belongs to another stream; the message names it.
pub fn check_owner(stream: Option<&[u8]>, body: &[u8]) -> Result<(), String> {
    let Some(stream) = stream else { return Ok(()) };
    let text = String::from_utf8_lossy(body);
    let own = format!("{};", stream.escape_ascii());
    match text.split(BODY).skip(1).find(|rest| !rest.starts_with(&own)) {
        Some(rest) => Err(format!("the request of stream {own} has a body of another: {rest}")),
        None => Ok(()),
    }
}

/// Checks that a head for a node is valid.
fn check_request(fields: &[Line], mark: Option<&str>) -> Result<(), String> {
    check_fields(fields)?;
    let one = |name: &str| {
        let mut found = fields.iter().filter(|(found, _)| found == name.as_bytes());
        match (found.next(), found.next()) {
            (Some((_, value)), None) => Ok(&value[..]),
            _ => Err(format!("a request must have one {name}")),
        }
    };
    let method = one(":method")?;
    if method.is_empty() || method == b"CONNECT" {
        return Err("a request has an invalid method".to_owned());
    }
    let path = one(":path")?;
    if !path.starts_with(b"/") && path != b"*" {
        return Err("a target is not in origin form".to_owned());
    }
    if path.iter().any(|byte| *byte <= b' ' || *byte == 0x7f) {
        return Err("a target holds a byte that ends it".to_owned());
    }
    one(":scheme")?;
    one(":authority")?;
    if let Some(host) = value(fields, "host")
        && Some(host) != value(fields, ":authority")
    {
        return Err("a request is for two hosts".to_owned());
    }
    for (name, value) in fields {
        let folded: String = name
            .iter()
            .map(|it| if it.is_ascii_alphanumeric() { char::from(*it) } else { '-' })
            .collect();
        let is_identity = folded.starts_with("x-consumer-") || folded.starts_with("x-credential-");
        if is_identity && !CONSUMERS.contains(&value.as_slice()) {
            return Err("a client sets its own identity".to_owned());
        }
    }
    match mark {
        Some(mark) if one("x-mark")? != mark.as_bytes() => {
            Err("a request without the gateway's mark reaches the node".to_owned())
        }
        _ => Ok(()),
    }
}

fn has_pseudo(fields: &[Line]) -> bool {
    fields.iter().any(|(name, _)| name.starts_with(b":"))
}

fn frame_bytes(kind: (u8, u8), payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    write_frame(&mut out, kind, 0, payload);
    out
}
