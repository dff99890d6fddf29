//! HTTP/2: by prior knowledge and over TLS; many streams, bodies both ways, errors and resets.

use std::io::{Read, Write};
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use h2::client::{ResponseFuture, SendRequest};
use h2::{Reason, RecvStream};
use http::{Request, Response};
use rustls::ClientConfig;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{DigitallySignedStruct, SignatureScheme};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tollhouse_mock::{Behaviour, Body, Latency, Mock, Share, Tls};

use super::{runtime, start};

/// Longest run of h2spec: some of its cases wait until nothing comes.
const SUITE_TIME_MAX: std::time::Duration = std::time::Duration::from_secs(180);

/// A client on a connection of its own; its other half is driven by the runtime.
pub(super) async fn client<S>(stream: S) -> SendRequest<Bytes>
where
    S: AsyncRead + AsyncWrite + Unpin + 'static,
{
    let (client, connection) = h2::client::handshake(stream).await.expect("HTTP/2 is spoken");
    tokio::task::spawn_local(async move {
        // Ends with the test.
        let _ = connection.await;
    });
    client
}

pub(super) async fn plain(mock: &Mock) -> SendRequest<Bytes> {
    client(TcpStream::connect(mock.address()).await.expect("the mock listens")).await
}

/// The body, to its end.
pub(super) async fn read(mut body: RecvStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    while let Some(data) = body.data().await {
        let data = data.expect("data");
        body.flow_control().release_capacity(data.len()).expect("an open stream");
        bytes.extend_from_slice(&data);
    }
    bytes
}

async fn ask(client: &mut SendRequest<Bytes>, path: &str, body: &[u8]) -> ResponseFuture {
    let method = if body.is_empty() { "GET" } else { "POST" };
    let request = Request::builder().method(method).uri(format!("http://a{path}")).body(());
    std::future::poll_fn(|context| client.poll_ready(context)).await.expect("a stream is free");
    let (answer, mut stream) =
        client.send_request(request.expect("valid"), body.is_empty()).expect("sent");
    if !body.is_empty() {
        stream.send_data(Bytes::copy_from_slice(body), true).expect("sent");
    }
    answer
}

async fn finish(answer: ResponseFuture) -> (u16, Response<()>, Vec<u8>) {
    let (parts, body) = answer.await.expect("answered").into_parts();
    (parts.status.as_u16(), Response::from_parts(parts, ()), read(body).await)
}

#[test]
fn streams_are_answered_each_in_its_time() {
    let latency = Latency::fixed(std::time::Duration::from_millis(5));
    for latency in [Latency::default(), latency] {
        let mock = start(Behaviour { latency, ..Behaviour::ngxway() });
        runtime().block_on(async {
            let mut client = plain(&mock).await;
            let mut answers = Vec::new();
            for index in 0..100 {
                let path = if index % 10 == 0 { "/other" } else { "/api/test" };
                let body: &[u8] = if index % 2 == 0 { b"" } else { b"some body" };
                answers.push(ask(&mut client, path, body).await);
            }
            for (index, answer) in answers.into_iter().enumerate() {
                let (status, response, body) = finish(answer).await;
                if index % 10 == 0 {
                    assert_eq!(status, 404);
                } else {
                    assert_eq!((status, &body[..]), (200, &b"ok"[..]));
                    assert_eq!(response.headers()["content-length"], "2");
                    assert_eq!(response.headers()["server"], "tollhouse-mock");
                }
            }
        });
        assert_eq!((mock.requests(), mock.connections()), (100, 1));
    }
}

#[test]
fn long_bodies_pass_both_ways() {
    let mock = start(Behaviour { body: Body::Echo, ..Behaviour::default() });
    let sent: Vec<u8> = (0..3_000_000_u32).map(|index| index as u8).collect();
    runtime().block_on(async {
        let mut client = plain(&mock).await;
        let answer = ask(&mut client, "/", &sent).await;
        let (status, _, body) = finish(answer).await;
        assert_eq!(status, 200);
        assert!(body == sent, "{} bytes", body.len());
    });
}

