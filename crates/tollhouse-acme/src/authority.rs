//! Adapter between the ACME library and our transport. Reads the response headers that the library
//! ignores.

use std::future::Future;
use std::pin::Pin;
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, UNIX_EPOCH};

use bytes::Bytes;
use http::header::{LOCATION, RETRY_AFTER};
use http::{HeaderMap, Request};
use http_body_util::BodyExt;
use instant_acme::{BodyWrapper, BytesResponse, Error, HttpClient, Problem};

use crate::clock::Clock;
use crate::failure::{Fault, bounded};
use crate::transport::Transport;

/// Maximum time that a `Retry-After` of an authority delays the next request.
const WAIT_MAX: Duration = Duration::from_secs(7 * 24 * 3600);

/// Values of the headers `Retry-After` and `Location` in a response.
#[derive(Debug, Clone, Default)]
pub(crate) struct Remark {
    /// Wait in `Retry-After`.
    pub(crate) wait: Option<Duration>,
    /// URL in `Location`.
    pub(crate) location: Option<String>,
}

/// Header values of the last response, shared between the HTTP client, which sets them, and the
/// caller of the ACME library.
#[derive(Debug, Clone, Default)]
pub(crate) struct Remarks(Arc<Mutex<Remark>>);

impl Remarks {
    pub(crate) fn last(&self) -> Remark {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn note(&self, remark: Remark) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = remark;
    }
}

pub(crate) struct Authority {
    pub(crate) transport: Arc<dyn Transport>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) remarks: Remarks,
}

impl HttpClient for Authority {
    fn request(
        &self,
        request: Request<BodyWrapper<Bytes>>,
    ) -> Pin<Box<dyn Future<Output = Result<BytesResponse, Error>> + Send>> {
        let (transport, remarks) = (Arc::clone(&self.transport), self.remarks.clone());
        let clock = Arc::clone(&self.clock);
        Box::pin(async move {
            let (head, body) = request.into_parts();
            let body = body.collect().await.map_or_else(|never| match never {}, |it| it.to_bytes());
            let answered = transport.send(Request::from_parts(head, body)).await;
            let (parts, body) = answered.map_err(|error| fault(error.into()))?.into_parts();
            let wait = wait_of(&parts.headers, clock.now_s());
            let location = parts.headers.get(LOCATION).and_then(|it| it.to_str().ok());
            remarks.note(Remark { wait, location: location.map(str::to_owned) });
            let status = parts.status.as_u16();
            if status == 429 || status >= 500 {
                return Err(fault(later(status, &body, wait)));
            }
            Ok(BytesResponse { parts, body: Box::new(body) })
        })
    }
}

fn fault(fault: Fault) -> Error {
    Error::Other(Box::new(fault))
}

fn later(status: u16, body: &[u8], wait: Option<Duration>) -> Fault {
    // The body may not be a problem document, because proxies in front of the authority respond
    // with HTML pages.
    let problem: Option<Problem> = serde_json::from_slice(body).ok();
    let detail = problem.as_ref().and_then(|problem| problem.detail.as_deref());
    let name = problem.as_ref().and_then(|problem| problem.r#type.as_deref());
    Fault::Later {
        status,
        detail: bounded(detail.unwrap_or_default()),
        problem: bounded(name.unwrap_or_default()),
        wait,
    }
}

/// Parses `Retry-After` (RFC 9110 §10.2.3): seconds, or a date.
fn wait_of(headers: &HeaderMap, now_s: u64) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    let seconds = match u64::from_str(text) {
        Ok(seconds) => seconds,
        Err(_) => {
            let date = httpdate::parse_http_date(text).ok()?;
            date.duration_since(UNIX_EPOCH).ok()?.as_secs().saturating_sub(now_s)
        }
    };
    Some(Duration::from_secs(seconds).min(WAIT_MAX))
}
