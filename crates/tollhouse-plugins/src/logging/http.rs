//! Log servers behind HTTP: one or more addresses that take turns, and errors for refused batches.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;

use super::batch::DeliveryError;
use crate::http_client::{Call, HttpClient, Repeat, Reply, Reuse, Target, TargetError};

/// Idle connections to a log server. Few are needed, because the deliveries of one conf follow each
/// other.
pub(crate) const REUSE: Reuse =
    Reuse::For { idle: Duration::from_secs(60), connections_max: CONNECTIONS_MAX };
/// Number of idle connections kept per server.
const CONNECTIONS_MAX: usize = 5;

/// Pattern of a URI with scheme and host.
pub(crate) const URI_PATTERN: &str = r"^[^\/]+:\/\/([\da-zA-Z.-]+|\[[\da-fA-F:]+\])(:\d+)?";

/// Longest part of a server's answer in an error.
const REASON_BYTES_MAX: usize = 256;

/// Header lines of a request.
pub(crate) type HeaderLines = Vec<(String, Vec<u8>)>;

/// Log servers of a conf.
#[derive(Debug)]
pub(crate) struct HttpServers {
    targets: Vec<Result<Target, TargetError>>,
    client: HttpClient,
    turn: AtomicUsize,
}

/// Returns a header line.
pub(crate) fn header(name: &str, value: impl Into<Vec<u8>>) -> (String, Vec<u8>) {
    (name.to_owned(), value.into())
}

impl HttpServers {
    /// Returns the servers at these addresses. An invalid address is an error of each delivery and
    /// not of the conf, because it may be a placeholder that is filled in later.
    pub(crate) fn new(uris: impl IntoIterator<Item = String>, client: HttpClient) -> Self {
        let targets = uris.into_iter().map(|uri| Target::parse(&uri)).collect();
        Self { targets, client, turn: AtomicUsize::new(0) }
    }

    /// Sends a batch to the next server in turn.
    ///
    /// # Errors
    /// If no server is configured, its address is invalid, or it does not answer.
    pub(crate) async fn post(
        &self,
        headers: HeaderLines,
        body: impl Into<Bytes> + Send,
    ) -> Result<Reply, DeliveryError> {
        self.call(b"POST", headers, body.into()).await
    }

    /// Asks the next server in turn.
    ///
    /// # Errors
    /// As [`Self::post`].
    pub(crate) async fn get(&self, headers: HeaderLines) -> Result<Reply, DeliveryError> {
        self.call(b"GET", headers, Bytes::new()).await
    }

    async fn call(
        &self,
        method: &[u8],
        headers: HeaderLines,
        body: Bytes,
    ) -> Result<Reply, DeliveryError> {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed) % self.targets.len().max(1);
        let target = self.targets.get(turn).ok_or(DeliveryError::NoServer)?.clone()?;
        let path = target.path.clone().into_bytes();
        let method = method.to_vec();
        let call = Call { method, path, headers, body, repeat: Repeat::ByMethod };
        Ok(self.client.send(&target, call).await?)
    }
}

/// Refuses an answer whose status is `status_min` or higher.
///
/// # Errors
/// With the status and the beginning of the body.
pub(crate) fn accept_below(reply: &Reply, status_min: u16) -> Result<(), DeliveryError> {
    if reply.status < status_min { Ok(()) } else { Err(refusal(reply)) }
}

/// Refuses an answer with a status other than 200.
///
/// # Errors
/// With the status and the beginning of the body.
pub(crate) fn accept_ok(reply: &Reply) -> Result<(), DeliveryError> {
    if reply.status == 200 { Ok(()) } else { Err(refusal(reply)) }
}

/// Returns the error for a refused batch.
pub(crate) fn refusal(reply: &Reply) -> DeliveryError {
    let reason = &reply.body[..reply.body.len().min(REASON_BYTES_MAX)];
    let reason = String::from_utf8_lossy(reason).trim().to_owned();
    if reason.is_empty() {
        return DeliveryError::Status(reply.status);
    }
    DeliveryError::Refused { status: reply.status, reason }
}
