//! Wire format of gRPC for plugins (PROTOCOL-HTTP2 and PROTOCOL-WEB of gRPC).

pub(crate) mod frames;
pub(crate) mod outcome;

/// Value of `Content-Type` in gRPC calls.
pub(crate) const CONTENT_TYPE: &[u8] = b"application/grpc";

/// Whether an answer is gRPC, and not grpc-web.
pub(crate) fn is_answer(content_type: Option<&[u8]>) -> bool {
    content_type.is_some_and(|value| {
        let base = CONTENT_TYPE.len();
        value.get(..base).is_some_and(|start| start.eq_ignore_ascii_case(CONTENT_TYPE))
            && matches!(value.get(base), None | Some(b'+' | b';' | b' '))
    })
}
