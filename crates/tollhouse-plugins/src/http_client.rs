//! HTTP/1.1 client for other services, such as policy servers, log servers and mirrors.
//!
//! Answers are read whole, up to a limit. Connections are reused by the core that opened them
//! (`http_client/pool.rs`). Client requests are not proxied through here.

use std::io;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt, Full};
use hyper::Method;
use hyper::body::{Body, Incoming};
use hyper::client::conn::http1;
use hyper::header::{CONTENT_LENGTH, HOST, HeaderMap, HeaderName, HeaderValue};
use hyper_util::rt::TokioIo;

use self::pool::{Live, Names, PoolKey};
use self::written_names::{HeadCopy, StreamTap};

mod pool;
pub(crate) mod service;
mod target;
mod written_names;

pub(crate) use self::target::{Scheme, Target, TargetError};
pub(crate) use self::written_names::WrittenNames;
use crate::shared::dial::{Verification, dial, prepare_tls};

/// Maximum length of an answer's body in bytes. Such services return a decision or a page; longer
/// answers come from the wrong server.
const REPLY_BYTES_MAX: usize = 8 << 20;

/// Headers that this client writes itself, and hop-by-hop headers.
const OWN_HEADERS: [&str; 9] = [
    "connection",
    "content-length",
    "expect",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Treatment of a connection after the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reuse {
    /// The connection is closed after the answer.
    Never,
    /// The connection is kept for later requests.
    For {
        idle: Duration,
        /// Idle connections per server and core.
        connections_max: usize,
    },
}

/// Client for one kind of service.
#[derive(Clone)]
pub(crate) struct HttpClient {
    timeout: Duration,
    verification: Verification,
    reuse: Reuse,
    reply_bytes_max: usize,
    names: Names,
}

impl std::fmt::Debug for HttpClient {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "HttpClient({:?}, {:?})", self.timeout, self.reuse)
    }
}

/// Request. The client adds `Host`, length and framing.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub method: Vec<u8>,
    pub path: Vec<u8>,
    /// Headers; invalid ones are skipped. `Host` replaces the target's.
    pub headers: Vec<(String, Vec<u8>)>,
    pub body: Bytes,
    /// Permission to send the request twice.
    pub repeat: Repeat,
}

/// Condition for sending a request again that the server may already have seen, if its reused
/// connection breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Repeat {
    /// Requests are repeated if the method is idempotent (RFC 9110 §9.2.2).
    #[default]
    ByMethod,
    /// Requests are always repeated, because they only query, whatever their method.
    Always,
}

