//! Intake of requests: token, content type, and the body within its limit.

use super::capacity::{Capacity, CapacityPermit, SHORT_BYTES_MAX};
use super::failure::Failure;
use super::reply::plain;
use crate::code::Code;
use crate::dialect::{Caller, Operator};
use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::header::{CONTENT_TYPE, HeaderMap};
use axum::http::request::Parts;
use axum::http::{Response, StatusCode};
use bytes::BytesMut;
use http_body_util::BodyExt;
use std::net::IpAddr;
use std::time::Duration;
use tollhouse_web::Peer;

/// Maximum body of a console call: enough for a rule of 1 MiB, and for a hundred instances with
/// usual labels.
pub(super) const CONSOLE_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Maximum body of a client's call: an instance with the maximum of labels.
pub(super) const CLIENT_BYTES_MAX: usize = 2 * 1024 * 1024;
/// Memory for decoding, as a multiple of the text's length: a value of two characters can become a
/// whole message field.
const READING_GROWTH: usize = 16;
/// Timeout for the arrival of a body, so that slow clients do not hold memory.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);
/// Header with the token of a login.
const TOKEN_HEADER: &str = "x-polaris-token";

/// Returns the token of a request.
pub(super) fn token(headers: &HeaderMap) -> Option<&str> {
    headers.get(TOKEN_HEADER).and_then(|value| value.to_str().ok())
}

/// Returns the address of a request's client.
pub(super) fn address(head: &Parts) -> Option<IpAddr> {
    head.extensions.get::<Peer>().map(|peer| peer.address.ip())
}

/// Returns the address of the client of a request that is still whole.
pub(super) fn peer_address(request: &Request) -> Option<IpAddr> {
    request.extensions().get::<Peer>().map(|peer| peer.address.ip())
}

/// Returns the caller of a request.
pub(super) fn caller(head: &Parts) -> Caller<'_> {
    let operator = head.extensions.get::<Operator>();
    Caller { token: token(&head.headers), address: address(head), operator }
}

/// Returns the caller of a request that is still whole.
pub(super) fn request_caller(request: &Request) -> Caller<'_> {
    let operator = request.extensions().get::<Operator>();
    Caller { token: token(request.headers()), address: peer_address(request), operator }
}

/// Reason for which the body cannot be used.
pub(super) enum NoBody {
    /// A plain HTTP response, for requests that do not belong to this API.
    Refused(Response<Body>),
    /// The body is incomplete, or memory is short.
    Failed(Failure),
}

/// A body, with its memory reservation.
#[derive(Debug)]
pub(super) struct RequestBody {
    pub(super) bytes: Bytes,
    _permit: Option<CapacityPermit>,
}

/// Reads the body of a request with the content type of JSON.
pub(super) async fn json_body(
    capacity: &Capacity,
    headers: &HeaderMap,
    body: Body,
    bytes_max: usize,
) -> Result<RequestBody, NoBody> {
    if !is_json(headers) {
        let text = "415: the content type must be application/json";
        return Err(NoBody::Refused(plain(StatusCode::UNSUPPORTED_MEDIA_TYPE, text)));
    }
    any_body(capacity, body, bytes_max).await
}

/// Reads the body of a request of any content type.
pub(super) async fn any_body(
    capacity: &Capacity,
    body: Body,
    bytes_max: usize,
) -> Result<RequestBody, NoBody> {
    let collecting = collected(capacity, body, bytes_max);
    let Ok(taken) = tokio::time::timeout(BODY_TIMEOUT, collecting).await else {
        let text = "408: the body did not arrive in 30 s";
        return Err(NoBody::Refused(plain(StatusCode::REQUEST_TIMEOUT, text)));
    };
    taken
}

async fn collected(
    capacity: &Capacity,
    mut body: Body,
    bytes_max: usize,
) -> Result<RequestBody, NoBody> {
    let (mut bytes, mut held) = (BytesMut::new(), None);
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| NoBody::Failed(Code::ParseException.into()))?;
        let Ok(piece) = frame.into_data() else { continue };
        let length = bytes.len() + piece.len();
        if length > bytes_max {
            let text = format!("413: the body is longer than {} MiB", bytes_max >> 20);
            return Err(NoBody::Refused(plain(StatusCode::PAYLOAD_TOO_LARGE, text)));
        }
        bytes.extend_from_slice(&piece);
        if bytes.capacity() > SHORT_BYTES_MAX {
            capacity.try_resize(&mut held, bytes.capacity()).map_err(NoBody::Failed)?;
        }
    }
    Ok(RequestBody { bytes: bytes.freeze(), _permit: held })
}

/// Decodes a body; a long one on a blocking thread, because that takes time and several times the
/// memory.
pub(super) async fn read_with<T: Send + 'static>(
    capacity: &Capacity,
    body: &Bytes,
    read: impl FnOnce(&[u8]) -> T + Send + 'static,
) -> Result<T, Failure> {
    if body.len() <= SHORT_BYTES_MAX {
        return Ok(read(body));
    }
    let held = capacity.hold(READING_GROWTH * body.len()).await?;
    let body = body.clone();
    let reading = move || {
        let done = read(&body);
        drop(held);
        done
    };
    capacity.work(reading).await
}

fn is_json(headers: &HeaderMap) -> bool {
    let Some(value) = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()) else {
        return false;
    };
    let essence = value.split(';').next().unwrap_or_default().trim();
    essence.eq_ignore_ascii_case("application/json")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_json_is_taken_for_json() {
        for (value, expected) in [
            (Some("application/json"), true),
            (Some("Application/JSON; charset=utf-8"), true),
            (Some("text/plain"), false),
            (Some("application/json5"), false),
            (None, false),
        ] {
            let mut headers = HeaderMap::new();
            if let Some(value) = value {
                headers.insert(CONTENT_TYPE, value.parse().expect("a header value"));
            }
            assert_eq!(is_json(&headers), expected, "{value:?}");
        }
    }

    fn json_headers() -> HeaderMap {
        HeaderMap::from_iter([(CONTENT_TYPE, "application/json".parse().expect("a header value"))])
    }

    #[tokio::test]
    async fn bodies_are_taken_up_to_their_bound() {
        let capacity = Capacity::from_bytes(4 * CLIENT_BYTES_MAX);
        for (length, expected) in
            [(0, None), (CLIENT_BYTES_MAX, None), (CLIENT_BYTES_MAX + 1, Some(413))]
        {
            let body = Body::from(vec![b' '; length]);
            let body = json_body(&capacity, &json_headers(), body, CLIENT_BYTES_MAX).await;
            let refused = match body {
                Ok(_) => None,
                Err(NoBody::Refused(response)) => Some(response.status().as_u16()),
                Err(NoBody::Failed(_)) => Some(0),
            };
            assert_eq!(refused, expected, "{length}");
        }
    }

    #[tokio::test]
    async fn bodies_of_all_clients_share_one_bound() {
        let capacity = Capacity::from_bytes(CLIENT_BYTES_MAX);
        let headers = json_headers();
        let take = || {
            let body = Body::from(vec![b' '; CLIENT_BYTES_MAX]);
            json_body(&capacity, &headers, body, CLIENT_BYTES_MAX)
        };
        let first = take().await.map_err(|_| "refused").expect("room");
        assert!(matches!(take().await, Err(NoBody::Failed(_))));
        drop(first);
        assert!(take().await.is_ok());
    }
}
