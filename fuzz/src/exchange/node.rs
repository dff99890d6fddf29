//! An origin that answers as a script says and reads more strictly than any server: it must receive
//! one request after another, each complete before the next begins.

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tollhouse_h2::frame::PREFACE;
use tollhouse_http::{BodyLength, ChunkedDecoder, HeadLimits, RequestHead, ResponseHead};

use super::http2::node::{Http2Connection, check_owner};
use super::http2::spelling::{REPLY, STREAM};
use super::script::{Answer, Script};
use super::{read_body_chunks, read_chunks};

/// Header with the token of a request that must get its own answer.
pub const VICTIM: &str = "x-victim";

/// Names of the configured consumers, the only values of identity headers that the gateway writes.
pub const CONSUMERS: [&[u8]; 2] = [b"one", b"two"];

/// Longest wait of a connection.
const PATIENCE: Duration = Duration::from_secs(2);

/// Limits for heads at a node; these are higher than for clients, because the gateway adds its own
/// lines.
const HEAD_LIMITS: HeadLimits =
    HeadLimits { line_bytes: 64 * 1024, fields_bytes: 256 * 1024, header_count: 400 };

/// Requests that reached the node in one play.
#[derive(Debug, Default)]
pub struct Seen {
    /// Heads as they arrived.
    pub heads: Vec<Vec<u8>>,
    /// Violations that were found.
    pub findings: Vec<String>,
}

/// An origin with its own port.
pub struct Node {
    address: SocketAddr,
    shared: Arc<Shared>,
}

pub struct Shared {
    mark: Option<&'static str>,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    answers: VecDeque<Answer>,
    seen: Seen,
    streams: Vec<TcpStream>,
    open: usize,
    /// Whether the bytes that are held back may be sent.
    released: bool,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn found(&self, finding: String) {
        self.state().seen.findings.push(finding);
    }

    pub fn saw(&self, head: Vec<u8>) {
        self.state().seen.heads.push(head);
    }

    pub fn mark(&self) -> Option<&'static str> {
        self.mark
    }

    pub fn pop_answer(&self) -> Option<Answer> {
        self.state().answers.pop_front()
    }

    pub fn wait_for_release(&self) {
        let state = self.state();
        let _ = self.changed.wait_timeout_while(state, PATIENCE, |state| !state.released);
    }
}

impl Node {
    /// Starts a node. If `mark` is present, every request must contain it in `X-Mark`.
    ///
    /// # Panics
    /// If the machine has no free port.
    pub fn start(mark: Option<&'static str>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("an address");
        let shared = Arc::new(Shared { mark, state: Mutex::default(), changed: Condvar::new() });
        let accepting = Arc::clone(&shared);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let shared = Arc::clone(&accepting);
                {
                    let mut state = shared.state();
                    state.open += 1;
                    state.streams.extend(stream.try_clone());
                }
                std::thread::spawn(move || {
                    Connection::new(&shared, stream).serve();
                    shared.state().open -= 1;
                    shared.changed.notify_all();
                });
            }
        });
        Self { address, shared }
    }

    /// Returns the address that the node listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Begins a new play.
    pub fn begin(&self, script: &Script) {
        let mut state = self.shared.state();
        state.answers = script.answers.iter().cloned().collect();
        state.released = false;
        state.seen = Seen::default();
    }

    /// Releases the bytes that are held back.
    pub fn release(&self) {
        self.shared.state().released = true;
        self.shared.changed.notify_all();
    }

    /// Ends a play: closes every connection, waits for the ends, and returns the observations.
    pub fn end(&self) -> Seen {
        self.release();
        let mut state = self.shared.state();
        state.answers.clear();
        for stream in state.streams.drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
        while state.open > 0 {
            let (next, late) = self
                .shared
                .changed
                .wait_timeout(state, PATIENCE)
                .unwrap_or_else(PoisonError::into_inner);
            state = next;
            for stream in state.streams.drain(..) {
                let _ = stream.shutdown(Shutdown::Both);
            }
            if late.timed_out() {
                state.seen.findings.push("a connection to the node does not end".to_owned());
                break;
            }
        }
        std::mem::take(&mut state.seen)
    }
}

/// A connection of the gateway.
struct Connection<'s> {
    shared: &'s Shared,
    stream: TcpStream,
    buffer: Vec<u8>,
}

/// Outcome of waiting for bytes.
enum Step {
    Go,
    End,
}

