//! Asks a server for the descriptors of a service: the reflection protocol, `v1` first, then `v1alpha`,
//! which differ in their name only.
//!
//! It runs once, before the load, on a connection and a runtime of its own.

mod wire;

use std::collections::BTreeSet;
use std::future::poll_fn;
use std::time::Duration;

use bytes::Bytes;
use h2::{RecvStream, SendStream};
use http::{HeaderMap, Method, Request, Uri, Version};
use prost::Message as _;
use prost_reflect::DescriptorPool;
use prost_types::FileDescriptorProto;

use super::frame::{Encoding, frame};
use super::metadata::reflection_headers;
use super::schema::{CallName, Files, missing, pool_of};
use super::status::{Code, decode_message};
use super::{authority_of, scheme_of};
use crate::case::{Case, GrpcCall};
use crate::connect::Connector;
use crate::error::BenchError;
use crate::failure::Failure;
use crate::protocol::http2::channel::{check_alpn, settings};
use crate::protocol::http2::failure::failure_of;
use wire::{ErrorAnswer, Question, ServerAnswer, ServerQuestion};

/// The services, newest first.
const SERVICES: [&str; 2] = ["grpc.reflection.v1", "grpc.reflection.v1alpha"];
/// Files that a service and its imports may have.
const FILES_MAX: usize = 4_096;
/// Bytes of one answer: the descriptors of a large API take a few megabytes.
const ANSWER_BYTES_MAX: usize = 64 * 1024 * 1024;
/// A server that does not answer must not hold the run up for longer, whatever its requests may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// Why the server's descriptors cannot be had.
#[derive(Debug)]
enum Refusal {
    /// It does not know this version of reflection.
    Unimplemented,
    /// It answered with a gRPC status, or broke the protocol.
    Other(String),
}

