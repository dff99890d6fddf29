//! Writer of heads from checked elements; every head that the gateway sends is written here.
//!
//! Lines of a parsed head are copied in runs from the bytes they were read from, because the parser
//! has checked them. Framing fields are never copied but written anew.

use crate::element::{Authority, FieldName, FieldValue, Method, OriginForm, Status};
use crate::{Field, Fields, Known, ResponseHead};

use tollhouse_stdx::hex;

const CRLF: &[u8] = b"\r\n";

/// Line of a trace context with zeros in the place of its ids, and the positions of its parts.
const TRACEPARENT: &[u8; 70] =
    b"traceparent: 00-00000000000000000000000000000000-0000000000000000-00\r\n";
const TRACE_ID_AT: usize = 16;
const SPAN_ID_AT: usize = 49;
const SAMPLED_AT: usize = 67;

/// Ids of a trace context.
#[derive(Debug, Clone, Copy)]
pub struct TraceIds<'a> {
    pub trace_id: &'a [u8; 16],
    pub span_id: &'a [u8; 8],
    pub is_sampled: bool,
}

/// Declared length of the body after a head.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Framing {
    /// The head declares no length: no body follows, or it ends with the connection.
    #[default]
    Omitted,
    Length(u64),
    Chunked,
}

/// A head that is being written to a buffer.
#[derive(Debug)]
#[must_use = "a head ends with `end`"]
pub struct HeadWriter<'o> {
    out: &'o mut Vec<u8>,
}

impl<'o> HeadWriter<'o> {
    /// Begins a request with its request line and `Host`.
    #[inline]
    pub fn request(
        out: &'o mut Vec<u8>,
        method: Method<'_>,
        target: OriginForm<'_>,
        host: Authority<'_>,
    ) -> Self {
        out.extend_from_slice(method.as_bytes());
        out.push(b' ');
        target.write(out);
        out.extend_from_slice(b" HTTP/1.1\r\nHost: ");
        out.extend_from_slice(host.as_bytes());
        out.extend_from_slice(CRLF);
        Self { out }
    }

    /// Begins a response with its status line.
    pub fn response(out: &'o mut Vec<u8>, status: Status, reason: FieldValue<'_>) -> Self {
        out.extend_from_slice(b"HTTP/1.1 ");
        write_decimal(out, u64::from(status.number()));
        out.push(b' ');
        out.extend_from_slice(reason.as_bytes());
        out.extend_from_slice(CRLF);
        Self { out }
    }

    /// Begins a response with the status and reason of `head`, which was parsed from `buffer`. The
    /// version is HTTP/1.1 even if the sender spoke HTTP/1.0.
    #[inline]
    pub fn relayed(out: &'o mut Vec<u8>, head: &ResponseHead, buffer: &[u8]) -> Self {
        out.extend_from_slice(b"HTTP/1.1");
        out.extend_from_slice(&buffer[b"HTTP/1.1".len()..head.fields_start]);
        Self { out }
    }

    #[inline]
    pub fn field(&mut self, name: FieldName<'_>, value: FieldValue<'_>) -> &mut Self {
        self.open(name);
        self.out.extend_from_slice(value.as_bytes());
        self.out.extend_from_slice(CRLF);
        self
    }

    /// Writes a header line with a number.
    #[inline]
    pub fn number(&mut self, name: FieldName<'_>, number: u64) -> &mut Self {
        self.open(name);
        write_decimal(self.out, number);
        self.out.extend_from_slice(CRLF);
        self
    }

