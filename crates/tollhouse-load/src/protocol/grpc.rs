//! gRPC over HTTP/2: calls of all four kinds, with descriptors loaded at run time.
//!
//! [`Grpc::prepare`] does all work that is independent of single requests: descriptors, encoded
//! messages, headers. A request only fills in the variable parts.

mod answer;
mod data;
mod frame;
mod message;
mod metadata;
mod reflection;
mod schema;
pub mod status;
mod stream;
#[cfg(test)]
mod testing;

use std::borrow::Cow;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, Uri};
use prost_reflect::{DynamicMessage, MethodDescriptor};

use crate::case::{Case, Checks, GrpcCall};
use crate::connect::Connector;
use crate::error::BenchError;
use crate::failure::{Failure, FailureClass};
use crate::protocol::check::AnswerCheck;
use crate::protocol::{Lane, Marks, Protocol, Reply, Ticket};
use crate::target::Target;
use crate::worker::Worker;
use go_template::{Method, Variables};

use super::http2::channel::{Channel, Place};
use super::http2::intake::Intake;
use super::http2::prepared::request_line;
use super::http2::session::RequestHead;
use answer::{Answer, End, Status, with_code};
use data::{Data, FillError};
use frame::{Frames, Keeps};
use message::Fill;
use metadata::Metadata;
use status::Code;
use stream::{Rhythm, both, send_messages, within};

/// gRPC protocol, prepared for a case.
pub struct Grpc {
    connector: Connector,
    uri: Uri,
    method: MethodDescriptor,
    names: Method,
    data: Data,
    metadata: Metadata,
    rhythm: Rhythm,
    messages: Messages,
    /// Number of messages a client stream sends if the case gives no count.
    messages_a_call: u64,
    checks: Checks,
    check: AnswerCheck,
    answer_bytes_max: usize,
    streams: usize,
    keep_alive: bool,
}

/// Moment at which the templates in messages of a stream are expanded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Messages {
    OnceACall,
    EachAnew,
}

impl Protocol for Grpc {
    type Lane = GrpcLane;

    fn prepare(case: &Case, target: &Target) -> Result<Self, BenchError> {
        let call = case.grpc.clone().unwrap_or_default();
        let connector = Connector::new(case, target, &["h2"])?;
        let name = schema::CallName::parse(&call.call)?;
        let pool = match schema::pool_of_files(&call)? {
            Some(pool) => pool,
            None => reflection::pool_of_server(case, &call, &connector)?,
        };
        let method = schema::method(&pool, name)?;
        let answer_bytes_max = call.answer_bytes_max.unwrap_or(GrpcCall::ANSWER_BYTES_MAX);
        let mut grpc = Self {
            messages_a_call: 1,
            uri: uri_of(&call, target, &method)?,
            names: names_of(&method),
            data: Data::prepare(&call, &method)?,
            metadata: Metadata::prepare(case, &call)?,
            rhythm: Rhythm::from_call(&call),
            messages: match call.stream_dynamic_messages {
                true => Messages::EachAnew,
                false => Messages::OnceACall,
            },
            check: AnswerCheck::prepare(&case.checks)?,
            checks: case.checks.clone(),
            streams: case.load.streams,
            keep_alive: case.load.keep_alive,
            connector,
            method,
            answer_bytes_max,
        };
        // Expands all templates once before the clock starts, because a failing template would
        // otherwise be counted as failed requests.
        grpc.messages_a_call = grpc.try_out()?;
        Ok(grpc)
    }

    fn lane(self: &Arc<Self>, worker: &Rc<Worker>, index: usize) -> GrpcLane {
        let place = Place { lane: index, streams: self.streams, keep_alive: self.keep_alive };
        let keeps = if self.check.reads_body() { Keeps::Last } else { Keeps::Nothing };
        GrpcLane {
            protocol: Arc::clone(self),
            worker: Rc::clone(worker),
            worker_id: format!("g{}c{index}", worker.index),
            channel: Channel::new(worker, &place),
            answer: Rc::new(RefCell::new(Answer::new(Frames::new(self.answer_bytes_max, keeps)))),
            text: String::new(),
        }
    }

    fn status_name(status: u16) -> Option<String> {
        Some(Code(u8::try_from(status).unwrap_or(u8::MAX)).name())
    }
}

impl Grpc {
    /// Expands all templates once, so that an error in a template is reported before the load.
    /// Returns the number of messages.
    fn try_out(&self) -> Result<u64, BenchError> {
        let mut random = tollhouse_stdx::Random::from_process_entropy();
        let variables = Variables::now("g0c0", 0, &self.names, &mut random);
        let mut text = String::new();
        let mut fill = Fill { variables: &variables, random: &mut random, text: &mut text };
        let wrong = |key: &str| {
            let key = key.to_owned();
            move |why: String| BenchError::Case { key, why }
        };
        let failed = |key: &str| {
            let wrong = wrong(key);
            move |error: FillError| wrong(error.to_string())
        };
        self.metadata.headers(&mut fill).map_err(failed("grpc.metadata"))?;
        let all = self.data.all(&mut fill).map_err(failed("grpc.data"))?;
        if all.is_empty() && !self.method.is_client_streaming() {
            return Err(wrong("grpc.data")("the list is empty; a call needs a message".into()));
        }
        Ok(all.len() as u64)
    }

