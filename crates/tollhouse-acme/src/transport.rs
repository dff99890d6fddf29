//! Transport of requests to the authority: HTTP/1.1 over TLS, one connection per request, with
//! limits.
//!
//! A certificate takes some twenty requests in two months, so connections are not kept.

use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONNECTION, HOST, HeaderValue};
use http::{Request, Response, Uri};
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls_pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tollhouse_net::tls::{Trust, client_config};

/// Timeout for a response; authorities usually respond within two seconds.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(30);

/// Largest body of a response, in bytes; a certificate chain has some ten thousand.
pub(crate) const ANSWER_BYTES_MAX: usize = 1 << 20;

pub type Exchange = Pin<Box<dyn Future<Output = Result<Response<Bytes>, TransportError>> + Send>>;

/// Transport of requests to the authority.
pub trait Transport: Send + Sync {
    /// Sends a request to its absolute URL; returns the complete response.
    fn send(&self, request: Request<Bytes>) -> Exchange;
}

/// Reason why a request to the authority has no response.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no answer from {host}: {reason}")]
pub struct TransportError {
    /// Host that the request was sent to.
    pub host: String,
    pub reason: String,
}

/// Transport over TLS that verifies the server's certificate.
#[derive(Clone)]
pub struct HttpsTransport {
    connector: TlsConnector,
}

impl HttpsTransport {
    /// Trusts the system's CA certificates, or only those in a PEM file.
    ///
    /// # Errors
    /// If the file cannot be read or contains no certificate, or the system has no CA certificates.
    pub fn new(authorities: Option<&Path>) -> Result<Self, String> {
        let verifier = match authorities {
            Some(path) => {
                let refused =
                    |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
                let pem = std::fs::read_to_string(path).map_err(|error| refused(&error))?;
                Trust::Authorities(&pem).verifier().map_err(|error| refused(&error))?
            }
            None => Trust::System.verifier().map_err(|error| error.to_string())?,
        };
        if verifier.trusts_nothing() {
            return Err("no authority is trusted; install the system's ca-certificates".to_owned());
        }
        let config = client_config(verifier, None).map_err(|error| error.to_string())?;
        Ok(Self { connector: TlsConnector::from(Arc::new(config)) })
    }
}

impl std::fmt::Debug for HttpsTransport {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("HttpsTransport")
    }
}

impl Transport for HttpsTransport {
    fn send(&self, request: Request<Bytes>) -> Exchange {
        let connector = self.connector.clone();
        Box::pin(async move {
            let host = request.uri().host().unwrap_or_default().to_owned();
            let exchanged = tokio::time::timeout(ANSWER_TIME_MAX, exchange(connector, request));
            let answered = match exchanged.await {
                Ok(answered) => answered,
                Err(_) => Err(format!("nothing within {} s", ANSWER_TIME_MAX.as_secs())),
            };
            answered.map_err(|reason| TransportError { host, reason })
        })
    }
}

async fn exchange(
    connector: TlsConnector,
    mut request: Request<Bytes>,
) -> Result<Response<Bytes>, String> {
    let uri = request.uri().clone();
    if uri.scheme_str() != Some("https") {
        return Err(format!("{uri} is not an https URL"));
    }
    let host = uri.host().ok_or("the URL names no host")?;
    let name = host.trim_start_matches('[').trim_end_matches(']');
    let stream = TcpStream::connect((name, uri.port_u16().unwrap_or(443)));
    let stream = stream.await.map_err(|error| format!("failed to connect: {error}"))?;
    let server = ServerName::try_from(name.to_owned()).map_err(|error| error.to_string())?;
    let stream = connector.connect(server, stream).await;
    let stream = stream.map_err(|error| format!("TLS: {error}"))?;
    let unusable = |error: hyper::Error| format!("no complete answer: {error}");
    let (mut sender, connection) =
        http1::handshake(TokioIo::new(stream)).await.map_err(unusable)?;
    to_origin(&mut request, &uri)?;
    let request = request.map(Full::new);
    // Errors of the connection are reported by the request.
    let connection = tokio::spawn(async move { drop(connection.await) });
    let answered = async {
        let (head, body) = sender.send_request(request).await.map_err(unusable)?.into_parts();
        let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await;
        let body = body.map_err(|error| format!("the answer cannot be read: {error}"))?;
        Ok(Response::from_parts(head, body.to_bytes()))
    };
    let answered = answered.await;
    connection.abort();
    answered
}

/// Converts the request to origin form: path and query, with the host in a header.
fn to_origin(request: &mut Request<Bytes>, uri: &Uri) -> Result<(), String> {
    let refused = |error: &dyn std::fmt::Display| format!("{uri}: {error}");
    let authority = uri.authority().map(http::uri::Authority::as_str).unwrap_or_default();
    let host = HeaderValue::try_from(authority).map_err(|error| refused(&error))?;
    let path = uri.path_and_query().map_or("/", http::uri::PathAndQuery::as_str);
    *request.uri_mut() = Uri::try_from(path).map_err(|error| refused(&error))?;
    request.headers_mut().insert(HOST, host);
    request.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    Ok(())
}