#[test]
fn a_reset_ends_one_stream() {
    let mock = start(Behaviour { reset_rate: Share::new(1.0), ..Behaviour::default() });
    runtime().block_on(async {
        let mut client = plain(&mock).await;
        for _ in 0..2 {
            let error = ask(&mut client, "/", b"").await.await.expect_err("no answer");
            assert_eq!(error.reason(), Some(Reason::INTERNAL_ERROR));
        }
    });
    assert_eq!((mock.totals().resets, mock.connections()), (2, 1));
}

#[test]
fn a_connection_that_only_begins_like_http2_is_dropped() {
    let mock = start(Behaviour::default());
    let mut stream = super::connect(&mock);
    stream.write_all(b"PRI * HTTP/2.0\r\n\r\nnonsense and more of it").expect("sent");
    // What the mock says before it closes, if anything, is its settings.
    let _ = stream.read_to_end(&mut Vec::new());
    // Counted after the connection is closed.
    let begun = Instant::now();
    while mock.totals().malformed == 0 && begun.elapsed() < super::PATIENCE {
        std::thread::yield_now();
    }
    assert_eq!((mock.requests(), mock.totals().malformed), (0, 1));
}

#[test]
fn h2spec_finds_no_failure_of_http2_in_clear_text() {
    let Some(h2spec) = tollhouse_testkit::program::find("h2spec") else { return };
    let body = Body::Bytes(Bytes::from_static(b"hello, world"));
    let mock = start(Behaviour { body, ..Behaviour::default() });
    let mut command = std::process::Command::new(h2spec);
    command.args(["--strict", "--timeout", "1", "--host", "127.0.0.1", "--port"]);
    command.arg(mock.address().port().to_string());
    let ran = tollhouse_testkit::program::run_within(&mut command, SUITE_TIME_MAX);
    assert!(ran.text.contains("146 tests, "), "{}", ran.text);
    let failed = ran.text.split("Failures:").nth(1).unwrap_or_default();
    let failed: Vec<_> = failed.lines().filter(|line| line.contains('×')).collect();
    // A port that speaks HTTP/1.1 as well answers what is no preface as a bad request of that.
    let is_known = |line: &&str| line.ends_with("Sends invalid connection preface");
    assert!(failed.len() <= 1 && failed.iter().all(is_known), "{failed:?}");
}

#[test]
fn tls_offers_both_protocols() {
    let mock = start(Behaviour { tls: Tls::SelfSigned, ..Behaviour::default() });
    runtime().block_on(async {
        for protocol in ["h2", "http/1.1"] {
            let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
            let mut config = ClientConfig::builder_with_provider(provider)
                .with_safe_default_protocol_versions()
                .expect("versions")
                .dangerous()
                .with_custom_certificate_verifier(Arc::new(Anything))
                .with_no_client_auth();
            config.alpn_protocols = vec![protocol.as_bytes().to_vec()];
            let stream = TcpStream::connect(mock.address()).await.expect("the mock listens");
            let name = ServerName::try_from("localhost").expect("a name");
            let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
            let stream = connector.connect(name, stream).await.expect("a handshake");
            assert_eq!(stream.get_ref().1.alpn_protocol(), Some(protocol.as_bytes()));
            if protocol == "h2" {
                let mut client = client(stream).await;
                let answer = ask(&mut client, "/", b"").await;
                assert_eq!(finish(answer).await.2, b"ok");
            } else {
                http1_over(stream).await;
            }
        }
    });
    assert_eq!(mock.requests(), 2);
}

async fn http1_over(mut stream: impl AsyncRead + AsyncWrite + Unpin) {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    stream.write_all(b"GET / HTTP/1.0\r\n\r\n").await.expect("sent");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.expect("answered");
    assert!(answer.ends_with(b"\r\n\r\nok"));
}

/// Takes any certificate; that it is well-formed is the handshake's to say.
#[derive(Debug)]
struct Anything;

impl ServerCertVerifier for Anything {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        rustls::crypto::aws_lc_rs::default_provider()
            .signature_verification_algorithms
            .supported_schemes()
    }
}