    fn head<'a>(&'a self, number: u64, headers: &'a Cow<'a, HeaderMap>) -> RequestHead<'a> {
        let is_fixed = matches!(headers, Cow::Borrowed(_));
        let number = is_fixed.then(|| self.metadata.turn_of(number));
        RequestHead { number, line: request_line("POST", &self.uri), headers }
    }

    /// Returns the outcome of a complete response: its status, length and checks.
    fn outcome(&self, status: &Status, frames: &Frames) -> Result<Reply, Failure> {
        let code = u16::from(status.code.0);
        let reply = Reply { status: code, body_bytes: frames.message_bytes() };
        let is_accepted = match self.checks.status.as_slice() {
            [] => status.code == Code::OK || self.checks.any_status,
            accepted => accepted.contains(&code),
        };
        if !is_accepted {
            return Err(with_code(FailureClass::Status, status.code, &status.message));
        }
        if !self.check.reads_body() {
            return self.check.apply(reply, &[]).map(|()| reply);
        }
        let json = self.json_of(frames.last());
        self.check.apply(reply, json.as_bytes()).map(|()| reply)
    }

    /// Decodes the last message to JSON for checks on its content; empty if the bytes are not a
    /// valid message.
    fn json_of(&self, message: &[u8]) -> String {
        let decoded = DynamicMessage::decode(self.method.output(), message).ok();
        decoded.and_then(|message| serde_json::to_string(&message).ok()).unwrap_or_default()
    }
}

/// Carrier of one gRPC call at a time.
pub struct GrpcLane {
    protocol: Arc<Grpc>,
    worker: Rc<Worker>,
    worker_id: String,
    channel: Channel,
    answer: Rc<RefCell<Answer>>,
    /// Buffer for expanding templates, reused between requests.
    text: String,
}

impl Lane for GrpcLane {
    async fn open(&mut self) -> Result<(), Failure> {
        let protocol = Arc::clone(&self.protocol);
        self.channel.open(&protocol.connector, &mut Marks::default()).await
    }

    async fn exchange(&mut self, ticket: Ticket, marks: &mut Marks) -> Result<Reply, Failure> {
        let protocol = Arc::clone(&self.protocol);
        let is_stream =
            protocol.method.is_client_streaming() || protocol.method.is_server_streaming();
        let outcome = match is_stream {
            true => self.stream(&protocol, ticket, marks).await,
            false => self.unary(&protocol, ticket, marks).await,
        };
        self.channel.finish(marks);
        outcome
    }

    fn abandon(&mut self) {
        self.channel.abandon();
    }
}

impl GrpcLane {
    async fn unary(
        &mut self,
        protocol: &Grpc,
        ticket: Ticket,
        marks: &mut Marks,
    ) -> Result<Reply, Failure> {
        let message = |data: &Data, fill: &mut Fill<'_, '_>| data.message(ticket.number, fill);
        let (headers, message) = self.fill(protocol, ticket, message)?;
        let intake = self.intake(None);
        let connector = &protocol.connector;
        let head = protocol.head(ticket.number, &headers);
        self.channel.request(connector, &head, message, &intake, marks).await?;
        self.conclude(protocol)
    }

    /// Prepares the receiver of the next call, which ends after `enough` messages.
    fn intake(&self, enough: Option<u64>) -> Rc<RefCell<dyn Intake>> {
        self.answer.borrow_mut().enough = enough;
        Rc::<RefCell<Answer>>::clone(&self.answer)
    }

    /// Expands the headers and messages of a call: one message, or all that a client stream sends.
    fn fill<'a, T>(
        &mut self,
        protocol: &'a Grpc,
        ticket: Ticket,
        messages: impl FnOnce(&Data, &mut Fill<'_, '_>) -> Result<T, FillError>,
    ) -> Result<(Cow<'a, HeaderMap>, T), Failure> {
        let mut random = self.worker.random().borrow_mut();
        let number = ticket.number;
        let variables = Variables::now(&self.worker_id, number, &protocol.names, &mut random);
        let mut fill = Fill { variables: &variables, random: &mut random, text: &mut self.text };
        let headers = protocol.metadata.headers(&mut fill);
        headers
            .and_then(|headers| Ok((headers, messages(&protocol.data, &mut fill)?)))
            .map_err(unwritten)
    }

    fn conclude(&self, protocol: &Grpc) -> Result<Reply, Failure> {
        let end = self.answer.borrow_mut().take_end();
        let frames = &self.answer.borrow().frames;
        match end {
            Some(End::Status(status)) => protocol.outcome(&status, frames),
            // The generator itself ended the stream, as configured.
            Some(End::Enough) | None => {
                let body_bytes = frames.message_bytes();
                Ok(Reply { status: u16::from(Code::CANCELED.0), body_bytes })
            }
        }
    }
}

