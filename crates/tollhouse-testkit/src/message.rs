//! HTTP/1 message with a separate parser, so that tests do not read responses with the code under
//! test.
//!
//! The parser is strict where tests need it: chunked framing must be exact, and lines must end in
//! CR LF.

use std::io;

use crate::wire::Wire;

/// Request at an origin, or response at a client. Bytes of the head are decoded as Latin-1, so that
/// each is preserved.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Message {
    /// Start line without its line end.
    pub start_line: String,
    /// Names and values of the header fields as sent.
    pub fields: Vec<(String, String)>,
    /// Body, with chunked framing removed.
    pub body: Vec<u8>,
    /// Names and values of the trailer fields.
    pub trailers: Vec<(String, String)>,
}

/// Framing of a body whose head has no length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// A request without a length has no body.
    Request,
    /// A response without a length ends with the connection.
    Answer,
    /// A response to HEAD never has a body.
    AnswerToHead,
}

impl Message {
    /// Reads a message; `None` if the stream ends before its first byte.
    ///
    /// # Errors
    ///
    /// If it is incomplete, malformed or not received in time.
    pub fn read(wire: &mut Wire, side: Side) -> io::Result<Option<Message>> {
        let Some(mut message) = Self::read_head(wire)? else { return Ok(None) };
        message.read_body(wire, side)?;
        Ok(Some(message))
    }

    /// Reads only the head.
    ///
    /// # Errors
    ///
    /// As [`Self::read`].
    pub fn read_head(wire: &mut Wire) -> io::Result<Option<Message>> {
        let Some(head) = wire.take_through(b"\r\n\r\n")? else { return Ok(None) };
        let head: String = head.into_iter().map(char::from).collect();
        let mut lines = head.split("\r\n");
        let start_line = lines.next().unwrap_or_default().to_owned();
        let fields = lines.filter(|line| !line.is_empty()).map(field).collect::<io::Result<_>>()?;
        Ok(Some(Message { start_line, fields, ..Message::default() }))
    }

    /// Reads the body that belongs to the head.
    ///
    /// # Errors
    ///
    /// As [`Self::read`].
    pub fn read_body(&mut self, wire: &mut Wire, side: Side) -> io::Result<()> {
        if side == Side::AnswerToHead || side == Side::Answer && self.is_bodiless_answer() {
            return Ok(());
        }
        if self.field("transfer-encoding").is_some() {
            return self.read_chunks(wire);
        }
        if let Some(length) = self.field("content-length") {
            let length = length.parse().map_err(|_| bad("content-length"))?;
            self.body = wire.take(length)?;
            return Ok(());
        }
        if side == Side::Answer {
            self.body = wire.take_all()?;
        }
        Ok(())
    }

    fn is_bodiless_answer(&self) -> bool {
        matches!(self.status(), 100..=199 | 204 | 304)
    }

    fn read_chunks(&mut self, wire: &mut Wire) -> io::Result<()> {
        loop {
            let size = read_chunk_size(wire)?;
            if size == 0 {
                break;
            }
            self.body.extend(wire.take(size)?);
            if wire.take(2)? != b"\r\n" {
                return Err(bad("end of chunk"));
            }
        }
        loop {
            let line = wire.take_through(b"\r\n")?.ok_or_else(|| bad("trailers"))?;
            if line == b"\r\n" {
                return Ok(());
            }
            let line = String::from_utf8_lossy(&line).into_owned();
            self.trailers.push(field(line.trim_end_matches("\r\n"))?);
        }
    }

    /// Returns the status of a response; 0 if it is malformed.
    pub fn status(&self) -> u16 {
        self.word(1).parse().unwrap_or(0)
    }

    /// Returns the method of a request.
    pub fn method(&self) -> &str {
        self.word(0)
    }

    /// Returns the target of a request.
    pub fn target(&self) -> &str {
        self.word(1)
    }

    fn word(&self, index: usize) -> &str {
        self.start_line.split(' ').nth(index).unwrap_or_default()
    }

    /// Returns the first value of a field; names ignore case.
    pub fn field(&self, name: &str) -> Option<&str> {
        self.all(name).first().copied()
    }

    /// Returns all values of a field; names ignore case.
    pub fn all(&self, name: &str) -> Vec<&str> {
        let same = self.fields.iter().filter(|(other, _)| other.eq_ignore_ascii_case(name));
        same.map(|(_, value)| value.as_str()).collect()
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// Reads the size line of a chunk.
///
/// # Errors
///
/// If the line is not a size.
pub fn read_chunk_size(wire: &mut Wire) -> io::Result<usize> {
    let line = wire.take_through(b"\r\n")?.ok_or_else(|| bad("chunk size"))?;
    let text = String::from_utf8_lossy(&line[..line.len() - 2]).into_owned();
    let digits = text.split(';').next().unwrap_or_default();
    usize::from_str_radix(digits, 16).map_err(|_| bad("chunk size"))
}

fn field(line: &str) -> io::Result<(String, String)> {
    let (name, value) = line.split_once(':').ok_or_else(|| bad("header line"))?;
    if line.contains(['\r', '\n']) {
        return Err(bad("line end"));
    }
    Ok((name.to_owned(), value.trim().to_owned()))
}

fn bad(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("bad {what}"))
}
