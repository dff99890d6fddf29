//! Incremental decoder for requests: heads and complete bodies, from pieces of any size, without
//! I/O.

use tollhouse_http::{
    BodyLength, ChunkedDecoder, Expectation, HeadLimits, Known, RequestHead, Version,
};

use crate::answers::Persistence;
use crate::worker::{ECHO_BYTES_MAX, Standing, Worker};

/// Beginning of the HTTP/2 preface; `PRI` is not a method of HTTP/1.
const PREFACE_START: &[u8] = b"PRI ";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    More,
    /// The client waits for a 100 (Continue) before it sends the body.
    Continue,
    /// A request is complete, including its body.
    Whole,
    Preface,
    Malformed,
}

/// Properties of a request that decide about the form of its response.
#[derive(Debug, Clone, Copy)]
pub(super) struct AnswerForm {
    /// Whether to send only the head.
    pub(super) is_head: bool,
    /// State of the connection after the response: kept open, or closed.
    pub(super) persistence: Persistence,
}

/// Properties of a request that a mock needs.
#[derive(Debug)]
pub(super) struct MockRequest {
    pub(super) form: AnswerForm,
    pub(super) standing: Standing,
    /// Body of the request, if the mock echoes bodies.
    pub(super) echo: Option<Box<Echo>>,
    /// Value of `Sec-WebSocket-Key`, if the request is a WebSocket handshake.
    pub(super) websocket_key: Option<Box<str>>,
}

/// Request body that the response repeats.
#[derive(Debug, Default)]
pub(super) struct Echo {
    /// Value of `Content-Type`.
    pub(super) kind: Option<Vec<u8>>,
    pub(super) body: Vec<u8>,
}

impl Default for MockRequest {
    fn default() -> Self {
        let form = AnswerForm { is_head: false, persistence: Persistence::Ends };
        Self { form, standing: Standing::Good, echo: None, websocket_key: None }
    }
}

/// Decoder for the requests of one connection.
#[derive(Debug, Default)]
pub(super) struct Incoming {
    /// Bytes not yet processed; usually empty and without allocation.
    pending: Vec<u8>,
    /// Start of the unprocessed bytes in `pending`.
    start: usize,
    stage: Stage,
    asked: MockRequest,
    is_later: bool,
}

/// Part of a request that is decoded next.
#[derive(Debug, Default)]
enum Stage {
    #[default]
    Head,
    Known(u64),
    Chunked(ChunkedDecoder),
}

impl Incoming {
    /// Takes the request after `Whole`.
    pub(super) fn take(&mut self) -> MockRequest {
        std::mem::take(&mut self.asked)
    }

    /// Whether bytes of a further request have arrived.
    pub(super) fn has_more(&self) -> bool {
        self.start < self.pending.len()
    }

    /// Returns the bytes that belong to another protocol.
    pub(super) fn into_rest(mut self) -> Vec<u8> {
        self.pending.drain(..self.start);
        self.pending
    }

    /// Decodes the next part from the buffered bytes.
    #[inline]
    pub(super) fn step(&mut self, worker: &Worker) -> Step {
        if !self.has_more() {
            return Step::More;
        }
        let pending = std::mem::take(&mut self.pending);
        let (used, step) = self.read(worker, &pending[self.start..]);
        self.start += used;
        // The buffer is freed once it is consumed, so that a waiting connection holds none.
        if self.start < pending.len() {
            self.pending = pending;
        } else {
            self.start = 0;
        }
        step
    }

    /// Continues parsing with `bytes`, which follow those received before.
    #[inline]
    pub(super) fn feed(&mut self, worker: &Worker, bytes: &[u8]) -> Step {
        if self.has_more() {
            self.pending.drain(..self.start);
            self.start = 0;
            self.pending.extend_from_slice(bytes);
            return self.step(worker);
        }
        let (used, step) = self.read(worker, bytes);
        if used < bytes.len() {
            self.pending = bytes[used..].to_vec();
            self.start = 0;
        }
        step
    }

