//! HTTP query to an OCSP responder (RFC 6960 §A.1). The response bytes are untrusted and are not
//! verified here.

use std::time::Duration;

use axum::body::Bytes;
use axum::http::header::{ACCEPT, CONTENT_TYPE};
use axum::http::{Request, StatusCode};
use tollhouse_model::certificate::status::{ANSWER_BYTES_MAX, StatusQuestion};
use tollhouse_web::client::{Client, Limits};

const LIMITS: Limits =
    Limits { time_max: Duration::from_secs(15), body_bytes_max: ANSWER_BYTES_MAX };

/// Sends the query to the certificate's responder, and returns the response body.
///
/// # Errors
/// Returns the reason as text unless a complete response with status 200 arrives.
pub(super) async fn ask(question: &StatusQuestion) -> Result<Vec<u8>, String> {
    exchange(question.responder().unwrap_or_default(), question.to_der()).await
}

async fn exchange(uri: &str, question: Vec<u8>) -> Result<Vec<u8>, String> {
    let failed = |what: &dyn std::fmt::Display| format!("{uri}: {what}");
    let request = Request::post(uri)
        .header(CONTENT_TYPE, "application/ocsp-request")
        .header(ACCEPT, "application/ocsp-response")
        .body(Bytes::from(question))
        .map_err(|error| failed(&error))?;
    let response = Client::new(LIMITS).send(request).await.map_err(|error| failed(&error))?;
    match response.status() {
        StatusCode::OK => Ok(response.into_body().into()),
        status => Err(failed(&format!("status {}", status.as_u16()))),
    }
}

#[cfg(test)]
mod tests;
