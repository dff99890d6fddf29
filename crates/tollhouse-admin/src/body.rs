//! Bodies of requests: read within a bound, and decoded whatever their content type says.

use std::time::Duration;

use http_body_util::{BodyExt, Limited};
use hyper::body::{Body, Bytes};
use serde_json::{Value, json};

use crate::limits::{BODY_TIME_MAX, ECHO_BYTES_MAX};
use crate::reply::Reply;

mod decode_error;
mod raw_text;

/// Reads a body of at most `bytes_max` bytes.
pub(crate) async fn read<B>(body: B, bytes_max: usize) -> Result<Bytes, Reply>
where
    B: Body,
    B::Error: std::error::Error + Send + Sync + 'static,
{
    // A length that is announced is refused before anything is read.
    let announced = body.size_hint().lower();
    if announced > bytes_max as u64 {
        return Err(too_large(announced, bytes_max));
    }
    let reading = Limited::new(body, bytes_max).collect();
    match tokio::time::timeout(BODY_TIME_MAX, reading).await {
        Ok(Ok(collected)) => Ok(collected.to_bytes()),
        Ok(Err(error)) if error.is::<http_body_util::LengthLimitError>() => {
            Err(too_large(bytes_max as u64 + 1, bytes_max))
        }
        Ok(Err(error)) => Err(invalid(&error.to_string())),
        Err(_) => Err(invalid(&format!("nothing came for {}", seconds(BODY_TIME_MAX)))),
    }
}

/// Decodes a body; `None` where there is none.
pub(crate) fn decode(body: &[u8]) -> Result<Option<Value>, Reply> {
    if body.is_empty() {
        return Ok(None);
    }
    let error = match serde_json::from_slice(body) {
        Ok(value) => return Ok(Some(value)),
        Err(error) => error,
    };
    if let Some(reason) = decode_error::describe(body) {
        return Err(undecodable(&reason, body));
    }
    // What the grammar has nothing against is written with raw line ends in its texts, as clients
    // paste sources of other languages.
    let read = raw_text::escape(body).map(|escaped| serde_json::from_slice(&escaped));
    match read {
        Some(Ok(value)) => Ok(Some(value)),
        Some(Err(error)) => Err(undecodable(&error.to_string(), body)),
        None => Err(undecodable(&error.to_string(), body)),
    }
}

/// A body that is not a document, given back so that its sender recognises it.
pub(crate) fn undecodable(reason: &str, body: &[u8]) -> Reply {
    let echo = &body[..body.len().min(ECHO_BYTES_MAX)];
    let text = format!("invalid request body: {reason}");
    let body = json!({"error_msg": text, "req_body": String::from_utf8_lossy(echo)});
    Reply::json(hyper::StatusCode::BAD_REQUEST, &body)
}

/// `invalid request body: …`.
pub(crate) fn invalid(reason: &str) -> Reply {
    Reply::bad(format!("invalid request body: {reason}"))
}

fn too_large(bytes: u64, bytes_max: usize) -> Reply {
    invalid(&format!("request size {bytes} is greater than the maximum size {bytes_max} allowed"))
}

fn seconds(time: Duration) -> String {
    format!("{} seconds", time.as_secs())
}
