//! Protocol of SafeLine's detection service (T1K): packets of a tag, a length and data.
//!
//! A message is a sequence of packets, the first and the last of which are marked in their tags. The
//! length has four bytes, the lowest first. A request has the head, the body, fields about the
//! connection and the version of the protocol; the reply has the action, and for blocked requests
//! the status and a text with the id of the event.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;
use tollhouse_net::Stream;

use crate::shared::dial::dial;

const FIRST: u8 = 0x40;
const LAST: u8 = 0x80;

const HEAD: u8 = 0x01;
const BODY: u8 = 0x02;
const EXTRA: u8 = 0x03;
const VERSION: u8 = 0x20;
/// Header lines for the answer.
const EXTRA_HEADER: u8 = 0x23;
/// Text for the answer's body, with the id of the event.
const EXTRA_BODY: u8 = 0x24;

const PASSED: &[u8] = b".";
const BLOCKED: &[u8] = b"?";

/// Longest reply, in bytes.
const REPLY_BYTES_MAX: usize = 256 << 10;

/// Largest number of idle connections per core and node, and of nodes with idle connections.
const IDLE_MAX: usize = 256;

thread_local! {
    static IDLE: RefCell<HashMap<Node, Vec<(Stream, Instant)>>> = RefCell::default();
}

/// Address of a node of the detection service.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Node {
    pub(super) host: String,
    pub(super) port: u16,
}

/// Timeouts, and bounds of idle connections.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    pub(super) connect: Duration,
    pub(super) send: Duration,
    pub(super) read: Duration,
    pub(super) idle: Duration,
    pub(super) idle_count: usize,
}

/// Message about a request.
#[derive(Debug)]
pub(super) struct Inspection {
    pub(super) head: Vec<u8>,
    pub(super) body: Vec<u8>,
    pub(super) extra: Vec<u8>,
}

/// Reply of the service.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Verdict {
    /// `None` if the request passes.
    pub(super) block: Option<Block>,
    /// Headers for the answer.
    pub(super) headers: Vec<(String, String)>,
}

/// Verdict on a request that must not pass.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Block {
    pub(super) status: u16,
    /// Id of the event; empty if the reply has none.
    pub(super) event: String,
}

