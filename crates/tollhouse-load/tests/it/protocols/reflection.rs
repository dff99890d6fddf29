//! Descriptors asked of the server: both versions of reflection, imports, refusals.

use std::collections::BTreeMap;
use std::future::poll_fn;

use bytes::{Buf, Bytes, BytesMut};
use prost::Message;
use prost_types::FileDescriptorProto;

use super::grpc::{call, kinds, testdata};
use super::server::{Call, Incoming, Plan, Server, header_map};
use super::{measure, mock, try_run};

const V1: &str = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";
const V1ALPHA: &str = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo";

/// `ServerReflectionRequest`, as far as it is answered.
#[derive(Clone, PartialEq, Message)]
struct Question {
    #[prost(string, optional, tag = "3")]
    file: Option<String>,
    #[prost(string, optional, tag = "4")]
    symbol: Option<String>,
}

/// `ServerReflectionResponse`, as far as it is used.
#[derive(Clone, PartialEq, Message)]
struct Answer {
    #[prost(message, optional, tag = "4")]
    files: Option<Files>,
    #[prost(message, optional, tag = "7")]
    error: Option<Refusal>,
}

#[derive(Clone, PartialEq, Message)]
struct Files {
    #[prost(bytes = "vec", repeated, tag = "1")]
    files: Vec<Vec<u8>>,
}

#[derive(Clone, PartialEq, Message)]
struct Refusal {
    #[prost(int32, tag = "1")]
    code: i32,
    #[prost(string, tag = "2")]
    message: String,
}

/// The files of the registry's service, by name.
fn files() -> BTreeMap<String, FileDescriptorProto> {
    let compiled = protox::compile([testdata("polaris/grpcapi.proto")], [testdata("polaris")]);
    let files = compiled.expect("test data").file;
    files.into_iter().map(|file| (file.name().to_owned(), file)).collect()
}

/// One file for every question, without its imports; nothing of google's.
fn answer(question: &Question) -> Answer {
    let files = files();
    let name = match (&question.file, question.symbol.as_deref()) {
        (Some(file), _) => file.as_str(),
        (None, Some("v1.PolarisGRPC")) => "grpcapi.proto",
        (None, _) => "",
    };
    match files.get(name).filter(|file| !file.name().starts_with("google/")) {
        Some(file) => {
            Answer { files: Some(Files { files: vec![file.encode_to_vec()] }), error: None }
        }
        None => {
            let message = format!("no {name}");
            Answer { files: None, error: Some(Refusal { code: 5, message }) }
        }
    }
}

fn reflect(call: Incoming) -> std::pin::Pin<Box<dyn Future<Output = ()>>> {
    Box::pin(async {
        let Incoming { request, mut respond } = call;
        let mut questions = request.into_body();
        let mut head = http::Response::new(());
        *head.headers_mut() = header_map(&[("content-type", "application/grpc")]);
        let mut answers = respond.send_response(head, false).expect("a head");
        let mut bytes = BytesMut::new();
        while let Some(data) = poll_fn(|context| questions.poll_data(context)).await {
            // The client drops the stream when it has all it wants.
            let Ok(data) = data else { return };
            bytes.extend_from_slice(&data);
            while bytes.len() >= 5 && bytes.len() >= 5 + (&bytes[1..5]).get_u32() as usize {
                let length = (&bytes[1..5]).get_u32() as usize;
                let question = bytes.split_to(5 + length);
                let question = Question::decode(&question[5..]).expect("a question");
                let answer = answer(&question).encode_to_vec();
                let mut framed = vec![0];
                framed.extend_from_slice(&(answer.len() as u32).to_be_bytes());
                framed.extend_from_slice(&answer);
                answers.send_data(Bytes::from(framed), false).expect("an answer");
            }
        }
    })
}

fn unimplemented(call: Incoming) -> std::pin::Pin<Box<dyn Future<Output = ()>>> {
    let head = [("content-type", "application/grpc"), ("grpc-status", "12")];
    Box::pin(async move { call.head_only(200, &head) })
}

fn echo(call: Incoming) -> std::pin::Pin<Box<dyn Future<Output = ()>>> {
    Box::pin(async { call.answer(&[], &[0, 0, 0, 0, 0], &[("grpc-status", "0")]) })
}

fn server(calls: &[(&'static str, Call)]) -> Server {
    let mut calls: std::collections::HashMap<&'static str, Call> = calls.iter().copied().collect();
    calls.insert("/v1.PolarisGRPC/Heartbeat", echo);
    Server::start(Plan { calls, ..Plan::default() })
}

fn heartbeat(server: &Server) -> tollhouse_load::case::Case {
    let mut case = kinds(server.address(), "Unary", r#"{"id": "ins-{{.RequestNumber}}"}"#);
    call(&mut case).proto = None;
    call(&mut case).call = "v1.PolarisGRPC/Heartbeat".into();
    case
}

#[test]
fn a_server_is_asked_for_its_files_and_their_imports() {
    for calls in [&[(V1, reflect as Call)][..], &[(V1, unimplemented), (V1ALPHA, reflect)]] {
        let server = server(calls);
        assert_eq!(measure(&heartbeat(&server)).counts.succeeded, 20);
    }
}

#[test]
fn a_server_that_cannot_be_asked_is_named() {
    let none = server(&[(V1, unimplemented), (V1ALPHA, unimplemented)]);
    let error = try_run(&heartbeat(&none)).expect_err("no reflection").to_string();
    assert!(error.contains("has no reflection; give its .proto file"), "{error}");
    let other = server(&[(V1, reflect)]);
    let mut case = heartbeat(&other);
    call(&mut case).call = "v2.Other/Heartbeat".into();
    let error = try_run(&case).expect_err("no such service").to_string();
    assert!(error.contains("its reflection says NotFound"), "{error}");
    // A server that echoes what it is asked, whatever it is.
    let mock = mock(tollhouse_mock::Behaviour::default());
    let mut case = heartbeat(&other);
    case.target = format!("grpc://{}", mock.address());
    let error = try_run(&case).expect_err("an echo is no answer").to_string();
    assert!(error.contains("cannot be measured"), "{error}");
}
