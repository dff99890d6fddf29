//! Requests on their way in: the token, the type of the content, the body within its bound.

use super::failure::Failure;
use super::reply::plain;
use crate::code::Code;
use axum::body::{Body, Bytes};
use axum::http::header::{CONTENT_TYPE, HeaderMap};
use axum::http::{Response, StatusCode};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use std::time::Duration;

/// Largest body: a rule may be of 1 MiB, and a hundred instances with the labels that people give them
/// are below that.
const BODY_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Time for a body to arrive: one that trickles must not hold memory.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);
/// The header that carries the token of a login.
const TOKEN_HEADER: &str = "x-polaris-token";

/// The token of a request.
pub(super) fn token(headers: &HeaderMap) -> Option<&str> {
    headers.get(TOKEN_HEADER).and_then(|value| value.to_str().ok())
}

/// Why there is no body to work with.
pub(super) enum NoBody {
    /// An answer without a code, for requests that are not of this API.
    Refused(Response<Body>),
    /// The body did not arrive whole.
    Failed(Failure),
}

/// The body of a request, if it claims to be JSON.
pub(super) async fn json_body(headers: &HeaderMap, body: Body) -> Result<Bytes, NoBody> {
    if !is_json(headers) {
        let text = "415: the content type must be application/json";
        return Err(NoBody::Refused(plain(StatusCode::UNSUPPORTED_MEDIA_TYPE, text)));
    }
    let collecting = Limited::new(body, BODY_BYTES_MAX).collect();
    match tokio::time::timeout(BODY_TIMEOUT, collecting).await {
        Ok(Ok(collected)) => Ok(collected.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            let text = "413: the body is longer than 8 MiB";
            Err(NoBody::Refused(plain(StatusCode::PAYLOAD_TOO_LARGE, text)))
        }
        Ok(Err(_)) => Err(NoBody::Failed(Code::ParseException.into())),
        Err(_) => {
            let text = "408: the body did not arrive in 30 s";
            Err(NoBody::Refused(plain(StatusCode::REQUEST_TIMEOUT, text)))
        }
    }
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
        for (length, expected) in
            [(0, None), (BODY_BYTES_MAX, None), (BODY_BYTES_MAX + 1, Some(413))]
        {
            let body = json_body(&json_headers(), Body::from(vec![b' '; length])).await;
            let refused = match body {
                Ok(_) => None,
                Err(NoBody::Refused(response)) => Some(response.status().as_u16()),
                Err(NoBody::Failed(_)) => Some(0),
            };
            assert_eq!(refused, expected, "{length}");
        }
    }
}
