//! HTTP/2: by prior knowledge in clear text, by ALPN over TLS; many exchanges on a connection.
//!
//! Connections are [`channel`]'s; here is what a request and its answer are.

pub(in crate::protocol) mod channel;
pub(in crate::protocol) mod failure;
mod prepared;
mod traffic;

use std::rc::Rc;
use std::sync::{Arc, OnceLock};

use h2::RecvStream;
use http::{HeaderMap, Response};

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
use prepared::PreparedRequests;

/// Bytes of a body that are kept to be judged; a check looks no further.
const KEPT_BYTES_MAX: usize = 4 * 1024 * 1024;

/// A case over HTTP/2.
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
            body: Vec::new(),
        }
    }
}

/// One stream at a time of a connection.
pub struct Http2Lane {
    protocol: Arc<Http2>,
    worker: Rc<Worker>,
    /// What `{{.WorkerID}}` is.
    name: String,
    filled: Filled,
    channel: Channel,
    /// The beginning of the body, when it is judged.
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
        let reply = outcome?;
        self.protocol.check.apply(reply, &self.body)?;
        Ok(reply)
    }

    fn abandon(&mut self) {
        self.channel.abandon();
    }
}

impl Http2Lane {
    async fn carry(&mut self, ticket: Ticket, marks: &mut Marks) -> Result<Reply, Failure> {
        let protocol = Arc::clone(&self.protocol);
        let request = {
            let random = &mut self.worker.random().borrow_mut();
            protocol.requests.next(ticket, &self.name, random, &mut self.filled)?
        };
        let head = || request.head();
        let body = request.body();
        let response = self.channel.request(&protocol.connector, &head, body, marks).await?;
        self.receive(response).await
    }

    /// Takes the whole body in.
    async fn receive(&mut self, response: Response<RecvStream>) -> Result<Reply, Failure> {
        let status = response.status().as_u16();
        self.protocol.first_head.get_or_init(|| lines_of(response.headers()));
        let mut stream = response.into_body();
        let keeps_body = self.protocol.check.reads_body();
        self.body.clear();
        let mut body_bytes = 0;
        while let Some(data) = stream.data().await {
            let data = data.map_err(|error| self.channel.failed(&error))?;
            body_bytes += data.len() as u64;
            // It fails only for a stream that has ended, whose window nobody needs.
            let _ = stream.flow_control().release_capacity(data.len());
            if keeps_body {
                let room = KEPT_BYTES_MAX.saturating_sub(self.body.len());
                self.body.extend_from_slice(&data[..data.len().min(room)]);
            }
        }
        stream.trailers().await.map_err(|error| self.channel.failed(&error))?;
        Ok(Reply { status, body_bytes })
    }
}

/// Header lines as text.
fn lines_of(headers: &HeaderMap) -> Vec<(String, String)> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    headers.iter().map(|(name, value)| (name.to_string(), text(value.as_bytes()))).collect()
}
