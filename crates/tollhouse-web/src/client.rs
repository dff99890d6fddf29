//! Client of the services that the control side calls: certificate authorities, OCSP responders,
//! Vault, admins of ShenYu, and Admin APIs.
//!
//! Redirects are not followed, because a server, or anyone between where TLS is off, could redirect
//! anywhere.

use std::io;
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::{CONNECTION, HOST, HeaderValue};
use hyper::{Request, Response, Uri};
use hyper_util::rt::TokioIo;
use tokio::time::timeout;
use tollhouse_net::Stream;
use tollhouse_net::connect::{self, ClientTls};
use tollhouse_net::tls::{self, Connector, TlsError, Trust};

mod address;

pub use address::Server;

/// Limit of a response head, in bytes.
const HEAD_BYTES_MAX: usize = 16 * 1024;

/// Limit of header lines in a response.
const HEADER_LINES_MAX: usize = 64;

/// Why a request has no response.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    #[error("expected a URL such as http://host:port")]
    Address,
    #[error("cannot be reached: {0}")]
    Connect(io::Error),
    #[error("missing or incomplete answer: {0}")]
    Answer(#[from] hyper::Error),
    /// The body breaks off or is too long.
    #[error("the answer cannot be read: {0}")]
    Body(axum::BoxError),
    #[error("no answer within {} s", .0.as_secs())]
    Timeout(Duration),
}

/// Why the authorities of server certificates cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    #[error("{path}: {reason}")]
    File { path: String, reason: String },
    #[error(transparent)]
    System(#[from] TlsError),
    #[error("no authority is trusted; install the system's ca-certificates")]
    Nothing,
}

/// Limits of an exchange.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Timeout from the DNS query to the last byte of the response.
    pub time_max: Duration,
    /// Largest body of a response, in bytes.
    pub body_bytes_max: usize,
}

/// Client for one kind of service.
#[derive(Debug, Clone)]
pub struct Client {
    limits: Limits,
    /// TLS settings; the system's authorities are trusted by default.
    connector: Option<Connector>,
}

impl Client {
    pub const fn new(limits: Limits) -> Self {
        Self { limits, connector: None }
    }

    /// Trusts only the authorities in a PEM file, or with `None` the system's. Reads the file.
    ///
    /// # Errors
    /// If the file cannot be read or contains no certificate, or the system has no authorities.
    pub fn trusting(mut self, authorities: Option<&Path>) -> Result<Self, TrustError> {
        let connector = match authorities {
            None => connector(Trust::System)?,
            Some(path) => {
                let refused = |error: &dyn std::fmt::Display| TrustError::File {
                    path: path.display().to_string(),
                    reason: error.to_string(),
                };
                let pem = std::fs::read_to_string(path).map_err(|error| refused(&error))?;
                connector(Trust::Authorities(&pem)).map_err(|error| refused(&error))?
            }
        };
        self.connector = Some(connector);
        Ok(self)
    }

    /// Sends a request to its absolute URL, over a connection of its own.
    ///
    /// # Errors
    /// If no complete response within the limits arrives.
    pub async fn send(&self, mut request: Request<Bytes>) -> Result<Response<Bytes>, ClientError> {
        let server = Server::from_uri(request.uri())?;
        request.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        Session::new(self.clone(), server).send(request).await
    }

    /// Connects to the first address of a server that accepts.
    ///
    /// # Errors
    /// If none accepts, or the server's certificate is not trusted.
    pub async fn connect(&self, server: &Server) -> Result<Stream, ClientError> {
        let unusable = |error| ClientError::Connect(io::Error::other(error));
        let connector = match (&self.connector, server.is_tls) {
            (_, false) => None,
            (Some(connector), true) => Some(connector.clone()),
            (None, true) => Some(tls::connector(None, Trust::System).map_err(unusable)?),
        };
        let server_name = &*server.host;
        let tls = connector.as_ref().map(|connector| ClientTls { connector, server_name });
        connect::dial(&server.host, server.port, tls).await.map_err(ClientError::Connect)
    }
}

