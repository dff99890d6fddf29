//! HTTP query to an OCSP responder (RFC 6960 §A.1), with limits on time and size. The response
//! bytes are untrusted and are not verified here.

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

/// Timeout from the DNS query to the last byte.
const TIME_MAX: Duration = Duration::from_secs(15);

/// Limit of a response head, in bytes.
const HEAD_BYTES_MAX: usize = 16 * 1024;

/// Limit of header lines in a response.
const HEADER_LINES_MAX: usize = 64;

/// Sends the query to the certificate's responder, and returns the response body.
///
/// # Errors
/// Returns the reason as text unless a complete response with status 200 arrives.
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
    let broken = |error: hyper::Error| failed(&format!("missing or incomplete answer: {error}"));
    let (mut sender, connection) = http1::Builder::new()
        .max_buf_size(HEAD_BYTES_MAX)
        .max_headers(HEADER_LINES_MAX)
        .handshake(TokioIo::new(stream))
        .await
        .map_err(broken)?;
    let asked = async {
        let (head, body) = sender.send_request(request).await.map_err(broken)?.into_parts();
        // Redirects are not followed, because anyone between could redirect plain HTTP anywhere.
        if head.status != StatusCode::OK {
            return Err(failed(&format!("status {}", head.status.as_u16())));
        }
        let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await;
        let body = body.map_err(|error| failed(&format!("the answer cannot be read: {error}")))?;
        Ok(body.to_bytes().to_vec())
    };
    // Polls the connection together with the request. The connection may end before the request has
    // its complete response, and its error shows in the request's result.
    let (mut asked, mut connection) = (pin!(asked), pin!(connection));
    let mut has_ended = false;
    poll_fn(|context| {
        has_ended = has_ended || connection.as_mut().poll(context).is_ready();
        asked.as_mut().poll(context)
    })
    .await
}

/// The HTTP request, with path and query as target and the host as header.
fn request(uri: &Uri, question: Vec<u8>) -> Result<Request<Full<Bytes>>, axum::http::Error> {
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    let authority = uri.authority().map(|authority| authority.as_str()).unwrap_or_default();
    // Credentials in the URL are not sent.
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