impl<'s> Connection<'s> {
    fn new(shared: &'s Shared, stream: TcpStream) -> Self {
        let _ = stream.set_read_timeout(Some(PATIENCE));
        let _ = stream.set_nodelay(true);
        Self { shared, stream, buffer: Vec::new() }
    }

    fn serve(mut self) {
        while self.buffer.len() < PREFACE.len() && PREFACE.starts_with(&self.buffer) {
            if let Step::End = self.more() {
                if !self.buffer.is_empty() {
                    self.found("a head for the node breaks off".to_owned());
                }
                return;
            }
        }
        if self.buffer.starts_with(PREFACE) {
            return Http2Connection::new(self.shared, self.stream, &self.buffer).serve();
        }
        while let Step::Go = self.exchange() {}
        let _ = self.stream.shutdown(Shutdown::Both);
    }

    fn found(&self, finding: String) {
        self.shared.found(finding);
    }

    /// Reads more bytes; returns `End` at the end of the stream.
    fn more(&mut self) -> Step {
        let mut bytes = [0; 16 * 1024];
        match self.stream.read(&mut bytes) {
            Ok(0) | Err(_) => Step::End,
            Ok(read) => {
                self.buffer.extend_from_slice(&bytes[..read]);
                Step::Go
            }
        }
    }

    /// Handles one request and its answer.
    fn exchange(&mut self) -> Step {
        let mut head = RequestHead::default();
        loop {
            match head.parse(&self.buffer, &HEAD_LIMITS) {
                Ok(true) => break,
                Ok(false) => {
                    if let Step::End = self.more() {
                        if !self.buffer.is_empty() {
                            self.found("a head for the node breaks off".to_owned());
                        }
                        return Step::End;
                    }
                }
                Err(error) => {
                    self.found(format!("a head for the node is refused: {error:?}"));
                    return Step::End;
                }
            }
        }
        let bytes = self.buffer[..head.head_bytes].to_vec();
        self.check(&bytes, &head);
        self.shared.saw(bytes.clone());
        let method = head.method.bytes_in(&bytes).to_vec();
        let victim = value(&bytes, VICTIM);
        let stream = value(&bytes, STREAM);
        let answer = self.next_answer(victim.as_deref(), stream.as_deref());
        if answer.is_early
            && victim.is_none()
            && let Step::End = self.answer(&answer, &method)
        {
            return Step::End;
        }
        let mut body = Vec::new();
        if let Step::End = self.body(&head, &mut body) {
            return Step::End;
        }
        if let Err(finding) = check_owner(stream.as_deref().map(str::as_bytes), &body) {
            self.found(finding);
        }
        if !self.buffer.is_empty() {
            self.found("bytes follow a request that has not been answered".to_owned());
            return Step::End;
        }
        if answer.is_early && victim.is_none() {
            return Step::Go;
        }
        if answer.bytes.starts_with(b"HTTP/1.1 101") && head.upgrade {
            let _ = self.stream.write_all(&answer.bytes);
            while let Step::Go = self.more() {
                self.buffer.clear();
            }
            return Step::End;
        }
        self.answer(&answer, &method)
    }

    /// Checks a head beyond its syntax.
    fn check(&self, bytes: &[u8], head: &RequestHead) {
        let mut fields = vec![httparse::EMPTY_HEADER; HEAD_LIMITS.header_count];
        let mut second = httparse::Request::new(&mut fields);
        match second.parse(bytes) {
            Ok(httparse::Status::Complete(length)) if length == bytes.len() => {}
            other => self.found(format!("a second parser reads a head otherwise: {other:?}")),
        }
        let target = head.target.bytes_in(bytes);
        if !target.starts_with(b"/") && target != b"*" {
            self.found("a target is not in origin form".to_owned());
        }
        if target.iter().any(|byte| *byte <= b' ' || *byte == 0x7f) {
            self.found("a target holds a byte that ends it".to_owned());
        }
        let hosts = second.headers.iter().filter(|line| line.name.eq_ignore_ascii_case("host"));
        if hosts.count() != 1 {
            self.found("a request must have one Host".to_owned());
        }
        let is_identity = |name: &str| {
            let folded: String =
                name.chars().map(|it| if it.is_ascii_alphanumeric() { it } else { '-' }).collect();
            let folded = folded.to_ascii_lowercase();
            folded.starts_with("x-consumer-") || folded.starts_with("x-credential-")
        };
        if second.headers.iter().any(|it| is_identity(it.name) && !CONSUMERS.contains(&it.value)) {
            self.found("a client sets its own identity".to_owned());
        }
        let Some(mark) = self.shared.mark else { return };
        let marks: Vec<_> = second
            .headers
            .iter()
            .filter(|line| line.name.eq_ignore_ascii_case("x-mark"))
            .map(|line| line.value)
            .collect();
        if marks != [mark.as_bytes()] {
            self.found("a request without the gateway's mark reaches the node".to_owned());
        }
    }

