//! Admission of requests: whether a request is a gRPC call, and the answer if it is not.

use std::rc::Rc;
use std::time::Duration;

use tokio::task::spawn_local;
use tokio::time::timeout;
use tollhouse_h2::{EndStream, Field};
use tollhouse_http::grpc_timeout;

use crate::grpc::accept::Server;
use crate::grpc::connection::Link;
use crate::grpc::fields::Head;
use crate::grpc::limits::ARRIVAL_TIMEOUT;
use crate::grpc::payload::Payload;
use crate::grpc::service::Method;
use crate::grpc::session::CallStream;
use crate::grpc::status::{Code, Status, head};

/// Content type of calls, optionally followed by `+proto` or parameters.
const CONTENT_TYPE: &[u8] = b"application/grpc";

/// Suffix of `Content-Type` for the only supported message encoding.
const PROTO: &[u8] = b"+proto";

/// Reason for which a request is not served.
#[derive(Debug)]
pub(super) enum Refusal {
    /// gRPC with an unsupported encoding; answered with this HTTP status.
    Http(HttpStatus),
    /// The request is not gRPC; it is answered with this HTTP status.
    Foreign(HttpStatus),
    /// A gRPC call that cannot be served.
    Grpc(Status),
}

/// HTTP statuses that refuse requests other than gRPC calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HttpStatus {
    MethodNotAllowed = 405,
    UnsupportedMediaType = 415,
}

/// Returns the method of a request and the time limit of the call, or refuses it.
pub(super) fn admit(server: &Server, head: &Head) -> Result<(Method, Option<Duration>), Refusal> {
    if head.method != b"POST" {
        return Err(Refusal::Foreign(HttpStatus::MethodNotAllowed));
    }
    let content_type = head.fields.find("content-type");
    if !is_call(content_type) {
        let is_grpc = content_type.is_some_and(|kind| kind.starts_with(CONTENT_TYPE));
        let refusal = if is_grpc { Refusal::Http } else { Refusal::Foreign };
        return Err(refusal(HttpStatus::UnsupportedMediaType));
    }
    // A path is ASCII, and a query is not part of the method's name.
    let path = std::str::from_utf8(&head.path).unwrap_or_default();
    let path = path.split('?').next().unwrap_or_default();
    let method = server.services.find(path).map_err(Refusal::Grpc)?;
    let Some(field) = head.fields.find("grpc-timeout") else { return Ok((method.clone(), None)) };
    let time = grpc_timeout::parse(field)
        .ok_or_else(|| Refusal::Grpc(Status::new(Code::Internal, "malformed grpc-timeout")))?;
    Ok((method.clone(), Some(time)))
}

/// Whether a content type is gRPC's, with a supported message encoding.
fn is_call(content_type: Option<&[u8]>) -> bool {
    let rest = content_type.and_then(|kind| kind.strip_prefix(CONTENT_TYPE));
    let rest = rest.map(|rest| rest.strip_prefix(PROTO).unwrap_or(rest));
    rest.is_some_and(|rest| matches!(rest.first(), None | Some(b';' | b' ')))
}

/// Body of the answer to a request that is not gRPC.
const NO_CALL: &[u8] = b"This port speaks gRPC: POST with content-type application/grpc.\n";

/// Refuses a request. A request other than a gRPC call is answered only after the client has sent
/// all of the body.
pub(super) fn refuse(link: &Rc<Link>, refusal: Refusal, stream: CallStream) {
    link.server.counts.calls_failed.add_one();
    let is_foreign = matches!(refusal, Refusal::Foreign(_));
    let waiting = link.budget.waiting(0).ok().filter(|_| is_foreign && !stream.is_at_end());
    let Some(waiting) = waiting else { return answer(link, &refusal, &stream) };
    let link = Rc::clone(link);
    drop(spawn_local(async move {
        // If the client has gone, no answer is sent.
        if let Ok(Ok(())) = timeout(ARRIVAL_TIMEOUT, stream.until_end()).await {
            answer(&link, &refusal, &stream);
        }
        drop(waiting);
    }));
}

fn answer(link: &Link, refusal: &Refusal, stream: &CallStream) {
    // Fails only if the client has gone; the refusal is not needed then.
    let _ = match refusal {
        Refusal::Grpc(status) => {
            let fields = status.fields();
            stream.respond(200, head().into_iter().chain(fields.iter()), EndStream::Yes)
        }
        Refusal::Http(status) | Refusal::Foreign(status) => {
            let allow =
                (*status == HttpStatus::MethodNotAllowed).then(|| Field::new(b"allow", b"POST"));
            let kind = Field::new(b"content-type", b"text/plain");
            let body = Payload::plain(NO_CALL, &link.budget);
            stream.answer(*status as u16, allow.into_iter().chain([kind]), body)
        }
    };
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
            assert_eq!(is_call(Some(kind.as_bytes())), is, "{kind}");
        }
        assert!(!is_call(None));
    }
}
