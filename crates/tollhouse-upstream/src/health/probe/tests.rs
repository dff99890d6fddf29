//! Tests of the bytes of probes, and of probes over real sockets on the loopback interface.

use std::net::SocketAddr;

use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::*;
use crate::health::simulation::checks;

fn active(change: impl FnOnce(&mut ActiveCheck)) -> ActiveCheck {
    let mut active = checks().active;
    change(&mut active);
    active
}

#[test]
fn a_request_says_what_the_document_says() {
    for (active, expected) in [
        (active(|_| ()), "GET / HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n"),
        (
            active(|a| {
                a.http_method = "POST".into();
                a.http_path = "/live?x=1".into();
                a.http_request_body = "ping".into();
                a.request_headers = vec!["User-Agent: check".into()];
            }),
            "POST /live?x=1 HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\
             User-Agent: check\r\nContent-Length: 4\r\n\r\nping",
        ),
        (
            active(|a| {
                a.http_path = "/ HTTP/1.1\r\nEvil: 1".into();
                a.http_method = "GET /evil".into();
                a.request_headers = [
                    "A: 1\r\nB: 2",
                    "host: b.example",
                    "C D: 3",
                    "no colon",
                    "Content-Length: 7",
                    "Transfer-Encoding: chunked",
                    "Connection: keep-alive",
                    "E:\t4 ",
                ]
                .map(String::from)
                .to_vec();
            }),
            "GET / HTTP/1.1\r\nHost: b.example\r\nConnection: close\r\nE: 4\r\n\r\n",
        ),
        (
            active(|a| a.request_headers = vec!["Host: b\tc".into()]),
            "GET / HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n",
        ),
    ] {
        assert_eq!(String::from_utf8(request(&active, "a.example")).unwrap(), expected);
    }
}

#[test]
fn a_status_line_is_read_strictly() {
    for (line, expected) in [
        ("HTTP/1.1 200 OK\r\n", Some(200)),
        ("HTTP/1.0 503\r\n", Some(503)),
        ("HTTP/1.1 404", Some(404)),
        ("HTTP/1.1 2000 OK\r\n", None),
        ("HTTP/1.1 20", None),
        ("HTTP/1.1 2x0 OK", None),
        ("HTTP/1.1 099 No", None),
        ("HTTP/2 200\r\n", None),
        ("SSH-2.0-OpenSSH\r\n", None),
        ("", None),
    ] {
        assert_eq!(parse_status(line.as_bytes()), expected, "{line}");
    }
}

#[test]
fn an_ipv6_host_stands_in_brackets() {
    for (host, expected) in [("::1", "[::1]"), ("10.0.0.1", "10.0.0.1"), ("a.example", "a.example")]
    {
        assert_eq!(host_text(host), expected);
    }
}

/// Answers one connection with this text, after the whole head was read.
async fn probe_against(answer: Option<&'static str>, kind: CheckKind) -> ProbeOutcome {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let Some(answer) = answer else { return std::future::pending().await };
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") && stream.read_buf(&mut head).await.unwrap() > 0 {}
        stream.write_all(answer.as_bytes()).await.unwrap();
    });
    let mut checks = checks();
    checks.active.kind = kind;
    checks.active.https_verify_certificate = false;
    let probe = probe(address, checks);
    let outcome = Arc::new(SocketProber::default()).probe(probe).await;
    server.abort();
    outcome
}

fn probe(address: SocketAddr, checks: Checks) -> Probe {
    let checks = Arc::new(checks);
    Probe {
        address: address.into(),
        host: "a.example".into(),
        checks,
        authorities: None,
        proxy_protocol: None,
    }
}

#[tokio::test]
async fn a_node_that_expects_proxy_headers_hears_that_a_probe_comes_for_nobody() {
    let local = b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0";
    for (version, port, expected) in [
        (ProxyHeader::V1, None, &b"PROXY UNKNOWN\r\n"[..]),
        (ProxyHeader::V2, None, local),
        (ProxyHeader::V2, Some(1), b""),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut heard = Vec::new();
            while !heard.ends_with(b"\r\n\r\n")
                || heard.starts_with(b"\r\n\r\n") && heard.len() < 20
            {
                let mut byte = [0];
                stream.read_exact(&mut byte).await.unwrap();
                heard.push(byte[0]);
            }
            stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
            heard
        });
        let mut checks = checks();
        checks.active.port = port;
        let probe = Probe { proxy_protocol: Some(version), ..probe(address, checks) };
        let outcome = Arc::new(SocketProber::default()).probe(probe).await;
        assert_eq!(outcome, ProbeOutcome::Answered(200));
        let heard = server.await.unwrap();
        let rest = heard.strip_prefix(expected).expect("the header comes first");
        assert!(rest.starts_with(b"GET "), "{heard:?}");
    }
}

#[tokio::test]
async fn probes_tell_what_the_node_did() {
    for (answer, kind, expected) in [
        (Some("HTTP/1.1 200 OK\r\n\r\n"), CheckKind::Http, ProbeOutcome::Answered(200)),
        (Some("HTTP/1.1 503 No\r\n\r\n"), CheckKind::Http, ProbeOutcome::Answered(503)),
        (Some("hello\r\n"), CheckKind::Http, ProbeOutcome::Failed),
        (Some(""), CheckKind::Http, ProbeOutcome::Failed),
        (Some(""), CheckKind::Tcp, ProbeOutcome::Connected),
        (None, CheckKind::Tcp, ProbeOutcome::Connected),
    ] {
        assert_eq!(probe_against(answer, kind).await, expected, "{answer:?}");
    }
}

#[tokio::test]
async fn a_refused_connection_is_a_failure() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let probe = probe(address, checks());
    let outcome = Arc::new(SocketProber::default()).probe(probe).await;
    assert_eq!(outcome, ProbeOutcome::Failed);
}

#[tokio::test(start_paused = true)]
async fn a_silent_node_is_a_time_out() {
    // Virtual time advances by itself while only the timer is awaited.
    assert_eq!(probe_against(None, CheckKind::Http).await, ProbeOutcome::TimedOut);
}

/// Runs an https node whose certificate is not signed by a trusted authority.
async fn https_node(listener: TcpListener) {
    let chain = include_bytes!("../../../testdata/node_certificate.pem");
    let key = include_bytes!("../../../testdata/node_key.pem");
    let chain = CertificateDer::pem_slice_iter(chain).collect::<Result<Vec<_>, _>>().unwrap();
    let key = PrivateKeyDer::from_pem_slice(key).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    loop {
        let (tcp, _) = listener.accept().await.unwrap();
        let Ok(mut stream) = acceptor.accept(tcp).await else { continue };
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") && stream.read_buf(&mut head).await.unwrap() > 0 {}
        stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await.unwrap();
        stream.flush().await.unwrap();
    }
}

#[tokio::test]
async fn an_https_probe_verifies_the_certificate_only_when_told() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = tokio::spawn(https_node(listener));
    let prober = Arc::new(SocketProber::default());
    for (verify, expected) in [(false, ProbeOutcome::Answered(204)), (true, ProbeOutcome::Failed)] {
        let mut checks = checks();
        checks.active.kind = CheckKind::Https;
        checks.active.timeout = Duration::from_secs(10);
        checks.active.https_verify_certificate = verify;
        let probe = probe(address, checks);
        assert_eq!(Arc::clone(&prober).probe(probe).await, expected);
    }
    server.abort();
}
