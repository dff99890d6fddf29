//! Raw TCP. With a message, an exchange writes the message once and reads as many bytes; without,
//! opening and closing a connection is the exchange.

use std::rc::Rc;
use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::case::Case;
use crate::connect::{Connector, Stream};
use crate::error::BenchError;
use crate::failure::{Failure, FailureClass};
use crate::protocol::check::AnswerCheck;
use crate::protocol::{Lane, Marks, Protocol, Reply, Ticket};
use crate::target::Target;
use crate::worker::{OpenConnection, Worker};

/// TCP protocol, prepared for a case.
pub struct Tcp {
    connector: Connector,
    message: Vec<u8>,
    check: AnswerCheck,
    keep_alive: bool,
}

impl Protocol for Tcp {
    type Lane = TcpLane;

    fn prepare(case: &Case, target: &Target) -> Result<Self, BenchError> {
        Ok(Self {
            connector: Connector::new(case, target, &[])?,
            message: case.message.clone().into_bytes(),
            check: AnswerCheck::prepare(&case.checks)?,
            keep_alive: case.load.keep_alive,
        })
    }

    fn lane(self: &Arc<Self>, worker: &Rc<Worker>, index: usize) -> TcpLane {
        TcpLane {
            protocol: Arc::clone(self),
            worker: Rc::clone(worker),
            index,
            connection: None,
            answer: Vec::new(),
        }
    }
}

/// Lane with its own connection; one exchange at a time.
pub struct TcpLane {
    protocol: Arc<Tcp>,
    worker: Rc<Worker>,
    index: usize,
    connection: Option<Connection>,
    answer: Vec<u8>,
}

struct Connection {
    stream: Stream,
    has_carried: bool,
    _open: OpenConnection,
}

impl Lane for TcpLane {
    async fn open(&mut self) -> Result<(), Failure> {
        let connection = self.connect(&mut Marks::default()).await?;
        // If connecting itself is measured, the test connection is closed again.
        self.connection = (!self.protocol.message.is_empty()).then_some(connection);
        Ok(())
    }

    async fn exchange(&mut self, _ticket: Ticket, marks: &mut Marks) -> Result<Reply, Failure> {
        if self.protocol.message.is_empty() {
            // Opening the connection serves as both request and response.
            marks.sent_ns = self.worker.now_ns();
            self.connect(marks).await?;
            marks.first_byte_ns = marks.connected_ns;
            return Ok(Reply::default());
        }
        let mut connection = match self.connection.take().filter(|open| open.stream.is_quiet()) {
            Some(open) => open,
            None => self.connect(marks).await?,
        };
        marks.is_reused = std::mem::replace(&mut connection.has_carried, true);
        self.echo(&mut connection.stream, marks).await?;
        if self.protocol.keep_alive {
            self.connection = Some(connection);
        }
        let reply = Reply { status: 0, body_bytes: self.answer.len() as u64 };
        self.protocol.check.apply(reply, &self.answer)?;
        Ok(reply)
    }

    fn abandon(&mut self) {
        self.connection = None;
    }
}

impl TcpLane {
    async fn connect(&self, marks: &mut Marks) -> Result<Connection, Failure> {
        marks.connect_from_ns = self.worker.now_ns();
        let stream = self.protocol.connector.open(self.index).await?;
        marks.connected_ns = self.worker.now_ns();
        let open = self.worker.connected(marks.connected_ns - marks.connect_from_ns);
        Ok(Connection { stream, has_carried: false, _open: open })
    }

    /// Writes the message and reads as many bytes as it has.
    async fn echo(&mut self, stream: &mut Stream, marks: &mut Marks) -> Result<(), Failure> {
        let message = &self.protocol.message;
        marks.sent_ns = self.worker.now_ns();
        let sent = stream.write_all(message).await;
        sent.map_err(|error| Failure::from_io(&error, FailureClass::Write))?;
        marks.sent_bytes = message.len() as u64;
        self.answer.clear();
        self.answer.reserve(message.len());
        while self.answer.len() < message.len() {
            let left = (message.len() - self.answer.len()) as u64;
            let read = (&mut *stream).take(left).read_buf(&mut self.answer).await;
            let bytes = read.map_err(|error| Failure::from_io(&error, FailureClass::Closed))?;
            if bytes == 0 {
                let got = self.answer.len();
                let message = format!("connection closed after {got} of {} bytes", message.len());
                return Err(Failure::new(FailureClass::Closed, message));
            }
            if marks.received_bytes == 0 {
                marks.first_byte_ns = self.worker.now_ns();
            }
            marks.received_bytes += bytes as u64;
        }
        Ok(())
    }
}
