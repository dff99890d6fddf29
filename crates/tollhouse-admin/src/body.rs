//! Request bodies: read within a size limit, and decoded as JSON whatever their content type.

use std::pin::pin;
use std::time::Duration;

use http_body_util::{BodyExt, Limited};
use hyper::body::{Body, Buf, Bytes};
use serde_json::{Value, json};
use tollhouse_stdx::raw_text;

use crate::limits::{BODY_BYTES_MAX, BODY_TIME_MAX, ECHO_BYTES_MAX};
use crate::reply::Reply;

mod decode_error;

/// Body of a request, over HTTP or in memory.
pub(crate) trait RequestBody:
    Body<Error: std::error::Error + Send + Sync + 'static>
{
}

impl<B: Body<Error: std::error::Error + Send + Sync + 'static>> RequestBody for B {}

/// Reads a body of at most `bytes_max` bytes.
pub(crate) async fn read<B>(body: B, bytes_max: usize) -> Result<Bytes, Reply>
where
    B: RequestBody,
{
    // An announced length above the limit is refused before reading.
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
        Err(_) => Err(invalid(&format!("no data came for {}", seconds(BODY_TIME_MAX)))),
    }
}

/// Reads and discards an unused body, so that the connection can be used for further requests.
/// Stops after `BODY_BYTES_MAX` bytes or at the timeout; the connection is then closed after the
/// answer.
pub(crate) async fn discard<B: Body>(body: B) {
    let mut body = pin!(body);
    let mut left = BODY_BYTES_MAX;
    let reading = async {
        while let Some(Ok(frame)) = body.frame().await {
            let bytes = frame.data_ref().map_or(0, Buf::remaining);
            match left.checked_sub(bytes) {
                Some(rest) => left = rest,
                None => return,
            }
        }
    };
    let _ = tokio::time::timeout(BODY_TIME_MAX, reading).await;
}

/// Decodes a JSON body; `None` if it is empty.
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
    // The text may be invalid only because strings contain raw line ends, as in source code that
    // was pasted into them.
    let read = raw_text::escape(body).map(|escaped| serde_json::from_slice(&escaped));
    match read {
        Some(Ok(value)) => Ok(Some(value)),
        Some(Err(error)) => Err(undecodable(&error.to_string(), body)),
        None => Err(undecodable(&error.to_string(), body)),
    }
}

/// Returns the error answer for a body that is not JSON. It contains the start of the body, so that
/// the client can recognise it.
pub(crate) fn undecodable(reason: &str, body: &[u8]) -> Reply {
    let echo = &body[..body.len().min(ECHO_BYTES_MAX)];
    let text = format!("invalid request body: {reason}");
    let body = json!({"error_msg": text, "req_body": String::from_utf8_lossy(echo)});
    Reply::json(hyper::StatusCode::BAD_REQUEST, &body)
}

/// Returns the error answer `invalid request body: …`.
pub(crate) fn invalid(reason: &str) -> Reply {
    Reply::bad(format!("invalid request body: {reason}"))
}

fn too_large(bytes: u64, bytes_max: usize) -> Reply {
    invalid(&format!("request size {bytes} is greater than the maximum size {bytes_max} allowed"))
}

fn seconds(time: Duration) -> String {
    format!("{} seconds", time.as_secs())
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;
    use std::task::{Context, Poll};

    use hyper::body::Frame;

    use super::*;

    /// An endless body that counts the bytes taken from it.
    struct Endless<'c>(&'c mut usize);

    impl Body for Endless<'_> {
        type Data = Bytes;
        type Error = std::convert::Infallible;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
            const PIECE: &[u8] = &[b'a'; 8192];
            *self.0 += PIECE.len();
            Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(PIECE)))))
        }
    }

    #[tokio::test]
    async fn a_body_that_nothing_asks_for_is_left_where_it_grows_too_long() {
        let mut taken = 0;
        discard(Endless(&mut taken)).await;
        assert!((BODY_BYTES_MAX..BODY_BYTES_MAX + 2 * 8192).contains(&taken), "{taken}");
    }
}
