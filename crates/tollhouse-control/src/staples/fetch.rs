//! Asks one responder once: a request over plain HTTP (RFC 6960 §A.1), bounded in time and in bytes. Whatever
//! comes back is bytes of a stranger; what they are worth is nothing of this file.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::time::Duration;

use axum::body::Bytes;
use axum::http::header::{ACCEPT, CONNECTION, CONTENT_TYPE, HOST, HeaderValue};
use axum::http::{Request, StatusCode, Uri};
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tollhouse_model::certificate::status::{ANSWER_BYTES_MAX, StatusQuestion};

/// The longest that asking may take, from the look-up of the name to the last byte.
const TIME_MAX: Duration = Duration::from_secs(15);

/// Bytes of an answer's head, at most.
const HEAD_BYTES_MAX: usize = 16 * 1024;

/// Header lines of an answer, at most.
const HEADER_LINES_MAX: usize = 64;

/// The answer of the responder that the certificate names.
///
/// # Errors
/// Why there is none, in words for people.
pub(super) async fn ask(question: &StatusQuestion) -> Result<Vec<u8>, String> {
    let uri = question.responder().unwrap_or_default();
    match tokio::time::timeout(TIME_MAX, exchange(uri, question.to_der())).await {
        Ok(answered) => answered,
        Err(_) => Err(format!("{uri}: no answer within {} s", TIME_MAX.as_secs())),
    }
}

async fn exchange(text: &str, question: Vec<u8>) -> Result<Vec<u8>, String> {
    let failed = |what: &dyn std::fmt::Display| format!("{text}: {what}");
    let uri: Uri = text.parse().map_err(|error| failed(&error))?;
    let authority = uri.authority().ok_or_else(|| failed(&"it names no host"))?;
    let name = authority.host().trim_matches(['[', ']']);
    let stream = TcpStream::connect((name, authority.port_u16().unwrap_or(80)));
    let stream = stream.await.map_err(|error| failed(&format!("cannot be reached: {error}")))?;
    let request = request(&uri, question).map_err(|error| failed(&error))?;
    let broken = |error: hyper::Error| failed(&format!("the answer is cut or none: {error}"));
    let (mut sender, connection) = http1::Builder::new()
        .max_buf_size(HEAD_BYTES_MAX)
        .max_headers(HEADER_LINES_MAX)
        .handshake(TokioIo::new(stream))
        .await
        .map_err(broken)?;
    let asked = async {
        let (head, body) = sender.send_request(request).await.map_err(broken)?.into_parts();
        // A redirect leads wherever somebody between likes; responders answer where certificates say.
        if head.status != StatusCode::OK {
            return Err(failed(&format!("status {}", head.status.as_u16())));
        }
        let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await;
        let body = body.map_err(|error| failed(&format!("the answer cannot be read: {error}")))?;
        Ok(body.to_bytes().to_vec())
    };
    // The connection moves the bytes of the request, whose error is its own; it may end ahead of it, with the
    // whole answer read.
    let (mut asked, mut connection) = (pin!(asked), pin!(connection));
    let mut has_ended = false;
    poll_fn(|context| {
        has_ended = has_ended || connection.as_mut().poll(context).is_ready();
        asked.as_mut().poll(context)
    })
    .await
}

/// The request in the form in which servers get it: path and query, with the host beside them.
fn request(uri: &Uri, question: Vec<u8>) -> Result<Request<Full<Bytes>>, axum::http::Error> {
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    let authority = uri.authority().map(|authority| authority.as_str()).unwrap_or_default();
    // Who a client is that is named in an address is no server's business.
    let host = authority.rsplit('@').next().unwrap_or_default();
    Request::post(path)
        .header(HOST, host)
        .header(CONTENT_TYPE, HeaderValue::from_static("application/ocsp-request"))
        .header(ACCEPT, HeaderValue::from_static("application/ocsp-response"))
        .header(CONNECTION, HeaderValue::from_static("close"))
        .body(Full::new(question.into()))
}

#[cfg(test)]
mod tests;
