//! Transport of requests to the authority: HTTP/1.1 over TLS, one connection per request, with
//! limits.
//!
//! Connections are not kept open, because a certificate needs only some twenty requests in two
//! months.

use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use tollhouse_web::client::{Client, Limits, TrustError};

/// Maximum time and size of a response. Authorities usually respond within two seconds, and a
/// certificate chain has some ten thousand bytes.
const LIMITS: Limits = Limits { time_max: Duration::from_secs(30), body_bytes_max: 1 << 20 };

pub type Exchange = Pin<Box<dyn Future<Output = Result<Response<Bytes>, TransportError>> + Send>>;

/// Transport of requests to the authority.
pub trait Transport: Send + Sync {
    /// Sends a request, whose URI must be absolute; returns the complete response.
    fn send(&self, request: Request<Bytes>) -> Exchange;
}

/// Reason why a request to the authority has no response.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{host}: {reason}")]
pub struct TransportError {
    /// Host that the request was sent to.
    pub host: String,
    pub reason: String,
}

/// Transport over HTTPS that verifies the server's certificate.
#[derive(Debug, Clone)]
pub struct HttpsTransport(Client);

impl HttpsTransport {
    /// Creates a transport that trusts the system's CA certificates, or only those in the PEM file
    /// `authorities`.
    ///
    /// # Errors
    /// If the file cannot be read or contains no certificate, or the system has no CA certificates.
    pub fn new(authorities: Option<&Path>) -> Result<Self, TrustError> {
        Client::new(LIMITS).trusting(authorities).map(Self)
    }
}

impl Transport for HttpsTransport {
    fn send(&self, request: Request<Bytes>) -> Exchange {
        let client = self.0.clone();
        Box::pin(async move {
            let host = request.uri().host().unwrap_or_default().to_owned();
            if request.uri().scheme_str() != Some("https") {
                let reason = format!("{} is not an https URL", request.uri());
                return Err(TransportError { host, reason });
            }
            let answered = client.send(request).await;
            answered.map_err(|error| TransportError { host, reason: error.to_string() })
        })
    }
}