    /// Writes a header line with a comma-separated list.
    pub fn list<'v>(
        &mut self,
        name: FieldName<'_>,
        values: impl Iterator<Item = FieldValue<'v>>,
    ) -> &mut Self {
        self.open(name);
        for (index, value) in values.enumerate() {
            if index > 0 {
                self.out.extend_from_slice(b", ");
            }
            self.out.extend_from_slice(value.as_bytes());
        }
        self.out.extend_from_slice(CRLF);
        self
    }

    /// Copies the lines of `fields` for which `keeps` holds, in order and in as few pieces as
    /// possible. `head` is the text that they were parsed from, final empty line included.
    #[inline]
    pub fn copied(
        &mut self,
        fields: &Fields,
        head: &[u8],
        keeps: impl Fn(&Field) -> bool,
    ) -> &mut Self {
        let mut run_start = None;
        for field in fields.iter() {
            let line_start = field.name().start as usize;
            let is_kept = !is_about_framing(field.known) && keeps(field);
            match (is_kept, run_start) {
                (true, None) => run_start = Some(line_start),
                (false, Some(start)) => {
                    self.out.extend_from_slice(&head[start..line_start]);
                    run_start = None;
                }
                _ => {}
            }
        }
        if let Some(start) = run_start {
            self.out.extend_from_slice(&head[start..head.len() - CRLF.len()]);
        }
        self
    }

    /// Writes a `traceparent` of version 00 (W3C Trace Context §3.2). Its digits need no check; it
    /// costs about a hundred instructions.
    #[inline]
    pub fn traceparent(&mut self, ids: &TraceIds<'_>) -> &mut Self {
        self.out.extend_from_slice(TRACEPARENT);
        if let Some(line) = self.out.last_chunk_mut::<{ TRACEPARENT.len() }>() {
            hex::write_in(line, TRACE_ID_AT, ids.trace_id);
            hex::write_in(line, SPAN_ID_AT, ids.span_id);
            line[SAMPLED_AT] = if ids.is_sampled { b'1' } else { b'0' };
        }
        self
    }

    #[inline]
    pub fn lines(&mut self, lines: &Lines) -> &mut Self {
        self.out.extend_from_slice(&lines.0);
        self
    }

    /// Writes the declared length of the body.
    #[inline]
    pub fn framing(&mut self, framing: Framing) -> &mut Self {
        match framing {
            Framing::Omitted => {}
            Framing::Length(bytes) => {
                self.out.extend_from_slice(b"Content-Length: ");
                write_decimal(self.out, bytes);
                self.out.extend_from_slice(CRLF);
            }
            Framing::Chunked => self.out.extend_from_slice(b"Transfer-Encoding: chunked\r\n"),
        }
        self
    }

    /// Ends the head with an empty line.
    #[inline]
    pub fn end(self) {
        self.out.extend_from_slice(CRLF);
    }

    #[inline]
    fn open(&mut self, name: FieldName<'_>) {
        self.out.extend_from_slice(name.as_bytes());
        self.out.extend_from_slice(b": ");
    }
}

/// Prepared header lines that many heads share.
#[derive(Debug, Default)]
pub struct Lines(Vec<u8>);

impl Lines {
    /// Replaces the lines by those that `write` writes.
    pub fn write_anew(&mut self, write: impl FnOnce(&mut HeadWriter<'_>)) {
        self.0.clear();
        write(&mut HeadWriter { out: &mut self.0 });
    }
}

/// Whether the field determines the end of a body.
#[inline]
fn is_about_framing(known: Known) -> bool {
    matches!(known, Known::ContentLength | Known::TransferEncoding)
}

/// Appends `number` in decimal without `fmt`. Optimised for up to four digits, which covers ports,
/// statuses and most lengths.
#[inline]
pub fn write_decimal(out: &mut Vec<u8>, number: u64) {
    let digit = |number: u64| b'0' + (number % 10) as u8;
    match number {
        0..10 => out.push(digit(number)),
        10..100 => out.extend_from_slice(&[digit(number / 10), digit(number)]),
        100..1_000 => {
            out.extend_from_slice(&[digit(number / 100), digit(number / 10), digit(number)]);
        }
        1_000..10_000 => out.extend_from_slice(&[
            digit(number / 1_000),
            digit(number / 100),
            digit(number / 10),
            digit(number),
        ]),
        _ => write_long_decimal(out, number),
    }
}

fn write_long_decimal(out: &mut Vec<u8>, mut number: u64) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    while number > 0 {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
    }
    out.extend_from_slice(&digits[at..]);
}

#[cfg(test)]
mod tests;
