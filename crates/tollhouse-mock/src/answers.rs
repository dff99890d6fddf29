//! Responses, prepared once as bytes; all requests share that memory.
//!
//! A response carries `server`, `content-type`, `content-length` and the configured headers. The
//! field `date` is absent, so that all responses to a request are equal to the byte.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};

use super::behaviour::{Behaviour, Body};

/// Maximum length of a body stored in one buffer with its head, because a single buffer is sent
/// faster than two.
const JOINED_BYTES_MAX: usize = 16 * 1024;

/// Body of an injected error.
const ERROR_TEXT: &[u8] = b"injected error\n";
const NOT_FOUND_TEXT: &[u8] = b"only one path is answered here\n";
const BAD_REQUEST_TEXT: &[u8] = b"malformed request\n";
const TOO_LARGE_TEXT: &[u8] = b"the body is too long to be echoed\n";

/// Persistence of a connection, as stated in an HTTP/1 response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Persistence {
    /// Persistent without a header, the default in HTTP/1.1.
    Stays,
    /// Persistent with a header, as HTTP/1.0 clients require.
    StaysSaid,
    Ends,
}

impl Persistence {
    const ALL: [Persistence; 3] = [Persistence::Stays, Persistence::StaysSaid, Persistence::Ends];

    const fn line(self) -> &'static str {
        match self {
            Persistence::Stays => "",
            Persistence::StaysSaid => "connection: keep-alive\r\n",
            Persistence::Ends => "connection: close\r\n",
        }
    }
}

/// A response for HTTP/1 and HTTP/2.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: StatusCode,
    /// Header fields of the response for HTTP/2.
    pub(super) fields: HeaderMap,
    pub(super) body: Bytes,
    /// Complete HTTP/1 messages, indexed by [`Persistence`].
    messages: [Message; 3],
}

/// Response in HTTP/1 form, in one or two pieces.
#[derive(Debug)]
struct Message {
    /// Head, followed by the body if that is short.
    first: Bytes,
    head_bytes: usize,
    /// Body, if it is too long to be copied behind the head.
    rest: Bytes,
}

impl Answer {
    fn new(status: StatusCode, fields: &HeaderMap, body: Bytes) -> Self {
        let has_body = has_body(status);
        let body = if has_body { body } else { Bytes::new() };
        let mut fields = fields.clone();
        if has_body {
            fields.insert(header::CONTENT_LENGTH, HeaderValue::from(body.len()));
        } else {
            fields.remove(header::CONTENT_TYPE);
        }
        let messages = Persistence::ALL.map(|persistence| {
            let mut first = Vec::new();
            write_head(&mut first, status, &fields, persistence);
            let head_bytes = first.len();
            let is_short = body.len() <= JOINED_BYTES_MAX;
            let rest = if is_short { Bytes::new() } else { body.clone() };
            if is_short {
                first.extend_from_slice(&body);
            }
            Message { first: first.into(), head_bytes, rest }
        });
        Self { status, fields, body, messages }
    }

    /// Returns head and body of the HTTP/1 message.
    #[inline]
    pub(super) fn message(&self, persistence: Persistence) -> [&[u8]; 2] {
        let message = &self.messages[persistence as usize];
        [&message.first, &message.rest]
    }

    /// Returns only the head, for HEAD requests.
    pub(super) fn head(&self, persistence: Persistence) -> [&[u8]; 2] {
        let message = &self.messages[persistence as usize];
        [&message.first[..message.head_bytes], &[]]
    }
}

/// Whether responses of this status have a body (RFC 9110, section 6.4.1).
fn has_body(status: StatusCode) -> bool {
    !matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED)
}