impl GrpcLane {
    /// Sends the messages of a streaming call and reads its responses.
    async fn stream(
        &mut self,
        protocol: &Grpc,
        ticket: Ticket,
        marks: &mut Marks,
    ) -> Result<Reply, Failure> {
        let is_client_stream = protocol.method.is_client_streaming();
        let (headers, ready) =
            self.fill(protocol, ticket, |data, fill| match is_client_stream {
                false => Ok(vec![data.message(ticket.number, fill)?]),
                true if protocol.messages == Messages::OnceACall => data.all(fill),
                true => Ok(Vec::new()),
            })?;
        // The bounds apply to the sending side if the client streams, otherwise to the receiving
        // side.
        let (sends, receives) = match is_client_stream {
            true => (protocol.rhythm, Rhythm::NONE),
            false => (Rhythm { count: Some(1), ..Rhythm::NONE }, protocol.rhythm),
        };
        let intake = self.intake(receives.count);
        let (connector, head) = (&protocol.connector, protocol.head(ticket.number, &headers));
        let call = self.channel.start(connector, &head, None, &intake, marks).await?;
        let Self { worker, worker_id, text, .. } = self;
        let count = sends.count.unwrap_or(protocol.messages_a_call);
        let mut outgoing =
            Outgoing { protocol, worker, worker_id, number: ticket.number, count, ready, text };
        let sent = send_messages(&call, sends, |turn| outgoing.next(turn));
        let received = call.finished(&mut marks.first_byte_ns);
        let ended = both(sent, within(receives.duration, received)).await.map_err(unwritten)?;
        if let Some(Err(broken)) = ended {
            return Err(broken.failure);
        }
        // Dropping the call cancels the stream at the peer.
        self.conclude(protocol)
    }
}

/// Messages that a call sends on its stream.
struct Outgoing<'a> {
    protocol: &'a Grpc,
    worker: &'a Worker,
    worker_id: &'a str,
    number: u64,
    count: u64,
    /// Messages expanded once for the call; empty if each is expanded anew.
    ready: Vec<Bytes>,
    text: &'a mut String,
}

impl Outgoing<'_> {
    /// Returns the message at `turn`; `None` after the last.
    fn next(&mut self, turn: u64) -> Option<Result<Bytes, FillError>> {
        if turn >= self.count {
            return None;
        }
        if !self.ready.is_empty() {
            return Some(Ok(self.ready[(turn % self.ready.len() as u64) as usize].clone()));
        }
        if self.protocol.messages == Messages::OnceACall {
            return None;
        }
        let mut random = self.worker.random().borrow_mut();
        let names = &self.protocol.names;
        let variables = Variables::now(self.worker_id, self.number, names, &mut random);
        let mut fill = Fill { variables: &variables, random: &mut random, text: self.text };
        Some(self.protocol.data.message(turn, &mut fill))
    }
}

/// Converts a template error to a failure of writing, because the message was not sent.
fn unwritten(error: FillError) -> Failure {
    Failure::new(FailureClass::Write, error.to_string())
}

fn scheme_of(target: &Target) -> &'static str {
    if target.is_tls { "https" } else { "http" }
}

/// Returns the authority of the case, or else of the target.
fn authority_of<'a>(call: &'a GrpcCall, target: &'a Target) -> &'a str {
    call.authority.as_deref().unwrap_or(&target.authority)
}

fn uri_of(call: &GrpcCall, target: &Target, method: &MethodDescriptor) -> Result<Uri, BenchError> {
    let path = format!("/{}/{}", method.parent_service().full_name(), method.name());
    let authority = authority_of(call, target);
    let uri = Uri::builder().scheme(scheme_of(target)).authority(authority).path_and_query(path);
    uri.build().map_err(|error| BenchError::Case {
        key: "grpc.authority".into(),
        why: format!("`{authority}`: {error}"),
    })
}

/// Returns the names available to templates.
fn names_of(method: &MethodDescriptor) -> Method {
    Method {
        fully_qualified_name: method.full_name().to_owned(),
        method_name: method.name().to_owned(),
        service_name: method.parent_service().name().to_owned(),
        input_name: method.input().name().to_owned(),
        output_name: method.output().name().to_owned(),
        is_client_streaming: method.is_client_streaming(),
        is_server_streaming: method.is_server_streaming(),
    }
}