/// Reason for a missing verdict.
#[derive(Debug, thiserror::Error)]
pub(super) enum ExchangeError {
    #[error("{0}: timeout")]
    Timeout(&'static str),
    #[error("{0}: {1}")]
    Failed(&'static str, io::Error),
    #[error("invalid reply: {0}")]
    Invalid(&'static str),
}

impl ExchangeError {
    pub(super) fn is_timeout(&self) -> bool {
        matches!(self, ExchangeError::Timeout(_))
    }

    /// Whether a reused connection had been closed by the service.
    fn is_closed(&self) -> bool {
        let ExchangeError::Failed(_, error) = self else { return false };
        matches!(
            error.kind(),
            io::ErrorKind::UnexpectedEof
                | io::ErrorKind::BrokenPipe
                | io::ErrorKind::ConnectionReset
                | io::ErrorKind::ConnectionAborted
        )
    }
}

#[derive(Debug)]
pub(super) struct Client {
    limits: Limits,
}

impl Client {
    pub(super) fn new(limits: Limits) -> Self {
        Self { limits }
    }

    /// Asks a node about a request; once more over a new connection if an idle one was closed.
    ///
    /// # Errors
    /// If the node does not answer in time, or not in the protocol.
    pub(super) async fn inspect(
        &self,
        node: &Node,
        inspection: &Inspection,
    ) -> Result<Verdict, ExchangeError> {
        let message = inspection.to_message();
        if let Some(stream) = self.take_idle(node) {
            match self.exchange(stream, node, &message).await {
                Err(error) if error.is_closed() => {}
                outcome => return outcome,
            }
        }
        let dialled = limited("connect", self.limits.connect, dial(&node.host, node.port, None));
        let stream = dialled.await?;
        self.exchange(stream, node, &message).await
    }

    async fn exchange(
        &self,
        mut stream: Stream,
        node: &Node,
        message: &[u8],
    ) -> Result<Verdict, ExchangeError> {
        limited("send", self.limits.send, async {
            stream.write_all(message).await?;
            stream.flush().await
        })
        .await?;
        let reply = limited("read", self.limits.read, read_reply(&mut stream)).await?;
        let verdict = reply.and_then(Reply::into_verdict).map_err(ExchangeError::Invalid)?;
        self.keep(node, stream);
        Ok(verdict)
    }

    fn take_idle(&self, node: &Node) -> Option<Stream> {
        IDLE.with_borrow_mut(|all| {
            let idle = all.get_mut(node)?;
            let (stream, since) = idle.pop()?;
            if since.elapsed() < self.limits.idle {
                return Some(stream);
            }
            // The others have been idle for longer.
            idle.clear();
            None
        })
    }

    fn keep(&self, node: &Node, stream: Stream) {
        IDLE.with_borrow_mut(|all| {
            if all.len() >= IDLE_MAX && !all.contains_key(node) {
                all.clear();
            }
            let idle = all.entry(node.clone()).or_default();
            if idle.len() < self.limits.idle_count.min(IDLE_MAX) {
                idle.push((stream, Instant::now()));
            }
        });
    }
}

async fn limited<T>(
    step: &'static str,
    limit: Duration,
    work: impl Future<Output = io::Result<T>>,
) -> Result<T, ExchangeError> {
    match timeout(limit, work).await {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(ExchangeError::Failed(step, error)),
        Err(_) => Err(ExchangeError::Timeout(step)),
    }
}

impl Inspection {
    fn to_message(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.head.len() + self.body.len() + self.extra.len() + 64);
        write_packet(&mut out, HEAD | FIRST, &self.head);
        if !self.body.is_empty() {
            write_packet(&mut out, BODY, &self.body);
        }
        write_packet(&mut out, EXTRA, &self.extra);
        write_packet(&mut out, VERSION | LAST, b"Proto:3\n");
        out
    }
}

fn write_packet(out: &mut Vec<u8>, tag: u8, data: &[u8]) {
    out.push(tag);
    // Heads and inspected parts of bodies are bounded far below four gigabytes.
    out.extend_from_slice(&(data.len() as u32).to_le_bytes());
    out.extend_from_slice(data);
}

/// Packets of a reply that matter.
#[derive(Debug, Default)]
struct Reply {
    action: Vec<u8>,
    status: Vec<u8>,
    headers: Vec<u8>,
    text: Vec<u8>,
}

/// Reads a reply. The inner error says why it is invalid.
async fn read_reply(stream: &mut Stream) -> io::Result<Result<Reply, &'static str>> {
    let mut reply = Reply::default();
    let mut budget = REPLY_BYTES_MAX;
    let mut is_first = true;
    loop {
        let mut packet = [0; 5];
        stream.read_exact(&mut packet).await?;
        let [tag, length @ ..] = packet;
        if is_first && tag & FIRST == 0 {
            return Ok(Err("the first packet is not marked as the first"));
        }
        is_first = false;
        let length = u32::from_le_bytes(length) as usize;
        // A packet costs something without data too, so that a reply without end is noticed.
        let Some(rest) = budget.checked_sub(length.saturating_add(packet.len())) else {
            return Ok(Err("it is too long"));
        };
        budget = rest;
        let mut data = vec![0; length];
        stream.read_exact(&mut data).await?;
        match tag & !(FIRST | LAST) {
            HEAD => reply.action = data,
            BODY => reply.status = data,
            EXTRA_HEADER => reply.headers = data,
            EXTRA_BODY => reply.text = data,
            _ => {}
        }
        if tag & LAST != 0 {
            return Ok(Ok(reply));
        }
    }
}

impl Reply {
    fn into_verdict(self) -> Result<Verdict, &'static str> {
        let event = event_id(&self.text).unwrap_or_default();
        let status = std::str::from_utf8(&self.status).ok().and_then(|text| text.parse().ok());
        let status = status.filter(|status| (100..=599).contains(status));
        let is_blocked = match &*self.action {
            BLOCKED => true,
            PASSED => !event.is_empty() && status.is_some_and(|status| status != 200),
            _ => return Err("unknown action"),
        };
        let block = is_blocked.then(|| Block { status: status.unwrap_or(403), event });
        Ok(Verdict { block, headers: header_lines(&self.headers) })
    }
}

