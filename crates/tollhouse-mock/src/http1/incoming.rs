//! Requests as they come in: heads, then bodies to their end, from pieces of any size. Does no IO.

use tollhouse_http::{
    BodyLength, ChunkedDecoder, Expectation, HeadLimits, Known, RequestHead, Version,
};

use crate::answers::Persistence;
use crate::worker::{ECHO_BYTES_MAX, Standing, Worker};

/// How the preface of HTTP/2 begins; `PRI` is no method of HTTP/1.
const PREFACE_START: &[u8] = b"PRI ";

/// How far the bytes that are here lead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// More bytes are needed.
    More,
    /// The client waits for a 100 before it sends the body.
    Continue,
    /// A request is here, body included.
    Whole,
    /// The connection speaks HTTP/2.
    Preface,
    /// It cannot be read further.
    Malformed,
}

/// How an answer is to be written.
#[derive(Debug, Clone, Copy)]
pub(super) struct AnswerForm {
    /// Whether the head suffices.
    pub(super) is_head: bool,
    /// What becomes of the connection.
    pub(super) persistence: Persistence,
}

/// A request, as far as it matters to a mock.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) form: AnswerForm,
    pub(super) standing: Standing,
    /// Its body, where it is to be echoed.
    pub(super) echo: Option<Box<Echo>>,
    /// The key of its wish for a WebSocket.
    pub(super) websocket_key: Option<Box<str>>,
}

/// A body to be echoed.
#[derive(Debug, Default)]
pub(super) struct Echo {
    /// Its type.
    pub(super) kind: Option<Vec<u8>>,
    pub(super) body: Vec<u8>,
}

impl Default for Asked {
    fn default() -> Self {
        let form = AnswerForm { is_head: false, persistence: Persistence::Ends };
        Self { form, standing: Standing::Good, echo: None, websocket_key: None }
    }
}

/// Reads the requests of one connection.
#[derive(Debug, Default)]
pub(super) struct Incoming {
    /// Bytes read and not understood yet; empty and without memory most of the time.
    pending: Vec<u8>,
    /// Where they begin in `pending`.
    start: usize,
    stage: Stage,
    asked: Asked,
    is_later: bool,
}

/// What is read next.
#[derive(Debug, Default)]
enum Stage {
    #[default]
    Head,
    Known(u64),
    Chunked(ChunkedDecoder),
}

impl Incoming {
    /// Takes the request that was `Whole`.
    pub(super) fn take(&mut self) -> Asked {
        std::mem::take(&mut self.asked)
    }

    /// Whether bytes of a further request are here.
    pub(super) fn has_more(&self) -> bool {
        self.start < self.pending.len()
    }

    /// What was read and belongs to another protocol.
    pub(super) fn into_rest(mut self) -> Vec<u8> {
        self.pending.drain(..self.start);
        self.pending
    }

    /// Goes on with the bytes that are here.
    #[inline]
    pub(super) fn step(&mut self, worker: &Worker) -> Step {
        if !self.has_more() {
            return Step::More;
        }
        let pending = std::mem::take(&mut self.pending);
        let (used, step) = self.read(worker, &pending[self.start..]);
        self.start += used;
        // Freed when used up: what waits holds no buffer.
        if self.start < pending.len() {
            self.pending = pending;
        } else {
            self.start = 0;
        }
        step
    }

    /// Goes on with these bytes.
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

    /// Reads from the start of `bytes`; tells how many were used.
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

    /// Reads a head, and says what the body will be; a step when that is all there is to say.
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

    /// Reads what is here of the body; the stage is `Head` again when that was all.
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

fn describe(worker: &Worker, head: &RequestHead, bytes: &[u8]) -> Asked {
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
    Asked {
        form: AnswerForm { is_head: head.method.bytes_in(bytes) == b"HEAD", persistence },
        standing,
        echo,
        websocket_key: if head.upgrade { websocket_key(head, bytes) } else { None },
    }
}

/// The key of a wish for a WebSocket (RFC 6455 §4.2.1).
fn websocket_key(head: &RequestHead, bytes: &[u8]) -> Option<Box<str>> {
    let upgrade = head.fields.first(Known::Upgrade)?.bytes_in(bytes);
    if !upgrade.eq_ignore_ascii_case(b"websocket") {
        return None;
    }
    let key = head.fields.find(b"sec-websocket-key", bytes)?;
    Some(str::from_utf8(key).ok()?.into())
}

/// Keeps data of a body where it is to be echoed.
fn keep(asked: &mut Asked, data: &[u8]) {
    let Some(echo) = &mut asked.echo else { return };
    if echo.body.len() + data.len() <= ECHO_BYTES_MAX {
        echo.body.extend_from_slice(data);
    } else {
        asked.echo = None;
        asked.standing = Standing::TooLarge;
    }
}
