//! Asks other services over HTTP/1.1: policy servers, log servers, mirrors.
//!
//! Answers are read whole, within a bound; connections are kept for the next request by the core
//! that opened them (`http_client/pool.rs`). Requests of clients do not travel this way.

use std::io;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::header::{HOST, HeaderMap, HeaderName, HeaderValue};

use self::pool::{Live, PoolKey};
use self::stream::HyperStream;

mod pool;
pub(crate) mod service;
mod stream;
mod target;

pub(crate) use self::target::{Scheme, Target, TargetError};
use crate::shared::dial::{Verification, dial, prepare_tls};

/// Most bytes of an answer's body: such services say yes, no, or a page; whatever is longer comes
/// from the wrong server.
const REPLY_BYTES_MAX: usize = 8 << 20;

/// Header lines that this client writes itself, and those that end at each connection.
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

/// What becomes of a connection when the answer is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reuse {
    /// It is closed.
    Never,
    /// It waits for the next request.
    For {
        idle: Duration,
        /// How many of them a core keeps for one server.
        connections_max: usize,
    },
}

/// How a plugin talks to one kind of service.
#[derive(Clone)]
pub(crate) struct HttpClient {
    timeout: Duration,
    verification: Verification,
    reuse: Reuse,
    reply_bytes_max: usize,
}

impl std::fmt::Debug for HttpClient {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "HttpClient({:?}, {:?})", self.timeout, self.reuse)
    }
}

/// A request; `Host`, length and framing are the client's to write.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub method: Vec<u8>,
    /// Path and query.
    pub path: Vec<u8>,
    /// Header lines; those that no header can carry are left out. `Host` replaces the target's.
    pub headers: Vec<(String, Vec<u8>)>,
    pub body: Bytes,
    /// Whether it may be sent twice.
    pub repeat: Repeat,
}

/// Whether a request that a server may have seen already may be sent again, when the kept connection
/// that it went over breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Repeat {
    /// Where the method is idempotent (RFC 9110 §9.2.2).
    #[default]
    ByMethod,
    /// It is a question, whatever its method: asking twice does no harm.
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
    /// Header lines.
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Reply {
    /// Every value of a header, in order.
    pub fn values<'r>(&'r self, name: &str) -> impl Iterator<Item = &'r [u8]> + use<'r> {
        // A name that no header can have has no values.
        let name = HeaderName::try_from(name).ok();
        let values = name.map(|name| self.headers.get_all(name).into_iter());
        values.into_iter().flatten().map(HeaderValue::as_bytes)
    }
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ClientError {
    /// It took too long.
    #[error("timeout")]
    Timeout,
    /// No connection.
    #[error("failed to connect: {0}")]
    Connect(#[source] io::Error),
    /// The connection broke, or the answer was none.
    #[error("failed to exchange: {0}")]
    Exchange(#[from] hyper::Error),
    /// The request has a method or path that cannot be sent.
    #[error("bad request: {0}")]
    Request(String),
    /// The answer is longer than anybody needs.
    #[error("the answer is longer than {0} bytes")]
    TooLarge(usize),
}

/// Why a connection brought no answer.
struct Broken {
    error: ClientError,
    /// Whether the server cannot have seen anything of the request.
    is_unsent: bool,
}

impl HttpClient {
    /// A client that gives up after `timeout`.
    pub fn new(timeout: Duration, verification: Verification, reuse: Reuse) -> Self {
        Self { timeout, verification, reuse, reply_bytes_max: REPLY_BYTES_MAX }
    }

    /// The same for answers with bodies of at most so many bytes.
    #[must_use]
    pub fn with_replies_up_to(self, bytes: usize) -> Self {
        Self { reply_bytes_max: bytes, ..self }
    }

    /// Reads the system's roots ahead of the first request, where `target` needs them: it takes
    /// tens of milliseconds, which no request should wait for.
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
    /// When there is none within the time.
    pub async fn send(&self, target: &Target, call: Call) -> Result<Reply, ClientError> {
        let exchange = self.exchange(target, call);
        tokio::time::timeout(self.timeout, exchange).await.map_err(|_| ClientError::Timeout)?
    }

    async fn exchange(&self, target: &Target, call: Call) -> Result<Reply, ClientError> {
        let key = PoolKey::new(target, self.verification);
        while let Some(live) = pool::take(&key) {
            // Servers close idle connections when they like; such a race is not the caller's, as
            // long as the server cannot have acted upon the request, or may act upon it twice.
            match self.converse(&key, live, request(target, call.clone())?).await {
                Err(Broken { error: ClientError::Exchange(error), is_unsent })
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
        // Some servers are particular about the case of names, though none should be.
        settings.title_case_headers(true);
        let (sender, connection) = settings.handshake(HyperStream::new(stream)).await?;
        let live = Live::drive(sender, connection);
        let answered = self.converse(&key, live, request(target, call)?).await;
        answered.map_err(|broken| broken.error)
    }

    /// One request on a connection, which is kept for the next where it may.
    async fn converse(
        &self,
        key: &PoolKey,
        mut live: Live,
        request: hyper::Request<Full<Bytes>>,
    ) -> Result<Reply, Broken> {
        let unsent = |error: hyper::Error| Broken { error: error.into(), is_unsent: true };
        live.sender.ready().await.map_err(unsent)?;
        let sent = live.sender.try_send_request(request).await.map_err(|mut error| {
            // The request comes back where nothing of it was written.
            let is_unsent = error.take_message().is_some();
            Broken { error: error.into_error().into(), is_unsent }
        });
        let (head, body) = sent?.into_parts();
        let body = read(body, self.reply_bytes_max)
            .await
            .map_err(|error| Broken { error, is_unsent: false })?;
        if let Reuse::For { idle, connections_max } = self.reuse {
            pool::keep(key, live, idle, connections_max);
        }
        Ok(Reply { status: head.status.as_u16(), headers: head.headers, body })
    }
}

/// `call` as the library takes it.
fn request(target: &Target, call: Call) -> Result<hyper::Request<Full<Bytes>>, ClientError> {
    let refused = |error: &dyn std::fmt::Display| ClientError::Request(error.to_string());
    let method = hyper::Method::from_bytes(&call.method).map_err(|error| refused(&error))?;
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