/// Returns the letters and digits of `<!-- event_id: ID -->` or `<!-- event_id: ID TYPE: X -->`.
fn event_id(text: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(text);
    let (_, rest) = text.split_once("<!-- event_id: ")?;
    let end = rest.find(|letter: char| !letter.is_ascii_alphanumeric())?;
    let (id, rest) = rest.split_at(end);
    let is_whole = rest.starts_with(" -->") || rest.starts_with(" TYPE: ");
    (is_whole && !id.is_empty()).then(|| id.to_owned())
}

/// Parses lines of `name:value`. Invalid lines are left out.
fn header_lines(text: &[u8]) -> Vec<(String, String)> {
    let text = String::from_utf8_lossy(text);
    let lines = text.split('\n').filter_map(|line| line.split_once(':'));
    let is_name = |name: &str| {
        let valid = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        !name.is_empty() && name.bytes().all(valid)
    };
    let clean = |value: &str| !value.bytes().any(|byte| byte < b' ' && byte != b'\t');
    lines
        .map(|(name, value)| (name.trim(), value.trim()))
        .filter(|(name, value)| is_name(name) && clean(value))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_marks_its_first_and_last_packet() {
        let inspection =
            Inspection { head: b"GET".to_vec(), body: Vec::new(), extra: b"\x01\n".to_vec() };
        let expected = b"\x41\x03\0\0\0GET\x03\x02\0\0\0\x01\n\xa0\x08\0\0\0Proto:3\n";
        assert_eq!(inspection.to_message(), expected);
        let inspection = Inspection { body: b"b".to_vec(), ..inspection };
        let expected =
            b"\x41\x03\0\0\0GET\x02\x01\0\0\0b\x03\x02\0\0\0\x01\n\xa0\x08\0\0\0Proto:3\n";
        assert_eq!(inspection.to_message(), expected);
    }

    #[test]
    fn events_have_ids() {
        for (text, id) in [
            ("<!-- event_id: b3c6 -->", Some("b3c6")),
            ("<html><!-- event_id: b3C6 TYPE: A -->", Some("b3C6")),
            ("<!-- event_id: b3\"c -->", None),
            ("<!-- event_id:  -->", None),
            ("<!-- event_id: b3", None),
            ("", None),
        ] {
            assert_eq!(event_id(text.as_bytes()).as_deref(), id, "{text}");
        }
    }

    #[test]
    fn header_lines_cannot_smuggle_others() {
        let lines = header_lines(b"Set-Cookie:a=b; Path=/\nX-A: 1\rX-B: 2\nbad name: 1\n:x\nnone\n");
        assert_eq!(lines, [("Set-Cookie".to_owned(), "a=b; Path=/".to_owned())]);
    }

    #[test]
    fn a_blocked_request_has_a_status_even_if_the_reply_has_none() {
        let verdict = |action: &[u8], status: &[u8], text: &[u8]| {
            let reply = Reply {
                action: action.to_vec(),
                status: status.to_vec(),
                text: text.to_vec(),
                ..Reply::default()
            };
            let verdict = reply.into_verdict();
            verdict.map(|verdict| verdict.block.map(|block| (block.status, block.event)))
        };
        assert_eq!(verdict(b".", b"", b""), Ok(None));
        assert_eq!(verdict(b"?", b"", b""), Ok(Some((403, String::new()))));
        assert_eq!(verdict(b"?", b"999", b""), Ok(Some((403, String::new()))));
        let text = b"<!-- event_id: a1 -->";
        assert_eq!(verdict(b"?", b"405", text), Ok(Some((405, "a1".to_owned()))));
        assert_eq!(verdict(b".", b"405", text), Ok(Some((405, "a1".to_owned()))));
        assert_eq!(verdict(b"", b"", b""), Err("unknown action"));
    }
}
