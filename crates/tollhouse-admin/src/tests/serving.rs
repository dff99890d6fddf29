//! The listener: plain, with TLS, and with certificates of clients.

use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;

use super::*;
use tollhouse_net::listener_tls::{ListenerTls, ListenerTlsError};

use crate::serve;

async fn start(
    tls: Option<ListenerTls>,
) -> (SocketAddr, oneshot::Sender<()>, tokio::task::JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
    let address = listener.local_addr().expect("it is bound");
    let (stop, stopped) = oneshot::channel::<()>();
    let api = Fixture::new().await.api;
    let serving = serve(listener, api, tls, usize::MAX, async move {
        let _ = stopped.await;
    });
    (address, stop, tokio::spawn(serving))
}

async fn ask(
    mut stream: impl tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
) -> std::io::Result<String> {
    let text = format!(
        "GET /apisix/admin/routes HTTP/1.1\r\nHost: a\r\nX-API-KEY: {ADMIN}\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(text.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer)
}

#[tokio::test]
async fn a_plain_listener_answers_and_stops() {
    let (address, stop, serving) = start(None).await;
    let answer = ask(TcpStream::connect(address).await.expect("it listens")).await;
    assert!(answer.expect("it answers").ends_with("{\"list\":[],\"total\":0}\n"));
    drop(stop);
    serving.await.expect("it ends by itself");
    assert!(TcpStream::connect(address).await.is_err());
}

#[tokio::test]
async fn a_request_of_http_1_1_has_one_host() {
    let (address, _stop, _serving) = start(None).await;
    for (head, expected) in [
        ("GET /apisix/admin/routes HTTP/1.1\r\n", "HTTP/1.1 400"),
        ("GET /apisix/admin/routes HTTP/1.1\r\nHost: a\r\nHost: a\r\n", "HTTP/1.1 400"),
        ("GET /apisix/admin/routes HTTP/1.1\r\nHost: a\r\n", "HTTP/1.1 401"),
        ("GET /apisix/admin/routes HTTP/1.0\r\n", "HTTP/1.0 401"),
    ] {
        let mut stream = TcpStream::connect(address).await.expect("it listens");
        let text = format!("{head}Connection: close\r\n\r\n");
        stream.write_all(text.as_bytes()).await.expect("it reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.expect("it answers");
        assert!(answer.starts_with(expected), "{head:?}: {answer}");
    }
}

fn connector(root: &str, identity: Option<(&str, &str)>) -> tokio_rustls::TlsConnector {
    let mut roots = rustls::RootCertStore::empty();
    let root = CertificateDer::from_pem_slice(root.as_bytes()).expect("it is PEM");
    roots.add(root).expect("it is a certificate");
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("there are versions")
        .with_root_certificates(roots);
    let config = match identity {
        None => builder.with_no_client_auth(),
        Some((cert, key)) => {
            let chain = vec![CertificateDer::from_pem_slice(cert.as_bytes()).expect("it is PEM")];
            let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).expect("it is PEM");
            builder.with_client_auth_cert(chain, key).expect("they go together")
        }
    };
    tokio_rustls::TlsConnector::from(Arc::new(config))
}

async fn ask_over_tls(
    address: SocketAddr,
    connector: &tokio_rustls::TlsConnector,
) -> std::io::Result<String> {
    let name = ServerName::try_from("test.com").expect("it is a name");
    let stream = TcpStream::connect(address).await?;
    ask(connector.connect(name, stream).await?).await
}

#[tokio::test]
async fn a_tls_listener_may_ask_for_certificates() {
    let (cert, key) = super::encryption::certificate();
    let (other_cert, other_key) = super::encryption::certificate();
    let plain = ListenerTls::from_pem(cert.as_bytes(), key.as_bytes(), None);
    let (address, _stop, _serving) = start(Some(plain.expect("they go together"))).await;
    let answer = ask_over_tls(address, &connector(&cert, None)).await;
    assert!(answer.expect("it answers").contains("200 OK"));

    let authorities = Some(other_cert.as_bytes());
    let known = connector(&cert, Some((&other_cert, &other_key)));
    let strangers = [connector(&cert, None), connector(&cert, Some((&cert, &key)))];
    let strict = ListenerTls::from_pem(cert.as_bytes(), key.as_bytes(), authorities);
    let (address, _stop, _serving) = start(Some(strict.expect("they go together"))).await;
    for stranger in &strangers {
        assert!(ask_over_tls(address, stranger).await.is_err());
    }
    assert!(ask_over_tls(address, &known).await.expect("it answers").contains("200 OK"));
}

#[tokio::test]
async fn strangers_are_answered_400_whatever_they_ask() {
    let (cert, key) = super::encryption::certificate();
    let (other_cert, other_key) = super::encryption::certificate();
    let authorities = Some(other_cert.as_bytes());
    let tls = ListenerTls::answering_strangers(cert.as_bytes(), key.as_bytes(), authorities);
    let (address, _stop, _serving) = start(Some(tls.expect("they go together"))).await;
    let known = connector(&cert, Some((&other_cert, &other_key)));
    for (connector, status, text) in [
        (connector(&cert, None), "400 Bad Request", "No required SSL certificate was sent"),
        (connector(&cert, Some((&cert, &key))), "400 Bad Request", "The SSL certificate error"),
        (known, "200 OK", "\"total\":0"),
    ] {
        // The second connection resumes the session of the first.
        for _ in 0..2 {
            let answer = ask_over_tls(address, &connector).await.expect("it answers");
            assert!(answer.starts_with(&format!("HTTP/1.1 {status}\r\n")), "{answer}");
            assert!(answer.contains(text), "{answer}");
        }
    }
    let name = ServerName::try_from("test.com").expect("it is a name");
    let stream = TcpStream::connect(address).await.expect("it listens");
    let mut stream = connector(&cert, None).connect(name, stream).await.expect("a handshake");
    let requests =
        format!("GET /apisix/admin/routes HTTP/1.1\r\nHost: a\r\nX-API-KEY: {ADMIN}\r\n\r\n");
    stream.write_all(requests.repeat(2).as_bytes()).await.expect("it reads");
    let mut answer = String::new();
    // The end may be a reset, because the second request is not read.
    let _ = stream.read_to_string(&mut answer).await;
    assert_eq!(answer.matches("HTTP/1.1 400").count(), 1, "{answer}");
    assert!(!answer.contains("200 OK"), "{answer}");
}

#[test]
fn bad_material_is_refused_by_name() {
    let (cert, key) = super::encryption::certificate();
    let (_, other) = super::encryption::certificate();
    let make = |cert: &str, key: &str, authorities: Option<&str>| {
        ListenerTls::from_pem(cert.as_bytes(), key.as_bytes(), authorities.map(str::as_bytes)).err()
    };
    assert!(matches!(make("", &key, None), Some(ListenerTlsError::Certificate(_))));
    assert!(matches!(make(&cert, "", None), Some(ListenerTlsError::Key(_))));
    assert!(matches!(make(&cert, &other, None), Some(ListenerTlsError::Key(_))));
    assert!(matches!(make(&cert, &key, Some("")), Some(ListenerTlsError::Authorities(_))));
}