impl Call {
    fn is_repeatable(&self) -> bool {
        let is_idempotent =
            matches!(&*self.method, b"GET" | b"HEAD" | b"OPTIONS" | b"PUT" | b"DELETE" | b"TRACE");
        self.repeat == Repeat::Always || is_idempotent
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Reply {
    pub status: u16,
    pub headers: HeaderMap,
    /// Names of `headers` as the server wrote them; empty unless the client keeps them.
    pub written_names: WrittenNames,
    pub body: Bytes,
}

impl Reply {
    /// Returns every value of a header, in order.
    pub fn values<'r>(&'r self, name: &str) -> impl Iterator<Item = &'r [u8]> + use<'r> {
        // An invalid name has no values.
        let name = HeaderName::try_from(name).ok();
        let values = name.map(|name| self.headers.get_all(name).into_iter());
        values.into_iter().flatten().map(HeaderValue::as_bytes)
    }
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum ClientError {
    #[error("timeout")]
    Timeout,
    #[error("failed to connect: {0}")]
    Connect(#[source] io::Error),
    /// The connection broke, or the answer is not valid HTTP.
    #[error("failed to exchange: {0}")]
    Exchange(#[from] hyper::Error),
    /// Method or path that cannot be sent.
    #[error("bad request: {0}")]
    Request(String),
    /// The answer's body exceeds this many bytes.
    #[error("the answer is longer than {0} bytes")]
    TooLarge(usize),
}

/// Failure on one connection.
struct ConnectionFailure {
    error: ClientError,
    /// Whether the server cannot have received any part of the request.
    is_unsent: bool,
}

impl HttpClient {
    /// Returns a client with this timeout.
    pub fn new(timeout: Duration, verification: Verification, reuse: Reuse) -> Self {
        let (reply_bytes_max, names) = (REPLY_BYTES_MAX, Names::LowerCase);
        Self { timeout, verification, reuse, reply_bytes_max, names }
    }

    /// Keeps header names of answers as the server writes them, for a copy of each head.
    #[must_use]
    pub fn with_written_names(self) -> Self {
        Self { names: Names::Spelled, ..self }
    }

    /// Sets the largest size of an answer's body, in bytes.
    #[must_use]
    pub fn with_replies_up_to(self, bytes: usize) -> Self {
        Self { reply_bytes_max: bytes, ..self }
    }

    /// Loads the system's root certificates before the first request if `target` uses TLS. Loading
    /// takes tens of milliseconds, for which no request should wait.
    #[must_use]
    pub fn prepared_for(self, target: &Target) -> Self {
        if target.scheme == Scheme::Https {
            prepare_tls(self.verification);
        }
        self
    }

    /// Sends `call` and reads the answer.
    ///
    /// # Errors
    /// If the exchange fails or exceeds the timeout.
    pub async fn send(&self, target: &Target, call: Call) -> Result<Reply, ClientError> {
        let exchange = self.exchange(target, call);
        tokio::time::timeout(self.timeout, exchange).await.map_err(|_| ClientError::Timeout)?
    }

    async fn exchange(&self, target: &Target, call: Call) -> Result<Reply, ClientError> {
        let key = PoolKey::new(target, self.verification, self.names);
        while let Some(live) = pool::take(&key) {
            // Servers close idle connections at any time. The caller does not see such a race, as
            // long as the server cannot have processed the request, or may process it twice.
            match self.converse(&key, live, request(target, call.clone())?).await {
                Err(ConnectionFailure { error: ClientError::Exchange(error), is_unsent })
                    if is_unsent || call.is_repeatable() =>
                {
                    tracing::debug!(%error, server = target.authority, "a kept connection broke");
                }
                answered => return answered.map_err(|broken| broken.error),
            }
        }
        let tls = (target.scheme == Scheme::Https).then_some(self.verification);
        let stream = dial(&target.host, target.port, tls).await;
        let stream = stream.map_err(ClientError::Connect)?;
        let mut settings = http1::Builder::new();
        // Some servers need title-case header names, although names are case-insensitive.
        settings.title_case_headers(true);
        let head = (self.names == Names::Spelled).then(HeadCopy::default);
        let tap = StreamTap { stream, copy: head.clone() };
        let (sender, connection) = settings.handshake(TokioIo::new(tap)).await?;
        let live = Live::drive(sender, connection, head);
        let answered = self.converse(&key, live, request(target, call)?).await;
        answered.map_err(|broken| broken.error)
    }

    /// Sends one request over a connection, which is then kept for the next one if possible.
    async fn converse(
        &self,
        key: &PoolKey,
        mut live: Live,
        request: hyper::Request<Full<Bytes>>,
    ) -> Result<Reply, ConnectionFailure> {
        let unsent =
            |error: hyper::Error| ConnectionFailure { error: error.into(), is_unsent: true };
        live.sender.ready().await.map_err(unsent)?;
        if let Some(copy) = &live.head {
            copy.clear();
        }
        let sent = live.sender.try_send_request(request).await.map_err(|mut error| {
            // The request is returned if no part of it was written.
            let is_unsent = error.take_message().is_some();
            ConnectionFailure { error: error.into_error().into(), is_unsent }
        });
        let (head, body) = sent?.into_parts();
        let written_names = live.head.as_ref().map(HeadCopy::written_names).unwrap_or_default();
        let body = read(body, self.reply_bytes_max)
            .await
            .map_err(|error| ConnectionFailure { error, is_unsent: false })?;
        if let Reuse::For { idle, connections_max } = self.reuse {
            pool::keep(key, live, idle, connections_max);
        }
        Ok(Reply { status: head.status.as_u16(), headers: head.headers, written_names, body })
    }
}

/// Converts `call` to the library's type.
fn request(target: &Target, call: Call) -> Result<hyper::Request<Full<Bytes>>, ClientError> {
    let refused = |error: &dyn std::fmt::Display| ClientError::Request(error.to_string());
    let method = Method::from_bytes(&call.method).map_err(|error| refused(&error))?;
    let uri = hyper::Uri::try_from(call.path.as_slice()).map_err(|error| refused(&error))?;
    let mut request = hyper::Request::new(Full::new(call.body));
    *request.method_mut() = method;
    *request.uri_mut() = uri;
    let headers = request.headers_mut();
    for (name, value) in &call.headers {
        let line = (HeaderName::try_from(name.as_str()), HeaderValue::from_bytes(value));
        if let (Ok(name), Ok(value)) = line
            && !OWN_HEADERS.contains(&name.as_str())
        {
            headers.append(name, value);
        }
    }
    if !headers.contains_key(HOST) {
        let host = HeaderValue::try_from(&target.authority).map_err(|error| refused(&error))?;
        headers.insert(HOST, host);
    }
    // The library leaves it out, and some servers refuse such a request (RFC 9110, 8.6).
    let is_empty = request.body().size_hint().exact() == Some(0);
    if is_empty && matches!(*request.method(), Method::POST | Method::PUT | Method::PATCH) {
        request.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
    }
    Ok(request)
}

/// Reads a body to its end.
async fn read(mut body: Incoming, bytes_max: usize) -> Result<Bytes, ClientError> {
    let mut whole = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let Ok(piece) = frame?.into_data() else { continue };
        if whole.len() + piece.len() > bytes_max {
            return Err(ClientError::TooLarge(bytes_max));
        }
        whole.extend_from_slice(&piece);
    }
    Ok(whole.freeze())
}

#[cfg(test)]
pub(crate) mod tests;
