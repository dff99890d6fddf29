//! Incremental decoder for an HTTP/1 response. Sans-I/O.

use std::sync::{Arc, OnceLock};

use tollhouse_http::{BodyLength, ChunkedDecoder, HeadLimits, ResponseHead};

use crate::failure::{Failure, FailureClass};

/// Maximum number of body bytes kept for checks; checks ignore the rest.
const KEPT_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Limits of a response head, far above those of real servers, so that only malformed responses
/// exceed them.
const LIMITS: HeadLimits =
    HeadLimits { line_bytes: 32 * 1024, fields_bytes: 60 * 1024, header_count: 200 };

/// State of completion of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Progress {
    More,
    Done,
}

#[derive(Debug)]
enum State {
    Head,
    Known(u64),
    Chunked(ChunkedDecoder),
    UntilClose,
    Done,
}

/// A response. The object is reused for all responses of a lane.
#[derive(Debug)]
pub(super) struct Answer {
    head: ResponseHead,
    state: State,
    is_to_head: bool,
    keeps_body: bool,
    /// Beginning of a head that arrived in pieces.
    pending: Vec<u8>,
    body: Vec<u8>,
    body_bytes: u64,
    /// Whether unsolicited bytes followed the response.
    has_surplus: bool,
    /// Header lines of the case's first response on any lane.
    first_head: FirstHead,
}

/// Header lines of the first response of all lanes, as received.
pub(super) type FirstHead = Arc<OnceLock<Vec<(String, String)>>>;

impl Answer {
    /// Creates a decoder. `keeps_body` keeps the body for checks; `first_head` receives the first
    /// head of the case.
    pub(super) fn new(keeps_body: bool, first_head: FirstHead) -> Self {
        Self {
            head: ResponseHead::default(),
            state: State::Done,
            is_to_head: false,
            keeps_body,
            pending: Vec::new(),
            body: Vec::new(),
            body_bytes: 0,
            has_surplus: false,
            first_head,
        }
    }

    /// Prepares for the next response; `is_to_head` tells whether the request was HEAD.
    pub(super) fn begin(&mut self, is_to_head: bool) {
        self.head.reset();
        self.state = State::Head;
        self.is_to_head = is_to_head;
        self.pending.clear();
        self.body.clear();
        self.body_bytes = 0;
        self.has_surplus = false;
    }

    pub(super) fn status(&self) -> u16 {
        self.head.status
    }

    /// Returns the length of the body in bytes, without framing.
    pub(super) fn body_bytes(&self) -> u64 {
        self.body_bytes
    }

    /// Returns the body; empty if it was not kept.
    pub(super) fn body(&self) -> &[u8] {
        &self.body
    }

    /// Whether the connection can carry another exchange.
    pub(super) fn keeps_connection(&self) -> bool {
        self.head.keep_alive && !self.has_surplus
    }

    /// Processes the next bytes, which must not be empty.
    pub(super) fn take(&mut self, bytes: &[u8]) -> Result<Progress, Failure> {
        match self.state {
            State::Head => self.take_head(bytes),
            _ => self.take_body(bytes),
        }
    }

    /// Processes the end of the connection.
    pub(super) fn end_of_stream(&mut self) -> Result<Progress, Failure> {
        match self.state {
            State::UntilClose => {
                self.state = State::Done;
                Ok(Progress::Done)
            }
            State::Head if self.pending.is_empty() => Err(closed("before an answer")),
            State::Head => Err(closed("within the head of the answer")),
            _ => Err(closed("within the body of the answer")),
        }
    }

    fn take_head(&mut self, bytes: &[u8]) -> Result<Progress, Failure> {
        if self.pending.is_empty() {
            return match self.parse(bytes)? {
                Some(body_start) => self.after_head(&bytes[body_start..]),
                None => {
                    self.pending.extend_from_slice(bytes);
                    Ok(Progress::More)
                }
            };
        }
        let mut whole = std::mem::take(&mut self.pending);
        whole.extend_from_slice(bytes);
        let parsed = self.parse(&whole)?;
        let progress = match parsed {
            Some(body_start) => self.after_head(&whole[body_start..]),
            None => Ok(Progress::More),
        };
        // `after_head` has stored the rest after an interim response; an incomplete head is stored
        // here.
        if parsed.is_none() {
            self.pending = whole;
        }
        progress
    }

    /// Parses the head; returns the start of the body if the head is complete.
    fn parse(&mut self, bytes: &[u8]) -> Result<Option<usize>, Failure> {
        let method: &[u8] = if self.is_to_head { b"HEAD" } else { b"GET" };
        let parsed = self.head.parse(bytes, &LIMITS, method);
        let is_whole =
            parsed.map_err(|error| Failure::new(FailureClass::Malformed, error.to_string()))?;
        if is_whole && !self.head.is_interim() && self.first_head.get().is_none() {
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            let lines = self.head.fields.iter().map(|field| {
                (text(field.name().bytes_in(bytes)), text(field.value().bytes_in(bytes)))
            });
            // Fails if another lane was first.
            let _ = self.first_head.set(lines.collect());
        }
        Ok(is_whole.then_some(self.head.head_bytes))
    }

