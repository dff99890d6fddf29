//! Delivery of a response body: framing and presence of the body are decided here alone, after
//! plugins have run, for responses of nodes and of the gateway.
//!
//! A client parses a response by the method that it sent and the status that it receives. Neither
//! the node's status nor the method that was sent to the node decides whether a body follows.

use tollhouse_http::element::Status;
use tollhouse_http::{BodyLength, Framing, Version};

use crate::exchange::Exchange;
use crate::transfer::coding::Coding;

/// A response about to be sent.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Outgoing {
    pub is_head: bool,
    /// HTTP version of the client's request.
    pub version: Version,
    /// Status sent to the client.
    pub status: Status,
    /// Length of the body as it arrives from its source.
    pub body: BodyLength,
    /// Value of `Content-Length`, also if no body arrives (HEAD).
    pub declared: Option<u64>,
    /// Whether plugins rewrite the body, so that its length is not known in advance.
    pub is_rewritten: bool,
}

/// Method of sending a response body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Delivery {
    /// Declaration of the body length in the head.
    pub framing: Framing,
    pub has_body: bool,
    /// Whether the body ends when the connection closes.
    pub ends_by_close: bool,
}

impl Outgoing {
    /// Returns a node's response as it is sent with `status`, if no plugin rewrites its body.
    #[inline]
    pub(crate) fn from_node(cx: &Exchange<'_>, status: Status) -> Self {
        Self {
            is_head: cx.is_head(),
            version: cx.state.head.version,
            status,
            body: cx.state.response.body,
            declared: cx.state.response.declared_length,
            is_rewritten: false,
        }
    }

    #[inline]
    pub(crate) fn delivery(&self) -> Delivery {
        if self.is_head || self.status.is_bodiless() {
            let is_said = !self.status.is_lengthless() && !self.is_rewritten;
            let length = self.declared.filter(|_| is_said);
            let framing = length.map_or(Framing::Omitted, Framing::Length);
            return Delivery { framing, has_body: false, ends_by_close: false };
        }
        let framing = match self.body {
            BodyLength::None if !self.is_rewritten => Framing::Length(0),
            BodyLength::Known(bytes) if !self.is_rewritten => Framing::Length(bytes),
            _ if self.version == Version::Http11 => Framing::Chunked,
            _ => Framing::Omitted,
        };
        Delivery { framing, has_body: true, ends_by_close: framing == Framing::Omitted }
    }
}

impl Delivery {
    #[inline]
    pub(crate) fn coding(&self) -> Coding {
        if self.framing == Framing::Chunked { Coding::Chunked } else { Coding::Plain }
    }
}

/// Returns the final status of a response: 500 if `number` is not a valid final status, such as an
/// interim (1xx) status that a configuration or a policy server names.
#[inline]
pub(crate) fn final_status(number: u16) -> Status {
    Status::new(number).filter(|status| status.is_final()).unwrap_or(Status::INTERNAL_ERROR)
}

/// Whether the client would take an answer with `status` for an open WebSocket: one that asks for it over HTTP/2 takes
/// any success so (RFC 8441 §5), and only a node's switch of protocols opens one.
pub(crate) fn seems_open(cx: &Exchange<'_>, status: u16) -> bool {
    (200..300).contains(&status) && cx.client.link.stream.websocket().is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outgoing(status: u16, body: BodyLength, declared: Option<u64>) -> Outgoing {
        let status = final_status(status);
        let version = Version::Http11;
        Outgoing { is_head: false, version, status, body, declared, is_rewritten: false }
    }

    /// Expected framing, presence of a body, and whether the connection must close.
    fn decided(outgoing: Outgoing) -> (Framing, bool, bool) {
        let Delivery { framing, has_body, ends_by_close } = outgoing.delivery();
        (framing, has_body, ends_by_close)
    }

    #[test]
    fn a_body_is_framed_by_what_is_known_of_its_length() {
        use Framing::{Chunked, Length, Omitted};
        for (body, declared, plain, rewritten, old) in [
            (BodyLength::None, Some(0), Length(0), Chunked, (Length(0), false)),
            (BodyLength::None, None, Length(0), Chunked, (Length(0), false)),
            (BodyLength::Known(7), Some(7), Length(7), Chunked, (Length(7), false)),
            (BodyLength::Chunked, None, Chunked, Chunked, (Omitted, true)),
            (BodyLength::UntilClose, None, Chunked, Chunked, (Omitted, true)),
        ] {
            let outgoing = outgoing(200, body, declared);
            assert_eq!(decided(outgoing), (plain, true, false), "{body:?}");
            let filtered = Outgoing { is_rewritten: true, ..outgoing };
            assert_eq!(decided(filtered), (rewritten, true, false), "{body:?} rewritten");
            let to_old = Outgoing { version: Version::Http10, ..outgoing };
            assert_eq!(decided(to_old), (old.0, true, old.1), "{body:?} to HTTP/1.0");
        }
    }

    #[test]
    fn no_status_and_no_method_that_allows_none_gets_a_body() {
        use Framing::{Length, Omitted};
        for (status, is_head, declared, framing) in [
            (204, false, Some(7), Omitted),
            (204, true, Some(7), Omitted),
            (304, false, Some(7), Length(7)),
            (304, false, None, Omitted),
            (200, true, Some(7), Length(7)),
            (200, true, Some(0), Length(0)),
            (200, true, None, Omitted),
        ] {
            for body in [BodyLength::None, BodyLength::Known(7), BodyLength::UntilClose] {
                let outgoing = Outgoing { is_head, ..outgoing(status, body, declared) };
                assert_eq!(decided(outgoing), (framing, false, false), "{status} {is_head}");
                let filtered = Outgoing { is_rewritten: true, ..outgoing };
                assert_eq!(decided(filtered), (Omitted, false, false), "{status} {is_head}");
            }
        }
    }

    #[test]
    fn an_answer_ends_with_a_final_status_of_three_digits() {
        for (number, expected) in
            [(200, 200), (599, 599), (999, 999), (0, 500), (100, 500), (199, 500), (1000, 500)]
        {
            assert_eq!(final_status(number).number(), expected);
        }
    }
}
