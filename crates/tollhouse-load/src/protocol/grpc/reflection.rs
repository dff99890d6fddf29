//! Fetches the descriptors of a service from the server with the reflection protocol: `v1` first,
//! then `v1alpha`, which differ only in their name.
//!
//! Runs once before the load, on a separate connection and runtime.

mod wire;

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

use http::{HeaderMap, Uri};
use prost::Message as _;
use prost_reflect::DescriptorPool;
use prost_types::FileDescriptorProto;

use super::frame::{Encoding, PREFIX_BYTES, frame};
use super::metadata::reflection_headers;
use super::schema::{CallName, Files, missing, pool_of};
use super::status::{Code, decode_message};
use super::{authority_of, scheme_of};
use crate::case::{Case, GrpcCall};
use crate::connect::Connector;
use crate::error::BenchError;
use crate::failure::Failure;
use crate::protocol::http2::channel::check_alpn;
use crate::protocol::http2::fields::Fields;
use crate::protocol::http2::intake::{Flow, Intake};
use crate::protocol::http2::prepared::request_line;
use crate::protocol::http2::session::{Call, RequestHead, Session};
use tollhouse_net::clock::Clock;
use wire::{ErrorAnswer, Question, ServerAnswer, ServerQuestion};

/// Packages of the reflection service, newest first.
const SERVICES: [&str; 2] = ["grpc.reflection.v1", "grpc.reflection.v1alpha"];
/// Maximum number of files for a service and its imports.
const FILES_MAX: usize = 4_096;
/// Size limit of a response; the descriptors of a large API take a few megabytes.
const ANSWER_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Size of the read buffer in bytes.
const BUFFER_BYTES: usize = 64 * 1024;
/// Time limit for reflection, regardless of the request timeout, so that an unresponsive server
/// does not delay the run.
const PATIENCE: Duration = Duration::from_secs(20);

/// Reason why the server's descriptors are unavailable.
#[derive(Debug)]
enum Refusal {
    /// The server does not support this version of reflection.
    Unimplemented,
    /// The server sent a gRPC error status or broke the protocol.
    Other(String),
}

/// Fetches the descriptors of a call from the case's target (blocking).
///
/// # Errors
/// If the server is unreachable, does not support reflection, or does not know the service.
pub(super) fn pool_of_server(
    case: &Case,
    call: &GrpcCall,
    connector: &Connector,
) -> Result<DescriptorPool, BenchError> {
    let service = CallName::parse(&call.call)?.service;
    let headers = reflection_headers(case, call)?;
    let error = |why: String| BenchError::Probe { target: case.target.clone(), why };
    let ask = || async {
        let asked = ask(connector, call, &headers, service);
        let in_time = tokio::time::timeout(case.load.timeout.min(PATIENCE), asked).await;
        in_time.unwrap_or_else(|_| Err("no answer to the reflection request in time".into()))
    };
    // In a separate thread, because a runtime cannot be started within another.
    let files = std::thread::scope(|scope| {
        let asking = scope.spawn(|| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.map_err(|io| io.to_string())?.block_on(ask())
        });
        asking.join().unwrap_or_else(|_| Err("asking for descriptors panicked".into()))
    });
    pool_of(files.map_err(error)?).map_err(error)
}

async fn ask(
    connector: &Connector,
    call: &GrpcCall,
    headers: &HeaderMap,
    service: &str,
) -> Result<Files, String> {
    let text = |failure: Failure| failure.message;
    let stream = connector.open(0).await.map_err(text)?;
    check_alpn(&stream).map_err(text)?;
    let session = Session::new(Clock::start());
    let asked = async {
        for version in SERVICES {
            let target = connector.target();
            let path = format!("/{version}.ServerReflection/ServerReflectionInfo");
            let uri = Uri::builder()
                .scheme(scheme_of(target))
                .authority(authority_of(call, target))
                .path_and_query(path)
                .build()
                .map_err(|error| error.to_string())?;
            match files_of(&session, &uri, headers, service).await {
                Ok(files) => return Ok(files),
                Err(Refusal::Unimplemented) => {}
                Err(Refusal::Other(why)) => return Err(why),
            }
        }
        Err("the server has no reflection; give its .proto file or a protoset".to_owned())
    };
    let buffer = RefCell::new(vec![0; BUFFER_BYTES]);
    tokio::select! {
        asked = asked => asked,
        // The exchange receives the failure too and reports the missing response.
        ended = session.drive(stream, &buffer) => Err(ended.message),
    }
}

/// Fetches the file that declares a service, and all its imports.
async fn files_of(
    session: &Rc<Session>,
    uri: &Uri,
    headers: &HeaderMap,
    service: &str,
) -> Result<Files, Refusal> {
    let mut talk = Talk::begin(session, uri, headers).await?;
    let mut files = Files::new();
    let mut asked = BTreeSet::new();
    talk.ask(Question::FileContainingSymbol(service.to_owned()), &mut files).await?;
    loop {
        // Files of `google.protobuf` are built in.
        let wanted = |name: &&str| !name.starts_with("google/protobuf/") && !asked.contains(*name);
        let Some(name) = missing(&files).find(wanted).map(str::to_owned) else { break };
        talk.ask(Question::FileByFilename(name.clone()), &mut files).await?;
        asked.insert(name);
    }
    Ok(files)
}

/// Stream of reflection requests and responses.
struct Talk {
    call: Call,
    heard: Rc<RefCell<Heard>>,
}

