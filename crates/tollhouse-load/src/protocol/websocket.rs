//! WebSocket: one message out, one message back, over a persistent connection.
//!
//! [`frame`] implements frames. The handshake is an HTTP/1.1 request, so that our HTTP/1 codec
//! parses the head of its response.

mod frame;

use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Poll, ready};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use tokio::io::{AsyncRead, AsyncWriteExt, ReadBuf};
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tollhouse_http::{HeadLimits, ResponseHead};

use crate::case::{Case, Checks};
use crate::connect::{Connector, Stream};
use crate::error::BenchError;
use crate::failure::{Failure, FailureClass};
use crate::protocol::check::AnswerCheck;
use crate::protocol::request::Requests;
use crate::protocol::{Lane, Marks, Protocol, Reply, Ticket};
use crate::target::Target;
use crate::worker::{OpenConnection, Worker};

use frame::{Frame, Opcode};

/// Message sent if the case sets none.
const MESSAGE_DEFAULT: &str = "tollhouse";
/// Limits for the head of the handshake response; only malformed responses exceed them.
const LIMITS: HeadLimits =
    HeadLimits { line_bytes: 32 * 1024, fields_bytes: 60 * 1024, header_count: 200 };
/// Maximum length of a message in bytes, over all of its frames.
const MESSAGE_BYTES_MAX: usize = 16 * 1024 * 1024;
const SWITCHING_PROTOCOLS: u16 = 101;

/// WebSocket protocol, prepared for a case.
pub struct WebSocket {
    connector: Connector,
    /// Handshake request up to the value of its key.
    handshake: Vec<u8>,
    message: Vec<u8>,
    /// Whether the response must equal the message; only if the case has no checks.
    expects_echo: bool,
    check: AnswerCheck,
    keep_alive: bool,
}

impl Protocol for WebSocket {
    type Lane = WebSocketLane;

    fn prepare(case: &Case, target: &Target) -> Result<Self, BenchError> {
        let message = match case.message.as_str() {
            "" => MESSAGE_DEFAULT,
            message => message,
        };
        Ok(Self {
            connector: Connector::new(case, target, &["http/1.1"])?,
            handshake: handshake(case, target)?,
            message: message.as_bytes().to_vec(),
            expects_echo: case.checks == Checks::default(),
            check: AnswerCheck::prepare(&case.checks)?,
            keep_alive: case.load.keep_alive,
        })
    }

    fn lane(self: &Arc<Self>, worker: &Rc<Worker>, index: usize) -> WebSocketLane {
        WebSocketLane {
            protocol: Arc::clone(self),
            worker: Rc::clone(worker),
            index,
            connection: None,
            answer: Vec::new(),
            out: Vec::new(),
        }
    }
}

/// Builds the handshake request up to the value of its key, from the path and headers of the case.
fn handshake(case: &Case, target: &Target) -> Result<Vec<u8>, BenchError> {
    let mut plain = case.clone();
    plain.http.method = "GET".into();
    plain.http.body = None;
    plain.load.keep_alive = true;
    let requests = Requests::prepare(&plain, target)?;
    let entry = requests.next(Ticket { number: 0 });
    let parts = entry.fixed_parts().ok_or_else(|| BenchError::Case {
        key: "http.template".into(),
        why: "is not for WebSockets, whose handshake is the same for all".into(),
    })?;
    let mut head = format!("GET {} HTTP/1.1\r\n", parts.path);
    for (name, value) in &parts.headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str(
        "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n\
         Sec-WebSocket-Key: ",
    );
    Ok(head.into_bytes())
}

/// Lane with its own connection; one message at a time.
pub struct WebSocketLane {
    protocol: Arc<WebSocket>,
    worker: Rc<Worker>,
    index: usize,
    connection: Option<Connection>,
    answer: Vec<u8>,
    /// Masked frame that is sent.
    out: Vec<u8>,
}

struct Connection {
    stream: Stream,
    /// Received bytes of an incomplete frame.
    read: Vec<u8>,
    has_carried: bool,
    _open: OpenConnection,
}

impl Lane for WebSocketLane {
    async fn open(&mut self) -> Result<(), Failure> {
        self.connection = Some(self.connect(&mut Marks::default()).await?);
        Ok(())
    }

    async fn exchange(&mut self, _ticket: Ticket, marks: &mut Marks) -> Result<Reply, Failure> {
        let protocol = Arc::clone(&self.protocol);
        let mut connection = match self.connection.take() {
            Some(open) => open,
            None => self.connect(marks).await?,
        };
        marks.is_reused = std::mem::replace(&mut connection.has_carried, true);
        marks.sent_ns = self.worker.now_ns();
        self.send(&mut connection, Opcode::Text, &protocol.message, marks).await?;
        self.receive(&mut connection, marks).await?;
        match protocol.keep_alive {
            true => self.connection = Some(connection),
            // A failed close frame is ignored, because the response is complete and the peer may be
            // gone.
            false => {
                drop(self.send(&mut connection, Opcode::Close, &[], &mut Marks::default()).await);
            }
        }
        let reply = Reply { status: 0, body_bytes: self.answer.len() as u64 };
        if protocol.expects_echo && self.answer != protocol.message {
            let message = format!("an answer of {} bytes is not the echo", self.answer.len());
            return Err(Failure::new(FailureClass::Check, message));
        }
        protocol.check.apply(reply, &self.answer)?;
        Ok(reply)
    }

    fn abandon(&mut self) {
        self.connection = None;
    }
}