    /// Decodes from the start of `bytes`; returns the number of consumed bytes.
    fn read(&mut self, worker: &Worker, bytes: &[u8]) -> (usize, Step) {
        let mut used = 0;
        if matches!(self.stage, Stage::Head) {
            let head = &mut worker.head.borrow_mut();
            match self.read_head(worker, head, bytes) {
                (read, None) => used = read,
                (read, Some(step)) => return (read, step),
            }
            if used == bytes.len()
                && !matches!(self.stage, Stage::Head)
                && head.expectation == Expectation::Continue
            {
                return (used, Step::Continue);
            }
        }
        match self.read_body(&bytes[used..]) {
            Err(()) => (used, Step::Malformed),
            Ok(read) if matches!(self.stage, Stage::Head) => (used + read, Step::Whole),
            Ok(read) => (used + read, Step::More),
        }
    }

    /// Decodes a head and determines the body; returns a step if decoding stops here.
    fn read_head(
        &mut self,
        worker: &Worker,
        head: &mut RequestHead,
        bytes: &[u8],
    ) -> (usize, Option<Step>) {
        if !self.is_later && bytes.starts_with(PREFACE_START) {
            return (0, Some(Step::Preface));
        }
        head.reset();
        match head.parse(bytes, &HeadLimits::default()) {
            Ok(true) => {}
            Ok(false) => return (0, Some(Step::More)),
            Err(_) => return (0, Some(Step::Malformed)),
        }
        self.is_later = true;
        self.asked = describe(worker, head, bytes);
        self.stage = match head.body {
            BodyLength::None | BodyLength::UntilClose => Stage::Head,
            BodyLength::Known(length) => Stage::Known(length),
            BodyLength::Chunked => Stage::Chunked(ChunkedDecoder::new()),
        };
        (head.head_bytes, None)
    }

    /// Decodes available bytes of the body; returns to stage `Head` at its end.
    fn read_body(&mut self, bytes: &[u8]) -> Result<usize, ()> {
        match &mut self.stage {
            Stage::Head => Ok(0),
            Stage::Known(left) => {
                let here = usize::try_from(*left).unwrap_or(usize::MAX).min(bytes.len());
                *left -= here as u64;
                if *left == 0 {
                    self.stage = Stage::Head;
                }
                keep(&mut self.asked, &bytes[..here]);
                Ok(here)
            }
            Stage::Chunked(decoder) => {
                let mut at = 0;
                while at < bytes.len() && !decoder.is_done() {
                    let step = decoder.step(&bytes[at..]).map_err(|_| ())?;
                    keep(&mut self.asked, &bytes[at..][step.data]);
                    at += step.consumed;
                }
                if decoder.is_done() {
                    self.stage = Stage::Head;
                }
                Ok(at)
            }
        }
    }
}

fn describe(worker: &Worker, head: &RequestHead, bytes: &[u8]) -> MockRequest {
    let shared = &*worker.shared;
    let persistence = match (head.keep_alive, head.version) {
        (false, _) => Persistence::Ends,
        (true, Version::Http10) => Persistence::StaysSaid,
        (true, Version::Http11) => Persistence::Stays,
    };
    let standing = match &shared.path {
        Some(path) if head.parts.path.bytes_in(bytes) != path.as_bytes() => Standing::NotFound,
        _ => Standing::Good,
    };
    let echo = shared.is_echo.then(|| {
        let kind = head.fields.first(Known::ContentType);
        let kind = kind.map(|kind| kind.bytes_in(bytes).to_vec());
        Box::new(Echo { kind, body: Vec::new() })
    });
    MockRequest {
        form: AnswerForm { is_head: head.method.bytes_in(bytes) == b"HEAD", persistence },
        standing,
        echo,
        websocket_key: if head.upgrade { websocket_key(head, bytes) } else { None },
    }
}

/// Returns the key of a WebSocket handshake (RFC 6455, section 4.2.1).
fn websocket_key(head: &RequestHead, bytes: &[u8]) -> Option<Box<str>> {
    let upgrade = head.fields.first(Known::Upgrade)?.bytes_in(bytes);
    if !upgrade.eq_ignore_ascii_case(b"websocket") {
        return None;
    }
    let key = head.fields.find(b"sec-websocket-key", bytes)?;
    Some(str::from_utf8(key).ok()?.into())
}

/// Appends body data if it is to be echoed.
fn keep(asked: &mut MockRequest, data: &[u8]) {
    let Some(echo) = &mut asked.echo else { return };
    if echo.body.len() + data.len() <= ECHO_BYTES_MAX {
        echo.body.extend_from_slice(data);
    } else {
        asked.echo = None;
        asked.standing = Standing::TooLarge;
    }
}