#[derive(Default)]
struct Heard {
    /// Received messages that are not processed yet.
    bytes: Vec<u8>,
    refusal: Option<Refusal>,
}

impl Intake for Heard {
    fn begin(&mut self) {
        *self = Self::default();
    }

    fn wants_fields(&self) -> bool {
        true
    }

    fn head(&mut self, status: u16, fields: &Fields) -> Result<Flow, Failure> {
        self.refusal = check(status, fields).err();
        Ok(if self.refusal.is_some() { Flow::Enough } else { Flow::More })
    }

    fn data(&mut self, data: &[u8]) -> Result<Flow, Failure> {
        self.bytes.extend_from_slice(data);
        if self.bytes.len() > ANSWER_BYTES_MAX + PREFIX_BYTES {
            let why = format!("a reflection answer of more than {ANSWER_BYTES_MAX} bytes");
            self.refusal = Some(Refusal::Other(why));
            return Ok(Flow::Enough);
        }
        Ok(Flow::Look)
    }

    fn end(&mut self, trailers: Option<&Fields>) -> Result<(), Failure> {
        self.refusal = trailers.and_then(|trailers| check(200, trailers).err());
        Ok(())
    }
}

impl Heard {
    /// Returns the next complete message, or the error that ended the stream.
    fn take(&mut self) -> Option<Result<Vec<u8>, Refusal>> {
        match whole(&self.bytes) {
            Ok(None) => self.refusal.take().map(Err),
            Ok(Some((message, rest))) => {
                let message = message.to_vec();
                let rest = rest.len();
                self.bytes.drain(..self.bytes.len() - rest);
                Some(Ok(message))
            }
            Err(refusal) => Some(Err(refusal)),
        }
    }
}

impl Talk {
    async fn begin(session: &Rc<Session>, uri: &Uri, headers: &HeaderMap) -> Result<Self, Refusal> {
        let heard = Rc::<RefCell<Heard>>::default();
        let intake: Rc<RefCell<dyn Intake>> = Rc::<RefCell<Heard>>::clone(&heard);
        let head = RequestHead { number: None, line: request_line("POST", uri), headers };
        let opened = session.open(&head, None, &intake).await;
        let call = opened.map_err(|broken| Refusal::Other(broken.failure.message))?;
        Ok(Self { call, heard })
    }

    /// Sends a question and adds the files of its response.
    async fn ask(&mut self, question: Question, files: &mut Files) -> Result<(), Refusal> {
        let question = ServerQuestion { host: String::new(), question: Some(question) };
        let framed = frame(Encoding::Identity, |out| question.encode(out))
            .map_err(|error| Refusal::Other(error.to_string()))?;
        // A failed send is ignored: if the server ended the stream, its status gives the reason.
        self.call.send(framed).await;
        let answer = self.next().await?;
        if let Some(ErrorAnswer { code, message }) = answer.error {
            let code = Code(u8::try_from(code).unwrap_or(Code::UNKNOWN.0));
            let why = format!("its reflection says {}: {message}", code.name());
            return Err(Refusal::Other(why));
        }
        for encoded in answer.files.unwrap_or_default().files {
            let file = FileDescriptorProto::decode(encoded.as_slice())
                .map_err(|error| Refusal::Other(format!("an invalid descriptor: {error}")))?;
            files.insert(file.name().to_owned(), file);
        }
        if files.len() > FILES_MAX {
            return Err(Refusal::Other(format!("the service has more than {FILES_MAX} files")));
        }
        Ok(())
    }

    /// Waits for the next response of the server.
    async fn next(&self) -> Result<ServerAnswer, Refusal> {
        let message = self.call.until(|| self.heard.borrow_mut().take()).await;
        let message = message.map_err(|broken| {
            let why = broken.map(|broken| broken.failure.message);
            Refusal::Other(why.unwrap_or_else(|| "the reflection stream ended".into()))
        })??;
        ServerAnswer::decode(message.as_slice()).map_err(|_| Refusal::Other(NO_ANSWER.into()))
    }
}

/// Error message for a server that sends an undecodable reflection response.
const NO_ANSWER: &str = "it answers what is asked of its reflection with something else; name the \
                         method's file with --proto or --protoset";

type MessageAndRest<'a> = (&'a [u8], &'a [u8]);

/// Returns the first message, if complete, and the bytes after it.
fn whole(bytes: &[u8]) -> Result<Option<MessageAndRest<'_>>, Refusal> {
    let Some((&[_flag, length @ ..], rest)) = bytes.split_first_chunk::<PREFIX_BYTES>() else {
        return Ok(None);
    };
    let length = u32::from_be_bytes(length) as usize;
    if length > ANSWER_BYTES_MAX {
        return Err(Refusal::Other(format!("a reflection answer of {length} bytes")));
    }
    Ok(rest.split_at_checked(length))
}

/// Refuses an HTTP or gRPC status other than success.
fn check(http_status: u16, fields: &Fields) -> Result<(), Refusal> {
    let code =
        fields.get("grpc-status").and_then(|value| std::str::from_utf8(value).ok()?.parse().ok());
    let code = match (code, http_status) {
        (Some(code), _) => Code(code),
        (None, 200) => return Ok(()),
        (None, status) => Code::from_http(status),
    };
    match code {
        Code::OK => Ok(()),
        Code::UNIMPLEMENTED => Err(Refusal::Unimplemented),
        code => {
            let message = fields.get("grpc-message").map(decode_message).unwrap_or_default();
            Err(Refusal::Other(format!("its reflection says {}: {message}", code.name())))
        }
    }
}