/// Requests to one server, one at a time, over one connection that is kept between them.
#[derive(Debug)]
pub struct Session {
    client: Client,
    pub server: Server,
    sender: Option<SendRequest<Full<Bytes>>>,
}

impl Session {
    /// Creates a session; the first request opens the connection.
    pub const fn new(client: Client, server: Server) -> Self {
        Self { client, server, sender: None }
    }

    /// Sends a request to its path.
    ///
    /// # Errors
    /// If no complete response within the limits arrives.
    pub async fn send(&mut self, request: Request<Bytes>) -> Result<Response<Bytes>, ClientError> {
        self.send_within(self.client.limits.time_max, request).await
    }

    /// Sends a request like [`Self::send`], with another timeout.
    ///
    /// # Errors
    /// As [`Self::send`].
    pub async fn send_within(
        &mut self,
        time_max: Duration,
        request: Request<Bytes>,
    ) -> Result<Response<Bytes>, ClientError> {
        let exchange = async {
            let (sender, response) = self.begin(request).await?;
            let (head, body) = response.into_parts();
            let body = Limited::new(body, self.client.limits.body_bytes_max).collect().await;
            let body = body.map_err(ClientError::Body)?.to_bytes();
            self.sender = Some(sender);
            Ok(Response::from_parts(head, body))
        };
        timeout(time_max, exchange).await.unwrap_or(Err(ClientError::Timeout(time_max)))
    }

    /// Sends a request and returns its response as soon as the head has arrived. Neither time nor
    /// length of the body is limited; the connection ends with it.
    ///
    /// # Errors
    /// If no response head arrives within the timeout.
    pub async fn open_stream(
        &mut self,
        request: Request<Bytes>,
    ) -> Result<Response<Incoming>, ClientError> {
        let time_max = self.client.limits.time_max;
        let begun = timeout(time_max, self.begin(request)).await;
        let (_, response) = begun.unwrap_or(Err(ClientError::Timeout(time_max)))?;
        Ok(response)
    }

    /// Sends a request and reads the head of the response. Takes the kept connection, which is not
    /// used again unless the caller has read the whole body.
    async fn begin(
        &mut self,
        request: Request<Bytes>,
    ) -> Result<(SendRequest<Full<Bytes>>, Response<Incoming>), ClientError> {
        let mut request = self.to_origin(request)?;
        // A server may close an idle connection at any time. Then the request is sent over a new
        // one, unless a part of it was written.
        if let Some(mut sender) = self.sender.take()
            && sender.ready().await.is_ok()
        {
            match sender.try_send_request(request).await {
                Ok(response) => return Ok((sender, response)),
                Err(mut failure) => match failure.take_message() {
                    Some(unsent) => request = unsent,
                    None => return Err(failure.into_error().into()),
                },
            }
        }
        let stream = self.client.connect(&self.server).await?;
        let (mut sender, connection) = http1::Builder::new()
            .max_buf_size(HEAD_BYTES_MAX)
            .max_headers(HEADER_LINES_MAX)
            .handshake(TokioIo::new(stream))
            .await?;
        // Ends once the sender and the response's body are dropped; requests report its errors.
        tokio::spawn(async move { drop(connection.await) });
        let response = sender.send_request(request).await?;
        Ok((sender, response))
    }

    /// Converts a request to origin form: path and query, with the host in a header.
    fn to_origin(&self, request: Request<Bytes>) -> Result<Request<Full<Bytes>>, ClientError> {
        let mut request = request.map(Full::new);
        let path = request.uri().path_and_query().cloned();
        *request.uri_mut() = path.map_or_else(|| Uri::from_static("/"), Uri::from);
        let host = HeaderValue::try_from(&self.server.authority);
        request.headers_mut().insert(HOST, host.map_err(|_| ClientError::Address)?);
        Ok(request)
    }
}

fn connector(trust: Trust<'_>) -> Result<Connector, TrustError> {
    if trust.verifier()?.trusts_nothing() {
        return Err(TrustError::Nothing);
    }
    Ok(tls::connector(None, trust)?)
}

#[cfg(test)]
mod tests;
