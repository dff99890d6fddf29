//! Refusals of the registry as replies of the Admin API.

use hyper::StatusCode;
use tollhouse_registry::{Noun, Refusal};

use crate::reply::Reply;

/// Returns the reply to a command that the registry refused; the status depends on the refusal.
pub(super) fn reply(refusal: &Refusal) -> Reply {
    let status = match refusal {
        Refusal::NotFound(_) => StatusCode::NOT_FOUND,
        Refusal::Exists | Refusal::NameTaken(_) | Refusal::InUse(_) | Refusal::Conflict => {
            StatusCode::CONFLICT
        }
        Refusal::Full { .. }
        | Refusal::OutOfMemory { .. }
        | Refusal::Busy
        | Refusal::Store(_)
        | Refusal::Closed => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::BAD_REQUEST,
    };
    Reply::refusal(status, refusal.to_string())
}

/// Returns the reply 404 for a missing object.
pub(super) fn not_found(noun: Noun) -> Reply {
    reply(&Refusal::NotFound(noun))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_refusal_has_its_status() {
        let table = [
            (Refusal::Host, 400, "invalid instance host"),
            (Refusal::NotFound(Noun::Service), 404, "service not found"),
            (Refusal::Exists, 409, "existed resource"),
            (Refusal::InUse(Noun::Instance), 409, "instance still there"),
            (Refusal::Conflict, 409, "changed by another call meanwhile; read it and try again"),
            (Refusal::BuiltIn, 400, "built-in objects stay"),
            (Refusal::Closed, 503, "the registry is shutting down"),
        ];
        for (refusal, status, text) in table {
            let reply = reply(&refusal);
            assert_eq!((reply.status().as_u16(), &*reply.error_text()), (status, text));
        }
    }
}