    fn next_answer(&self, victim: Option<&str>, stream: Option<&str>) -> Answer {
        if let Some(token) = victim {
            let body = format!("token:{token}");
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
            return Answer { bytes: [head, body].concat().into_bytes(), ..Answer::default() };
        }
        let answer = self.shared.pop_answer();
        answer.filter(|answer| !answer.bytes.is_empty()).unwrap_or_else(|| {
            let body = stream.map_or("ok".to_owned(), |stream| format!("{REPLY}{stream};"));
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
            Answer { bytes: [head, body].concat().into_bytes(), ..Answer::default() }
        })
    }

    /// Reads the body of `head` from the buffer and the stream.
    fn body(&mut self, head: &RequestHead, body: &mut Vec<u8>) -> Step {
        self.buffer.drain(..head.head_bytes);
        match head.body {
            BodyLength::None | BodyLength::UntilClose => Step::Go,
            BodyLength::Known(bytes) => {
                let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
                while self.buffer.len() < bytes {
                    if let Step::End = self.more() {
                        return Step::End;
                    }
                }
                body.extend(self.buffer.drain(..bytes));
                Step::Go
            }
            BodyLength::Chunked => {
                let mut decoder = ChunkedDecoder::new();
                loop {
                    match read_body_chunks(&mut decoder, &self.buffer, body) {
                        Ok(read) => self.buffer.drain(..read),
                        Err(error) => {
                            self.found(format!("a body for the node is refused: {error:?}"));
                            return Step::End;
                        }
                    };
                    if decoder.is_done() {
                        return Step::Go;
                    }
                    if let Step::End = self.more() {
                        return Step::End;
                    }
                }
            }
        }
    }

    fn answer(&mut self, answer: &Answer, method: &[u8]) -> Step {
        let reading = Reading::new(&answer.bytes, method);
        let held_back = match reading {
            Reading::Exact => answer.bytes.len() * usize::from(answer.held_back) / 256,
            _ => 0,
        };
        let (now, later) = answer.bytes.split_at(answer.bytes.len() - held_back);
        if self.stream.write_all(now).is_err() {
            return Step::End;
        }
        if !later.is_empty() {
            self.shared.wait_for_release();
            if self.stream.write_all(later).is_err() {
                return Step::End;
            }
        }
        // The rest of an incomplete answer will never follow.
        if answer.closes || reading == Reading::Open { Step::End } else { Step::Go }
    }
}

/// Interpretation of an answer.
#[derive(Debug, PartialEq, Eq)]
enum Reading {
    /// Exactly one answer.
    Exact,
    /// More bytes than one answer has.
    Beyond,
    /// An answer that only ends with the connection, or that is invalid.
    Open,
}

impl Reading {
    fn new(bytes: &[u8], method: &[u8]) -> Self {
        let mut rest = bytes;
        loop {
            let mut head = ResponseHead::default();
            if head.parse(rest, &HEAD_LIMITS, method) != Ok(true) {
                return Self::Open;
            }
            rest = &rest[head.head_bytes..];
            if head.is_interim() {
                continue;
            }
            let body = match head.body {
                BodyLength::None => Some(0),
                BodyLength::Known(bytes) => usize::try_from(bytes).ok(),
                BodyLength::UntilClose => None,
                BodyLength::Chunked => {
                    let mut decoder = ChunkedDecoder::new();
                    read_chunks(&mut decoder, rest).ok().filter(|_| decoder.is_done())
                }
            };
            return match body {
                Some(body) if body == rest.len() => Self::Exact,
                Some(body) if body < rest.len() => Self::Beyond,
                _ => Self::Open,
            };
        }
    }
}

/// Returns the value of the first header line named `name`.
fn value(head: &[u8], name: &str) -> Option<String> {
    let text = String::from_utf8_lossy(head);
    text.split("\r\n").skip(1).find_map(|line| {
        let (found, value) = line.split_once(':')?;
        found.eq_ignore_ascii_case(name).then(|| value.trim().to_owned())
    })
}