    fn after_head(&mut self, rest: &[u8]) -> Result<Progress, Failure> {
        if self.head.is_interim() {
            self.head.reset();
            return if rest.is_empty() { Ok(Progress::More) } else { self.take_head(rest) };
        }
        self.state = match self.head.body {
            BodyLength::None => State::Known(0),
            BodyLength::Known(bytes) => State::Known(bytes),
            BodyLength::Chunked => State::Chunked(ChunkedDecoder::for_answer()),
            BodyLength::UntilClose => State::UntilClose,
        };
        self.take_body(rest)
    }

    fn take_body(&mut self, bytes: &[u8]) -> Result<Progress, Failure> {
        match &mut self.state {
            State::Known(remaining) => {
                let taken = bytes.len().min(usize::try_from(*remaining).unwrap_or(usize::MAX));
                *remaining -= taken as u64;
                let is_done = *remaining == 0;
                self.data(&bytes[..taken]);
                if !is_done {
                    return Ok(Progress::More);
                }
                self.done(taken < bytes.len())
            }
            State::Chunked(_) => self.take_chunks(bytes),
            State::UntilClose => {
                self.data(bytes);
                Ok(Progress::More)
            }
            State::Head | State::Done => self.done(!bytes.is_empty()),
        }
    }

    fn take_chunks(&mut self, bytes: &[u8]) -> Result<Progress, Failure> {
        let mut at = 0;
        while at < bytes.len() {
            let State::Chunked(decoder) = &mut self.state else { break };
            let step = decoder.step(&bytes[at..]);
            let step =
                step.map_err(|error| Failure::new(FailureClass::Malformed, error.to_string()))?;
            let is_done = decoder.is_done();
            self.data(&bytes[at..][step.data]);
            at += step.consumed;
            if is_done {
                return self.done(at < bytes.len());
            }
        }
        Ok(Progress::More)
    }

    #[inline]
    fn data(&mut self, bytes: &[u8]) {
        self.body_bytes += bytes.len() as u64;
        if self.keeps_body {
            let room = KEPT_BYTES_MAX.saturating_sub(self.body.len());
            self.body.extend_from_slice(&bytes[..bytes.len().min(room)]);
        }
    }

    fn done(&mut self, has_surplus: bool) -> Result<Progress, Failure> {
        self.state = State::Done;
        self.has_surplus = has_surplus;
        Ok(Progress::Done)
    }
}

fn closed(place: &str) -> Failure {
    Failure::new(FailureClass::Closed, format!("connection closed {place}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What comes of an answer that arrives in pieces of `piece` bytes and then the end.
    fn outcome(text: &str, piece: usize) -> Result<(u16, String, bool), FailureClass> {
        let mut answer = Answer::new(true, FirstHead::default());
        answer.begin(false);
        let mut progress = Progress::More;
        for bytes in text.as_bytes().chunks(piece) {
            progress = answer.take(bytes).map_err(|failure| failure.class)?;
            if progress == Progress::Done {
                break;
            }
        }
        if progress == Progress::More {
            answer.end_of_stream().map_err(|failure| failure.class)?;
        }
        let body = String::from_utf8_lossy(answer.body()).into_owned();
        Ok((answer.status(), body, answer.keeps_connection()))
    }

    #[test]
    fn every_split_of_an_answer_gives_the_same() {
        let answers = [
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n",
            "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhello",
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
            "HTTP/1.0 200 OK\r\nContent-Length: 5\r\nConnection: keep-alive\r\n\r\nhello",
        ];
        for text in answers {
            let whole = outcome(text, usize::MAX).expect(text);
            assert_eq!((whole.0, whole.1.as_str()), (200, "hello"));
            for piece in 1..text.len() {
                assert_eq!(outcome(text, piece).as_ref(), Ok(&whole), "{text:?} by {piece}");
            }
        }
    }

    #[test]
    fn an_answer_cut_short_is_closed() {
        for text in [
            "HTTP/1.1 200 OK\r\nContent-Le",
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhe",
        ] {
            assert_eq!(outcome(text, 7), Err(FailureClass::Closed), "{text:?}");
        }
    }

    #[test]
    fn nonsense_is_malformed() {
        for text in ["SSH-2.0-x\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n"] {
            assert_eq!(outcome(text, usize::MAX), Err(FailureClass::Malformed), "{text:?}");
        }
    }

    #[test]
    fn bytes_after_the_end_cost_the_connection() {
        let text = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1";
        assert_eq!(outcome(text, usize::MAX), Ok((200, "ok".into(), false)));
    }

    #[test]
    fn an_answer_to_head_has_no_body() {
        let mut answer = Answer::new(false, FirstHead::default());
        answer.begin(true);
        let bytes = b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n";
        assert_eq!(answer.take(bytes), Ok(Progress::Done));
        assert!(answer.keeps_connection());
    }
}