/// Asks the case's target for the descriptors of its call (blocking).
///
/// # Errors
/// It cannot be reached, has no reflection, or does not know the service.
pub(super) fn pool_of_server(
    case: &Case,
    call: &GrpcCall,
    connector: &Connector,
) -> Result<DescriptorPool, BenchError> {
    let service = CallName::parse(&call.call)?.service;
    let headers = reflection_headers(case, call)?;
    let error = |why: String| BenchError::Probe { target: case.target.clone(), why };
    let ask = async {
        let asked = ask(connector, call, &headers, service);
        let in_time = tokio::time::timeout(case.load.timeout.min(PATIENCE), asked).await;
        in_time.unwrap_or_else(|_| Err("no answer to the reflection request in time".into()))
    };
    // A thread of its own, because a runtime cannot be started inside of another.
    let files = std::thread::scope(|scope| {
        let asking = scope.spawn(|| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.map_err(|io| io.to_string())?.block_on(ask)
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
    let broken = |error: &h2::Error| failure_of(error).message;
    let (sender, driver) =
        settings().handshake::<_, Bytes>(stream).await.map_err(|error| broken(&error))?;
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
            match files_of(&sender, uri, headers, service).await {
                Ok(files) => return Ok(files),
                Err(Refusal::Unimplemented) => {}
                Err(Refusal::Other(why)) => return Err(why),
            }
        }
        Err("the server has no reflection; give its .proto file or a protoset".to_owned())
    };
    tokio::select! {
        asked = asked => asked,
        ended = driver => match ended {
            Ok(()) => Err("the connection ended before the descriptors were there".into()),
            Err(error) => Err(broken(&error)),
        },
    }
}

/// The file that declares a service, and everything it imports.
async fn files_of(
    sender: &h2::client::SendRequest<Bytes>,
    uri: Uri,
    headers: &HeaderMap,
    service: &str,
) -> Result<Files, Refusal> {
    let mut talk = Talk::begin(sender, uri, headers).await?;
    let mut files = Files::new();
    let mut asked = BTreeSet::new();
    talk.ask(Question::FileContainingSymbol(service.to_owned()), &mut files).await?;
    loop {
        // Those of `google.protobuf` are known anyway.
        let wanted = |name: &&str| !name.starts_with("google/protobuf/") && !asked.contains(*name);
        let Some(name) = missing(&files).find(wanted).map(str::to_owned) else { break };
        talk.ask(Question::FileByFilename(name.clone()), &mut files).await?;
        asked.insert(name);
    }
    Ok(files)
}

/// The stream of questions and answers.
struct Talk {
    sending: SendStream<Bytes>,
    answer: Option<h2::client::ResponseFuture>,
    stream: Option<RecvStream>,
    bytes: Vec<u8>,
}

impl Talk {
    async fn begin(
        sender: &h2::client::SendRequest<Bytes>,
        uri: Uri,
        headers: &HeaderMap,
    ) -> Result<Self, Refusal> {
        let mut request = Request::new(());
        *request.version_mut() = Version::HTTP_2;
        *request.method_mut() = Method::POST;
        *request.uri_mut() = uri;
        *request.headers_mut() = headers.clone();
        let mut sender = sender.clone();
        poll_fn(|context| sender.poll_ready(context)).await.map_err(broken)?;
        let (answer, sending) = sender.send_request(request, false).map_err(broken)?;
        Ok(Self { sending, answer: Some(answer), stream: None, bytes: Vec::new() })
    }

    /// Asks one thing, and adds the files that come back.
    async fn ask(&mut self, question: Question, files: &mut Files) -> Result<(), Refusal> {
        let question = ServerQuestion { host: String::new(), question: Some(question) };
        let framed = frame(Encoding::Identity, |out| question.encode(out))
            .map_err(|error| Refusal::Other(error.to_string()))?;
        self.sending.send_data(framed, false).map_err(broken)?;
        let answer = self.next().await?;
        if let Some(ErrorAnswer { code, message }) = answer.error {
            let code = Code(u8::try_from(code).unwrap_or(Code::UNKNOWN.0));
            let why = format!("its reflection says {}: {message}", code.name());
            return Err(Refusal::Other(why));
        }
        for encoded in answer.files.unwrap_or_default().files {
            let file = FileDescriptorProto::decode(encoded.as_slice())
                .map_err(|error| Refusal::Other(format!("a descriptor of it is none: {error}")))?;
            files.insert(file.name().to_owned(), file);
        }
        if files.len() > FILES_MAX {
            return Err(Refusal::Other(format!("the service has more than {FILES_MAX} files")));
        }
        Ok(())
    }

    /// The next answer.
    async fn next(&mut self) -> Result<ServerAnswer, Refusal> {
        if let Some(answer) = self.answer.take() {
            let response = answer.await.map_err(broken)?;
            check(response.status().as_u16(), response.headers())?;
            self.stream = Some(response.into_body());
        }
        let ended = || Refusal::Other("the reflection stream ended".into());
        let stream = self.stream.as_mut().ok_or_else(ended)?;
        loop {
            if let Some(message) = whole(&self.bytes)? {
                let (message, rest) = message;
                let answer =
                    ServerAnswer::decode(message).map_err(|_| Refusal::Other(NO_ANSWER.into()))?;
                self.bytes = rest.to_vec();
                return Ok(answer);
            }
            let Some(data) = stream.data().await else {
                let trailers = stream.trailers().await.map_err(broken)?;
                check(200, &trailers.unwrap_or_default())?;
                return Err(ended());
            };
            let data = data.map_err(broken)?;
            let _ = stream.flow_control().release_capacity(data.len());
            self.bytes.extend_from_slice(&data);
        }
    }
}

/// What is said of a server that answers whatever it is asked.
const NO_ANSWER: &str = "it answers what is asked of its reflection with something else; name the \
                         method's file with --proto or --protoset";

type MessageAndRest<'a> = (&'a [u8], &'a [u8]);

/// The first message, when all of it is there, and what follows.
fn whole(bytes: &[u8]) -> Result<Option<MessageAndRest<'_>>, Refusal> {
    let Some((&[_flag, length @ ..], rest)) = bytes.split_first_chunk::<5>() else {
        return Ok(None);
    };
    let length = u32::from_be_bytes(length) as usize;
    if length > ANSWER_BYTES_MAX {
        return Err(Refusal::Other(format!("a reflection answer of {length} bytes")));
    }
    Ok(rest.split_at_checked(length))
}

/// Refuses what is no success.
fn check(http_status: u16, headers: &HeaderMap) -> Result<(), Refusal> {
    let code = headers.get("grpc-status").and_then(|value| value.to_str().ok()?.parse().ok());
    let code = match (code, http_status) {
        (Some(code), _) => Code(code),
        (None, 200) => return Ok(()),
        (None, status) => Code::of_http(status),
    };
    match code {
        Code::OK => Ok(()),
        Code::UNIMPLEMENTED => Err(Refusal::Unimplemented),
        code => {
            let message = headers.get("grpc-message").map(|value| decode_message(value.as_bytes()));
            let message = message.unwrap_or_default();
            Err(Refusal::Other(format!("its reflection says {}: {message}", code.name())))
        }
    }
}

fn broken(error: h2::Error) -> Refusal {
    Refusal::Other(failure_of(&error).message)
}