fn write_head(out: &mut Vec<u8>, status: StatusCode, fields: &HeaderMap, keeps: Persistence) {
    out.extend_from_slice(b"HTTP/1.1 ");
    out.extend_from_slice(status.as_str().as_bytes());
    out.push(b' ');
    out.extend_from_slice(status.canonical_reason().unwrap_or_default().as_bytes());
    out.extend_from_slice(b"\r\n");
    for (name, value) in fields {
        out.extend_from_slice(name.as_str().as_bytes());
        out.extend_from_slice(b": ");
        out.extend_from_slice(value.as_bytes());
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(keeps.line().as_bytes());
    out.extend_from_slice(b"\r\n");
}

#[derive(Debug)]
pub(super) struct Answers {
    /// Responses by index of the configured status.
    pub(super) by_status: Vec<Answer>,
    /// Response 500 of an injected error.
    pub(super) error: Answer,
    /// Response to other paths than the configured one, 404.
    pub(super) not_found: Answer,
    /// Response 400 to a malformed request.
    pub(super) bad_request: Answer,
    /// Response to bodies that are too long to be echoed, 413.
    pub(super) too_large: Answer,
    /// Header fields that all responses have.
    common: HeaderMap,
}

impl Answers {
    pub(super) fn new(behaviour: &Behaviour) -> Self {
        let common = common_fields(&behaviour.headers);
        let body = match &behaviour.body {
            Body::Bytes(bytes) => bytes.clone(),
            Body::Echo => Bytes::new(),
        };
        let plain = |status, text| Answer::new(status, &common, Bytes::from_static(text));
        let by_status = behaviour.statuses.list().iter().map(|(status, _)| {
            let status = StatusCode::from_u16(*status).unwrap_or_default();
            Answer::new(status, &common, body.clone())
        });
        Self {
            by_status: by_status.collect(),
            error: plain(StatusCode::INTERNAL_SERVER_ERROR, ERROR_TEXT),
            not_found: plain(StatusCode::NOT_FOUND, NOT_FOUND_TEXT),
            bad_request: plain(StatusCode::BAD_REQUEST, BAD_REQUEST_TEXT),
            too_large: plain(StatusCode::PAYLOAD_TOO_LARGE, TOO_LARGE_TEXT),
            common,
        }
    }

    /// Creates an echo response with the request's body and content type.
    pub(super) fn echo(&self, status: StatusCode, kind: Option<&[u8]>, body: Bytes) -> Answer {
        let mut fields = self.common.clone();
        if let Some(Ok(kind)) = kind.map(HeaderValue::from_bytes) {
            fields.insert(header::CONTENT_TYPE, kind);
        }
        Answer::new(status, &fields, body)
    }
}

/// Combines the mock's own fields with the configured ones, which replace or follow them.
fn common_fields(asked: &[(String, String)]) -> HeaderMap {
    let mut fields = HeaderMap::new();
    fields.insert(header::SERVER, HeaderValue::from_static("tollhouse-mock"));
    fields.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    let mut replaced = [(header::SERVER, false), (header::CONTENT_TYPE, false)];
    for (name, value) in asked {
        let pair = (HeaderName::from_bytes(name.as_bytes()), HeaderValue::from_str(value));
        // Invalid headers were rejected before.
        let (Ok(name), Ok(value)) = pair else { continue };
        let ours = replaced.iter_mut().find(|(ours, is_replaced)| *ours == name && !is_replaced);
        if let Some((_, is_replaced)) = ours {
            *is_replaced = true;
            fields.insert(name, value);
        } else {
            fields.append(name, value);
        }
    }
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answers(behaviour: Behaviour) -> Answers {
        Answers::new(&behaviour)
    }

    #[test]
    fn an_answer_is_written_once_for_each_kind_of_connection() {
        let answers = answers(Behaviour {
            statuses: "200=1,204=1".parse().expect("statuses"),
            headers: vec![("x-a".into(), "1".into()), ("Server".into(), "s".into())],
            ..Behaviour::default()
        });
        let head = "HTTP/1.1 200 OK\r\nserver: s\r\ncontent-type: text/plain\r\nx-a: 1\r\n\
                    content-length: 2\r\n";
        let answer = &answers.by_status[0];
        for (persistence, line) in [
            (Persistence::Stays, ""),
            (Persistence::StaysSaid, "connection: keep-alive\r\n"),
            (Persistence::Ends, "connection: close\r\n"),
        ] {
            let head = format!("{head}{line}\r\n");
            assert_eq!(answer.head(persistence)[0], head.as_bytes());
            assert_eq!(answer.message(persistence).concat(), format!("{head}ok").as_bytes());
        }
        let empty = answers.by_status[1].message(Persistence::Stays).concat();
        assert_eq!(empty, b"HTTP/1.1 204 No Content\r\nserver: s\r\nx-a: 1\r\n\r\n");
    }

    #[test]
    fn a_long_body_is_held_once() {
        let body = Body::with_length(JOINED_BYTES_MAX + 1).expect("length");
        let answers = answers(Behaviour { body, ..Behaviour::default() });
        let [head, rest] = answers.by_status[0].message(Persistence::Stays);
        assert!(head.ends_with(b"\r\n\r\n"));
        assert_eq!(rest.as_ptr(), answers.by_status[0].body.as_ptr());
    }

    #[test]
    fn an_echo_has_the_type_of_the_request() {
        let answers = answers(Behaviour { body: Body::Echo, ..Behaviour::default() });
        let kind = Some(&b"application/json"[..]);
        let answer = answers.echo(StatusCode::OK, kind, Bytes::from_static(b"{}"));
        assert_eq!(answer.fields[header::CONTENT_TYPE], "application/json");
        assert_eq!(answer.fields[header::CONTENT_LENGTH], "2");
        assert_eq!(&answer.body[..], b"{}");
    }
}
