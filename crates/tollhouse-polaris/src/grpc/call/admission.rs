//! Whether a request is a call at all, and what it hears if it is not.

use std::time::Duration;

use h2::server::SendResponse;
use http::request::Parts;
use http::{HeaderValue, Method as HttpMethod, Response, StatusCode, header};

use crate::grpc::accept::Server;
use crate::grpc::connection::Link;
use crate::grpc::payload::Payload;
use crate::grpc::service::Method;
use crate::grpc::status::{Code, Status};
use crate::grpc::timeout;

/// Calls have this content type, alone or with `+proto` or parameters behind it.
const CONTENT_TYPE: &[u8] = b"application/grpc";

/// The only encoding of messages that is understood.
const PROTO: &[u8] = b"+proto";

/// Why a request is no call.
#[derive(Debug)]
pub(super) enum Refusal {
    /// It is no gRPC; the status of HTTP says why.
    Http(StatusCode),
    /// It is, but not one that can be served.
    Grpc(Status),
}

/// Whether a request is a call of a known method, and the time it may take.
pub(super) fn admit(server: &Server, head: &Parts) -> Result<(Method, Option<Duration>), Refusal> {
    if head.method != HttpMethod::POST {
        return Err(Refusal::Http(StatusCode::METHOD_NOT_ALLOWED));
    }
    if !is_call(head.headers.get(header::CONTENT_TYPE)) {
        return Err(Refusal::Http(StatusCode::UNSUPPORTED_MEDIA_TYPE));
    }
    let method = server.services.find(head.uri.path()).map_err(Refusal::Grpc)?;
    let Some(field) = head.headers.get("grpc-timeout") else { return Ok((method.clone(), None)) };
    let time = timeout::parse(field.as_bytes())
        .ok_or_else(|| Refusal::Grpc(Status::new(Code::Internal, "malformed grpc-timeout")))?;
    Ok((method.clone(), Some(time)))
}

/// Whether a content type is gRPC's, with messages that are understood here.
fn is_call(content_type: Option<&HeaderValue>) -> bool {
    let rest = content_type.and_then(|kind| kind.as_bytes().strip_prefix(CONTENT_TYPE));
    let rest = rest.map(|rest| rest.strip_prefix(PROTO).unwrap_or(rest));
    rest.is_some_and(|rest| matches!(rest.first(), None | Some(b';' | b' ')))
}

pub(super) fn refuse(link: &Link, refusal: Refusal, mut respond: SendResponse<Payload>) {
    link.server.counts.calls_failed.add_one();
    let response = match refusal {
        Refusal::Grpc(status) => status.alone(),
        Refusal::Http(code) => {
            let mut response = Response::new(());
            *response.status_mut() = code;
            if code == StatusCode::METHOD_NOT_ALLOWED {
                response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("POST"));
            }
            response
        }
    };
    // Fails when the client has gone, and then nobody waits for the refusal.
    let _ = respond.send_response(response, true);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_known_by_their_content_type() {
        for (kind, is) in [
            ("application/grpc", true),
            ("application/grpc+proto", true),
            ("application/grpc;charset=utf-8", true),
            ("application/grpc+proto; charset=utf-8", true),
            ("application/grpc+json", false),
            ("application/grpc+protobuf", false),
            ("application/grpc-web", false),
            ("application/json", false),
        ] {
            assert_eq!(is_call(Some(&HeaderValue::from_static(kind))), is, "{kind}");
        }
        assert!(!is_call(None));
    }
}
