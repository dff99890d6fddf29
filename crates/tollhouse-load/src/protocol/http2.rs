//! HTTP/2: by prior knowledge in clear text, by ALPN over TLS; many exchanges per connection.
//!
//! [`channel`] manages the connections; this module defines requests and responses.

pub(in crate::protocol) mod channel;
pub(in crate::protocol) mod failure;
pub(in crate::protocol) mod fields;
pub(in crate::protocol) mod intake;
pub(in crate::protocol) mod prepared;
pub(in crate::protocol) mod session;

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::{Arc, OnceLock};

use crate::case::Case;
use crate::connect::Connector;
use crate::error::BenchError;
use crate::failure::Failure;
use crate::protocol::check::AnswerCheck;
use crate::protocol::request::Filled;
use crate::protocol::{Lane, Marks, Protocol, Reply, Ticket};
use crate::target::Target;
use crate::worker::Worker;

use channel::{Channel, Place};
use fields::Fields;
use intake::{Flow, Intake};
use prepared::PreparedRequests;

/// Maximum number of body bytes kept for checks; checks ignore the rest.
const KEPT_BYTES_MAX: usize = 4 * 1024 * 1024;

/// HTTP/2 protocol, prepared for a case.
pub struct Http2 {
    connector: Connector,
    requests: PreparedRequests,
    check: AnswerCheck,
    first_head: OnceLock<Vec<(String, String)>>,
    streams: usize,
    keep_alive: bool,
}

impl Protocol for Http2 {
    type Lane = Http2Lane;

    fn prepare(case: &Case, target: &Target) -> Result<Self, BenchError> {
        Ok(Self {
            connector: Connector::new(case, target, &["h2"])?,
            requests: PreparedRequests::prepare(case, target)?,
            check: AnswerCheck::prepare(&case.checks)?,
            first_head: OnceLock::new(),
            streams: case.load.streams,
            keep_alive: case.load.keep_alive,
        })
    }

    fn first_head(&self) -> Vec<(String, String)> {
        self.first_head.get().cloned().unwrap_or_default()
    }

    fn lane(self: &Arc<Self>, worker: &Rc<Worker>, index: usize) -> Http2Lane {
        let place = Place { lane: index, streams: self.streams, keep_alive: self.keep_alive };
        Http2Lane {
            protocol: Arc::clone(self),
            worker: Rc::clone(worker),
            name: format!("w{}c{index}", worker.index),
            filled: Filled::default(),
            channel: Channel::new(worker, &place),
            answer: Rc::new(RefCell::new(Answer::new(self))),
        }
    }
}

/// Lane with one stream at a time on a shared connection.
pub struct Http2Lane {
    protocol: Arc<Http2>,
    worker: Rc<Worker>,
    name: String,
    filled: Filled,
    channel: Channel,
    answer: Rc<RefCell<Answer>>,
}

/// Response of an exchange, while it is received.
struct Answer {
    protocol: Arc<Http2>,
    reply: Reply,
    /// Beginning of the body, if checks need it.
    body: Vec<u8>,
}

impl Lane for Http2Lane {
    async fn open(&mut self) -> Result<(), Failure> {
        let protocol = Arc::clone(&self.protocol);
        self.channel.open(&protocol.connector, &mut Marks::default()).await
    }

    async fn exchange(&mut self, ticket: Ticket, marks: &mut Marks) -> Result<Reply, Failure> {
        let outcome = self.carry(ticket, marks).await;
        self.channel.finish(marks);
        outcome?;
        let answer = self.answer.borrow();
        self.protocol.check.apply(answer.reply, &answer.body)?;
        Ok(answer.reply)
    }

    fn abandon(&mut self) {
        self.channel.abandon();
    }
}

impl Http2Lane {
    async fn carry(&mut self, ticket: Ticket, marks: &mut Marks) -> Result<(), Failure> {
        let protocol = Arc::clone(&self.protocol);
        let request = {
            let random = &mut self.worker.random().borrow_mut();
            protocol.requests.next(ticket, &self.name, random, &mut self.filled)?
        };
        let intake: Rc<RefCell<dyn Intake>> = Rc::<RefCell<Answer>>::clone(&self.answer);
        let connector = &protocol.connector;
        self.channel.request(connector, &request.head(), request.body(), &intake, marks).await
    }
}

impl Answer {
    fn new(protocol: &Arc<Http2>) -> Self {
        Self { protocol: Arc::clone(protocol), reply: Reply::default(), body: Vec::new() }
    }
}

impl Intake for Answer {
    fn begin(&mut self) {
        self.reply = Reply::default();
        self.body.clear();
    }

    fn wants_fields(&self) -> bool {
        self.protocol.first_head.get().is_none()
    }

    fn head(&mut self, status: u16, fields: &Fields) -> Result<Flow, Failure> {
        self.reply.status = status;
        self.protocol.first_head.get_or_init(|| lines_of(fields));
        Ok(Flow::More)
    }

    fn data(&mut self, data: &[u8]) -> Result<Flow, Failure> {
        self.reply.body_bytes += data.len() as u64;
        if self.protocol.check.reads_body() {
            let room = KEPT_BYTES_MAX.saturating_sub(self.body.len());
            self.body.extend_from_slice(&data[..data.len().min(room)]);
        }
        Ok(Flow::More)
    }

    fn end(&mut self, _: Option<&Fields>) -> Result<(), Failure> {
        Ok(())
    }
}

fn lines_of(fields: &Fields) -> Vec<(String, String)> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    fields.iter().map(|(name, value)| (text(name), text(value))).collect()
}
