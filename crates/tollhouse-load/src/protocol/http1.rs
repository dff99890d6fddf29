//! HTTP/1.1 and 1.0: one exchange at a time per connection, with our own codec.

mod answer;

use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::ready;

use tokio::io::{AsyncRead, AsyncWriteExt, ReadBuf};

use crate::case::Case;
use crate::connect::{Connector, Stream};
use crate::error::BenchError;
use crate::failure::{Failure, FailureClass};
use crate::protocol::check::AnswerCheck;
use crate::protocol::request::{Filled, Requests};
use crate::protocol::{Lane, Marks, Protocol, Reply, Ticket};
use crate::target::Target;
use crate::worker::{OpenConnection, Worker};

use answer::{Answer, FirstHead, Progress};

/// HTTP/1 protocol, prepared for a case.
pub struct Http1 {
    connector: Connector,
    requests: Requests,
    check: AnswerCheck,
    keep_alive: bool,
    first_head: FirstHead,
}

impl Protocol for Http1 {
    type Lane = Http1Lane;

    fn prepare(case: &Case, target: &Target) -> Result<Self, BenchError> {
        Ok(Self {
            connector: Connector::new(case, target, &["http/1.1"])?,
            requests: Requests::prepare(case, target)?,
            check: AnswerCheck::prepare(&case.checks)?,
            keep_alive: case.load.keep_alive,
            first_head: FirstHead::default(),
        })
    }

    fn lane(self: &Arc<Self>, worker: &Rc<Worker>, index: usize) -> Http1Lane {
        Http1Lane {
            protocol: Arc::clone(self),
            worker: Rc::clone(worker),
            index,
            name: format!("w{}c{index}", worker.index),
            filled: Filled::default(),
            answer: Answer::new(self.check.reads_body(), Arc::clone(&self.first_head)),
            connection: None,
        }
    }

    fn first_head(&self) -> Vec<(String, String)> {
        self.first_head.get().cloned().unwrap_or_default()
    }
}

/// Lane with its own connection; one request at a time.
pub struct Http1Lane {
    protocol: Arc<Http1>,
    worker: Rc<Worker>,
    index: usize,
    /// Name of the lane in templates.
    name: String,
    filled: Filled,
    answer: Answer,
    connection: Option<Connection>,
}

struct Connection {
    stream: Stream,
    _open: OpenConnection,
}

impl Lane for Http1Lane {
    async fn open(&mut self) -> Result<(), Failure> {
        self.connection = Some(self.connect(&mut Marks::default()).await?);
        Ok(())
    }

    async fn exchange(&mut self, ticket: Ticket, marks: &mut Marks) -> Result<Reply, Failure> {
        let mut connection = self.connection(marks).await?;
        let protocol = Arc::clone(&self.protocol);
        let request = protocol.requests.next(ticket);
        let bytes = {
            let random = &mut *self.worker.random().borrow_mut();
            protocol.requests.bytes(request, ticket, &self.name, random, &mut self.filled)?
        };
        marks.sent_ns = self.worker.now_ns();
        connection.send(bytes, marks).await?;
        self.answer.begin(request.is_head);
        connection.receive(&self.worker, &mut self.answer, marks).await?;
        let reply = Reply { status: self.answer.status(), body_bytes: self.answer.body_bytes() };
        if self.answer.keeps_connection() && protocol.keep_alive {
            self.connection = Some(connection);
        }
        protocol.check.apply(reply, self.answer.body())?;
        Ok(reply)
    }

    fn abandon(&mut self) {
        self.connection = None;
    }
}

impl Http1Lane {
    /// Returns the open connection, unless the peer has closed it; otherwise a new one.
    async fn connection(&mut self, marks: &mut Marks) -> Result<Connection, Failure> {
        if let Some(connection) = self.connection.take()
            && connection.stream.is_quiet()
        {
            marks.is_reused = true;
            return Ok(connection);
        }
        self.connect(marks).await
    }

    async fn connect(&self, marks: &mut Marks) -> Result<Connection, Failure> {
        marks.connect_from_ns = self.worker.now_ns();
        let stream = self.protocol.connector.open(self.index).await?;
        marks.connected_ns = self.worker.now_ns();
        let open = self.worker.connected(marks.connected_ns - marks.connect_from_ns);
        Ok(Connection { stream, _open: open })
    }
}

impl Connection {
    async fn send(&mut self, bytes: &[u8], marks: &mut Marks) -> Result<(), Failure> {
        let written = self.stream.write_all(bytes).await;
        written.map_err(|error| Failure::from_io(&error, FailureClass::Write))?;
        if let Stream::Tls(_) = self.stream {
            let flushed = self.stream.flush().await;
            flushed.map_err(|error| Failure::from_io(&error, FailureClass::Write))?;
        }
        marks.sent_bytes = bytes.len() as u64;
        Ok(())
    }

    /// Receives bytes until the response is complete. They pass through the worker's shared buffer,
    /// so that an idle connection holds none.
    async fn receive(
        &mut self,
        worker: &Worker,
        answer: &mut Answer,
        marks: &mut Marks,
    ) -> Result<(), Failure> {
        poll_fn(|context| {
            let mut scratch = worker.scratch().borrow_mut();
            loop {
                let mut buffer = ReadBuf::new(&mut scratch);
                let read = ready!(Pin::new(&mut self.stream).poll_read(context, &mut buffer));
                read.map_err(|error| Failure::from_io(&error, FailureClass::Closed))?;
                let bytes = buffer.filled();
                if marks.received_bytes == 0 {
                    marks.first_byte_ns = worker.now_ns();
                }
                marks.received_bytes += bytes.len() as u64;
                let progress =
                    if bytes.is_empty() { answer.end_of_stream() } else { answer.take(bytes) };
                if progress? == Progress::Done {
                    return std::task::Poll::Ready(Ok(()));
                }
            }
        })
        .await
    }
}