impl WebSocketLane {
    async fn connect(&self, marks: &mut Marks) -> Result<Connection, Failure> {
        marks.connect_from_ns = self.worker.now_ns();
        let mut stream = self.protocol.connector.open(self.index).await?;
        let random = self.worker.random().borrow_mut().next_u64();
        let other = self.worker.random().borrow_mut().next_u64();
        let key = STANDARD.encode((u128::from(random) << 64 | u128::from(other)).to_be_bytes());
        let mut head = self.protocol.handshake.clone();
        head.extend_from_slice(key.as_bytes());
        head.extend_from_slice(b"\r\n\r\n");
        write(&mut stream, &head).await?;
        let mut read = Vec::new();
        let head_bytes = loop {
            if let Some(bytes) = accepted(&read, &key)? {
                break bytes;
            }
            self.read_more(&mut stream, &mut read).await?;
        };
        read.drain(..head_bytes);
        marks.connected_ns = self.worker.now_ns();
        let open = self.worker.connected(marks.connected_ns - marks.connect_from_ns);
        Ok(Connection { stream, read, has_carried: false, _open: open })
    }

    async fn send(
        &mut self,
        connection: &mut Connection,
        opcode: Opcode,
        payload: &[u8],
        marks: &mut Marks,
    ) -> Result<(), Failure> {
        let mask = (self.worker.random().borrow_mut().next_u64() as u32).to_be_bytes();
        self.out.clear();
        frame::put(opcode, payload, mask, &mut self.out);
        write(&mut connection.stream, &self.out).await?;
        marks.sent_bytes += self.out.len() as u64;
        Ok(())
    }

    /// Receives frames until a message is complete; answers pings meanwhile.
    async fn receive(
        &mut self,
        connection: &mut Connection,
        marks: &mut Marks,
    ) -> Result<(), Failure> {
        self.answer.clear();
        loop {
            let malformed = |why| Failure::new(FailureClass::Malformed, why);
            let Some(frame) = frame::parse(&connection.read).map_err(malformed)? else {
                let bytes = self.read_more(&mut connection.stream, &mut connection.read).await?;
                if marks.received_bytes == 0 {
                    marks.first_byte_ns = self.worker.now_ns();
                }
                marks.received_bytes += bytes as u64;
                continue;
            };
            let Frame { opcode, is_final, payload, bytes } = frame;
            // Copied, because the buffer it points into is shifted before the pong is sent.
            let ping = (opcode == Opcode::Ping).then(|| payload.to_vec());
            match opcode {
                Opcode::Close => return Err(closed(payload)),
                Opcode::Ping | Opcode::Pong => {}
                Opcode::Continuation | Opcode::Text | Opcode::Binary => {
                    if self.answer.len() + payload.len() > MESSAGE_BYTES_MAX {
                        let why = format!("a message of more than {MESSAGE_BYTES_MAX} bytes");
                        return Err(malformed(why));
                    }
                    self.answer.extend_from_slice(payload);
                }
            }
            connection.read.drain(..bytes);
            if let Some(payload) = ping {
                self.send(connection, Opcode::Pong, &payload, marks).await?;
            } else if is_final && opcode != Opcode::Pong {
                return Ok(());
            }
        }
    }

    /// Reads through the worker's shared buffer, so that an idle connection holds none.
    async fn read_more(&self, stream: &mut Stream, into: &mut Vec<u8>) -> Result<usize, Failure> {
        poll_fn(|context| {
            let mut scratch = self.worker.scratch().borrow_mut();
            let mut buffer = ReadBuf::new(&mut scratch);
            let read = ready!(Pin::new(&mut *stream).poll_read(context, &mut buffer));
            read.map_err(|error| Failure::from_io(&error, FailureClass::Closed))?;
            if buffer.filled().is_empty() {
                let message = "connection closed before an answer";
                return Poll::Ready(Err(Failure::new(FailureClass::Closed, message)));
            }
            into.extend_from_slice(buffer.filled());
            Poll::Ready(Ok(buffer.filled().len()))
        })
        .await
    }
}

async fn write(stream: &mut Stream, bytes: &[u8]) -> Result<(), Failure> {
    let failed = |error: std::io::Error| Failure::from_io(&error, FailureClass::Write);
    stream.write_all(bytes).await.map_err(failed)?;
    stream.flush().await.map_err(failed)
}

/// Checks the handshake response. Returns the length of its head, or `None` while it is incomplete.
fn accepted(bytes: &[u8], key: &str) -> Result<Option<usize>, Failure> {
    let mut head = ResponseHead::default();
    let parsed = head.parse(bytes, &LIMITS, b"GET");
    let malformed = |why: String| Failure::new(FailureClass::Malformed, why);
    if !parsed.map_err(|error| malformed(error.to_string()))? {
        return Ok(None);
    }
    if head.status != SWITCHING_PROTOCOLS {
        let message = format!("status {} instead of 101 (WebSocket)", head.status);
        return Err(Failure::answered(FailureClass::Status, head.status, message));
    }
    let expected = derive_accept_key(key.as_bytes());
    match head.fields.find(b"sec-websocket-accept", bytes) {
        Some(given) if given == expected.as_bytes() => Ok(Some(head.head_bytes)),
        _ => Err(malformed("the answer to the WebSocket handshake has the wrong key".into())),
    }
}

/// Returns the failure for a close frame, which holds a code and a text.
fn closed(payload: &[u8]) -> Failure {
    let message = match payload.split_first_chunk() {
        Some((code, text)) => {
            let text = String::from_utf8_lossy(text);
            format!("WebSocket closed with {} {text}", u16::from_be_bytes(*code)).trim().to_owned()
        }
        None => "WebSocket closed".to_owned(),
    };
    Failure::new(FailureClass::Closed, message)
}
